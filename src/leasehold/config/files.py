"""The configuration files: where they are, and what stands in them. It neither checks nor weighs what it finds.

On the way of a one-shot `leasehold acquire`, which mostly finds none: TOML is imported when there is one.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH116, PTH118, PTH123

from __future__ import annotations

import os
from stat import S_ISREG

from leasehold.config import paths as places
from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    Found: TypeAlias = tuple[tuple[str, dict[str, Any]], ...]
    """The path of a file and what it sets; empty if there is no file."""

OWN = "leasehold.toml"
SHARED = "pyproject.toml"
USER = "config.toml"


def user_path(env: Mapping[str, str]) -> str:
    """Where the user's own configuration is."""
    return os.path.join(places.config_home(env), USER)


def user(env: Mapping[str, str], notes: list[str]) -> Found:
    """The user's own configuration."""
    path = user_path(env)
    data = _contents(path, notes)
    return () if data is None else ((path, _parsed(path, data)),)


def project(here: str, env: Mapping[str, str], notes: list[str]) -> Found:
    """The nearest configuration of a project, upward from here; for who is inside their home, not above it."""
    top = os.path.realpath(places.home(env))
    for directory in places.upward(here):
        found = _own(os.path.join(directory, OWN), notes) or _shared(os.path.join(directory, SHARED), notes)
        if found or directory == top:
            return found
    return ()


def neighbour(here: str, notes: list[str]) -> Found:
    """What Action Llama's own `config.toml`, where its scheduler is started, says of locks: one key, and no other."""
    path = os.path.join(here, USER)
    data = _contents(path, notes) if os.access(path, os.R_OK) else None
    if data is None or b"resourceLockTimeout" not in data:
        return ()
    value = _parsed(path, data).get("resourceLockTimeout")
    return () if value is None else ((path, {"resourceLockTimeout": value}),)


def of_grite(here: str, env: Mapping[str, str]) -> tuple[str, object]:
    """Return grite's own configuration file in the git directory around us, and its `lock_policy`, None without one."""
    copy = places.working_copy(here, env)
    if copy is None:
        return "", None
    path = os.path.join(copy.common, "grite", USER)
    data = _contents(path, [])
    return path, None if data is None else _parsed(path, data).get("lock_policy")


def _own(path: str, notes: list[str]) -> Found:
    data = _contents(path, notes)
    return () if data is None else ((path, _parsed(path, data)),)


def _shared(path: str, notes: list[str]) -> Found:
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
    if places.is_planted(path):
        notes.append(f"{path} was ignored: it belongs to somebody else, in a place where everybody may write")
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidInput("config", f"{path} cannot be read: {error.strerror}") from None


def _how_many_of_ours(data: bytes) -> int:
    """How many lines of a pyproject.toml may be ours: most have none, and to read TOML takes long."""
    if b"leasehold" not in data:
        return 0
    lines = [line.translate(None, b" \t\"'") for line in data.split(b"\n") if b"leasehold" in line or b"tool" in line]
    below_tool = any(line.startswith(b"[tool]") for line in lines)
    return sum(_may_be_ours(line, below_tool) for line in lines)


def _may_be_ours(bare: bytes, below_tool: bool) -> bool:
    """Whether the line is a header or a key of ours, in one of the spellings that TOML allows.

    A script or a package called `leasehold` is not: such a key is ours only where there is a table `[tool]`.
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
