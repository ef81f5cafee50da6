"""The actor: inbox → batch → one store transaction → answers. It decides nothing about who gets a lease.

An engine is a plain object that somebody drives (see ``drivers``): a thread of its own, an event loop, or the
caller itself. `submit` may be called from any thread; `turn` from one at a time.

It also keeps those who wait: it tells the store that they are alive, looks again the moment a hold runs out, and
notices when another process has served one of them. Notifications are hints: with all of them lost, the next
heartbeat serves whoever can be served.
"""

from __future__ import annotations

import os
import time
from collections import deque

from leasehold import batch, keys
from leasehold import commands as c
from leasehold.errors import Closed, LeaseholdError
from leasehold.model import SECOND, Collected, Done, Granted, Queue, Queued, Refused, TimedOut
from leasehold.pending import Errand, Pending
from leasehold.rules.timing import next_change
from leasehold.waits import Wait, Waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.batch import Result, View
    from leasehold.model import Event, Lease, Outcome
    from leasehold.stores import Store, Transaction

BATCH = 1_024
"""At most this many commands a transaction."""
LIFE = 3 * SECOND // 2
"""How long this engine's waiters count as alive after each heartbeat."""
BEAT_EVERY = 0.5
SWEEP_EVERY = 1.0
SWEEP_AT_ONCE = 256
EVERYTHING = 100_000
PRUNE_EVERY = 3_600.0
LOOK_AGAIN = 0.001
TROUBLE_PAUSE = 0.2
"""After a failed transaction, what nobody asked for (sweeps, heartbeats) is tried again this much later."""


class Engine:
    """One inbox on one store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        engine_id: str = "",
        housekeeping: bool = False,
    ) -> None:
        self.store = store
        self.key = keys.engine(engine_id or os.urandom(16).hex())
        self.wake: Callable[[], None] = _nobody
        """Called after each `submit`: whoever drives this engine is told that there is work."""
        self.observe: Callable[[Sequence[Event]], None] | None = None
        """Called with the events of each committed batch."""
        self._clock = clock
        self._inbox: deque[Pending] = deque()
        self._errands: list[Pending] = []
        """What has to be tried again after a failed transaction."""
        self._unresolved: tuple[batch.Unresolved, list[Pending], list[c.Command]] | None = None
        """A batch of which nobody knows yet whether it was committed."""
        self._waits = Waits()
        self._closed = False
        self._beat_at = 0.0
        self._poll_at = 0.0
        self._sweep_at = 0.0
        self._prune_at = clock() + PRUNE_EVERY
        self._trouble_until = 0.0
        self._has_presence = False
        self._beating = False
        self._collecting = False
        self.collected: Collected | LeaseholdError = Collected(0, 0)
        """What the last collection found, or how it broke."""
        self._swept = 0
        self._sweeping = False
        self._decided_at = 0.0
        self._housekeeping = housekeeping
        """Whether it sweeps every second although nobody asks anything, as a server does."""

    # ---------------------------------------------------------------------------------------- asking

    def submit(self, command: c.Command, token: str = "", done: Callable[[Pending], None] | None = None) -> Pending:
        """Ask; `done` is called with the answer, from the thread that drives."""
        pending = Pending(command, token, done)
        if self._closed:
            pending.fail(_closed())
            return pending
        self._inbox.append(pending)
        if self._closed and self._take_back(pending):  # while we came in, the other side was closing
            pending.fail(_closed())
        self.wake()
        return pending

    def _take_back(self, pending: Pending) -> bool:
        """Whether it was still in the inbox: whoever takes it out answers it, and nobody else."""
        try:
            self._inbox.remove(pending)
        except ValueError:
            return False
        return True

    def abandon(self, pending: Pending) -> None:
        """Whoever asked is gone: out of the queue, and what it was granted is given back."""
        pending.abandoned = True
        if pending.waiter is not None or isinstance(pending.outcome, Granted):
            self._give_up(pending)

    def _give_up(self, pending: Pending) -> None:
        given = pending.outcome.lease.id if isinstance(pending.outcome, Granted) else pending.waiter
        if given is not None and not self._closed:
            self._inbox.append(Errand(_given_up(given, pending)))
            self.wake()

    def collect_soon(self) -> None:
        """With the next turn: sweep everything that is due, and trim the history; see `collected`."""
        self._collecting = True

    @property
    def has_work(self) -> bool:
        """Whether somebody has asked something that was not looked at yet."""
        return bool(self._inbox)

    @property
    def waiting(self) -> int:
        """How many callers are in a queue."""
        return len(self._waits)

    def next_time(self) -> float | None:
        """When `turn` must be called although nobody asks, on the engine's clock; None: when somebody asks."""
        times = [self._beat_at, self._poll_at, self._waits.next_time()] if self._waits else []
        if self._housekeeping:
            times.append(self._sweep_at)
        if self._errands or self._unresolved is not None:
            times.append(self._trouble_until)
        known = [each for each in times if each is not None]
        return max(min(known), self._trouble_until) if known else None

    # ------------------------------------------------------------------------------------- one turn

    def turn(self) -> None:
        """Take what has arrived, decide and commit it as one transaction, answer."""
        asked = self._take()
        try:
            self._turn(asked)
        except Exception as error:
            self._break_down(asked, error)
            raise

    def _turn(self, asked: list[Pending]) -> None:
        now = self._clock()
        extra: list[c.Command] = []
        try:
            if self._unresolved is not None and (asked or now >= self._trouble_until):
                self._resolve(*self._unresolved)
            if self._waits and now >= self._trouble_until:
                extra = self._due_now()
            if not (asked or extra or (self._housekeeping and now >= self._sweep_at)):
                return
            result = batch.run(self.store, [*(each.command for each in asked), *extra], self.key, self._closing)
        except LeaseholdError as error:
            if isinstance(error, batch.Unresolved):
                self._unresolved = (error, asked, extra)
            self._fail(asked, extra, error)
            return
        if self._collecting or self._decided_at >= self._prune_at:
            self._collect()
        self._answer(asked, extra, result)

    def _resolve(self, lost: batch.Unresolved, asked: list[Pending], extra: list[c.Command]) -> None:
        """Ask the store what became of a batch that nobody could tell.

        Those who wait are told what it did for them. Whoever asked was told that nobody knows and has gone away: what
        it was given is given back.
        """
        is_there = batch.happened(self.store, lost.receipt)
        self._unresolved = None
        if not is_there or lost.result is None:
            return
        for pending, outcome in zip(asked, lost.result.outcomes, strict=False):
            given = outcome.lease.id if isinstance(outcome, Granted) else None
            given = outcome.waiter if isinstance(outcome, Queued) else given
            if given is not None:
                self._inbox.append(Errand(_given_up(given, pending)))
        self._answer([], extra, lost.result._replace(outcomes=lost.result.outcomes[len(asked) :]))

    def _fail(self, asked: list[Pending], extra: list[c.Command], error: LeaseholdError) -> None:
        """The store said no: tell whoever asked. What nobody asked for is looked at again after a pause."""
        now = self._clock()
        self._trouble_until = now + TROUBLE_PAUSE
        self._errands += [each for each in asked if isinstance(each, Errand)]
        for command in extra:
            wait = self._waits.get(command.waiter) if isinstance(command, c.Check) else None
            if wait is not None:
                self._waits.look_at_deadline(wait, now)
        for pending in asked:
            if not isinstance(pending, Errand):
                pending.fail(error)

    def _collect(self) -> None:
        """Trim the history; whatever comes of it, those who asked something get their answers."""
        self._prune_at = self._decided_at + PRUNE_EVERY
        self._collecting = False
        try:
            self.collected = Collected(self._swept, self.store.prune())
        except LeaseholdError as error:
            self.collected = error

    def _take(self) -> list[Pending]:
        inbox = self._inbox
        taken: list[Pending] = []
        if self._errands and self._clock() >= self._trouble_until:
            taken, self._errands = self._errands, []
        while inbox and len(taken) < BATCH:
            pending = inbox.popleft()
            if pending.abandoned:
                pending.fail(Closed("whoever asked is gone"))
            else:
                taken.append(pending)
        return taken

    def _due_now(self) -> list[c.Command]:
        """What has to be looked at although nobody asked."""
        now = self._clock()
        is_beat = now >= self._beat_at
        due: list[c.Command] = []
        if is_beat or now >= self._poll_at:
            self._poll_at = now + self.store.capabilities.poll / SECOND
            due.extend(self._served_elsewhere(certainly=is_beat))
        due.extend(c.Check(wait.id, wait.ask) for wait in self._waits.overdue(now))
        nodes = dict.fromkeys(self._waits.changing(now))
        if is_beat:
            nodes.update(dict.fromkeys(self._waits.watched()))
        if nodes:
            due.append(c.Sweep(tuple(nodes)))
        return due

    def _served_elsewhere(self, *, certainly: bool) -> list[c.Command]:
        """Waits whose place in the queue is gone because another process served or dropped them.

        `certainly`: look even without a hint, since all of them may have been lost.
        """
        if not self.store.hint() and not certainly:
            return []
        _, records = self.store.read(tuple({keys.home(wait.id) for wait in self._waits.all()}))
        places = {waiter.id for record in records.values() for waiter in record.waiters}
        return [c.Check(wait.id, wait.ask) for wait in self._waits.all() if wait.id not in places]

    def _closing(self, outcomes: Sequence[Outcome | Exception], transaction: Transaction) -> list[c.Command]:
        """At the end of each batch: say that the waiters live, and sweep a little."""
        self._decided_at = now = self._clock()
        more: list[c.Command] = []
        self._beating = now >= self._beat_at and (
            bool(self._waits) or any(isinstance(outcome, Queued) for outcome in outcomes)
        )
        if self._beating:
            more.append(c.Beat(self.key, LIFE))
        self._sweeping = self._collecting or now >= self._sweep_at
        due = transaction.due(EVERYTHING if self._collecting else SWEEP_AT_ONCE) if self._sweeping else ()
        if self._collecting:
            self._swept = len(due)
        if due:
            more.append(c.Sweep(tuple(due)))
        return more

    # --------------------------------------------------------------------------------------- answers

    def _answer(self, asked: list[Pending], extra: list[c.Command], result: Result) -> None:
        if self._beating:
            self._beat_at, self._has_presence = self._decided_at + BEAT_EVERY, True
        if self._sweeping:
            self._sweep_at = self._decided_at + SWEEP_EVERY
        for pending, outcome in zip(asked, result.outcomes, strict=False):
            self._answer_one(pending, outcome)
        # After those who asked, as some of them may have queued and been served in this very batch; before the checks,
        # as a check of the same wait finds its answer given.
        for id_, lease in result.picked_up.items():
            self._served(id_, lease, result.view)
        for command, outcome in zip(extra, result.outcomes[len(asked) :], strict=True):
            if isinstance(command, c.Check):
                self._after_check(command.waiter, outcome)
        self._end_dropped(result.events)
        self._look_ahead(result, extra)
        if self.observe is not None and result.events:
            self.observe(result.events)

    def _answer_one(self, pending: Pending, outcome: Outcome | Exception) -> None:
        if isinstance(outcome, Exception):
            pending.fail(outcome)
        elif isinstance(outcome, Queued) and isinstance(pending.command, c.Acquire):
            self._begin_wait(pending, pending.command, outcome.waiter)
        else:
            pending.resolve(outcome)
            if pending.abandoned:
                self._give_up(pending)

    def _begin_wait(self, pending: Pending, command: c.Acquire, id_: str) -> None:
        wait, deadline = self._waits.get(id_), self._decided_at + command.wait / SECOND
        if wait is None:
            wait = Wait(id_, command.ask, deadline)
            self._waits.add(wait)
        elif deadline != wait.deadline:  # the same request again waits as long as it now says
            wait.deadline = deadline
            self._waits.look_at_deadline(wait, deadline)
        wait.pendings.append(pending)
        pending.waiter = id_
        if pending.abandoned:
            self._give_up(pending)

    def _after_check(self, id_: str, outcome: Outcome | Exception) -> None:
        wait = self._waits.get(id_)
        if wait is None:
            return
        if isinstance(outcome, Queued | Exception):
            # By the store's clock its time has not come yet (or the look itself failed): look again soon.
            self._waits.look_at_deadline(wait, max(wait.deadline, self._clock() + LOOK_AGAIN))
        elif isinstance(outcome, Done):
            self._ask_again(wait)
        else:
            self._end_wait(id_, outcome)

    def _served(self, id_: str, lease: Lease, view: View) -> None:
        wait, home = self._waits.get(id_), view.get(keys.home(lease.id))
        hold = home.holds.get(lease.id) if home is not None else None
        if wait is not None and (hold is None or hold.closed):
            self._ask_again(wait)  # later in the same batch it was cancelled or forced: nobody is told that it has it
        else:
            self._end_wait(id_, Granted(lease, "", fresh=True))

    def _ask_again(self, wait: Wait) -> None:
        """The place in the queue is gone without an answer: this process was not heard of for too long."""
        self._waits.remove(wait.id)
        left = int((wait.deadline - self._clock()) * SECOND)
        for pending in wait.pendings:
            pending.waiter = None
            if left <= 0 or not isinstance(pending.command, c.Acquire):
                pending.resolve(_timed_out(wait))
                # A retry may have taken the place to another process, which must not be granted anything for this one.
                self._inbox.append(Errand(_given_up(wait.id, pending)))
            else:
                pending.command = pending.command._replace(wait=left)
                self._inbox.append(pending)

    def _end_wait(self, id_: str, outcome: Outcome) -> None:
        wait = self._waits.remove(id_)
        for pending in wait.pendings if wait is not None else ():
            pending.waiter = None
            pending.resolve(outcome)
            if pending.abandoned:
                self._give_up(pending)

    def _end_dropped(self, events: Sequence[Event]) -> None:
        """Waits that ended as a side effect: in passing somebody noticed their deadline, or their session ended."""
        for event in events:
            if event.kind in ("timeout", "cancelled"):
                wait = self._waits.get(str(event.detail.get("waiter")))
                if wait is not None:
                    why = str(event.detail.get("reason") or "the request was cancelled")
                    over = _timed_out(wait) if event.kind == "timeout" else Refused("cancelled", "request_id", why)
                    self._end_wait(wait.id, over)

    def _look_ahead(self, result: Result, extra: list[c.Command]) -> None:
        """For each watched node that was looked at: be there the moment something on it runs out."""
        if not self._waits:
            return
        nodes = dict.fromkeys(result.view.changed)
        for command in extra:
            if isinstance(command, c.Sweep):
                nodes.update(dict.fromkeys(command.keys))
        for node in nodes:
            if self._waits.is_watched(node):
                record = result.view.get(node)
                at = next_change(record, result.now) if record is not None else None
                if at is not None:
                    self._waits.look_again(node, self._decided_at + (at - result.now) / SECOND)

    # ---------------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Answer everybody, leave every queue. The store stays open: whoever opened it closes it."""
        if self._closed:
            return
        self._closed = True
        left = self._take_all()
        for pending in left:
            pending.fail(_closed())
        waits = self._waits.all()
        leaving = [each.command for each in left if isinstance(each, Errand)]
        leaving += [_given_up(wait.id, pending) for wait in waits for pending in wait.pendings]
        try:
            if leaving or self._has_presence:
                batch.run(self.store, [*leaving, c.Beat(self.key, None)], self.key, _nothing_more)
        finally:
            for wait in waits:
                self._waits.remove(wait.id)
                for pending in wait.pendings:
                    pending.fail(_closed())

    def _break_down(self, asked: list[Pending], error: Exception) -> None:
        """Something happened that never should, here or in the store: nobody may wait for an answer for ever."""
        self._closed = True
        waiting = [pending for wait in self._waits.all() for pending in wait.pendings]
        for pending in (*asked, *self._take_all(), *waiting):
            if not pending.is_done:
                pending.fail(error)

    def _take_all(self) -> list[Pending]:
        taken, self._errands = self._errands, []
        while self._inbox:
            try:
                taken.append(self._inbox.popleft())
            except IndexError:  # whoever had just put it there has taken it back
                break
        return taken


def _timed_out(wait: Wait) -> TimedOut:
    resources = tuple(name for option in wait.ask.options for name in option.resources)
    return TimedOut(resources, (), Queue(0, 0), 0)


def _given_up(id_: str, pending: Pending) -> c.GiveUp:
    command = pending.command.acquire if isinstance(pending.command, c.Steal) else pending.command
    if not isinstance(command, c.Acquire):
        raise TypeError(f"only who acquires is given something, not {command}")
    return c.GiveUp(id_, command.ask.tokens[0], command.ask.request)


def _nobody() -> None:
    """Nobody drives this engine but the caller."""


def _nothing_more(_outcomes: Sequence[Outcome | Exception], _transaction: Transaction) -> list[c.Command]:
    return []


def _closed() -> Closed:
    return Closed("these locks are closed; connect again")
