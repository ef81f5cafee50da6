"""Parse a git URL: `git:.` means the remote of a repository, `git+ssh://…` means `ssh://…`. Opens no connection.

Options follow a `?`: `remote=NAME` (of a repository that has several), `max_skew=5s`, `poll=500ms`, `timeout=60s`,
`cache=DIRECTORY`.
"""

# pathlib costs a one-shot process more than this whole module
# ruff: noqa: PTH112, PTH118, PTH119, PTH120

from __future__ import annotations

import os
from hashlib import blake2b

from leasehold.domain import durations
from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput, StoreUnsuitable
from leasehold.stores.git.command import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

POLL = SECOND // 2
TIMEOUT = 60 * SECOND
_WORKTREE = "core.worktree "
"""Begins the line of git's configuration that names the directory with the files of a submodule."""
NO_REMOTES = 1
"""Exit code of `git config --get-regexp` if nothing matches."""


class GitAddress(Noun):
    """The remote that has the refs, and how to access it."""

    url: str
    """The URL as git expects it."""
    cache: str
    """Directory of our private repository."""
    config: str | None = None
    """Configuration file of the user's repository, which may say how to log in at the remote."""
    max_skew: int | None = None
    poll: int = POLL
    timeout: int = TIMEOUT


def parse(scheme: str, rest: str, state: str) -> GitAddress:
    """Parse a URL: `scheme` is the part before its first colon, `state` the directory for caches."""
    place, _, query = rest.partition("?")
    options = _options(query)
    remote = options.pop("remote", None)
    if scheme == "git":
        url, config = _of_repository(os.path.realpath(place or "."), remote)
    elif remote is not None:
        raise InvalidInput("url", "remote= is for git:PATH only: this URL names the remote itself")
    else:
        url, config = _direct(scheme.removeprefix("git+"), place), None
    name = blake2b(url.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    cache = options.pop("cache", None) or os.path.join(state, "git", name)
    return GitAddress(url, cache, config, **{name: _DURATIONS[name](text) for name, text in options.items()})


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name not in (*_DURATIONS, "remote", "cache") or not value:
            known = ", ".join(("remote", *_DURATIONS, "cache"))
            raise InvalidInput("url", f"{name!a} is no option of a git store: there are {known}, each as name=value")
        options[name] = value
    return options


def _duration(name: str, least: int) -> Callable[[str], int]:
    def parse_it(text: str) -> int:
        try:
            value = durations.parse(text)
        except durations.BadDuration as error:
            raise InvalidInput("url", f"{name}={text}: {error}") from None
        if value < least:
            raise InvalidInput("url", f"{name} must be at least {durations.format(least)}")
        return value

    return parse_it


_DURATIONS = {
    "max_skew": _duration("max_skew", 0),
    "poll": _duration("poll", SECOND // 50),
    "timeout": _duration("timeout", SECOND),
}


def _direct(transport: str, place: str) -> str:
    if not place.startswith("//") or len(place.strip("/")) == 0:
        raise InvalidInput("url", f"must be git+{transport}://… followed by the location of a repository")
    if transport == "file":
        return "/" + place.lstrip("/")
    return f"{transport}:{place}"


def _of_repository(directory: str, remote: str | None) -> tuple[str, str]:
    """Return the URL of a repository's remote, and the path of the repository's configuration."""
    if not os.path.isdir(os.path.join(directory, "objects")):
        raise StoreUnsuitable(
            f"{directory} is not in a git repository; write git:PATH for one that is, or git+ssh://… for a remote"
        )
    wanted_keys = r"^(core\.worktree|remote\..*\.(push)?url)$"
    done = run(["--git-dir", directory, "config", "--get-regexp", wanted_keys])
    if done.code not in (0, NO_REMOTES):
        raise StoreUnsuitable(f"git cannot list the remotes of {directory}: {done.complaint}")
    listed = done.out.splitlines()
    urls = _urls(line for line in listed if not line.startswith(_WORKTREE))
    name = remote or ("origin" if "origin" in urls else next(iter(urls)) if len(urls) == 1 else "")
    root = os.path.dirname(directory) if os.path.basename(directory) == ".git" else directory
    if name not in urls:
        wanted = f"no remote {name!r}" if name else "no remote `origin`, and not exactly one other"
        raise StoreUnsuitable(
            f"the repository {root} has {wanted} (it has: {', '.join(urls) or 'none'}); add one, or write "
            "git:PATH?remote=NAME"
        )
    url = urls[name]
    if "://" not in url and ":" not in url.partition("/")[0]:
        # A path, relative to where git runs: the files of a submodule are not beside its git directory.
        worktree = next((line.removeprefix(_WORKTREE) for line in listed if line.startswith(_WORKTREE)), "")
        top = os.path.join(directory, worktree) if worktree else root
        url = os.path.realpath(os.path.join(top, os.path.expanduser(url)))  # noqa: PTH111
    return url, os.path.join(directory, "config")


def _urls(listed: Iterable[str]) -> dict[str, str]:
    """Return the push URL of each remote, or else its URL: reads must go to where the pushes go."""
    urls: dict[str, str] = {}
    pushed: dict[str, str] = {}
    for line in listed:
        key, _, value = line.partition(" ")
        name, _, field = key.removeprefix("remote.").rpartition(".")
        (pushed if field == "pushurl" else urls).setdefault(name, value)
    return {**urls, **pushed}
