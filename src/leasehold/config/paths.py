"""Find and read files: the user's directories, the git repository around a directory, the configuration files.

Git itself is not started, which would take longer than an acquire: its files are read instead. TOML is imported only if
there is a file that needs it. Nothing here is created, changed or checked for sense.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH112, PTH116, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import os
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG, S_ISVTX, S_IWGRP, S_IWOTH

from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput, StoreUnsuitable

try:
    from _blake2 import blake2b  # what hashlib hands out, without OpenSSL's start-up time
except ImportError:  # a Python built without its own hashes
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, TypeAlias

    Found: TypeAlias = tuple[tuple[str, dict[str, Any]], ...]
    """The path of a file and what it sets; empty if there is no file."""

_POINTER = "gitdir: "
_POINTER_BYTES = 8_192
OWN = "leasehold.toml"
SHARED = "pyproject.toml"
USER = "config.toml"
LOCKS = "leasehold"
"""The directory of the locks in a repository's git directory."""


class WorkingCopy(Noun):
    """A checkout of a git repository, or a bare repository."""

    root: str
    """Its top directory."""
    common: str
    """The git directory that all worktrees share."""
    trouble: str = ""
    """Why locks cannot be kept in there; empty if they can."""


# ------------------------------------------------------------------------------- the user's directories


def home(env: Mapping[str, str]) -> str:
    """Return the user's home directory."""
    if env.get("HOME"):
        return env["HOME"]
    import pwd  # noqa: PLC0415 (rare)

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"  # an unknown user, as in containers


def state_home(env: Mapping[str, str], *names: str) -> str:
    """Return where Leasehold keeps this user's state, or what has these names in there.

    Raises StoreUnsuitable if another user has planted a link on the way.
    """
    place = os.path.join(_xdg("XDG_STATE_HOME", ".local/state", env), "leasehold", *names)
    refuse_strange_link(place, "set XDG_STATE_HOME to a directory of yours")
    return place


def token_directory(env: Mapping[str, str]) -> str:
    """Return where the command line saves the tokens of its leases."""
    return state_home(env, "tokens")


def config_home(env: Mapping[str, str]) -> str:
    """Return the directory of this user's configuration."""
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config", env), "leasehold")


def _xdg(variable: str, default: str, env: Mapping[str, str]) -> str:
    value = env.get(variable, "")
    # The XDG specification: a relative path is invalid and must be ignored.
    return value if value.startswith("/") else os.path.join(home(env), default)


def digest(*parts: str) -> str:
    """Return a short hash of these texts, none of which contains a NUL."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --------------------------------------------------------------------------------------------- directories


def upward(directory: str) -> Iterator[str]:
    """Yield the directory and those above it, up to the root of the file system."""
    yield directory
    while (parent := os.path.dirname(directory)) != directory:
        directory = parent
        yield directory


def is_planted(path: str) -> bool:
    """True if another user may have put this file here: that user owns it, in a directory that everyone may write.

    Otherwise a stranger's `/tmp/.git` or `/tmp/leasehold.toml` would decide where the locks of all work below `/tmp`
    live.
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


def refuse_strange_link(path: str, remedy: str = "give the path of the file that is meant") -> None:
    """Raise StoreUnsuitable if another user may have this path lead elsewhere."""
    link = strange_link(path)
    if link:
        raise StoreUnsuitable(f"{shown(link)} is a link that another user made or may replace: remove it, or {remedy}")


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
    """Return why this file or directory is not private to the user; empty if it is."""
    if status.st_uid != os.geteuid():
        return f"it belongs to another user (uid {status.st_uid})"
    mode = S_IMODE(status.st_mode)
    return f"others may use it (mode {mode:04o})" if mode & 0o077 else ""


# --------------------------------------------------------------------------------------- git repositories


def working_copy(directory: str, env: Mapping[str, str]) -> WorkingCopy | None:
    """Return the git repository around this directory, as git would find it; None if there is none."""
    found = _search(directory, env)
    value = env.get("GIT_DIR")  # after a `cd` in a hook, a relative one may be wrong
    explicit = _shared_by(_pointed(os.path.join(directory, value)), directory, env) if value else None
    if explicit is None:
        return found
    root = env.get("GIT_WORK_TREE") or (found.root if found else directory)
    return WorkingCopy(os.path.join(directory, root), explicit, unwritable(explicit))


def _search(directory: str, env: Mapping[str, str]) -> WorkingCopy | None:
    """Find the working copy that this directory lies in, upward; it says so itself if it cannot be used."""
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


def unseen(directory: str, env: Mapping[str, str]) -> str:
    """Return why there may be a repository around this directory that this user cannot see; empty if there is none."""
    given = env.get("GIT_DIR")
    entries = [os.path.join(each, ".git") for each in upward(directory)]
    for entry in [os.path.join(directory, given), *entries] if given else entries:
        try:
            os.stat(os.path.join(entry, "HEAD"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"this user cannot look into {entry} ({error.strerror})"
    return ""


def _checked(root: str, entry: str, common: str) -> WorkingCopy:
    if is_planted(entry):
        trouble = f"{entry} belongs to another user, in a directory that everyone may write"
        return WorkingCopy(root, os.path.realpath(entry), trouble)
    return WorkingCopy(root, common, unwritable(common))


def unwritable(common: str) -> str:
    """Return why this user cannot keep locks in the directory of the locks, or create it; empty if it can."""
    kept = os.path.join(common, LOCKS)
    place = kept if os.path.isdir(kept) else common
    return "" if os.access(place, os.W_OK | os.X_OK) else f"this user may not write in {place}"


def _pointed(entry: str) -> str:
    """Return the git directory behind a `.git`: itself, or the target in the file of a worktree or submodule."""
    text = _read(entry)
    if text is None or not text.startswith(_POINTER):
        return entry
    return os.path.normpath(os.path.join(os.path.dirname(entry), text[len(_POINTER) :]))


def _shared_by(git: str, directory: str, env: Mapping[str, str]) -> str | None:
    """Return the git directory that worktrees share; None if this is no git directory."""
    if not os.path.lexists(os.path.join(git, "HEAD")):
        return None
    if env.get("GIT_COMMON_DIR"):
        common = os.path.join(directory, env["GIT_COMMON_DIR"])
    else:
        common = os.path.join(git, _read(os.path.join(git, "commondir")) or "")
    is_repository = all(os.path.isdir(os.path.join(common, part)) for part in ("objects", "refs"))
    return os.path.realpath(common) if is_repository else None


def _read(path: str) -> str | None:
    """Return the text of one of git's small files; None if there is none."""
    try:
        if S_ISDIR(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return os.fsdecode(file.read(_POINTER_BYTES)).rstrip("\r\n")
    except OSError:
        return None


# ------------------------------------------------------------------------------------- configuration files


def user_path(env: Mapping[str, str]) -> str:
    """Return the path of the user's own configuration."""
    return os.path.join(config_home(env), USER)


def user(env: Mapping[str, str], notes: list[str]) -> Found:
    """Read the user's own configuration."""
    return _own(user_path(env), notes)


def project(here: str, env: Mapping[str, str], notes: list[str]) -> Found:
    """Read the nearest configuration of a project, upward from here, and not above the user's home."""
    top = os.path.realpath(home(env))
    for directory in upward(here):
        found = _own(os.path.join(directory, OWN), notes) or _shared(os.path.join(directory, SHARED), notes)
        if found or directory == top:
            return found
    return ()


def worktree(here: str, notes: list[str]) -> Found:
    """Read what `leasehold worktree add` wrote for the linked worktree around us, in its private git directory."""
    private = private_directory(here)
    return () if private is None else _own(os.path.join(private, OWN), notes)


def private_directory(here: str) -> str | None:
    """Return the private git directory of the linked worktree around us; None elsewhere."""
    for directory in upward(here):
        entry = os.path.join(directory, ".git")
        try:
            is_link = S_ISREG(os.lstat(entry).st_mode)
        except OSError:
            continue
        return _pointed(entry) if is_link and not is_planted(entry) else None
    return None


def neighbour(here: str, notes: list[str]) -> Found:
    """Read `resourceLockTimeout` from Action Llama's own `config.toml` here, and no other key."""
    path = os.path.join(here, USER)
    data = _contents(path, notes) if os.access(path, os.R_OK) else None
    if data is None or b"resourceLockTimeout" not in data:
        return ()
    value = _parsed(path, data).get("resourceLockTimeout")
    return () if value is None else ((path, {"resourceLockTimeout": value}),)


def of_grite(here: str, env: Mapping[str, str]) -> tuple[str, object]:
    """Return grite's own configuration file in the git directory around us, and its `lock_policy`, None without one."""
    copy = working_copy(here, env)
    if copy is None:
        return "", None
    path = os.path.join(copy.common, "grite", USER)
    data = _contents(path, [])
    return path, None if data is None else _parsed(path, data).get("lock_policy")


def _own(path: str, notes: list[str]) -> Found:
    data = _contents(path, notes)
    return () if data is None else ((path, _parsed(path, data)),)


def _shared(path: str, notes: list[str]) -> Found:
    """Return the table of Leasehold in a pyproject.toml, read without tomllib if it is plain."""
    data = _contents(path, notes)
    if data is None or not (places_of_ours := _how_many_of_ours(data)):
        return ()
    from leasehold.config import plain_toml  # noqa: PLC0415 (mostly there is nothing to read)

    plain = plain_toml.read_table(data, "tool.leasehold") if places_of_ours == 1 else None
    if plain is not None:
        return ((path, plain),)
    tool = _parsed(path, data).get("tool")
    if not isinstance(tool, dict) or "leasehold" not in tool:
        return ()
    if not isinstance(tool["leasehold"], dict):
        raise InvalidInput("tool.leasehold", f"must be a table (from {path})")
    return ((path, tool["leasehold"]),)


def _contents(path: str, notes: list[str]) -> bytes | None:
    try:
        if not S_ISREG(os.stat(path).st_mode):
            return None
    except OSError:
        return None
    if is_planted(path):
        notes.append(f"{path} was ignored: it belongs to another user, in a directory that everyone may write")
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidInput("config", f"{path} cannot be read: {error.strerror}") from None


def _how_many_of_ours(data: bytes) -> int:
    """Count the lines of a pyproject.toml that may be ours: most files have none, and parsing TOML is slow."""
    if b"leasehold" not in data:
        return 0
    lines = [line.translate(None, b" \t\"'") for line in data.split(b"\n") if b"leasehold" in line or b"tool" in line]
    below_tool = any(line.startswith(b"[tool]") for line in lines)
    return sum(_may_be_ours(line, below_tool) for line in lines)


def _may_be_ours(bare: bytes, below_tool: bool) -> bool:
    """True if the line is a header or a key of ours, in any of TOML's spellings.

    A script or a package called `leasehold` is not: such a key is ours only below a table `[tool]`.
    """
    if bare.startswith((b"[tool.leasehold", b"tool.leasehold")) or (bare.startswith(b"tool=") and b"leasehold" in bare):
        return True
    return below_tool and bare.startswith((b"leasehold=", b"leasehold."))


def _parsed(path: str, data: bytes) -> dict[str, Any]:
    from leasehold.config import plain_toml  # noqa: PLC0415 (mostly there is nothing to read)

    plain = plain_toml.read(data)
    if plain is not None:
        return plain
    import tomllib  # noqa: PLC0415 (slow to import, and mostly not needed)

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidInput("config", f"{path} is not valid TOML: {error}") from None
