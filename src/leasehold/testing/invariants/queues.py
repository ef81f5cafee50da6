"""The life of every wait, and that no request is served before an earlier one. Pure.

A grant overtakes a waiter if the waiter is *ahead* (a higher priority; or the same one, and it queued before the
granted request arrived), *alive* (its end was not told, its deadline has not come, its engine is not known to be dead)
and *in conflict*: it wants, in any of its choices, something that overlaps with something granted, in an incompatible
mode. This is exact, not only sound, because of how places are kept: a waiter for several resources, or for any of
several, keeps its place in all of these queues until it is served or gone. So a later request must not pass, even
where the resource itself is free at that moment. Takers of slots may pass each other as long as there is a slot left
for each that is ahead. Only an admin who steals goes before everybody.

The exception is a waiter whose engine has died: the rules may pass it before an event reports its end. A test
that knows when engines die says so in `dead_engines`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasehold.domain import pools
from leasehold.testing.invariants.places import Index
from leasehold.testing.invariants.wants import Want, number, text, who

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.domain.events import Event
    from leasehold.testing.invariants.holds import Holds
    from leasehold.testing.invariants.wants import Report

ENDS = frozenset({"granted", "timeout", "cancelled", "deadlock"})


@dataclass(slots=True, eq=False)
class CheckedWait(Want):
    """One waiter, from `queued` to its end."""

    deadline: int = field(init=False)
    engine: str = field(init=False)
    end: Event | None = None

    def __post_init__(self) -> None:
        Want.__post_init__(self)
        self.deadline = number(self.event, "deadline")
        self.engine = text(self.event, "engine")


class Queues:
    """Every wait so far. `see` must be shown the events in order, each before `Holds` sees it."""

    def __init__(
        self,
        report: Report,
        hierarchical: frozenset[str],
        holds: Holds,
        dead_engines: Mapping[str, int],
        *,
        whole: bool,
    ) -> None:
        self._report = report
        self._hierarchical = hierarchical
        self._holds = holds
        self._dead_engines = dead_engines
        self._whole = whole
        self._waits: dict[str, CheckedWait] = {}
        self._index: Index[CheckedWait] = Index(hierarchical)
        self._of_session: dict[tuple[str, str | None], dict[str, CheckedWait]] = defaultdict(dict)
        self._arrivals = 0

    def see(self, event: Event) -> None:
        """Judge one event, then take note of it."""
        waiter = event.detail.get("waiter")
        self._arrivals += 1
        if event.kind == "queued":
            self._queued(event, text(event, "waiter"))
        elif event.kind == "session_ended":
            for left in self._of_session.pop((event.space, event.session), {}).values():
                self._report("residue", f"a session left a waiter behind: {who(left.event)}", left.event, event)
        elif event.kind in ENDS:
            wait = self._ended(event, waiter) if isinstance(waiter, str) else None
            if event.kind == "granted":
                self._judge(event, wait)

    def finish(self) -> None:
        """Report every wait whose end no event reports."""
        for wait in self._waits.values():
            if wait.end is None:
                self._report("wait", f"a wait never ended: {who(wait.event)}", wait.event)

    # ------------------------------------------------------------------------------------------ lives

    def _queued(self, event: Event, waiter: str) -> None:
        known, again = self._waits.get(waiter), bool(event.detail.get("again"))
        if known is not None:
            self._queued_again(event, known, again=again)
            return
        if again and self._whole:
            self._report("wait", f"queued again, but never before: {who(event)}", event)
        wait = CheckedWait(event, (-number(event, "priority"), self._arrivals), self._hierarchical)
        self._waits[waiter] = wait
        self._index.add(event.space, wait.names, wait)
        if event.session is not None:
            self._of_session[event.space, event.session][waiter] = wait

    def _queued_again(self, event: Event, known: CheckedWait, *, again: bool) -> None:
        """Apply a second copy of a queued request: it keeps its place, with a new deadline."""
        if known.end is not None or not again or not _is_same_wish(event, known):
            message = f"a waiter queued twice, after its end, or for something else: {who(event)}"
            self._report("wait", message, known.event, *([known.end] if known.end else []), event)
        else:
            known.deadline, known.engine = number(event, "deadline"), text(event, "engine")

    def _ended(self, event: Event, waiter: str) -> CheckedWait | None:
        wait = self._waits.get(waiter)
        if wait is None:
            if self._whole:
                self._report("wait", f"{event.kind}, but never queued: {who(event)}", event)
            return None
        wrong = self._what_is_wrong(event, wait)
        if wrong is not None:
            message = f"a wait ended as {event.kind} {wrong}: {who(wait.event)}"
            self._report("wait", message, wait.event, *([wait.end] if wait.end else []), event)
        if wait.end is None:
            wait.end = event
            self._index.remove(wait.event.space, wait.names, wait)
            self._of_session[wait.event.space, wait.event.session].pop(waiter, None)
        return wait

    def _what_is_wrong(self, event: Event, wait: CheckedWait) -> str | None:
        if wait.end is not None:
            return f"after it had ended as {wait.end.kind}"
        if event.kind == "timeout" and event.at_us < wait.deadline:
            return f"before its deadline {wait.deadline}"
        if event.kind == "granted" and event.at_us >= wait.deadline:
            return f"after its deadline {wait.deadline}"
        if event.kind == "granted" and not _is_what_was_wanted(event, wait):
            return f"with something else than was wanted: {who(event)}"
        return None

    # --------------------------------------------------------------------------------------- fairness

    def _judge(self, event: Event, wait: CheckedWait | None) -> None:
        if "stolen_by" in event.detail:
            return
        order = wait.order if wait is not None else (-number(event, "priority", 0), self._arrivals)
        new = Want(event, order, self._hierarchical)
        room = {where: new.slots - taken for where, taken in self._holds.takers(new).items()}
        for ahead in self._index.near(event.space, new.names, before=order):
            end = min(ahead.deadline, self._dead_engines.get(ahead.engine, ahead.deadline))
            if event.at_us < end and self._is_overtaken(ahead, new, room):
                self._report("fifo", f"{who(event)} was served before {who(ahead.event)}", ahead.event, event)
                return

    def _is_overtaken(self, ahead: CheckedWait, new: Want, room: dict[str, int]) -> bool:
        """Return True if `new` must not be served before `ahead`. `room`: the slots that are left for those ahead."""
        if new.clashes(ahead):
            return True
        if not new.shares(ahead):
            return False
        shared = self._index.places_of(ahead.names) & room.keys()
        for where in shared:
            room[where] -= 1
        return any(room[where] <= 0 for where in shared)


def _is_what_was_wanted(granted: Event, wait: CheckedWait) -> bool:
    asked = wait.event
    if not _is_same_wish(granted._replace(resources=asked.resources), wait):
        return False
    if asked.detail.get("any_of"):
        return len(granted.resources) == 1 and any(_gives(granted.resources[0], name) for name in asked.resources)
    return len(granted.resources) == len(asked.resources) and all(map(_gives, granted.resources, asked.resources))


def _gives(given: str, wanted: str) -> bool:
    """Return True if a lease on `given` is what was wanted: this name, or a member of this pool."""
    return given == wanted or (
        wanted.startswith(pools.PREFIX) and given.startswith(pools.PREFIX) and pools.meet(given, wanted)
    )


def _is_same_wish(event: Event, wait: CheckedWait) -> bool:
    asked, mode = wait.event, (text(event, "mode"), number(event, "slots"))
    same_asker = (event.space, event.holder, event.session) == (asked.space, asked.holder, asked.session)
    return same_asker and mode == (wait.mode, wait.slots) and event.resources == asked.resources
