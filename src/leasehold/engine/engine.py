"""One inbox on one store: take requests, decide and commit them as a batch, answer. It decides nothing itself.

An engine is a plain object that a driver turns: a server's event loop (``loop_driver``), the caller itself or a thread
(``locks.local``). `submit` may be called from any thread; `turn` from one at a time.

Waiting requests are kept in ``waiters``; ``cleanup`` removes what has expired and old history, a little each turn.
"""

from __future__ import annotations

import os
import time

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.outcomes import Granted, Queued, Released
from leasehold.domain.timestamps import SECOND
from leasehold.engine import batch
from leasehold.engine.pending import NEVER, Inbox, Pending
from leasehold.errors import CLOSED, Closed, LeaseholdError
from leasehold.steps import through

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from leasehold.domain.entries import LeaseRequest
    from leasehold.domain.events import Event
    from leasehold.domain.outcomes import Outcome
    from leasehold.engine.batch import BatchResult
    from leasehold.engine.cleanup import Cleanup
    from leasehold.engine.waiters import Waiters
    from leasehold.steps import Steps
    from leasehold.stores.protocol import Store, Transaction

BATCH: Final = 1_024
"""At most this many commands a transaction."""
SWEEP_EVERY: Final = 1.0
"""Seconds from one sweep to the next."""
SWEEP_AT_ONCE: Final = 256
"""At most this many records a sweep."""
FORGET_EVERY: Final = 3_600.0
"""Seconds from one cleanup to the next."""
KEPT: Final = 5 * SECOND
"""Places in the queue stay this long when the engine closes, for callers that come back to another one."""
TROUBLE_PAUSE: Final = 0.2
"""Seconds from a failed transaction to the next try of sweeps, heartbeats and internal requests."""


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
        self.wake: Callable[[], None] = lambda: None
        """Called after each `submit`; a driver sets it."""
        self.observe: Callable[[Sequence[Event]], None] | None = None
        """Called with the events of each committed batch."""
        self._clock = clock
        self._inbox = Inbox()
        self._unresolved: tuple[batch.Unresolved, list[Pending], list[c.Command]] | None = None
        """A batch whose commit has an unknown outcome."""
        self._waiters: Waiters | None = None
        """The waiting requests, since the first one queued."""
        self._cleanup: Cleanup | None = None
        """The cleanup under way."""
        self._sweep_at = 0.0
        self._is_sweeping = False
        """True while this turn sweeps expired records."""
        self._swept: tuple[str, ...] | None = None
        """Keys swept by this turn, or None."""
        self._forget_at = clock() + FORGET_EVERY
        self._trouble_until = 0.0
        self._decided_at = 0.0
        self._housekeeping = housekeeping
        """True if it sweeps every second, as a server does, even without requests."""

    def _woken(self) -> None:
        """Check the waits: called by the store, from any thread, when another process has served or ended one."""
        waiters = self._waiters
        if waiters is not None and len(waiters):
            waiters.wake()
            self.wake()

    # -------------------------------------------------------------------------------------- requests

    def submit(self, command: c.Command, token: str = "", done: Callable[[Pending], None] | None = None) -> Pending:
        """Put a command into the inbox; the driving thread calls `done` with its answer.

        A `Sweep` is answered once everything that is due is swept and the history is trimmed.
        """
        pending = Pending(command, token, done)
        self.enter(pending)
        return pending

    def enter(self, pending: Pending) -> None:
        """Put a request into the inbox; a closed engine refuses it with `Closed`."""
        self._inbox.add(pending)
        self.wake()

    def abandon(self, pending: Pending) -> None:
        """Cancel a request whose caller disconnected: leave the queue and release anything it was granted."""
        pending.abandoned = True
        if pending.waiter is not None or isinstance(pending.outcome, Granted):
            self._give_up(pending)

    def _give_up(self, pending: Pending) -> None:
        given = pending.outcome.lease.id if isinstance(pending.outcome, Granted) else pending.waiter
        if given is not None and not self._inbox.is_closed:
            self._release_unwanted(given, pending)
            self.wake()

    def _release_unwanted(self, given: str, pending: Pending) -> None:
        from leasehold.engine.waiters import giving_up  # noqa: PLC0415 (rare)

        self._inbox.put(giving_up(given, pending))

    def keep_house(self, is_wanted: bool) -> None:
        """Sweep every second, or leave it to another process that does."""
        if is_wanted and not self._housekeeping:
            self.wake()
        self._housekeeping = is_wanted

    @property
    def has_work(self) -> bool:
        """True if a request is in the inbox."""
        return len(self._inbox) > 0

    @property
    def backlog(self) -> int:
        """The number of requests in the inbox."""
        return len(self._inbox)

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._waiters) if self._waiters is not None else 0

    def wanted(self) -> list[LeaseRequest]:
        """Return what the waiting requests want."""
        return self._waiters.wanted() if self._waiters is not None else []

    def next_time(self) -> float | None:
        """Return when `turn` is due even without requests, on the engine's clock, or None."""
        at = self._waiters.next_time() if self._waiters is not None else NEVER
        if self._housekeeping and self._sweep_at < at:
            at = self._sweep_at
        if self._cleanup is not None and self._cleanup.at < at:
            at = self._cleanup.at
        if self._inbox.to_repeat or self._unresolved is not None:
            at = min(at, self._trouble_until)
        if at == NEVER:
            return None
        return max(self._trouble_until, at)

    # ------------------------------------------------------------------------------------- one turn

    def turn(self) -> int:
        """Take what has arrived, decide and commit it as one transaction, answer. Return the number of requests."""
        asked = self._inbox.take(min(BATCH, self.store.capabilities.batch), self._clock() >= self._trouble_until)
        try:  # not by `turning`: returning from one more generator costs compiled code a microsecond
            for _ in self._turn(asked):
                pass
        except Exception as error:
            self._break_down(asked, error)
            raise
        return len(asked)

    def turning(self) -> Steps[int]:
        """Run `turn` in steps, each of which ends before the engine may wait for the store."""
        asked = self._inbox.take(min(BATCH, self.store.capabilities.batch), self._clock() >= self._trouble_until)
        try:
            yield from self._turn(asked)
        except Exception as error:
            self._break_down(asked, error)
            raise
        return len(asked)

    def _turn(self, asked: list[Pending]) -> Steps[None]:
        """Settle what is in doubt, decide the requests and what is due in one batch, and answer them."""
        now = self._clock()
        extra: list[c.Command] = []
        sweeps_all = self._cleanup is not None and self._cleanup.sweeps
        self._is_sweeping = now >= self._sweep_at or sweeps_all
        is_due = self._waiters is not None and now >= self._waiters.next_time()
        if self._is_sweeping or self._unresolved is not None or is_due:
            yield None
        try:
            if self._unresolved is not None and (asked or now >= self._trouble_until):
                self._resolve(*self._unresolved)
            if self._waiters is not None and now >= self._trouble_until:
                extra = self._waiters.due()
            result = None
            if asked or extra or sweeps_all or (self._housekeeping and self._is_sweeping):
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
        if self._cleanup is not None or self._decided_at >= self._forget_at:
            yield None
            self._forget_some()

    def _closing(self, outcomes: Sequence[Outcome | Exception], transaction: Transaction) -> list[c.Command]:
        """Return the commands that end each batch: a heartbeat for the waiters, and a sweep."""
        self._decided_at = now = self._clock()
        if self._waiters is None and any(isinstance(outcome, Queued) for outcome in outcomes):
            self._ready_waiters()
        more = self._waiters.beat(self.key, outcomes, now) if self._waiters is not None else []
        self._swept = tuple(transaction.due(SWEEP_AT_ONCE)) if self._is_sweeping else None
        if self._swept:
            more.append(c.Sweep(self._swept))
        return more

    def _ready_waiters(self) -> Waiters:
        if self._waiters is None:
            from leasehold.engine.waiters import Waiters  # noqa: PLC0415 (not for engines at which no request waits)

            self._waiters = Waiters(self.store, self.key, self._clock, self._inbox.put)
            # Before the first wait is committed: from then on, another process may wake this one.
            self._waiters.is_woken = self.store.listen(self.key, self._woken)
        return self._waiters

    # --------------------------------------------------------------------------------------- answers

    def _answer(self, asked: list[Pending], extra: list[c.Command], result: BatchResult) -> None:
        """Resolve every request of a committed batch, and wake the other processes that it concerns."""
        # Waiters first: they have work to do, while a caller that released needs only the answer. Then other processes.
        try:
            if self._waiters is not None:
                self._waiters.serve(result)
        finally:
            result.close()
        if result.to_wake:
            self.store.wake(list(result.to_wake))
        outcomes = result.outcomes
        for place, pending in enumerate(asked):
            self._answer_one(pending, outcomes[place])
        if self._swept is not None:
            self._sweep_at = self._decided_at + SWEEP_EVERY
            if self._cleanup is not None:  # also one that has just begun: this batch is its first step
                self._cleanup.count(self._swept, SWEEP_AT_ONCE)
        # After the answers, because a request of this batch may have queued and been served in it.
        if self._waiters is not None:
            self._waiters.learn(result, extra, self._decided_at)
        if self.observe is not None and result.events:
            self.observe(result.events)

    def _answer_one(self, pending: Pending, outcome: Outcome | Exception) -> None:
        if isinstance(
            outcome, (Granted, Released)
        ):  # first, because most are; compiled code builds `A | B` anew each time
            pending.resolve(outcome)
            if pending.abandoned:
                self._give_up(pending)
        elif isinstance(outcome, Exception):
            pending.fail(outcome)
        elif isinstance(outcome, Queued) and isinstance(pending.command, c.Acquire):
            self._ready_waiters().begin(pending, pending.command, outcome.waiter, self._decided_at)
        elif isinstance(pending.command, c.Sweep):
            self._ready_cleanup().join(pending)
        else:
            pending.resolve(outcome)

    # --------------------------------------------------------------------------------------- cleanup

    def _ready_cleanup(self) -> Cleanup:
        if self._cleanup is None:
            from leasehold.engine.cleanup import Cleanup  # noqa: PLC0415 (rare)

            self._cleanup = Cleanup(self.store)
        return self._cleanup

    def _forget_some(self) -> None:
        """Take one step of the cleanup. Its failure concerns only the callers who asked for it."""
        cleanup, now = self._ready_cleanup(), self._clock()
        if now < cleanup.at:
            return
        try:
            if cleanup.forget_some(now):
                self._end_cleanup()
        except LeaseholdError as error:
            self._end_cleanup(error)

    def _end_cleanup(self, error: Exception | None = None) -> None:
        cleanup, self._cleanup = self._cleanup, None
        if cleanup is not None:
            self._forget_at = self._clock() + FORGET_EVERY
            cleanup.finish(error)

    # --------------------------------------------------------------------------------------- trouble

    def _fail(self, asked: list[Pending], extra: list[c.Command], error: LeaseholdError) -> None:
        """Report the failed transaction to its callers; repeat what the engine itself needs after a pause."""
        now = self._clock()
        self._trouble_until = now + TROUBLE_PAUSE
        if self._waiters is not None:
            self._waiters.check_again(extra, now)
            self._waiters.fail_overdue(error, now)
        for pending in asked:
            if pending.is_internal:
                self._inbox.to_repeat.append(pending)
            else:
                pending.fail(error)
        self._end_cleanup(error)

    def _resolve(self, lost: batch.Unresolved, asked: list[Pending], extra: list[c.Command]) -> None:
        """Ask the store whether a commit of unknown outcome happened.

        If it did, waiters learn what it did for them. Its own callers got `OutcomeUnknown` and have left: give up what
        they were granted.
        """
        is_there = batch.happened(self.store, lost.receipt)
        self._unresolved = None
        if not is_there or lost.result is None:
            return
        for pending, outcome in zip(asked, lost.result.outcomes, strict=False):
            if isinstance(outcome, Granted):
                self._release_unwanted(outcome.lease.id, pending)
            elif isinstance(outcome, Queued):
                self._release_unwanted(outcome.waiter, pending)
        del lost.result.outcomes[: len(asked)]
        self._answer([], extra, lost.result)

    def _break_down(self, asked: list[Pending], error: Exception) -> None:
        """Close after a breakage here or in the store, and report it: no caller may wait for ever."""
        left = self._inbox.close()
        waiting = [pending for _, pending in self._waiters.everybody()] if self._waiters is not None else []
        for pending in (*asked, *left, *waiting):
            if not pending.is_done:
                pending.fail(error)
        self._end_cleanup(error)

    # ---------------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Answer every request and leave every queue. The store stays open: the code that opened it closes it."""
        if self._inbox.is_closed:
            return
        left = self._inbox.close()
        for pending in left:
            pending.fail(Closed(CLOSED))
        self._end_cleanup(Closed(CLOSED))
        leaving = [each.command for each in left if each.is_internal or each.must_be_done]
        if self._waiters is not None:
            self._leave_queues(self._waiters, leaving)
        elif leaving:
            self._commit_last(leaving, self.key)

    def _leave_queues(self, waiters: Waiters, leaving: list[c.Command]) -> None:
        from leasehold.engine.waiters import give_up  # noqa: PLC0415 (see `_ready_waiters`)

        waiting = waiters.everybody()
        leaving = [*leaving, *(give_up(id_, pending) for id_, pending in waiting if not pending.stays)]
        has_kept = any(pending.stays for _, pending in waiting)
        # First, and under another engine's key: a kept waiter that this serves is only promised its lease, since
        # this engine reports nothing any more.
        commands = [c.Beat(self.key, KEPT), *leaving] if has_kept else [*leaving, c.Beat(self.key, None)]
        try:
            if leaving or waiters.has_presence:
                self._commit_last(commands, keys.engine(os.urandom(16).hex()) if has_kept else self.key)
        finally:
            waiters.clear()
            for pending in [each for _, each in waiting if not each.is_done]:
                pending.fail(Closed(CLOSED))

    def _commit_last(self, commands: list[c.Command], key: str) -> None:
        """Commit these for the engine of this key, and answer nobody."""
        result = through(batch.run(self.store, commands, key, lambda _outcomes, _transaction: []))
        result.close()
        self.store.wake(list(result.to_wake))
