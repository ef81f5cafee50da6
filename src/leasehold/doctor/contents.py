"""Check the contents of any store: leases, those of dead processes, quarantines, queues."""

from __future__ import annotations

import os
from shlex import quote

from leasehold.doctor.findings import Finding
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasehold.domain.entries import Hold, Waiter
    from leasehold.stores.protocol import Store

LONG_QUEUE = 100


def about_leases(stores: Iterable[Store], now: int) -> Iterator[Finding]:
    """Report the leases, the closed resources, and the queues, of a store or of all lanes of one."""
    records = [record for store in stores for _, record in store.scan("n")]
    homes = [hold for record in records for hold in record.holds.values() if hold.ask is not None]
    live = [hold for hold in homes if not hold.closed and hold.expires_at > now]
    yield Finding("leases", True, f"{len(live)} live{unswept(homes, now)}")
    for hold in live:
        if _is_of_dead_process(hold.holder):
            text = f"{_names(hold)} is held by {shown(hold.holder)}, and no such process runs here"
            left = durations.in_seconds(hold.expires_at - now)
            force = f"leasehold force-release {_first(hold)} --reason '…'"
            yield Finding("leases", None, text, f"it ends by itself in {left}; if it ran here, end it now", force)
    for hold in homes:
        if _is_quarantined(hold, now):
            text = f"{_names(hold)} is quarantined since {shown(hold.holder)} lost it"
            clear = f"leasehold clear {_first(hold)} --reason '…'"
            yield Finding("leases", None, text, "see what was left half done, then open it", clear)
    yield from _about_queues([waiter for record in records for waiter in record.waiters if waiter.ask is not None], now)


def unswept(homes: list[Hold], now: int) -> str:
    """Say how many expired leases were not removed yet."""
    stale = sum(not hold.closed and hold.expires_at <= now and not _is_quarantined(hold, now) for hold in homes)
    return f"; {stale} expired ones, which block no one and are removed by a later change" if stale else ""


def _is_quarantined(hold: Hold, now: int) -> bool:
    """True also for a lease that has expired without a later transaction that recorded it."""
    if hold.closed:
        return hold.expires_at == FOREVER
    return hold.expires_at <= now and hold.after >= FOREVER


def _names(hold: Hold) -> str:
    return shown(" ".join(hold.ask.options[0].resources)) if hold.ask is not None else hold.id


def _first(hold: Hold) -> str:
    return shown(quote(hold.ask.options[0].resources[0] if hold.ask is not None else hold.id))


def _is_of_dead_process(holder: str) -> bool:
    """True if this is the name of a process of this host (see `identity.of_process`) that has ended."""
    who, _, rest = holder.rpartition(":")
    number = rest.partition("-")[0]
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
