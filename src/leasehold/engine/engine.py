"""The actor: inbox → batch → one store transaction → answers. It decides nothing about who gets a lease.

An engine is a plain object that somebody drives (see ``drivers``): a thread of its own, an event loop, or the
caller itself. `submit` may be called from any thread; `turn` from one at a time.

Those who wait are kept by its ``attendance``, and clearing up is done by its ``collection``, a little each turn.
"""

from __future__ import annotations

import os
import time

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.outcomes import Done, Granted, Queued, Released
from leasehold.domain.timestamps import SECOND
from leasehold.engine import batch
from leasehold.engine.pending import NEVER, Errand, Pending
from leasehold.errors import CLOSED, Closed, LeaseholdError
from leasehold.steps import through
from leasehold.stores import is_networked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sequence
    from typing import Final

    from leasehold.domain.entries import LeaseRequest
    from leasehold.domain.events import Event
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.batch import BatchResult
    from leasehold.engine.cleanup import Collection
    from leasehold.engine.waiters import Attendance
    from leasehold.steps import Steps
    from leasehold.stores.protocol import Store, Transaction

_Queued: Final = Queued
_Released: Final = Released
_Granted: Final = Granted
_Acquire: Final = c.Acquire
BATCH: Final = 1_024
"""At most this many commands a transaction."""
SWEEP_EVERY: Final = 1.0
SWEEP_AT_ONCE: Final = 256
FORGET_EVERY: Final = 3_600.0
"""How often old history is looked for."""
_UNUSUAL: Final = (Exception, Queued, Done)
"""What is not simply told to whoever asked."""
_GIVING_BACK: Final = (c.Release, c.EndSession, c.Cancel)
"""What is done although whoever asked is gone: left undone, it would keep others out until a lease expires."""
KEPT: Final = 5 * SECOND
"""So long the places of those who come back to another engine are kept when this one goes."""
TROUBLE_PAUSE: Final = 0.2
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
        self._inbox = _inbox()
        self._errands: list[Pending] = []
        """What has to be tried again after a failed transaction."""
        self._unresolved: tuple[batch.Unresolved, list[Pending], list[c.Command]] | None = None
        """A batch of which nobody knows yet whether it was committed."""
        self._attendance: Attendance | None = None
        """Those who wait, since the first that did."""
        self._collection: Collection | None = None
        """The clearing up that is under way."""
        self._closed = False
        self._sweep_at = 0.0
        self._is_sweeping = False
        """Whether this turn looks for what is due,"""
        self._swept: tuple[str, ...] | None = None
        """and what it swept; None: it did not."""
        self._forget_at = clock() + FORGET_EVERY
        self._trouble_until = 0.0
        self._decided_at = 0.0
        self._housekeeping = housekeeping
        """Whether it sweeps every second although nobody asks anything, as a server does."""

        if is_networked(store):
            store.tell_hints(self._hinted)

    def _hinted(self) -> None:
        """The store has a hint, and says so at once; from any thread."""
        attendance = self._attendance
        if attendance is not None and len(attendance):
            attendance.hinted()
            self.wake()

    # ---------------------------------------------------------------------------------------- asking

    def submit(self, command: c.Command, token: str = "", done: Callable[[Pending], None] | None = None) -> Pending:
        """Ask; `done` is called with the answer, from the thread that drives.

        Who asks for a `Sweep` is answered once everything that is due was swept and the history is trimmed.
        """
        pending = Pending(command, token, done)
        self.enter(pending)
        return pending

    def enter(self, pending: Pending) -> None:
        """The same, of what somebody has ready."""
        if self._closed:
            pending.fail(_closed())
            return
        self._inbox.append(pending)
        if self._closed and self._take_back(pending):  # while we came in, the other side was closing
            pending.fail(_closed())
        self.wake()

    def _take_back(self, pending: Pending) -> bool:
        """Whether it was still in the inbox: whoever takes it out answers it, and nobody else."""
        try:
            self._inbox.remove(pending)
        except ValueError:
            return False
        return True

    def abandon(self, pending: Pending) -> None:
        """Whoever asked is gone: out of the queue; what it was granted, or was about to give back, is given back."""
        pending.abandoned = True
        if pending.waiter is not None or isinstance(pending.outcome, Granted):
            self._give_up(pending)

    def _give_up(self, pending: Pending) -> None:
        given = pending.outcome.lease.id if isinstance(pending.outcome, Granted) else pending.waiter
        if given is not None and not self._closed:
            self._give_back(given, pending)
            self.wake()

    def _give_back(self, given: str, pending: Pending) -> None:
        from leasehold.engine.waiters import given_up  # noqa: PLC0415 (rare)

        self._put_in(Errand(given_up(given, pending)))

    @property
    def has_work(self) -> bool:
        """Whether somebody has asked something that was not looked at yet."""
        return bool(self._inbox)

    @property
    def backlog(self) -> int:
        """How much was asked that was not looked at yet."""
        return len(self._inbox)

    @property
    def waiting(self) -> int:
        """How many callers are in a queue."""
        return len(self._attendance) if self._attendance is not None else 0

    def wanted(self) -> list[LeaseRequest]:
        """What those want who are in a queue."""
        return self._attendance.wanted() if self._attendance is not None else []

    def next_time(self) -> float | None:
        """When `turn` must be called although nobody asks, on the engine's clock; None: when somebody asks."""
        at = self._attendance.next_time() if self._attendance is not None else NEVER
        if self._housekeeping and self._sweep_at < at:
            at = self._sweep_at
        if self._collection is not None and self._collection.at < at:
            at = self._collection.at
        if self._errands or self._unresolved is not None:
            at = min(at, self._trouble_until)
        if at == NEVER:
            return None
        return max(self._trouble_until, at)

    # ------------------------------------------------------------------------------------- one turn

    def turn(self) -> int:
        """Take what has arrived, decide and commit it as one transaction, answer. Hands back how much that was."""
        asked = self._take()
        try:  # as `turning`, but nobody has to be told that it is over: compiled code takes long to
            for _ in self._turn(asked):
                pass
        except Exception as error:
            self._break_down(asked, error)
            raise
        return len(asked)

    def turning(self) -> Steps[int]:
        """The same, step by step: what may wait for the store is said before."""
        asked = self._take()
        try:
            yield from self._turn(asked)
        except Exception as error:
            self._break_down(asked, error)
            raise
        return len(asked)

    def _turn(self, asked: list[Pending]) -> Steps[None]:
        now = self._clock()
        extra: list[c.Command] = []
        self._is_sweeping = now >= self._sweep_at or self._sweeps_all()
        if self._is_sweeping or self._unresolved is not None or self._attends(now):
            yield None
        try:
            if self._unresolved is not None and (asked or now >= self._trouble_until):
                self._resolve(*self._unresolved)
            if self._attendance is not None and now >= self._trouble_until:
                extra = self._attendance.due()
            result = None
            if asked or extra or self._is_sweep_due(now):
                commands = [each.command for each in asked]
                commands += extra
                result = yield from batch.run(self.store, commands, self.key, self._closing)
        except LeaseholdError as error:
            if isinstance(error, batch.Unresolved):
                self._unresolved = (error, asked, extra)
            self._fail(asked, extra, error)
            return
        if result is not None:
            self._answer(asked, extra, result)
        if self._collection is not None or self._decided_at >= self._forget_at:
            yield None
            self._forget_some()

    def _attends(self, now: float) -> bool:
        """Whether it is time to look after those who wait."""
        return self._attendance is not None and now >= self._attendance.next_time()

    def _is_sweep_due(self, now: float) -> bool:
        """Whether to sweep although nobody asks anything."""
        return (self._housekeeping and now >= self._sweep_at) or self._sweeps_all()

    def _sweeps_all(self) -> bool:
        return self._collection is not None and self._collection.sweeps

    def _take(self) -> list[Pending]:
        inbox = self._inbox
        taken: list[Pending] = []
        if self._errands and self._clock() >= self._trouble_until:
            taken, self._errands = self._errands, []
        most = min(BATCH, self.store.capabilities.batch)
        while inbox and len(taken) < most:
            pending = inbox.popleft()
            if pending.abandoned and not _must_be_done(pending):
                pending.fail(Closed("whoever asked is gone"))
            else:
                taken.append(pending)
        return taken

    def _closing(self, outcomes: Sequence[Outcome | Exception], transaction: Transaction) -> list[c.Command]:
        """At the end of each batch: say that the waiters live, and sweep a little."""
        self._decided_at = now = self._clock()
        if self._attendance is None and any(isinstance(outcome, _Queued) for outcome in outcomes):
            self._attend()
        more = self._attendance.beat(self.key, outcomes, now) if self._attendance is not None else []
        self._swept = tuple(transaction.due(SWEEP_AT_ONCE)) if self._is_sweeping else None
        if self._swept:
            more.append(c.Sweep(self._swept))
        return more

    def _attend(self) -> Attendance:
        if self._attendance is None:
            from leasehold.engine.waiters import Attendance  # noqa: PLC0415 (not for those who never wait)

            self._attendance = Attendance(self.store, self._clock, self._put_in)
        return self._attendance

    def _put_in(self, pending: Pending) -> None:
        self._inbox.append(pending)

    # --------------------------------------------------------------------------------------- answers

    def _answer(self, asked: list[Pending], extra: list[c.Command], result: BatchResult) -> None:
        # Whoever has waited comes first: it has work to do, while who gave back only wants to know. Then other
        # processes may have their turn.
        try:
            if self._attendance is not None:
                self._attendance.serve(result)
        finally:
            result.close()
        outcomes = result.outcomes
        for place, pending in enumerate(asked):
            self._answer_one(pending, outcomes[place])
        if self._swept is not None:
            self._sweep_at = self._decided_at + SWEEP_EVERY
            if self._collection is not None:  # also one that has just begun: this batch was its first step
                self._collection.count(self._swept, SWEEP_AT_ONCE)
        # And after those who asked, as some of them may have queued and been served in this very batch.
        if self._attendance is not None:
            self._attendance.learn(result, extra, self._decided_at)
        if self.observe is not None and result.events:
            self.observe(result.events)

    def _answer_one(self, pending: Pending, outcome: Outcome | Exception) -> None:
        # Those two first, as they are the most: what it is not takes longer to say.
        if isinstance(outcome, _Granted) or isinstance(outcome, _Released) or not isinstance(outcome, _UNUSUAL):  # noqa: SIM101
            pending.resolve(outcome)
            if pending.abandoned:
                self._give_up(pending)
        elif isinstance(outcome, Exception):
            pending.fail(outcome)
        elif isinstance(outcome, _Queued) and isinstance(pending.command, _Acquire):
            self._attend().begin(pending, pending.command, outcome.waiter, self._decided_at)
        elif isinstance(pending.command, c.Sweep):
            self._collect().join(pending)
        else:
            pending.resolve(outcome)

    # ----------------------------------------------------------------------------------- clearing up

    def _collect(self) -> Collection:
        if self._collection is None:
            from leasehold.engine.cleanup import Collection  # noqa: PLC0415 (rare)

            self._collection = Collection(self.store)
        return self._collection

    def _forget_some(self) -> None:
        """One step of the clearing up; whatever comes of it, those who asked something else have their answers."""
        collection, now = self._collect(), self._clock()
        if now < collection.at:
            return
        try:
            if collection.forget_some(now):
                self._end_collection()
        except LeaseholdError as error:
            self._end_collection(error)

    def _end_collection(self, error: Exception | None = None) -> None:
        collection, self._collection = self._collection, None
        if collection is not None:
            self._forget_at = self._clock() + FORGET_EVERY
            collection.tell(error)

    # --------------------------------------------------------------------------------------- trouble

    def _fail(self, asked: list[Pending], extra: list[c.Command], error: LeaseholdError) -> None:
        """The store said no: tell whoever asked. What nobody asked for is looked at again after a pause."""
        now = self._clock()
        self._trouble_until = now + TROUBLE_PAUSE
        self._errands += [each for each in asked if isinstance(each, Errand)]
        if self._attendance is not None:
            self._attendance.look_again(extra, now)
            self._attendance.tell_overdue(error, now)
        for pending in asked:
            if not isinstance(pending, Errand):
                pending.fail(error)
        self._end_collection(error)

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
                self._give_back(given, pending)
        del lost.result.outcomes[: len(asked)]
        self._answer([], extra, lost.result)

    def _break_down(self, asked: list[Pending], error: Exception) -> None:
        """Something happened that never should, here or in the store: nobody may wait for an answer for ever."""
        self._closed = True
        waiting = [pending for _, pending in self._attendance.everybody()] if self._attendance is not None else []
        for pending in (*asked, *self._take_all(), *waiting):
            if not pending.is_done:
                pending.fail(error)
        self._end_collection(error)

    # ---------------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Answer everybody, leave every queue. The store stays open: whoever opened it closes it."""
        if self._closed:
            return
        self._closed = True
        left = self._take_all()
        for pending in left:
            pending.fail(_closed())
        self._end_collection(_closed())
        leaving = [each.command for each in left if isinstance(each, Errand) or _must_be_done(each)]
        if self._attendance is not None:
            self._leave_queues(self._attendance, leaving)
        elif leaving:
            through(batch.run(self.store, leaving, self.key, _nothing_more)).close()

    def _leave_queues(self, attendance: Attendance, leaving: list[c.Command]) -> None:
        from leasehold.engine.waiters import given_up  # noqa: PLC0415 (see `_attend`)

        waiting = attendance.everybody()
        leaving = [*leaving, *(given_up(id_, pending) for id_, pending in waiting if not pending.stays)]
        has_kept = any(pending.stays for _, pending in waiting)
        # First, and by a stranger: whoever is served by what the others give up is only promised it, as we tell nobody.
        commands = [c.Beat(self.key, KEPT), *leaving] if has_kept else [*leaving, c.Beat(self.key, None)]
        last = keys.engine(os.urandom(16).hex()) if has_kept else self.key
        try:
            if leaving or attendance.has_presence:
                through(batch.run(self.store, commands, last, _nothing_more)).close()
        finally:
            attendance.dismiss()
            for pending in [each for _, each in waiting if not each.is_done]:
                pending.fail(_closed())

    def _take_all(self) -> list[Pending]:
        taken, self._errands = self._errands, []
        while self._inbox:
            try:
                taken.append(self._inbox.popleft())
            except IndexError:  # whoever had just put it there has taken it back
                break
        return taken


def _inbox() -> deque[Pending]:
    """Empty. `_collections` has what `collections` hands out, which a one-shot command need not load for it."""
    try:
        import _collections as home  # type: ignore[import-not-found] # noqa: PLC0415
    except ImportError:  # a Python without it
        import collections as home  # noqa: PLC0415
    empty: deque[Pending] = home.deque()
    return empty


def _must_be_done(pending: Pending) -> bool:
    """Whether it gives back what nobody is left to give back later."""
    return pending.abandoned and isinstance(pending.command, _GIVING_BACK)


def _nobody() -> None:
    """Nobody drives this engine but the caller."""


def _nothing_more(_outcomes: Sequence[Outcome | Exception], _transaction: Transaction) -> list[c.Command]:
    return []


def _closed() -> Closed:
    return Closed(CLOSED)
