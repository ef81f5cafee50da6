"""Where things are: the user's directories, and the git repository around a directory. It only looks.

Git itself is not asked, since starting it takes longer than taking a lease: what it would answer is read from its
files. Everything here is on the way of a one-shot `leasehold acquire`.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH112, PTH116, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import os
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISVTX, S_IWGRP, S_IWOTH

from leasehold.domain.nouns import Noun

try:
    from _blake2 import blake2b  # what hashlib hands out, without OpenSSL's start-up time
except ImportError:  # a Python built without its own hashes
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_POINTER = "gitdir: "
_POINTER_BYTES = 8_192
LOCKS = "leasehold"
"""The directory of the locks in a repository's git directory."""


class WorkingCopy(Noun):
    """A checkout of a git repository, or a bare repository."""

    root: str
    """Its top directory."""
    common: str
    """The git directory that all worktrees share."""
    trouble: str = ""
    """Why nothing can be kept in there; empty if it can."""


# ------------------------------------------------------------------------------- the user's directories


def home(env: Mapping[str, str]) -> str:
    """The user's home directory."""
    if env.get("HOME"):
        return env["HOME"]
    import pwd  # noqa: PLC0415 (rare)

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"  # as containers have it for a user that nobody knows


def state_home(env: Mapping[str, str]) -> str:
    """Where Leasehold keeps this user's state."""
    return os.path.join(_xdg("XDG_STATE_HOME", ".local/state", env), "leasehold")


def token_directory(env: Mapping[str, str]) -> str:
    """Where the command line keeps the tokens of the leases that it took."""
    return os.path.join(state_home(env), "tokens")


def config_home(env: Mapping[str, str]) -> str:
    """Where Leasehold looks for this user's configuration."""
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config", env), "leasehold")


def _xdg(variable: str, default: str, env: Mapping[str, str]) -> str:
    value = env.get(variable, "")
    # The XDG specification: a relative path is invalid and must be ignored.
    return value if value.startswith("/") else os.path.join(home(env), default)


def digest(*parts: str) -> str:
    """A short name for these texts (none of which contains a NUL)."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# ------------------------------------------------------------------------------------------ spellings of URLs

_PORTS = {"http": "7420", "https": "443", "etcd": "2379", "postgresql": "5432"}
"""Which port is meant where none is named."""


def with_patience(url: str, seconds: float) -> str:
    """Return the URL with the store's own option for how long to try to reach it. SQLite has nothing to connect to."""
    scheme, question, query = url.partition("?")
    whole = -int(-seconds // 1)  # rounded up; `math` would be one more import of a one-shot command
    if scheme.startswith("git"):
        word = f"timeout={whole}s"
    elif scheme.startswith("postgres"):
        word = f"connect_timeout={max(2, whole)}"  # libpq takes 1 for 2
    elif scheme.startswith("etcd"):
        word = f"connect_timeout={seconds:g}s"
    else:
        return url
    own = any(each.startswith(word.partition("=")[0] + "=") for each in query.split("&"))
    return url if own else f"{url}{'&' if question else '?'}{word}"


def split_options(rest: str) -> tuple[str, str]:
    """A path, and the `?name=value` behind it; a question mark in the name of a folder is part of the path."""
    path, mark, options = rest.rpartition("?")
    return (path, mark + options) if mark and "=" in options and "/" not in options else (rest, "")


def one_spelling(url: str) -> str:
    """The same text for every way to write where the same locks live, to compare by: it is no URL to open.

    Without passwords and without options that only say how to get there. Nothing is looked up: two names of one machine
    stay two. A path must be in full already (see `config.resolve`).
    """
    scheme, _, rest = url.partition(":")
    scheme = scheme.lower()
    if scheme in ("http", "https"):
        return ",".join(sorted(_one_server(each) for each in url.split(",")))
    path, options = split_options(rest)
    if scheme in ("sqlite", "git", "git+file"):
        return f"{scheme}:{path.rstrip('/')}{_remote(options)}"
    if scheme in ("postgres", "postgresql"):
        words = sorted(word for word in options[1:].split("&") if word and not word.startswith("password="))
        return _one_server(f"postgresql:{path}") + "".join(f"?{word}" for word in words)
    return _one_server(f"{scheme}:{path}")


def _remote(options: str) -> str:
    """A repository may have several remotes."""
    return "".join(f"?{word}" for word in options[1:].split("&") if word.startswith("remote="))


def _one_server(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    scheme = scheme.lower()
    authority, slash, path = rest.rstrip("/").partition("/")
    user, at, hosts = authority.rpartition("@")
    port = f":{_PORTS[scheme]}" if scheme in _PORTS else ""
    named = ",".join(sorted(host.lower().removesuffix(port) for host in hosts.split(",")))
    return f"{scheme}://{user.partition(':')[0]}{at}{named}{slash}{path}"


# --------------------------------------------------------------------------------------------- directories


def upward(directory: str) -> Iterator[str]:
    """The directory and those above it, up to the root of the file system."""
    yield directory
    while (parent := os.path.dirname(directory)) != directory:
        directory = parent
        yield directory


def is_planted(path: str) -> bool:
    """Whether just anybody can have put this here: it is somebody else's, where everybody may write.

    Otherwise a stranger's `/tmp/.git` or `/tmp/leasehold.toml` would say where the locks of all who work below
    `/tmp` live.
    """
    try:
        own, above = os.lstat(path), os.stat(os.path.dirname(path) or "/")
    except OSError:
        return False
    return own.st_uid not in (0, os.geteuid()) and bool((own.st_mode | above.st_mode) & S_IWOTH)


def strange_link(path: str) -> str:
    """Return a link on this path that another user made, or the file itself if it is a link that one may replace.

    Empty if there is none. The database would be written wherever such a link leads to.
    """
    own = (0, os.geteuid())
    for place in upward(path):
        status = _link(place)
        if status is not None and (status.st_uid not in own or (place == path and _is_replaceable(place))):
            return place
    return ""


def _link(place: str) -> os.stat_result | None:
    try:
        status = os.lstat(place)
    except OSError:
        return None  # whatever is wrong there, opening the file says so
    return status if S_ISLNK(status.st_mode) else None


def _is_replaceable(link: str) -> bool:
    """True if another user may write the directory of this link, which is our own, and replace it there."""
    status = os.stat(os.path.dirname(link))
    if status.st_uid not in (0, os.geteuid()):
        return True
    return bool(status.st_mode & (S_IWGRP | S_IWOTH)) and not status.st_mode & S_ISVTX


def exposure(status: os.stat_result) -> str:
    """Why this file or directory is not private to the user; empty if it is."""
    if status.st_uid != os.geteuid():
        return f"it belongs to another user (uid {status.st_uid})"
    mode = S_IMODE(status.st_mode)
    return f"others may use it (mode {mode:04o})" if mode & 0o077 else ""


# --------------------------------------------------------------------------------------- git repositories


def working_copy(directory: str, env: Mapping[str, str]) -> WorkingCopy | None:
    """The git repository that this directory is in, as git would find it; None if there is none."""
    found = _search(directory, env)
    explicit = _explicit(directory, env)
    if explicit is None:
        return found
    root = env.get("GIT_WORK_TREE") or (found.root if found else directory)
    return WorkingCopy(os.path.join(directory, root), explicit, unwritable(explicit))


def _explicit(directory: str, env: Mapping[str, str]) -> str | None:
    """What `GIT_DIR` names, if that is a git directory (a hook that changes directory breaks a relative one)."""
    value = env.get("GIT_DIR")
    return _shared_by(_pointed(os.path.join(directory, value)), directory, env) if value else None


def _search(directory: str, env: Mapping[str, str]) -> WorkingCopy | None:
    for place in upward(directory):
        entry = os.path.join(place, ".git")
        if os.path.lexists(entry):
            git = _pointed(entry)
            if (common := _shared_by(git, directory, env)) is not None:
                return _checked(place, entry, common)
            if not os.path.isdir(entry):
                return WorkingCopy(place, git, f"{entry} points to {git}, which is no git directory")
        if (common := _shared_by(place, directory, env)) is not None:
            root = os.path.dirname(place) if os.path.basename(place) == ".git" else place
            return _checked(root, place, common)
    return None


def _checked(root: str, entry: str, common: str) -> WorkingCopy:
    if is_planted(entry):
        trouble = f"{entry} belongs to somebody else, in a place where everybody may write"
        return WorkingCopy(root, os.path.realpath(entry), trouble)
    return WorkingCopy(root, common, unwritable(common))


def unwritable(common: str) -> str:
    """Return why this user cannot keep locks in the directory of the locks, or create it; empty if it can."""
    kept = os.path.join(common, LOCKS)
    place = kept if os.path.isdir(kept) else common
    return "" if os.access(place, os.W_OK | os.X_OK) else f"this user may not write in {place}"


def _pointed(entry: str) -> str:
    """The git directory that a `.git` means: the directory itself, or what the file of a worktree or submodule says."""
    text = _read(entry)
    if text is None or not text.startswith(_POINTER):
        return entry
    return os.path.normpath(os.path.join(os.path.dirname(entry), text[len(_POINTER) :]))


def _shared_by(git: str, directory: str, env: Mapping[str, str]) -> str | None:
    """What a git directory shares with its worktrees (most share all of it); None if it is no git directory."""
    if not os.path.lexists(os.path.join(git, "HEAD")):
        return None
    if env.get("GIT_COMMON_DIR"):
        common = os.path.join(directory, env["GIT_COMMON_DIR"])
    else:
        common = os.path.join(git, _read(os.path.join(git, "commondir")) or "")
    is_repository = all(os.path.isdir(os.path.join(common, part)) for part in ("objects", "refs"))
    return os.path.realpath(common) if is_repository else None


def _read(path: str) -> str | None:
    """The text of one of git's small files; None if there is none."""
    try:
        if S_ISDIR(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return os.fsdecode(file.read(_POINTER_BYTES)).rstrip("\r\n")
    except OSError:
        return None
