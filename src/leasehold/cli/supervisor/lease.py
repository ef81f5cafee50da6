"""The lease of `leasehold run`: its deadlines, its renewal and its release."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from leasehold.cli.supervisor.wakeups import StoreCall, WakeupPipe
from leasehold.cli.supervisor.watchdog import now
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Lost, Renewed
from leasehold.domain.timestamps import SECOND
from leasehold.errors import LeaseholdError
from leasehold.locks.holding.losses import watch_of
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from typing import TypeVar

    from leasehold.cli.context import Context
    from leasehold.cli.supervisor.session import RunSession
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Granted, Refused, Released

    T = TypeVar("T")

LEAST_MARGIN, MOST_MARGIN = 0.05, 2.0
"""Seconds before the lease can expire at which the command must have ended; a kill may be slow."""
MOST_RETRY = 1.0
RENEWALS = 3
"""Renewals in one TTL."""


class Times(NamedTuple):
    """Deadlines, counted from before the last granted request was sent."""

    renew_at: float
    term_at: float
    kill_at: float
    gone_at: float
    """From then on another holder may have the lease."""


def times(asked_at: float, life: float, kill_after: float) -> Times:
    """Renew after a third of the life; end the command so early that even its last moment is covered by the lease."""
    margin = min(max(LEAST_MARGIN, min(MOST_MARGIN, life / 10)), life / 4)  # of a short life, most is for renewing
    kill_at = asked_at + life - margin
    return Times(asked_at + life / RENEWALS, kill_at - min(kill_after, life / 4), kill_at, asked_at + life)


class RunLease:
    """One lease, renewed in threads so that a store that hangs blocks nothing else."""

    def __init__(
        self, context: Context, session: RunSession, granted: Granted, asked_at: float, kill_after: float
    ) -> None:
        self.session = session
        self.lease: Lease = granted.lease
        self.lost: str | None = None
        """Why the lease is lost; None while it is not."""
        self._is_over = False
        """True if the store reported the loss; otherwise the lease may live on until it expires."""
        self.on_lost: str = context.values["on_lost"]
        self.kill_after = 0.0 if self.on_lost == "kill" else kill_after
        self._context = context
        self.token = granted.token
        self._trouble = ""
        self._is_doubted = False
        """True if there was a hint of a loss since the last renewal was sent."""
        self._call: StoreCall[Renewed | Lost | Refused] | None = None
        self.times = self._times(asked_at)

    def _times(self, asked_at: float) -> Times:
        life = max(0, self.lease.expires_us - self.lease.as_of_us) / SECOND
        return times(asked_at, life, self.kill_after)

    @property
    def is_only_warned(self) -> bool:
        """True if the command goes on without the lease."""
        return self.on_lost == "warn"

    # -------------------------------------------------------------------------------------------- renewing

    def renew(self) -> None:
        """Renew now and wait for the answer. Raises if the store does not answer."""
        asked_at = now()
        self._learn(self._ask(), asked_at)

    def _ask(self) -> Renewed | Lost | Refused:
        return self.session.renew(self.lease.id, self.token)

    def watch(self, wakeups: WakeupPipe) -> None:
        """Renew at once from now on if there is a hint that the lease is lost. Starts a thread."""

        def doubt() -> None:
            self._is_doubted = True
            wakeups.wake()

        watch_of(self._context.locks).add(self.lease, doubt)

    def keep(self, wakeups: WakeupPipe) -> bool:
        """Renew when it is time, without waiting for the answer. Return True if an answer has moved the deadlines."""
        if self.lost is not None:
            return False
        if self._call is not None and self._call.is_answered:
            call, self._call = self._call, None
            return self._take_answer(call)
        if self._call is None and (self._is_doubted or now() >= self.times.renew_at):
            self._is_doubted = False
            self._call = StoreCall(self._ask, wakeups, now())
        return False

    def _take_answer(self, call: StoreCall[Renewed | Lost | Refused]) -> bool:
        try:
            self._learn(call.result(), call.asked_at)
        except LeaseholdError as error:
            pause = min(MOST_RETRY, (self.times.gone_at - call.asked_at) / 10)
            self.times = self.times._replace(renew_at=now() + max(0.01, pause))
            if str(error) != self._trouble:
                self._trouble = str(error)
                self.report("trouble", message=f"the lease could not be renewed yet: {error}")
            return False
        return self.lost is None

    def _learn(self, answer: Renewed | Lost | Refused, asked_at: float) -> None:
        if isinstance(answer, Renewed):
            self.lease, self._trouble = answer.lease, ""
            self.times = self._times(asked_at)
        else:
            self._is_over = True
            self.lose(answer.reason if isinstance(answer, Lost) else answer.message)

    def lose(self, reason: str) -> None:
        """Record that the lease is lost; the first reason counts."""
        if self.lost is None:
            self.lost = reason
            self.report("lost", reason=reason)

    # ------------------------------------------------------------------------------------------- its end

    def release(self, status: str, error: str | None) -> Released | Refused | None:
        """Release the lease and end its session. None if it was lost, or the store did not answer before it expired."""
        wakeups = WakeupPipe(())
        call = self._call
        if call is not None and not self._waited(call, wakeups):
            return None
        done = StoreCall(lambda: self._end(status, error), wakeups, now())
        if not self._waited(done, wakeups):
            return None
        try:
            return done.result()
        except LeaseholdError as trouble:
            self.report("trouble", message=f"the lease could not be released: {trouble}; it expires by itself")
            return None

    def _end(self, status: str, error: str | None) -> Released | Refused | None:
        lease, locks = self.lease.id, self._context.locks
        released = None if self._is_over else locks.release(lease, self.token, status=status, error=error)
        self.session.end()
        return released

    def _waited(self, call: StoreCall[T], wakeups: WakeupPipe) -> bool:
        while not call.is_answered and now() < self.times.gone_at:
            wakeups.wait(min(0.05, self.times.gone_at - now()))
        if not call.is_answered:
            self._context.abandon()
            if self.lost is None:
                self.report("trouble", message="the lease could not be released: the store does not answer; it expires")
        return call.is_answered

    # ------------------------------------------------------------------------------------------ telling

    def report(self, event: str, **detail: object) -> None:
        """Report an event: a JSON line for programs, for people a line on standard error about a loss or trouble."""
        out = self._context.out
        if out.json:
            out.give({"schema_version": wire.SCHEMA_VERSION, "event": event, **detail})
        elif event in ("lost", "trouble"):
            said = shown(str(detail.get("reason") or detail.get("message")))
            words = "leasehold: the lease is lost: " if event == "lost" else "leasehold: "
            out.warn(out.paint(words, "red", sys.stderr) + said)
