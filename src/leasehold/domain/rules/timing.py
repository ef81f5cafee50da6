"""When an entry needs attention. Pure, and known to the stores, which keep an index of it."""

from __future__ import annotations

from leasehold.domain.api_keys import Key
from leasehold.domain.entries import End, Hold, Ref, Request, Waiter
from leasehold.domain.keys import is_waiter_id
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.domain.entries import Entry, Record


def due(entry: Entry) -> int | None:
    """When a sweep should look at this entry again; None: never by itself.

    A lease or waiter in several records is due in its home only: the sweep finds the others from there.
    """
    if isinstance(entry, Hold):
        return entry.expires_at if entry.ask is not None and entry.expires_at < FOREVER else None
    if isinstance(entry, Waiter):
        return entry.deadline if entry.ask is not None else None
    if isinstance(entry, Ref):
        return None
    if isinstance(entry, Key):
        return entry.until_us if entry.until_us < FOREVER else None
    if isinstance(entry, Session):
        return entry.expires_us
    return entry.until


def first_due(record: Record) -> int | None:
    """When somebody has to look at this record."""
    entries = (*record.holds.values(), *record.waiters, *record.notes.values())
    return min((at for at in map(due, entries) if at is not None), default=None)


def next_change(record: Record, now: int) -> int | None:
    """When the next hold on this node runs out by itself; None if none does."""
    first = FOREVER
    for hold in record.holds.values():
        if now < hold.expires_at < first:
            first = hold.expires_at
    return first if first < FOREVER else None


def after_reboot(entry: Entry, last: int, now: int, ends: Mapping[str, int]) -> Entry | None:
    """The entry as it lives on after the machine was down; None if it went down with the machine.

    Nobody could renew while the machine was down, so whoever still held at `last`, the last time that was
    noted before, gets a full TTL again; what had run out by then is not revived. `ends` says when sessions (by
    their actor's key) and leases (by their id) end now: sessions come first, then the homes of leases, then
    their other holds. Whoever waited or wished was a process of this machine and is gone.
    """
    if isinstance(entry, Hold):
        return entry._replace(expires_at=_end_after_reboot(entry, last, now, ends))
    if isinstance(entry, Session):
        return entry if entry.expires_us <= last else entry._replace(expires_us=now + entry.ttl_us)
    if isinstance(entry, Ref):
        return None if is_waiter_id(entry.id) else entry
    if isinstance(entry, Request):
        return None if is_waiter_id(entry.became) else entry._replace(until=entry.until + now - last)
    if isinstance(entry, End):
        return entry._replace(until=entry.until + now - last)
    return entry if isinstance(entry, Key) else None


def _end_after_reboot(hold: Hold, last: int, now: int, ends: Mapping[str, int]) -> int:
    if hold.expires_at <= last or hold.expires_at >= FOREVER:
        return hold.expires_at
    if hold.closed:
        return now + hold.after
    if hold.ask is None:
        return ends.get(hold.id, hold.expires_at)
    if hold.ticket is not None:
        return min(hold.expires_at, now)  # promised to a waiter that is no more
    full = now + hold.ask.ttl
    return min(full, ends.get(hold.actor, now)) if hold.ask.session is not None else full
