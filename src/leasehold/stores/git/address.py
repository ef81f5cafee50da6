"""From a URL to what git is told: `git:.` is the remote of a repository, `git+ssh://…` is `ssh://…`. It opens nothing.

Behind a `?` may stand options: `remote=NAME` (of a repository that has several), `max_skew=5s`, `poll=500ms`,
`timeout=60s`, `cache=DIRECTORY`.
"""

# Pathlib costs a one-shot process more than all of this
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
"""So a line of git's configuration begins that says where the files of a submodule are."""
NO_REMOTES = 1
"""How `git config --get-regexp` ends where nothing is like that."""


class GitAddress(Noun):
    """Where the refs are, and how to get there."""

    url: str
    """As git takes it."""
    cache: str
    """The directory of our own private repository."""
    config: str | None = None
    """The configuration of the repository that the remote belongs to: how to log in may stand there."""
    max_skew: int | None = None
    poll: int = POLL
    timeout: int = TIMEOUT


def parse(scheme: str, rest: str, state: str) -> GitAddress:
    """The address that a URL means: `scheme` is what stands before its first colon, `state` where caches are kept."""
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
        raise InvalidInput("url", f"must be git+{transport}://… with the place of a repository behind it")
    if transport == "file":
        return "/" + place.lstrip("/")
    return f"{transport}:{place}"


def _of_repository(directory: str, remote: str | None) -> tuple[str, str]:
    """The URL of a repository's remote, and the repository's configuration."""
    if not os.path.isdir(os.path.join(directory, "objects")):
        raise StoreUnsuitable(f"{directory} is in no git repository: name one as git:PATH, or a remote as git+ssh://…")
    wanted_keys = r"^(core\.worktree|remote\..*\.(push)?url)$"
    done = run(["--git-dir", directory, "config", "--get-regexp", wanted_keys])
    if done.code not in (0, NO_REMOTES):
        raise StoreUnsuitable(f"git cannot tell the remotes of {directory}: {done.complaint}")
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
    """The push URL of each remote, or else its URL: we mostly push, and must read where we write."""
    urls: dict[str, str] = {}
    pushed: dict[str, str] = {}
    for line in listed:
        key, _, value = line.partition(" ")
        name, _, field = key.removeprefix("remote.").rpartition(".")
        (pushed if field == "pushurl" else urls).setdefault(name, value)
    return {**urls, **pushed}
