"""Files and programs for servers that root starts as another user. It starts no server itself.

PostgreSQL refuses to run as root. A fresh machine often has everything below `/root` or another directory of mode 0700,
where an unprivileged user can neither run the programs of the virtual environment nor keep data.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from leasehold.testing.lending import Leash

NOBODY = "nobody"
"""Servers that refuse to run as root run as this user."""
PLACES = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 (only directories that `mkdtemp` makes are used there)
"""Where to look for room if the user cannot enter the directory for temporary files (`TMPDIR`)."""
_READ = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
_RUN = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def user() -> str | None:
    """Return the user that such a server runs as; None: the present one, which is not root."""
    return NOBODY if os.geteuid() == 0 else None


def can_enter(folder: Path) -> bool:
    """True if that user can enter this directory."""
    words = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]
    return _succeeds(words)


def room(prefix: str) -> Path:
    """Make a directory of that user's own, in a place that it can enter. The caller removes it."""
    for place in _places():
        if can_enter(place):
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            give_away(made)
            return made
    raise RuntimeError(_no_place("enter"))


def give_away(folder: Path) -> None:
    """Let that user write in this directory."""
    who = user()
    if who is not None:
        shutil.chown(folder, who)


@cache
def runnable(programs: Path, needed: tuple[str, ...], root: Path, parts: tuple[Path, ...]) -> Path:
    """Return this directory of programs, or that of a copy if that user cannot run the needed ones where they are.

    The copy has these parts of `root`, where the programs look for libraries and shared files by relative paths. There
    is one copy for each process that starts servers, and it is removed when that process ends, however it ends.
    """
    if _run(programs, needed):
        return programs
    for place in _places():
        if not can_enter(place):
            continue
        copied = _copy(root, parts, place) / programs.relative_to(root)
        if _run(copied, needed):  # not where the place is mounted with noexec
            return copied
    raise RuntimeError(_no_place(f"run a copy of {programs}"))


def _run(programs: Path, needed: tuple[str, ...]) -> bool:
    """True if each of the needed programs starts, with all of its libraries."""
    return all(_succeeds([str(programs / each), "--version"]) for each in needed)


def _copy(root: Path, parts: tuple[Path, ...], place: Path) -> Path:
    top = Path(tempfile.mkdtemp(prefix="leasehold-programs-", dir=place))
    leash = Leash(None, top)
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child ends earlier than its parent
            leash.end()
            shutil.rmtree(top, ignore_errors=True)

    atexit.register(remove)
    for part in parts:
        shutil.copytree(part, top / part.relative_to(root), symlinks=True, ignore=shutil.ignore_patterns("include"))
    _open_to_all(top)
    return top


def _open_to_all(top: Path) -> None:
    """Let everybody read and run what is there: it may have been installed with a umask of 077."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(_READ | _RUN | stat.S_IWUSR)
        for each in (Path(folder, name) for name in files):
            if not each.is_symlink():
                mode = each.stat().st_mode
                each.chmod(mode | _READ | (_RUN if mode & stat.S_IXUSR else 0))


def _places() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(place) for place in (tempfile.gettempdir(), *PLACES) if Path(place).is_dir()))


def _succeeds(words: list[str]) -> bool:
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(words, check=False, stdout=quiet, stderr=quiet, user=user(), cwd="/")  # noqa: S603 (see its callers)
    except PermissionError:
        return False
    return done.returncode == 0


def _no_place(what: str) -> str:
    return (
        f"root cannot start this server: it runs as the user {NOBODY}, which can {what} in none of "
        f"{', '.join(map(str, _places()))}. Name a directory that every user may enter:\n  TMPDIR=/path/to/it make test"
    )
