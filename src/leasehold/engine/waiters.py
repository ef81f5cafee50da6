"""Those who wait at one engine, and what is done for them meanwhile. It decides nothing about who is served.

It tells the store that they are alive, looks again the moment a hold runs out, and notices when another process
has served one of them. An engine at which nobody ever waited has none: a plain acquire does not import this.
"""

from __future__ import annotations

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.leases import Queue
from leasehold.domain.nouns import new
from leasehold.domain.outcomes import Deadlock, Done, Granted, Queued, Refused, TimedOut
from leasehold.domain.rules.draft import resources_of
from leasehold.domain.rules.granting import SESSION_OVER
from leasehold.domain.rules.timing import next_change
from leasehold.domain.timestamps import SECOND
from leasehold.engine.pending import NEVER, Errand
from leasehold.engine.timers import Wait, Waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from leasehold.domain.entries import LeaseRequest, Record
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.batch import BatchRecords, BatchResult
    from leasehold.engine.pending import Pending
    from leasehold.errors import LeaseholdError
    from leasehold.stores.protocol import Store

_new: Final = new
_Granted: Final = Granted
_Queued: Final = Queued
_Check: Final = c.Check
_Sweep: Final = c.Sweep
_ENDS: Final = frozenset({"timeout", "cancelled", "deadlock"})
"""Kinds of events by which a wait is over."""
BEATS: Final = 3
"""For how many heartbeats this engine's waiters count as alive after each."""
LOOK_AGAIN: Final = 0.001
MOST_OF_THE_TIME: Final = 4
"""A look at all queues is followed by a pause of so many times its length."""
OVERDUE: Final = 1.0
"""So long after its time a wait goes on while the store says no: it may answer again in a moment."""
APART: Final = 1.0
"""If the store's clock and ours differ by so many seconds over a wait, one of them was set: then ours counts."""
AT_ONCE: Final = 100
"""How many waits are looked at in one turn after a silence."""


class Attendance:
    """The waiters of one engine."""

    def __init__(self, store: Store, clock: Callable[[], float], put_in: Callable[[Pending], None]) -> None:
        self._store = store
        self._clock = clock
        self._put_in = put_in
        """Into the engine's inbox."""
        self._waits = Waits()
        self._poll_at = 0.0
        self._beat_at = 0.0
        self._is_beating = False
        self._sees_all = False
        """Whether this turn looks at every node that somebody here waits for."""
        self._missing: list[Wait] = []
        """Whose place in the queue was not there at the last look."""
        self._was_waiting = False
        """Whether somebody waited here before this turn."""
        self._alive_until = 0
        """So long others count on those who wait here, by the store's clock."""
        self._to_reconsider: list[Wait] = []
        """Who did not count for a while, and may have become part of a cycle meanwhile."""
        self.has_presence = False
        """Whether the store was ever told that waiters of this engine are alive."""

    def __len__(self) -> int:
        return len(self._waits)

    def next_time(self) -> float:
        """When something has to be looked at although nobody asks."""
        if not len(self._waits):
            return NEVER
        if self._missing or self._to_reconsider:
            return 0.0
        at = self._waits.next_time()
        at = min(at, self._beat_at)
        return min(at, self._poll_at)

    # ------------------------------------------------------------------------------ before a batch

    def due(self) -> list[c.Command]:
        """What has to be looked at although nobody asked."""
        due: list[c.Command] = []
        if not len(self._waits):
            return due
        now = self._clock()
        is_beat = now >= self._beat_at
        if now >= self._poll_at:
            due += self._served_elsewhere(now)
        if self._missing:
            due += [c.Check(wait.id, wait.ask) for wait in self._missing if wait.id in self._waits]
            self._missing = []
        self._sees_all = is_beat
        if not is_beat and now < self._waits.next_time() and not self._to_reconsider:
            return due  # almost always: others are served because somebody gave something back
        due += [c.Check(wait.id, wait.ask, is_over=wait.deadline + APART <= now) for wait in self._waits.overdue(now)]
        due += self._reconsidered()
        nodes = dict.fromkeys(self._waits.changing(now))
        if is_beat:
            nodes.update(dict.fromkeys(self._waits.watched()))
        if nodes:
            due.append(c.Sweep(tuple(nodes)))
        return due

    def _reconsidered(self) -> list[c.Command]:
        some, self._to_reconsider = self._to_reconsider[:AT_ONCE], self._to_reconsider[AT_ONCE:]
        return [c.Reconsider(tuple(wait.id for wait in some))] if some else []

    def hinted(self) -> None:
        """The store has a hint for us: there is no need to sleep until the next look, unless that is to be seldom."""
        now = self._clock()
        if self._poll_at - now <= self._store.capabilities.poll / SECOND:
            self._poll_at = now

    def _served_elsewhere(self, now: float) -> list[c.Check]:
        """Waits whose place in the queue is gone because another process served or dropped them, if there is a hint.

        All hints may be lost: with each heartbeat the queues are looked at as well, see `learn`.
        """
        poll = self._store.capabilities.poll / SECOND
        self._poll_at = now + poll
        if not self._store.hint():
            return []
        _, records = self._store.read(tuple({keys.home(wait.id) for wait in self._waits.all()}))
        gone = [c.Check(wait.id, wait.ask) for wait in self._gone(records.get)]
        # Thousands may wait here while others write all the time: to look must never become all that is done.
        self._poll_at += min(MOST_OF_THE_TIME * (self._clock() - now), self._store.capabilities.beat / SECOND)
        return gone

    def _gone(self, look: Callable[[str], Record | None]) -> list[Wait]:
        """Whose place is not in the queue that it should be in."""
        places: dict[str, set[str]] = {}
        gone = []
        for wait in self._waits.all():
            home = keys.home(wait.id)
            if home not in places:
                record = look(home)
                places[home] = {waiter.id for waiter in record.waiters} if record is not None else set()
            if wait.id not in places[home]:
                gone.append(wait)
        return gone

    def beat(self, engine: str, outcomes: Sequence[Outcome | Exception], now: float) -> list[c.Command]:
        """At the end of each batch, if it is time: say that the waiters live, those included that have just queued."""
        self._was_waiting = len(self._waits) > 0
        self._is_beating = now >= self._beat_at and (
            self._was_waiting or any(isinstance(outcome, _Queued) for outcome in outcomes)
        )
        return [c.Beat(engine, BEATS * self._store.capabilities.beat)] if self._is_beating else []

    def look_again(self, failed: Sequence[c.Command], now: float) -> None:
        """The store said no when these were looked at: do it again."""
        for command in failed:
            wait = self._waits.get(command.waiter) if isinstance(command, c.Check) else None
            if wait is not None:
                self._waits.look_at_deadline(wait, now)
            if isinstance(command, c.Reconsider):
                found = (self._waits.get(id_) for id_ in command.waiters)
                self._to_reconsider += [each for each in found if each is not None]

    def tell_overdue(self, error: LeaseholdError, now: float) -> None:
        """The store says no for longer than these wanted to wait: they are told so, as nobody knows when it ends.

        Their places are given up once it answers again. Until then they are kept here: it may come out that one of them
        was served before, and then that is given back.
        """
        for wait in self._waits.all():
            if wait.deadline + OVERDUE <= now:
                for pending in [each for each in wait.pendings if not each.is_done]:
                    pending.abandoned = True
                    pending.fail(error)
                    self.give_back(pending, wait.id)

    # ------------------------------------------------------------------------------- after a batch

    def begin(self, pending: Pending, command: c.Acquire, id_: str, now: float) -> None:
        """Somebody has queued."""
        wait, deadline = self._waits.get(id_), now + command.wait / SECOND
        if wait is None:
            wait = Wait(id_, command.ask, deadline)
            self._waits.add(wait)
        elif deadline != wait.deadline:  # the same request again waits as long as it now says
            wait.deadline = deadline
            self._waits.look_at_deadline(wait, deadline)
        wait.pendings.append(pending)
        pending.waiter = id_
        if pending.abandoned:
            self.give_back(pending, id_)

    def serve(self, result: BatchResult) -> None:
        """Tell those who were granted what they waited for."""
        for id_, lease in result.picked_up.items():
            self._served(id_, lease, result.view)

    def learn(self, result: BatchResult, extra: Sequence[c.Command], decided_at: float) -> None:
        """What a batch did for those who wait. `extra`: what `due` asked for; its outcomes come last."""
        if self._is_beating:
            self._beat_at, self.has_presence = decided_at + self._store.capabilities.beat / SECOND, True
            if self._was_waiting and result.now >= self._alive_until:
                self._to_reconsider = self._waits.all()
            self._alive_until = result.now + BEATS * self._store.capabilities.beat
        if not len(self._waits):
            return
        # Before the checks, as a check of the same wait finds its answer given.
        self.serve(result)
        first = len(result.outcomes) - len(extra)
        for place, command in enumerate(extra):
            if isinstance(command, _Check):
                self._after_check(command.waiter, result.outcomes[first + place])
        self._end_dropped(result.events)
        self._look_ahead(result, extra, decided_at)
        if self._sees_all:
            self._sees_all = False
            self._missing = self._gone(result.view.get)

    def _after_check(self, id_: str, outcome: Outcome | Exception) -> None:
        wait = self._waits.get(id_)
        if wait is None:
            return
        if isinstance(outcome, Queued | Exception):
            # By the store's clock its time has not come yet (or the look itself failed): look again soon.
            self._waits.look_at_deadline(wait, max(wait.deadline, self._clock() + LOOK_AGAIN))
        elif isinstance(outcome, Done) or (isinstance(outcome, TimedOut) and self._is_early(wait)):
            self._ask_again(wait)
        else:
            self._end(id_, outcome)

    def _is_early(self, wait: Wait) -> bool:
        """True if only the store's clock, which was set forward, says that this wait is over."""
        return wait.deadline - self._clock() > APART

    def _served(self, id_: str, lease: Lease, view: BatchRecords) -> None:
        wait, home = self._waits.get(id_), view.get(keys.home(lease.id))
        hold = home.holds.get(lease.id) if home is not None else None
        if wait is not None and (hold is None or hold.closed):
            self._ask_again(wait)  # later in the same batch it was cancelled or forced: nobody is told that it has it
        else:
            self._end(id_, _new(_Granted, (lease, "", True, ())))

    def _ask_again(self, wait: Wait) -> None:
        """The place in the queue is gone without an answer: this process was not heard of for too long."""
        self._waits.remove(wait.id)
        left = int((wait.deadline - self._clock()) * SECOND)
        for pending in wait.pendings:
            pending.waiter = None
            if pending.is_done:  # see `tell_overdue`
                continue
            if left <= 0 or not isinstance(pending.command, c.Acquire):
                pending.resolve(_timed_out(wait))
                # A retry may have taken the place to another process, which must not be granted anything for this one.
                self.give_back(pending, wait.id)
            else:
                pending.command = pending.command._replace(wait=left)
                self._put_in(pending)

    def _end(self, id_: str, outcome: Outcome) -> None:
        wait = self._waits.remove(id_)
        for pending in wait.pendings if wait is not None else ():
            pending.waiter = None
            if not pending.is_done:  # see `tell_overdue`
                pending.resolve(outcome)
            if pending.abandoned and isinstance(outcome, _Granted):
                self.give_back(pending, outcome.lease.id)

    def give_back(self, pending: Pending, id_: str) -> None:
        """Whoever asked is gone: this place or lease is to be given back."""
        self._put_in(Errand(given_up(id_, pending)))

    def _end_dropped(self, events: Sequence[Event]) -> None:
        """Waits that ended as a side effect: in passing somebody noticed their deadline, or their session ended."""
        for event in events:
            if event.kind in _ENDS:
                wait = self._waits.get(str(event.detail.get("waiter")))
                if wait is None:
                    continue
                if "yours" in event.detail or (event.kind == "timeout" and self._is_early(wait)):
                    self._ask_again(wait)  # where only leases of its own are in the way, it is refused at once
                else:
                    self._end(wait.id, _how_it_ended(event, wait))

    def _look_ahead(self, result: BatchResult, extra: Sequence[c.Command], decided_at: float) -> None:
        """For each watched node that was looked at: be there the moment something on it runs out."""
        nodes = [node for node in result.view.changed if self._waits.is_watched(node)]
        for command in extra:
            if isinstance(command, _Sweep):
                nodes += [node for node in command.keys if self._waits.is_watched(node)]
        for node in nodes:
            record = result.view.get(node)
            at = next_change(record, result.now) if record is not None else None
            if at is not None:
                self._waits.look_again(node, decided_at + (at - result.now) / SECOND)

    # ------------------------------------------------------------------------------------- the end

    def everybody(self) -> list[tuple[str, Pending]]:
        """Everybody who waits, each with its place in the queue."""
        return [(wait.id, pending) for wait in self._waits.all() for pending in wait.pendings]

    def wanted(self) -> list[LeaseRequest]:
        """What each of them wants."""
        return [wait.ask for wait in self._waits.all()]

    def dismiss(self) -> None:
        """Nobody waits here any more."""
        for wait in self._waits.all():
            self._waits.remove(wait.id)


def given_up(id_: str, pending: Pending) -> c.GiveUp:
    """The command that gives back a place in the queue, or the lease that came of it."""
    command = pending.command.acquire if isinstance(pending.command, c.Steal) else pending.command
    if not isinstance(command, c.Acquire):
        raise TypeError(f"only who acquires is given something, not {command}")
    return c.GiveUp(id_, command.ask.tokens[0], command.ask.request)


def _how_it_ended(event: Event, wait: Wait) -> Outcome:
    if event.kind == "timeout":
        return _timed_out(wait)
    if event.detail.get("session_over"):
        return SESSION_OVER
    cycle = event.detail.get("cycle")
    if isinstance(cycle, list):
        return Deadlock(resources_of(wait.ask), tuple(map(str, cycle)))
    return Refused("cancelled", "request_id", str(event.detail.get("reason") or "the request was cancelled"))


def _timed_out(wait: Wait) -> TimedOut:
    return TimedOut(resources_of(wait.ask), (), Queue(0, 0), 0)
