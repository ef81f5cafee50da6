"""The log of a process that stays, written to its full length before it is needed. It knows nothing of records.

Each commit into a file that grows has the file system commit its own journal as well, with whatever other programs
have put in there; a commit over what is there already has not. What lies behind the end of the log means nothing to
SQLite: it stops reading where the check sums stop being right.
"""

from __future__ import annotations

import os

CHUNK = 1 << 20
FRAME = 24
HEAD = 32
"""What SQLite writes before each page of its log, and before all of them."""


def lengthen(log: str, pages: int, page_size: int) -> None:
    """Make room for so many pages. Only by who may write to the database at this moment: nobody else may append."""
    # SQLite's own locks are on other files, so nothing is given up by closing this one.
    handle = os.open(log, os.O_WRONLY | os.O_CLOEXEC)
    try:
        at, end = os.fstat(handle).st_size, HEAD + pages * (FRAME + page_size)
        while at < end:
            at += os.pwrite(handle, bytes(min(CHUNK, end - at)), at)
        os.fsync(handle)
    finally:
        os.close(handle)
