"""Where benchmarks keep what they write: on the disk of the working directory, and gone afterwards. Measures nothing.

Below the working directory, since a temporary directory may be in memory, where every fsync is free; and in `build`,
which git does not look at, in case nobody is left to remove it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from leasehold.testing import unprivileged

ELSEWHERE = Path("/var/tmp")  # noqa: S108 (only a directory that `tempfile` makes is used there)
"""On a disk too, mostly, and open to every user."""
HERE = Path.cwd() / "build"


def folder() -> tempfile.TemporaryDirectory[str]:
    """A directory of one's own, until the end of the block."""
    HERE.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="bench-", dir=HERE)


def folder_for_servers() -> tempfile.TemporaryDirectory[str]:
    """The same for a server that root runs as another user, which may be unable to enter the working directory."""
    HERE.mkdir(exist_ok=True)
    if unprivileged.can_enter(HERE):
        return folder()
    print(f"The user {unprivileged.NOBODY} cannot enter {HERE}: PostgreSQL is measured in {ELSEWHERE}.")
    return tempfile.TemporaryDirectory(prefix="leasehold-bench-", dir=ELSEWHERE)
