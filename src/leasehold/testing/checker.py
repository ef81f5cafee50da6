"""Does this history keep the promises? A second opinion from the recorded events alone. Must do no I/O.

>>> from leasehold.testing.checker import check
>>> check(events, finished=True)
[]

Each broken promise is a `Violation`; its `kind` says which:

============  ==============================================================================================
`clock`       time ran backwards, or two events have the same place in the history
`fence`       a fence was given twice, is not larger than all before, or does not stay below 2^53
`life`        a lease was granted twice or for too long, ended twice, was renewed after its end, never granted, ...
`overlap`     two incompatible leases held at the same time, or more takers than slots
`grace`       granted within the grace after an unclean end
`quarantine`  granted before a quarantine was cleared
`fifo`        served before a live waiter that was ahead (`invariants.queues` says what that means exactly)
`wait`        a wait ended twice, too early, too late, with something else than was wanted, or never
`residue`     something is left over: after all was released, or of a session that has ended
============  ==============================================================================================

The checker takes the order of events (`seq`) for the order in which things happened, across all resources. That holds
for every store that commits one transaction at a time. Events without a `seq` (all zero) are taken as they come.

The options of `check`: `finished` says that everything was released and every wait is over, so nothing may be left, and
`residue` are the store's records at that moment. `hierarchical` is the setting of that name. `dead_engines` tells from
when on the waiters of an engine (by its key) may be passed, because it was killed or its presence may have lapsed.
`whole=False` says that the beginning of the history is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.entries import Hold, Poll, Ref, Waiter
from leasehold.domain.timestamps import FOREVER
from leasehold.testing.invariants.holds import Holds
from leasehold.testing.invariants.queues import Queues
from leasehold.testing.invariants.wants import Malformed, Violation, who

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from leasehold.domain.entries import Record
    from leasehold.domain.events import Event

__all__ = ["Malformed", "Violation", "check", "residue_of"]


def check(
    events: Sequence[Event],
    *,
    finished: bool = False,
    residue: Mapping[str, Record] | None = None,
    hierarchical: Collection[str] = (),
    dead_engines: Mapping[str, int] | None = None,
    whole: bool = True,
) -> list[Violation]:
    """Return every broken promise in this history. The options are described above. Raises `Malformed`."""
    found: list[Violation] = []

    def report(kind: str, message: str, *proof: Event) -> None:
        found.append(Violation(kind, message, proof))

    holds = Holds(report, frozenset(hierarchical), whole=whole)
    queues = Queues(report, frozenset(hierarchical), holds, dead_engines or {}, whole=whole)
    history = sorted(events, key=lambda each: each.seq)
    for before, event in zip((None, *history), history, strict=False):
        found += _clock(before, event)
        queues.see(event)
        holds.see(event)
    if finished:
        queues.finish()
        holds.finish()
    return found + _fences(history) + residue_of(residue or {})


def _clock(before: Event | None, event: Event) -> list[Violation]:
    if before is None:
        return []
    if event.at_us < before.at_us:
        return [Violation("clock", f"time ran backwards, from {before.at_us} to {event.at_us}", (before, event))]
    if event.seq == before.seq != 0:
        return [Violation("clock", f"two events are number {event.seq}", (before, event))]
    return []


def _fences(history: Sequence[Event]) -> list[Violation]:
    found: list[Violation] = []
    newest: Event | None = None
    for event in history:
        if event.kind != "granted":
            continue
        if not 0 < event.fence <= FOREVER:
            message = f"fence {event.fence} is not within 1 and 2^53 - 1: {who(event)}"
            found.append(Violation("fence", message, (event,)))
        elif newest is not None and event.fence <= newest.fence:
            message = f"fence {event.fence} came after {newest.fence}: {who(event)}"
            found.append(Violation("fence", message, (newest, event)))
        else:
            newest = event
    return found


def residue_of(records: Mapping[str, Record]) -> list[Violation]:
    """Return what is left in a store's records after everything was released: no hold, waiter or reference."""
    return [
        Violation("residue", f"{type(entry).__name__} {entry.id} is left in {key}")
        for key, record in records.items()
        for entry in (*record.holds.values(), *record.waiters, *record.notes.values())
        if isinstance(entry, Hold | Waiter | Ref | Poll)
    ]
