"""Check a SQLite store: its files, their file system, and its contents."""

from __future__ import annotations

import os
import time
from pathlib import Path
from shlex import quote
from stat import S_IMODE, S_ISDIR

from leasehold.doctor.contents import about_leases
from leasehold.doctor.findings import Finding
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.timestamps import SECOND
from leasehold.errors import LeaseholdError, StoreBehind
from leasehold.locks import connect as opening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.stores.protocol import Store
    from leasehold.stores.sqlite.checkup import SqliteFacts

CLOCK_APART = 5 * SECOND
LITTLE_SPACE = 1024**3
TOO_LITTLE_SPACE = 64 * 1024**2
LARGE_LOG = 256 * 1024**2


def about_sqlite(url: str, accept_restore: bool) -> Iterator[Finding]:
    """Check the database file of this URL."""
    rest = url.partition(":")[2]
    path = Path(opening.sqlite_path(rest))
    try:
        _, (*_, creates_directory) = opening.sqlite_file(rest)
        if path.exists() or path.with_name(f"{path.name}.gate").exists():
            yield from _about_files(path)
            yield _space(path.parent)
            yield from _about_store(url, path, accept_restore)
        else:
            yield _about_nothing(path, bool(creates_directory))
    except StoreBehind as error:
        advice = "make sure that no one works under a lost lease, then accept the database as it is"
        yield Finding("reachable", False, shown(str(error)), advice, "leasehold doctor --accept-restore")
    except LeaseholdError as error:
        yield Finding("reachable", False, shown(str(error)))
    except OSError as error:
        yield Finding("reachable", False, shown(f"{error.filename or path}: {error.strerror}"))


def _about_store(url: str, path: Path, accept_restore: bool) -> Iterator[Finding]:
    started = time.monotonic()
    store = opening.open_store(url, accept_restore=accept_restore)
    try:
        now, _ = store.read(())
        took = round((time.monotonic() - started) * 1_000)
        yield Finding("reachable", True, f"opened and read in {took} ms")
        yield from _about_contents(store, path, now)
    finally:
        store.close()


def _about_contents(store: Store, path: Path, now: int) -> Iterator[Finding]:
    from leasehold.stores.sqlite.checkup import look  # noqa: PLC0415 (only for a store of this kind)

    facts = look(str(path))
    yield _clock(now - time.time_ns() // 1_000, facts.is_steady)
    yield from _about_facts(facts, now)
    yield from about_leases([store], now)


def _about_nothing(path: Path, creates_directory: bool) -> Finding:
    if not path.parent.exists() and not creates_directory:
        advice = "create it, correct the path, or end the URL with ?create=1"
        return Finding("reachable", False, f"there is no directory {shown(str(path.parent))}", advice)
    there = next(each for each in path.parents if each.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Finding("reachable", None, "there is no database yet; the first acquire creates it")
    advice = "make it writable, or set LEASEHOLD_URL to another place"
    return Finding("reachable", False, f"there is no database yet, and this user may not create it in {there}", advice)


def _about_files(path: Path) -> Iterator[Finding]:
    """Check owner and mode of the directory and of each file of the database."""
    troubles = []
    is_shared = path.parent.stat().st_mode & 0o2020 == 0o2020
    for each in (path.parent, path, *(path.with_name(path.name + end) for end in (".gate", "-wal", "-shm"))):
        if each.exists():
            troubles += [trouble for trouble in [_file_trouble(each, is_shared=is_shared)] if trouble is not None]
    yield from troubles
    if not troubles:
        whose = "is shared with the group of its directory" if is_shared else "belongs to this user"
        yield Finding("permissions", True, f"the database {whose}, and others cannot change it")


def _file_trouble(path: Path, *, is_shared: bool) -> Finding | None:
    status = path.stat()
    mode, bits = S_IMODE(status.st_mode), "700" if S_ISDIR(status.st_mode) else "600"
    if is_shared and not mode & 0o007:
        return None
    is_exposed = mode & (0o022 if S_ISDIR(status.st_mode) else 0o066)
    if mode & 0o022 and not mode & 0o1000:
        text = f"others may change {path} (mode {mode:04o})"
        return Finding("permissions", False, text, "keep others out", f"chmod {bits} {quote(str(path))}")
    if status.st_uid != os.geteuid():
        advice = "locks are for one user unless every file is shared; for several, use a server"
        return Finding("permissions", None, f"{path} belongs to another user (uid {status.st_uid})", advice)
    if is_exposed:
        text = f"others may read {path} (mode {mode:04o}): names of leases tell what people work on"
        return Finding("permissions", None, text, "keep others out", f"chmod {bits} {quote(str(path))}")
    return None


def _space(directory: Path) -> Finding:
    system = os.statvfs(directory)
    free = system.f_bavail * system.f_frsize
    text = f"{_size(free)} are free where the database is"
    if free < TOO_LITTLE_SPACE or (system.f_files and not system.f_favail):
        return Finding("disk", False, text, "free some space: without it, no lease can be acquired or released")
    return Finding("disk", None if free < LITTLE_SPACE else True, text)


def _clock(apart: int, is_steady: bool) -> Finding:
    how = "counts from boot" if is_steady else "is the wall clock: a step forwards would end leases early"
    if abs(apart) <= CLOCK_APART:
        return Finding("clock", True, f"the store's clock agrees with the wall clock, and {how}")
    side = "ahead of" if apart > 0 else "behind"
    return Finding(
        "clock",
        None,
        f"the store's clock is {durations.format(abs(apart))} {side} the wall clock, which was set meanwhile; leases "
        "live exactly as long as they should, only the times that are shown differ",
        "nothing has to be done; after a reboot they agree again, unless the wall clock was set back",
    )


def _about_facts(facts: SqliteFacts, now: int) -> Iterator[Finding]:
    yield Finding("schema", True, f"version {facts.schema}")
    if facts.damage:
        yield Finding("file", False, f"the database is damaged: {shown(facts.damage)}", "restore a backup")
    else:
        yield Finding("file", *((True, "sound") if facts.damage == "" else (None, "not checked: it is large")))
    mark = "none" if facts.mark is None else str(facts.mark)
    yield Finding(
        "fences",
        facts.mark is not None and facts.mark <= facts.fence,
        f"the next one is {facts.fence}, the high-water mark is {mark}",
        "" if facts.mark is not None else "the .gate file was removed: a restored backup would not be noticed",
    )
    age = "" if facts.oldest is None else f", the oldest {durations.in_seconds(now - facts.oldest)} old"
    text = f"{facts.events} events{age}; the database has {_size(facts.size)}, its log {_size(facts.log)}"
    is_large = facts.log > LARGE_LOG
    yield Finding("history", None if is_large else True, text, "does a program read all the time?" if is_large else "")


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1_024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1_024
    return f"{count:.1f} TiB"
