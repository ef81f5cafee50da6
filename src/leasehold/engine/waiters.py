"""The requests that wait at one engine, and what it does for them meanwhile. The rules decide whom to serve.

It tells the store that the waiters are alive, checks the queue the moment a hold ends, and notices when another process
has served a waiter. An engine at which no request ever waited does not import this.
"""

from __future__ import annotations

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.leases import Queue
from leasehold.domain.outcomes import Deadlock, Done, Granted, Queued, Refused, TimedOut
from leasehold.domain.records import next_change, resources_of
from leasehold.domain.rules.granting import SESSION_OVER
from leasehold.domain.timestamps import SECOND
from leasehold.engine.pending import NEVER, Pending
from leasehold.engine.timers import WaitingRequest, WaitTimers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from leasehold.domain.entries import LeaseRequest, Record
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.batch import BatchRecords, BatchResult
    from leasehold.errors import LeaseholdError
    from leasehold.stores.protocol import Store

_ENDS: Final = frozenset({"timeout", "cancelled", "deadlock"})
"""Kinds of events that end a wait."""
CROWD: Final = 10
"""With more engines in a queue each has its heartbeat less often, so that all together commit no more of them."""
BEATS: Final = 3
"""After each heartbeat the waiters count as alive for this many beats."""
LOOK_AGAIN: Final = 0.001
"""Seconds until a wait is checked again that the store's clock does not call over yet."""
MOST_OF_THE_TIME: Final = 4
"""A check of all queues is followed by a pause of this many times its length."""
OVERDUE: Final = 1.0
"""Seconds that a wait goes on after its deadline while the store fails: it may recover in a moment."""
APART: Final = 1.0
"""If the store's clock and ours differ by this many seconds over a wait, one of them was set; then ours counts."""
FEW: Final = 4
"""For at most this many waits, a poll reads their actors, which are short, rather than the queues."""
WOKEN_POLL: Final = 2
"""An engine that other processes wake polls this many times less often."""
AT_ONCE: Final = 100
"""One turn checks at most this many waits for deadlocks after a silence."""


class Waiters:
    """The waiting requests of one engine."""

    def __init__(
        self, store: Store, engine: str, clock: Callable[[], float], put_in: Callable[[Pending], None]
    ) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._put_in = put_in
        """Adds a request to the engine's inbox."""
        self._waits = WaitTimers()
        self._poll_at = 0.0
        self.is_woken = False
        """True if other processes wake this one for waits of its own alone; polling is the fallback."""
        self._was_woken = False
        """True if another process has woken this one since the last check."""
        self._beat_at = 0.0
        self._is_beating = False
        self._beat = store.capabilities.beat
        """Microseconds from one heartbeat to the next."""
        self._sees_all = False
        """True while this turn checks every node that a request here waits for."""
        self._missing: list[WaitingRequest] = []
        """Requests whose place in the queue was gone at the last check."""
        self._was_waiting = False
        """True if a request waited here before this turn."""
        self._alive_until = 0
        """Until then other engines count these waiters as alive, by the store's clock."""
        self._to_reconsider: list[WaitingRequest] = []
        """Requests that did not count as alive for a while, and may be part of a cycle since."""
        self.has_presence = False
        """True once the store has a heartbeat of this engine."""

    def __len__(self) -> int:
        return len(self._waits)

    def next_time(self) -> float:
        """Return when the engine must turn for its waiters, on its own clock."""
        if not len(self._waits):
            return NEVER
        if self._missing or self._to_reconsider:
            return 0.0
        return min(self._waits.next_time(), self._beat_at, self._poll_at)

    # ------------------------------------------------------------------------------ before a batch

    def due(self) -> list[c.Command]:
        """Return the commands that the waiters need now."""
        due: list[c.Command] = []
        if not len(self._waits):
            return due
        now = self._clock()
        is_beat = now >= self._beat_at
        if now >= self._poll_at:
            due += self._served_elsewhere(now)
        if self._missing:
            due += [c.Check(wait.id, wait.ask) for wait in self._missing if self._waits.get(wait.id) is not None]
            self._missing = []
        self._sees_all = is_beat
        if not is_beat and now < self._waits.next_time() and not self._to_reconsider:
            return due  # nearly always: most waiters are served by the release of another caller
        due += [c.Check(wait.id, wait.ask, is_over=wait.deadline + APART <= now) for wait in self._waits.overdue(now)]
        some, self._to_reconsider = self._to_reconsider[:AT_ONCE], self._to_reconsider[AT_ONCE:]
        if some:
            due.append(c.Reconsider(tuple([wait.id for wait in some])))
        nodes = dict.fromkeys(self._over(self._waits.changing(now), now))
        if is_beat:
            nodes.update(dict.fromkeys(self._waits.watched()))
        if nodes:
            due.append(c.Sweep(tuple(nodes)))
        return due

    def wake(self) -> None:
        """Check the waits now, unless a check of all queues has put the next one off. Called from any thread."""
        now = self._clock()
        if self._poll_at - now <= self._poll():
            self._was_woken = self.is_woken
            self._poll_at = now

    def _poll(self) -> float:
        """Return the seconds from one check for hints to the next."""
        poll = self._store.capabilities.poll / SECOND
        return WOKEN_POLL * poll if self.is_woken else poll

    def _served_elsewhere(self, now: float) -> list[c.Check]:
        """Return a check for each request whose place another process removed, if the store has a hint.

        All hints may be lost: each heartbeat checks the queues as well, see `learn`.
        """
        self._poll_at = now + self._poll()
        was_woken, self._was_woken = self._was_woken, False
        if was_woken and len(self._waits) == 1:
            return [c.Check(wait.id, wait.ask) for wait in self._waits.all()]  # no need to look which one it is
        if not self._store.hint() and not was_woken:
            return []
        if len(self._waits) <= FEW and not any(wait.was_sent_elsewhere for wait in self._waits.all()):
            _, records = self._store.read(tuple({wait.actor for wait in self._waits.all()}))
            gone = [wait for wait in self._waits.all() if wait.id not in records[wait.actor].notes]
        else:
            _, records = self._store.read(tuple({keys.home(wait.id) for wait in self._waits.all()}))
            gone = self._gone(records.get)
        # Thousands may wait here while others write all the time: checking must not take all the time there is.
        self._poll_at += min(MOST_OF_THE_TIME * (self._clock() - now), self._store.capabilities.beat / SECOND)
        return [c.Check(wait.id, wait.ask) for wait in gone]

    def _over(self, nodes: Sequence[str], now: float) -> list[str]:
        """Return the nodes on which a hold is over, without those that the process of the first waiter has checked."""
        backups = [node for node in nodes if self._waits.was_backup(node)]
        if not backups:
            return list(nodes)
        over = [node for node in nodes if node not in backups]
        time, records = self._store.read(backups)
        for node in backups:
            if any(hold.expires_at <= time for hold in records[node].holds.values()):
                over.append(node)
            else:
                self._plan_check(node, records[node], time, now)
        return over

    def _gone(self, look: Callable[[str], Record | None]) -> list[WaitingRequest]:
        """Return the requests whose place is not in the queue, or was taken by a copy that another server received."""
        places: dict[str, dict[str, str]] = {}
        gone = []
        for wait in self._waits.all():
            home = keys.home(wait.id)
            if home not in places:
                record = look(home)
                places[home] = {each.id: each.engine for each in record.waiters} if record is not None else {}
            engine = places[home].get(wait.id)
            if engine is None or (engine != self._engine and wait.was_sent_elsewhere):
                gone.append(wait)
        return gone

    def beat(self, engine: str, outcomes: Sequence[Outcome | Exception], now: float) -> list[c.Command]:
        """Return a heartbeat if it is time. It counts for requests that have just queued, too."""
        self._was_waiting = len(self._waits) > 0
        is_any = self._was_waiting or any(isinstance(outcome, Queued) for outcome in outcomes)
        self._is_beating = now >= self._beat_at and is_any
        return [c.Beat(engine, BEATS * self._beat)] if self._is_beating else []

    def check_again(self, failed: Sequence[c.Command], now: float) -> None:
        """Repeat these checks, during which the store failed."""
        for command in failed:
            wait = self._waits.get(command.waiter) if isinstance(command, c.Check) else None
            if wait is not None:
                self._waits.check_request(wait, now)
            if isinstance(command, c.Reconsider):
                found = (self._waits.get(id_) for id_ in command.waiters)
                self._to_reconsider += [each for each in found if each is not None]

    def fail_overdue(self, error: LeaseholdError, now: float) -> None:
        """Fail the requests whose time to wait passed while the store failed.

        They leave the queue once the store answers again. Until then they are kept here: if one of them was served
        before the failure, its lease is released.
        """
        for wait in self._waits.all():
            if wait.deadline + OVERDUE <= now:
                for pending in [each for each in wait.pendings if not each.is_done]:
                    pending.abandoned = True
                    pending.fail(error)
                    self.release_unwanted(pending, wait.id)

    # ------------------------------------------------------------------------------- after a batch

    def begin(self, pending: Pending, command: c.Acquire, id_: str, now: float) -> None:
        """Wait for this request, which has queued."""
        wait, deadline = self._waits.get(id_), now + command.wait / SECOND
        if wait is None:
            wait = WaitingRequest(id_, command.actor, command.ask, deadline)
            self._waits.add(wait)
        elif deadline != wait.deadline:  # the same request again waits as long as it now says
            wait.deadline = deadline
            self._waits.check_request(wait, deadline)
        wait.pendings.append(pending)
        pending.waiter = id_
        if pending.abandoned:
            self.release_unwanted(pending, id_)

    def serve(self, result: BatchResult) -> None:
        """Answer the requests that this batch granted."""
        for id_, lease in result.picked_up.items():
            self._served(id_, lease, result.view)

    def learn(self, result: BatchResult, extra: Sequence[c.Command], decided_at: float) -> None:
        """Learn what a batch did for the waiters. `extra` are the commands of `due`; their outcomes come last."""
        if self._is_beating:
            self._beat_at, self.has_presence = decided_at + self._beat / SECOND, True
            if self._was_waiting and result.now >= self._alive_until:
                self._to_reconsider = self._waits.all()
            self._alive_until = result.now + BEATS * self._beat
            self._beat = self._next_beat(result.view)  # from the next heartbeat on: this one counts for its own time
        if not len(self._waits):
            return
        # Before the checks, because a check of the same request finds its answer given.
        self.serve(result)
        first = len(result.outcomes) - len(extra)
        for place, command in enumerate(extra):
            if isinstance(command, c.Check):
                self._after_check(command.waiter, result.outcomes[first + place])
        self._end_dropped(result.events)
        self._plan_checks(result, extra, decided_at)
        if self._sees_all:
            self._sees_all = False
            self._missing = self._gone(result.view.get)

    def _next_beat(self, view: BatchRecords) -> int:
        """Return the microseconds between heartbeats, by the number of engines in the longest queue here."""
        most = CROWD
        for node in self._waits.watched():
            record = view.get(node)
            if record is not None and len(record.waiters) > most:
                most = max(most, len({waiter.engine for waiter in record.waiters}))
        return self._store.capabilities.beat * most // CROWD

    def _after_check(self, id_: str, outcome: Outcome | Exception) -> None:
        wait = self._waits.get(id_)
        if wait is None:
            return
        if isinstance(outcome, Queued | Exception):
            # By the store's clock the deadline has not come yet, or the check itself failed: check again soon.
            self._waits.check_request(wait, max(wait.deadline, self._clock() + LOOK_AGAIN))
        elif isinstance(outcome, Done) or (isinstance(outcome, TimedOut) and self._is_early(wait)):
            self._ask_again(wait)
        else:
            self._end(id_, outcome)

    def _is_early(self, wait: WaitingRequest) -> bool:
        """Return True if the wait is over only by the store's clock, because that was set forward."""
        return wait.deadline - self._clock() > APART

    def _served(self, id_: str, lease: Lease, view: BatchRecords) -> None:
        wait, home = self._waits.get(id_), view.get(keys.home(lease.id))
        hold = home.holds.get(lease.id) if home is not None else None
        if wait is not None and (hold is None or hold.closed):
            self._ask_again(wait)  # cancelled or forced later in the same batch: report no grant
        else:
            self._end(id_, Granted(lease, "", True))

    def _ask_again(self, wait: WaitingRequest) -> None:
        """Queue again: the place is gone without an answer, because the store heard nothing of this engine for long."""
        self._waits.remove(wait.id)
        left = int((wait.deadline - self._clock()) * SECOND)
        for pending in wait.pendings:
            pending.waiter = None
            if pending.is_done:  # see `fail_overdue`
                continue
            if left <= 0 or not isinstance(pending.command, c.Acquire):
                pending.resolve(_timed_out(wait))
                # A retry may have moved the place to another process, which must not be granted anything for this one.
                self.release_unwanted(pending, wait.id)
            else:
                pending.command = pending.command._replace(wait=left, first=False)
                self._put_in(pending)

    def _end(self, id_: str, outcome: Outcome) -> None:
        wait = self._waits.remove(id_)
        for pending in wait.pendings if wait is not None else ():
            pending.waiter = None
            if not pending.is_done:  # see `fail_overdue`
                pending.resolve(outcome)
            if pending.abandoned and isinstance(outcome, Granted):
                self.release_unwanted(pending, outcome.lease.id)

    def release_unwanted(self, pending: Pending, id_: str) -> None:
        """Give up the place or the lease of this id, whose caller has disconnected."""
        self._put_in(giving_up(id_, pending))

    def _end_dropped(self, events: Sequence[Event]) -> None:
        """End the waits that a command ended on its way: their deadline had passed, or their session is over."""
        for event in events:
            if event.kind in _ENDS:
                wait = self._waits.get(str(event.detail.get("waiter")))
                if wait is None:
                    continue
                if "yours" in event.detail or (event.kind == "timeout" and self._is_early(wait)):
                    self._ask_again(wait)  # where only leases of its own are in the way, it is refused at once
                else:
                    self._end(wait.id, _how_it_ended(event, wait))

    def _plan_checks(self, result: BatchResult, extra: Sequence[c.Command], decided_at: float) -> None:
        """Check each watched node of this batch again the moment its next hold ends."""
        nodes = [node for node in result.view.changed if self._waits.is_watched(node)]
        for command in extra:
            if isinstance(command, c.Sweep):
                nodes += [node for node in command.keys if self._waits.is_watched(node)]
        for node in nodes:
            record = result.view.get(node)
            if record is not None:
                self._plan_check(node, record, result.now, decided_at)

    def _plan_check(self, node: str, record: Record, now: int, here: float) -> None:
        """Check this node when its next hold ends: at once if our waiter is the first, else in case the first is dead.

        `now` is the store's time and `here` the same on our clock.
        """
        at = next_change(record, now)
        if at is None:
            return
        is_first = not record.waiters or record.waiters[0].engine == self._engine
        self._waits.check_node(node, here + (at - now) / SECOND, 0.0 if is_first else self._poll())

    # ------------------------------------------------------------------------------------- the end

    def everybody(self) -> list[tuple[str, Pending]]:
        """Return each pending request with its place in the queue."""
        return [(wait.id, pending) for wait in self._waits.all() for pending in wait.pendings]

    def wanted(self) -> list[LeaseRequest]:
        """Return what each of them wants."""
        return [wait.ask for wait in self._waits.all()]

    def clear(self) -> None:
        """Forget all waiting requests."""
        for wait in self._waits.all():
            self._waits.remove(wait.id)


def giving_up(id_: str, pending: Pending) -> Pending:
    """Return an internal request that gives up a place in the queue, or the lease that came of it."""
    gives_up = Pending(give_up(id_, pending))
    gives_up.is_internal = True
    return gives_up


def give_up(id_: str, pending: Pending) -> c.GiveUp:
    """Return the command that gives up a place in the queue, or the lease that came of it."""
    command = pending.command.acquire if isinstance(pending.command, c.Steal) else pending.command
    if not isinstance(command, c.Acquire):
        raise TypeError(f"only an acquire has a place or a lease to give up, not {command}")
    told = pending.outcome.lease.expires_us if isinstance(pending.outcome, Granted) else None
    return c.GiveUp(id_, command.ask.tokens[0], command.ask.request, told)


def _how_it_ended(event: Event, wait: WaitingRequest) -> Outcome:
    if event.kind == "timeout":
        return _timed_out(wait)
    if event.detail.get("session_over"):
        return SESSION_OVER
    if isinstance(cycle := event.detail.get("cycle"), list):
        return Deadlock(resources_of(wait.ask), tuple(map(str, cycle)))
    return Refused("cancelled", "request_id", str(event.detail.get("reason") or "the request was cancelled"))


def _timed_out(wait: WaitingRequest) -> TimedOut:
    return TimedOut(resources_of(wait.ask), (), Queue(0, 0), 0)
