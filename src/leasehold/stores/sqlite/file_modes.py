"""The modes of a new database: open to the group of a shared directory, or as the repository around it is shared.

Only imported to create a database. SQLite gives its log the mode of the database.
"""

# Pathlib is slow to import, and the first acquire on a machine comes through here.
# ruff: noqa: PTH101, PTH103, PTH113, PTH116, PTH118, PTH120, PTH123

from __future__ import annotations

import os
from stat import S_ISGID, S_IWGRP

PRIVATE = 0o600
_GROUP = 0o660
_SHARED = {
    **dict.fromkeys(("group", "true", "1", "yes", "on"), _GROUP),
    **dict.fromkeys(("all", "world", "everybody", "2"), 0o664),
}
"""Modes by git's names for them."""


def make_directory(directory: str) -> None:
    """Create the directory of a database, for the group as well if its repository is shared."""
    above = os.path.dirname(directory)
    os.makedirs(directory, 0o700, exist_ok=True)
    mode = _mode_of_repository(above)
    if mode & S_IWGRP:
        group = os.stat(above).st_gid
        if os.geteuid() == 0 or group in (os.getegid(), *os.getgroups()):
            os.chown(directory, -1, group)
        os.chmod(directory, S_ISGID | 0o700 | mode | (mode & 0o444) >> 2)


def mode_of_files(directory: str) -> int:
    """Return the mode for new files: the group may write them if it may write the directory, and they are its own."""
    mode = os.stat(directory).st_mode
    if mode & S_ISGID and mode & S_IWGRP:
        return _GROUP | mode & 0o004
    return PRIVATE


def _mode_of_repository(git: str) -> int:
    """Return the mode of files that `core.sharedRepository` asks for; private where this is no git directory."""
    path = os.path.join(git, "config")
    if not os.path.isfile(os.path.join(git, "HEAD")) or not os.path.isfile(path):
        return PRIVATE
    with open(path, encoding="utf-8", errors="replace") as file:
        value = _setting(file.read())
    if value in _SHARED:
        return _SHARED[value]
    is_mode = value.startswith("0") and not value.strip("01234567")
    return PRIVATE | int(value, 8) & 0o664 if is_mode else PRIVATE


def _setting(text: str) -> str:
    """Return the last `core.sharedRepository` of git's configuration file, in lower case; empty without one."""
    section, found = "", ""
    for line in text.lower().splitlines():
        rest = line.strip()
        if rest.startswith("["):
            section, _, rest = rest[1:].partition("]")
        name, mark, value = rest.partition("=")
        if section.strip() == "core" and name.strip() == "sharedrepository":
            found = value.partition("#")[0].partition(";")[0].strip().strip('"') if mark else "true"
    return found
