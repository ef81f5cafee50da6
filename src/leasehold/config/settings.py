"""The store and the settings: from the argument, the environment, the configuration files and the defaults.

This module decides where the locks live, and why; it opens and creates nothing. Every one-shot command runs it, so
TOML is only imported if there is a file that needs it. The reference for users is docs/reference/configuration.md.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH109, PTH117, PTH118, PTH119, PTH120

from __future__ import annotations

import os

from leasehold.config import paths as places
from leasehold.config import urls
from leasehold.domain import durations, names
from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput, StoreError
from leasehold.requests import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypedDict

    class SettingValues(TypedDict, total=False):
        """The settings that were given, checked; durations as they were written."""

        url: str
        space: str
        holder: str
        ttl: float | str
        ttl_max: float | str
        max_skew: float | str
        connect_timeout: float | str
        hierarchical: frozenset[str]
        pools: dict[str, tuple[str, ...]]
        lock_policy: str
        webhooks: list[dict[str, Any]]
        people: frozenset[str]


KEYS = (
    *("url", "space", "holder", "ttl", "ttl_max", "max_skew", "connect_timeout", "hierarchical", "lock_policy"),
    *("resourceLockTimeout", "webhooks", "people", "pools"),
)
"""The keys of a configuration file."""
VARIABLES = {
    "LEASEHOLD_URL": "url",
    "LEASEHOLD_SPACE": "space",
    "LEASEHOLD_HOLDER": "holder",
    "LEASEHOLD_TTL": "ttl",
    "LEASEHOLD_MAX_SKEW": "max_skew",
    "LEASEHOLD_CONNECT_TIMEOUT": "connect_timeout",
}
"""The environment variables that set a key. `LEASEHOLD_SESSION` sets none, see ``identity``."""
PEOPLES_VERBS = ("force-release", "steal", "clear", "extend")
"""Commands that agents may use only if the user's own configuration allows it."""
POLICIES = ("off", "warn", "require", "require-plans", "require-own")
TTL = "30m"
_EXAMPLE = "export LEASEHOLD_URL=https://locks.example.com"
ARGUMENT = "the argument"
"""The origin of a setting that the command or call itself gives."""

_ANY_TTL = checks.Settings(ttl_most=durations.LONGEST)


class Choice(Noun):
    """The store and the settings, each with its origin."""

    url: str
    """A path in it is absolute, so that the same store always has the same URL."""
    why: str
    settings: SettingValues
    """The settings that were given. The properties below add the defaults."""
    path: str | None
    """The project's configuration file, if there is one."""
    origins: Mapping[str, str]
    """The origin of each setting."""
    notes: tuple[str, ...] = ()
    """Warnings for people, such as a file that was ignored."""
    is_default: bool = False
    """True if no URL was given anywhere."""
    trouble: str = ""
    """Why the default store cannot be used; empty if it can, or if a URL was given."""

    @property
    def space(self) -> str:
        """The space of the names."""
        return self.settings.get("space", "default")

    @property
    def holder(self) -> str | None:
        """The holder's name, if it was given; otherwise see ``identity``."""
        return self.settings.get("holder")

    @property
    def ttl(self) -> float | str:
        """The TTL of a lease if the call gives none."""
        if "ttl" in self.settings:
            return self.settings["ttl"]
        most = self.rules().ttl_most
        return TTL if durations.parse(TTL) <= most else durations.format(most)

    @property
    def patience(self) -> float | None:
        """Seconds to retry if the store cannot be reached; None: the store's own default."""
        given = self.settings.get("connect_timeout")
        return None if given is None else durations.parse(given) / SECOND

    @property
    def store_url(self) -> str:
        """The URL to open, with the options that the settings add. Raises StoreError if the default store is unusable.

        There is no other store to fall back to: in a store of its own, this user would always get the lock.
        """
        if self.trouble:
            raise StoreError(self.trouble)
        if self.is_default:
            return f"{self.url}?create=1"
        url, skew = self.url, self.settings.get("max_skew")
        if skew is not None and url.startswith(("git:", "git+")) and "max_skew=" not in url.partition("?")[2]:
            url = urls.with_skew(url, skew)
        return url if self.patience is None else urls.with_patience(url, self.patience)

    def with_patience(self, timeout: object, field: str = "connect_timeout") -> Choice:
        """Return this choice with another `connect_timeout`, of which an error speaks as `field`."""
        return self._replace(settings={**self.settings, "connect_timeout": _connect_timeout(timeout, field)})

    @property
    def lock_policy(self) -> str:
        """The policy of the guards of editors and git."""
        return self.settings.get("lock_policy", "warn")

    @property
    def agents_may(self) -> frozenset[str]:
        """People's commands that agents and CI jobs may use, too."""
        return self.settings.get("people", frozenset())

    def rules(self) -> checks.Settings:
        """Return the limits of this installation."""
        rules = checks.Settings(self.settings.get("hierarchical", frozenset()), pools=self.settings.get("pools", {}))
        if "ttl_max" in self.settings:
            rules = rules._replace(ttl_most=durations.parse(self.settings["ttl_max"]))
        return rules


def find(url: str | None = None, *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Choice:
    """Choose the store and the settings, each from the first source that has it.

    The sources are the argument, the environment, the worktree's own file, the project's configuration, the user's, and
    the defaults.
    """
    env = os.environ if env is None else env
    here = _here(cwd, url or env.get("LEASEHOLD_URL", ""))
    notes: list[str] = []
    user, project = places.user(env, notes), places.project(here, env, notes)
    values: SettingValues = {}
    origins: dict[str, str] = {}
    argument = {} if url is None else {"url": url}
    nearby, worktree = places.neighbour(here, notes), places.worktree(here, notes)
    environment = ((variable, {key: env[variable]}) for variable, key in VARIABLES.items() if env.get(variable))
    for origin, found in (*user, *nearby, *project, *worktree, *environment, (ARGUMENT, argument)):
        if "people" in found and (origin, found) not in user:
            raise InvalidInput("people", f"counts only in {places.user_path(env)}, which no checkout brings along")
        checked = _checked(found, origin, here, env)
        values.update(checked)  # type: ignore[typeddict-item] # each was checked by its key
        origins.update(dict.fromkeys(checked, origin))
    trouble, is_default = "", "url" not in values
    if is_default:
        values["url"], origins["url"], trouble = _default(here, env)
    path = project[0][0] if project else None
    choice = Choice(values["url"], origins["url"], values, path, origins, tuple(notes), is_default, trouble)
    _refuse_long_ttl(choice)
    return choice


def working_directory(cwd: str | None = None) -> str:
    """Return the working directory without links."""
    try:
        return os.path.realpath(os.getcwd() if cwd is None else cwd)
    except FileNotFoundError:
        raise InvalidInput("cwd", "the working directory was removed: change to one that is there") from None


def _here(cwd: str | None, url: str) -> str:
    try:
        return working_directory(cwd)
    except InvalidInput:
        if "://" in url:
            return "/"  # a program that outlived its directory: nothing in this URL is relative to it
        raise


def _refuse_long_ttl(choice: Choice) -> None:
    most = choice.rules().ttl_most
    if durations.parse(choice.ttl) > most:
        origin = choice.origins["ttl"]
        raise InvalidInput("ttl", f"{choice.ttl} (from {origin}) is more than ttl_max, {durations.format(most)}")


# ---------------------------------------------------------------------------------------- the default store


def _default(here: str, env: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the URL of the embedded store, the reason for it, and why it cannot be used (empty if it can)."""
    copy = places.working_copy(here, env)
    if copy is None:
        directory, why = places.state_home(env), "the default outside of a git repository: the user's state directory"
        hidden = places.unseen(here, env)
        trouble = _ways_out(f"{hidden}, so the locks of a repository that may be there", "") if hidden else ""
    else:
        directory = os.path.join(copy.common, places.LOCKS)
        why = "the default in a git repository: its git directory, which all worktrees share"
        sharable = directory if copy.trouble == places.unwritable(copy.common) else ""
        trouble = _ways_out(f"{copy.trouble}, so the locks of this repository", sharable) if copy.trouble else ""
    return urls.sqlite_url(os.path.join(directory, "leasehold.db")), why, trouble


def _ways_out(trouble: str, sharable: str) -> str:
    """Return the refusal for this trouble, with the way to share the directory of the locks if that helps."""
    told = f"{names.shown(trouble)} cannot be used, and locks kept elsewhere would keep nobody out. "
    way = "set url in leasehold.toml, or LEASEHOLD_URL, to the shared store:"
    if not sharable:
        return f"{told}S{way[1:]}\n{_EXAMPLE}"
    from shlex import quote  # noqa: PLC0415 (rare, and dear)

    place = quote(sharable)
    return (
        f"{told}Have the directory of the locks shared with a group of yours:\n"
        f"mkdir -p {place} && chgrp -R GROUP {place} && chmod -R u=rwX,g=rwX,o= {place} && chmod g+s {place}\n"
        f"In an agent's sandbox, use Leasehold's MCP server, which runs outside:\nleasehold install --help\n"
        f"Or {way}\n{_EXAMPLE}"
    )


# ------------------------------------------------------------------------------------- sources and checks


def _checked(found: Mapping[str, Any], origin: str, here: str, env: Mapping[str, str]) -> dict[str, object]:
    """Return the checked settings of one source. Raises InvalidInput naming the key and the source."""
    values: dict[str, object] = {}
    for key, value in found.items():
        if key not in KEYS:
            raise InvalidInput(key, f"there is no such setting; {origin} may have {', '.join(KEYS)}")
        try:
            values["ttl" if key == "resourceLockTimeout" else key] = _CHECKS[key](value)
        except InvalidInput as error:
            raise InvalidInput(key, f"{error.message} (from {origin})") from None
    if "ttl" in found and "resourceLockTimeout" in found:
        raise InvalidInput("ttl", f"and resourceLockTimeout mean the same; leave one of them out (from {origin})")
    if "url" in found:
        directory = os.path.dirname(origin) if os.path.isabs(origin) else here
        values["url"] = urls.resolve(str(values["url"]), directory, env)
    return values


def _url(value: object) -> object:
    url = checks.text(value, "url", 4_096)
    scheme, _, rest = url.partition(":")
    if scheme.lower() == "sqlite":
        _refuse_path(urls.split_options(rest)[0])
    return url


def _refuse_path(path: str) -> None:
    """Refuse URLs that mean something else in other programs, such as `sqlite://file` and `:memory:`."""
    spellings = "write sqlite:///absolute/path, sqlite:relative/path or sqlite:~/path"
    if path.startswith("//") and path[2:3] not in ("", "/"):
        raise InvalidInput("url", f"two slashes before {path[2:]!a} say neither absolute nor relative: {spellings}")
    if os.path.basename(path) == ":memory:":
        raise InvalidInput("url", f"locks in memory would be nobody else's, so there has to be a file: {spellings}")


def _ttl(value: object) -> object:
    checks.ttl(value, _ANY_TTL)
    return value


def _connect_timeout(value: object, field: str = "connect_timeout") -> float | str:
    given = _duration(field, value)
    if durations.parse(given) <= 0:
        raise InvalidInput(field, "must be longer than 0, such as 10s")
    return given


def _duration(key: str, value: object) -> float | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidInput(key, 'must be a duration, such as "30s"')
    try:
        durations.parse(value)
    except durations.BadDuration as error:
        raise InvalidInput(key, str(error)) from None
    return value


def _seconds(value: object) -> object:
    if not isinstance(value, int | float):
        raise InvalidInput("resourceLockTimeout", "must be a number of seconds, such as 1800")
    return _ttl(value)


def _hierarchical(value: object) -> frozenset[str]:
    try:
        return names.check_hierarchical(value)
    except names.BadName as error:
        raise InvalidInput("hierarchical", error.message) from None


def _pools(value: object) -> object:
    from leasehold.requests import pool_checks  # noqa: PLC0415 (rare)

    return pool_checks.declare(value)


def _policy(value: object) -> object:
    if value not in POLICIES:
        raise InvalidInput("lock_policy", f"must be one of {', '.join(POLICIES)}")
    return value


def _people(value: object) -> object:
    verbs = value.get("agents_may") if isinstance(value, dict) and value.keys() <= {"agents_may"} else None
    if not isinstance(verbs, list) or not all(verb in PEOPLES_VERBS for verb in verbs):
        raise InvalidInput("people", f"must be agents_may = […], with any of {', '.join(PEOPLES_VERBS)}")
    return frozenset(verbs)


def _webhooks(value: object) -> object:
    """Check the form alone: the server checks the contents, and other commands need not load that."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InvalidInput("webhooks", "must be tables: [[webhooks]], each with a url and a secret")
    return value


_CHECKS: dict[str, Callable[[object], object]] = {
    "url": _url,
    "space": checks.space,
    "holder": lambda value: checks.text(value, "holder", 256),
    "ttl": _ttl,
    "ttl_max": _ttl,
    "max_skew": lambda value: _duration("max_skew", value),
    "connect_timeout": _connect_timeout,
    "hierarchical": _hierarchical,
    "lock_policy": _policy,
    "resourceLockTimeout": _seconds,
    "pools": _pools,
    "webhooks": _webhooks,
    "people": _people,
}
