"""How entries live on after the machine was down. Pure."""

from __future__ import annotations

from leasehold.domain.api_keys import Key
from leasehold.domain.entries import End, Hold, PlanMark, PlanTerms, Ref, Request
from leasehold.domain.keys import is_waiter_id, plan_home
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.domain.entries import Entry


def after_reboot(entry: Entry, last: int, now: int, ends: Mapping[str, int]) -> Entry | None:
    """Return the entry as it lives on after the machine was down, or None if it went down with the machine.

    No holder could renew meanwhile. So a lease that was alive at `last`, the last time noted before, gets a full TTL
    again; what had expired by then is not revived. `ends` tells when sessions (by their actor's key) and leases (by
    their id) end now: pass sessions first, then the homes of leases, then their other holds. Waiters and polls belonged
    to processes of this machine, and are gone.
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
    if isinstance(entry, PlanTerms):
        full = min(now + entry.ask.ttl, FOREVER if entry.ask.session is None else ends.get(plan_home(entry.id), now))
        return entry if entry.until <= last else entry._replace(until=full)
    return entry if isinstance(entry, Key | PlanMark) else None


def _end_after_reboot(hold: Hold, last: int, now: int, ends: Mapping[str, int]) -> int:
    if hold.expires_at <= last or hold.expires_at >= FOREVER:
        return hold.expires_at
    if hold.closed:
        return now + hold.after
    if hold.ask is None:
        return ends.get(hold.id, hold.expires_at)
    if hold.ticket is not None:
        return min(hold.expires_at, now)  # promised to a waiter that is gone
    full = now + hold.ask.ttl
    return min(full, ends.get(hold.actor, now)) if hold.ask.session is not None else full
