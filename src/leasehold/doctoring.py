"""The examination behind `leasehold doctor`: where the locks live, why there, and whether all is well.

It looks and tells; it changes nothing, creates nothing and prints nothing. What it finds wrong it says with advice.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from stat import S_IMODE, S_ISDIR

from leasehold import checks, config, durations, identity, opening, places
from leasehold.errors import LeaseholdError, StoreBehind
from leasehold.model import FOREVER, SECOND
from leasehold.names import shown
from leasehold.noun import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leasehold.config import Choice
    from leasehold.model import Hold, Waiter
    from leasehold.stores import Store
    from leasehold.stores.sqlite.checkup import Facts

CLOCK_APART = 5 * SECOND
LITTLE_SPACE = 1024**3
TOO_LITTLE_SPACE = 64 * 1024**2
LONG_QUEUE = 100
LARGE_LOG = 256 * 1024**2


class Finding(Noun):
    """One thing that was looked at."""

    topic: str
    ok: bool | None
    """True: all is well. False: something must be mended. None: worth knowing, or it was not checked."""
    text: str
    advice: str = ""
    """What to do, if anything."""


def examine(
    choice: Choice, *, accept_restore: bool = False, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> list[Finding]:
    """Look at everything there is behind this choice. What is broken is found, not raised."""
    env = os.environ if env is None else env
    findings = [*_about_choice(choice), *_about_identity(choice, env, cwd)]
    if choice.url.startswith("sqlite:"):
        findings += _about_sqlite(Path(opening.sqlite_path(choice.url.partition(":")[2])), accept_restore)
    else:
        findings.append(Finding("reachable", None, "not checked: only sqlite: stores can be examined so far"))
    return [*findings, *_about_tokens(Path(places.token_directory(env))), _versions()]


# ------------------------------------------------------------------------------------------ who and where


def _about_choice(choice: Choice) -> Iterator[Finding]:
    yield Finding("url", True, f"{config.shown(choice.url)} ({shown(choice.why)})")
    for note in choice.notes:
        yield Finding("url", None, shown(note), "set LEASEHOLD_URL, or url in leasehold.toml, to say where locks live")
    told = [f"{key} from {origin}" for key, origin in sorted(choice.origins.items()) if key != "url"]
    yield Finding("settings", True, shown("; ".join(told)) if told else "all as they are by default")


def _about_identity(choice: Choice, env: Mapping[str, str], cwd: str | None) -> Iterator[Finding]:
    try:
        yield Finding("holder", True, shown(identity.holder(choice, env=env, cwd=cwd)))
        session = identity.session(env)
    except LeaseholdError as error:
        yield Finding("holder", False, shown(str(error)))
        return
    if session is not None:
        yield Finding("session", True, shown(checks.session_id(session)))


# -------------------------------------------------------------------------------------------- the database


def _about_sqlite(path: Path, accept_restore: bool) -> Iterator[Finding]:
    try:
        if path.exists():
            yield from _about_files(path)
            yield _space(path.parent)
            yield from _about_store(path, accept_restore)
        else:
            yield _about_nothing(path)
    except StoreBehind as error:
        advice = "make sure that nobody works under a lost lease, then: leasehold doctor --accept-restore"
        yield Finding("reachable", False, shown(str(error)), advice)
    except LeaseholdError as error:
        yield Finding("reachable", False, shown(str(error)))
    except OSError as error:
        yield Finding("reachable", False, shown(f"{error.filename or path}: {error.strerror}"))


def _about_store(path: Path, accept_restore: bool) -> Iterator[Finding]:
    started = time.monotonic()
    store = opening.open_store(config.sqlite_url(str(path)), accept_restore=accept_restore)
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
    yield from _about_leases(store, now)


def _about_nothing(path: Path) -> Finding:
    there = next(each for each in path.parents if each.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Finding("reachable", None, "there is no database yet; the first acquire creates it")
    advice = "make it writable, or set LEASEHOLD_URL to another place"
    return Finding("reachable", False, f"there is no database yet, and this user may not create it in {there}", advice)


def _about_files(path: Path) -> Iterator[Finding]:
    """Owner and mode of the directory and of each file in it that belongs to the database."""
    troubles = []
    for each in (path.parent, path, *(path.with_name(path.name + end) for end in (".gate", "-wal", "-shm"))):
        if each.exists():
            troubles += [trouble for trouble in [_file_trouble(each)] if trouble is not None]
    yield from troubles
    if not troubles:
        yield Finding("permissions", True, "the database belongs to this user, and others cannot change it")


def _file_trouble(path: Path) -> Finding | None:
    status = path.stat()
    mode, bits = S_IMODE(status.st_mode), "700" if S_ISDIR(status.st_mode) else "600"
    is_exposed = mode & (0o022 if S_ISDIR(status.st_mode) else 0o066)
    if mode & 0o022 and not mode & 0o1000:
        return Finding("permissions", False, f"others may change {path} (mode {mode:04o})", f"chmod {bits} {path}")
    if status.st_uid != os.geteuid():
        advice = "locks are for one user unless every file is shared; for several, use a server"
        return Finding("permissions", None, f"{path} belongs to another user (uid {status.st_uid})", advice)
    if is_exposed:
        text = f"others may read {path} (mode {mode:04o}): names of leases tell what people work on"
        return Finding("permissions", None, text, f"chmod {bits} {path}")
    return None


def _space(directory: Path) -> Finding:
    system = os.statvfs(directory)
    free = system.f_bavail * system.f_frsize
    text = f"{_size(free)} are free where the database is"
    if free < TOO_LITTLE_SPACE or (system.f_files and not system.f_favail):
        return Finding("disk", False, text, "free some space: without it, no lease can be taken or given back")
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


def _about_facts(facts: Facts, now: int) -> Iterator[Finding]:
    yield Finding("schema", facts.schema == facts.newest_schema, f"version {facts.schema}")
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
    age = "" if facts.oldest is None else f", the oldest {_rounded(now - facts.oldest)} old"
    text = f"{facts.events} events{age}; the database has {_size(facts.size)}, its log {_size(facts.log)}"
    is_large = facts.log > LARGE_LOG
    yield Finding("history", None if is_large else True, text, "does a program read all the time?" if is_large else "")


def _rounded(duration: int) -> str:
    return durations.format(duration // SECOND * SECOND)


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1_024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1_024
    return f"{count:.1f} TiB"


# ------------------------------------------------------------------------------------- leases and queues


def _about_leases(store: Store, now: int) -> Iterator[Finding]:
    records = [record for _, record in store.scan("n")]
    homes = [hold for record in records for hold in record.holds.values() if hold.ask is not None]
    live = [hold for hold in homes if not hold.closed and hold.expires_at > now]
    yield Finding("leases", True, f"{len(live)} live{_unswept(homes, now)}")
    for hold in live:
        if _is_of_dead_process(hold.holder):
            text = f"{_names(hold)} is held by {shown(hold.holder)}, a process that is gone"
            left = _rounded(hold.expires_at - now)
            yield Finding("leases", None, text, f"it ends by itself in {left}; or: leasehold force-release")
    for hold in homes:
        if hold.closed and hold.expires_at == FOREVER:
            text = f"{_names(hold)} is quarantined since {shown(hold.holder)} lost it"
            yield Finding("leases", None, text, "see what was left half done, then: leasehold clear")
    yield from _about_queues([waiter for record in records for waiter in record.waiters if waiter.ask is not None], now)


def _unswept(homes: list[Hold], now: int) -> str:
    stale = sum(not hold.closed and hold.expires_at <= now for hold in homes)
    return f"; {stale} expired ones, which are in nobody's way and go with a later change" if stale else ""


def _names(hold: Hold) -> str:
    return shown(" ".join(hold.ask.options[0].resources)) if hold.ask is not None else hold.id


def _is_of_dead_process(holder: str) -> bool:
    """Whether this is the name of a process of this host (see `identity.of_process`) that has ended."""
    who, _, number = holder.rpartition(":")
    is_ours = who.endswith(f"@{os.uname().nodename}") and number.isascii() and number.isdigit() and len(number) < 10
    if not is_ours or number == "0":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _about_queues(waiters: list[Waiter], now: int) -> Iterator[Finding]:
    lengths: dict[str, int] = {}
    for waiter in waiters:
        if waiter.ask is not None and waiter.deadline > now:
            name = " ".join(waiter.ask.options[0].resources)
            lengths[name] = lengths.get(name, 0) + 1
    if not lengths:
        yield Finding("queues", True, "nobody waits")
        return
    longest = max(lengths, key=lengths.__getitem__)
    text = f"{sum(lengths.values())} wait; the longest queue is that of {shown(longest)}, with {lengths[longest]}"
    yield Finding("queues", None if lengths[longest] > LONG_QUEUE else True, text)


# --------------------------------------------------------------------------------------- tokens, versions


def _about_tokens(directory: Path) -> Iterator[Finding]:
    if not directory.is_dir():
        yield Finding("tokens", True, "none are kept")
        return
    try:
        files = [] if places.exposure(directory.stat()) else list(directory.iterdir())
        exposed = [each for each in (directory, *files) if places.exposure(each.lstat())]
    except OSError as error:
        yield Finding("tokens", False, f"{directory}: {error.strerror}")
        return
    for each in exposed:
        bits = "700" if each == directory else "600"
        text = f"{each} is not private: {places.exposure(each.lstat())}"
        yield Finding("tokens", False, text, f"chmod {bits} {each} if you trust it, otherwise remove it")
    if not exposed:
        yield Finding("tokens", True, f"{len(files)} private files in {directory}")


def _versions() -> Finding:
    import sys  # noqa: PLC0415

    import apsw  # noqa: PLC0415

    from leasehold import __version__  # noqa: PLC0415

    python = sys.version.split()[0]
    sqlite = f"apsw {apsw.apsw_version()}, SQLite {apsw.sqlite_lib_version()}"
    return Finding("versions", True, f"leasehold {__version__}, Python {python}, {sqlite}")
