"""Copy a database while it is in use, into one file that is whole or not there at all."""

# ruff: noqa: PTH105, PTH108, PTH110, PTH120, PTH202

from __future__ import annotations

import os

import apsw

from leasehold.errors import InvalidInput
from leasehold.stores.sqlite.failures import explained
from leasehold.stores.sqlite.file_modes import PRIVATE
from leasehold.stores.sqlite.files import check_files

PAGES = 2_000
"""Pages that are copied at a time: 8 MB, after which writers have their turn."""
BUSY_MS = 10_000


def copy(path: str, target: str) -> int:
    """Copy the database to a new file, flush it to the disk, and return its size. Raises `StoreError`."""
    if os.path.exists(target):
        raise InvalidInput("file", f"{target} exists already; a backup does not replace it")
    part = f"{target}.part"
    try:
        check_files(path)
        _copy(path, part)
        os.replace(part, target)
        _flush(os.path.dirname(target) or ".", os.O_RDONLY | os.O_DIRECTORY)
        return os.path.getsize(target)
    except (apsw.Error, OSError) as error:
        raise explained(path, error) from error
    finally:
        for name in (part, f"{part}-journal", f"{part}-wal", f"{part}-shm"):
            if os.path.exists(name):
                os.unlink(name)


def _copy(path: str, part: str) -> None:
    if os.path.lexists(part):
        os.unlink(part)  # of a backup that was killed
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))  # it has hashes of keys and tokens
    source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        source.set_busy_timeout(BUSY_MS)
        source.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a copy changes nothing in the database
        made = apsw.Connection(part)
        try:
            with made.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(PAGES)
            made.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        finally:
            made.close()
    finally:
        source.close()
    _flush(part, os.O_RDONLY)


def _flush(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
