"""Meanings of SQLite's and the system's failures, and what to do about them."""

from __future__ import annotations

import apsw

from leasehold.errors import StoreBehind, StoreError, StoreUnsuitable
from leasehold.stores.sqlite.meta import SCHEMA_VERSION

_NOT_OURS = (
    "this user may not open or create it: have the files and their directory shared with a group of yours, or set "
    "LEASEHOLD_URL to where everybody's locks live"
)
_MEANINGS: tuple[tuple[type[Exception], type[StoreError], str], ...] = (
    (apsw.FullError, StoreError, "the disk is full; nothing was changed. Free some space and try again"),
    (apsw.ReadOnlyError, StoreError, "the database cannot be written: the file or its file system is read-only"),
    (
        apsw.BusyError,
        StoreError,
        "the database is locked by another program (a SQLite shell? a backup?); nothing was changed. Try again",
    ),
    (apsw.LockedError, StoreError, "the database is locked by another use in this process; nothing was changed"),
    (apsw.NotADBError, StoreUnsuitable, "this file is not a database; give another path"),
    (apsw.CorruptError, StoreError, "the database is damaged; restore a backup, or move it away to start anew"),
    (apsw.CantOpenError, StoreError, "the database cannot be opened; is the directory there, and yours to write?"),
    (apsw.IOError, StoreError, "reading or writing the disk failed; nothing was changed"),
    (PermissionError, StoreError, _NOT_OURS),
)


def explained(path: str, error: apsw.Error | OSError) -> StoreError:
    """Return the failure as an error of Leasehold, with the system's message in brackets."""
    said = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    for kind, result, meaning in _MEANINGS:
        if isinstance(error, kind):
            return result(f"{path}: {meaning} ({said})")
    return StoreError(f"{path}: {said}")


def behind(path: str, why: str) -> StoreBehind:
    """Return an error for a database that lacks commits, with what to do about it."""
    from shlex import quote  # noqa: PLC0415 (rare, and dear)

    return StoreBehind(
        f"{path} lacks leases that were granted: {why}. It was restored from a backup, or its files were copied one by "
        "one, and a holder may still work under a lease that is not in it. If that was not meant to be, put the right "
        "files back. If it was, accept it: fences go on above all that were given out, the leases that are in it get "
        "a full TTL, and nothing new is granted for the longest TTL that was ever used. In Python that is "
        "leasehold.connect(url, accept_restore=True); on the command line\n"
        f"LEASEHOLD_URL={quote(f'sqlite://{path}')} leasehold doctor --accept-restore"
    )


def other_schema(path: str, version: int) -> StoreUnsuitable:
    """Return an error for a database that another version of Leasehold created."""
    differs = f"{path} has schema {version}, and this Leasehold works with schema {SCHEMA_VERSION} only"
    if version > SCHEMA_VERSION:
        return StoreUnsuitable(f"{differs}: update Leasehold (every process on this machine), or give another path")
    return StoreUnsuitable(
        f"{differs}: an older version created it. Nothing was changed. To start anew, stop every process that uses it "
        "and remove it together with its -wal, -shm and .gate files; to keep it, give another path. Its leases and "
        "its history are not carried over"
    )
