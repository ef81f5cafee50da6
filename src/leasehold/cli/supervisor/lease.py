"""The lease of a running command: until when it may be counted on, its renewals, its end."""

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
"""So long before the lease can expire all must be over: whoever ends the command may have to wait for a processor."""
MOST_RETRY = 1.0
RENEWALS = 3
"""So many tries has a life."""


class Times(NamedTuple):
    """What happens when, counted from before the last request that the store has granted."""

    renew_at: float
    term_at: float
    kill_at: float
    gone_at: float
    """From then on the lease may be somebody else's."""


def times(asked_at: float, life: float, kill_after: float) -> Times:
    """Renew after a third of the life; end the command so early that even its last moment lies within the lease."""
    margin = min(max(LEAST_MARGIN, min(MOST_MARGIN, life / 10)), life / 4)  # of a short life, most is for renewing
    kill_at = asked_at + life - margin
    return Times(asked_at + life / RENEWALS, kill_at - min(kill_after, life / 4), kill_at, asked_at + life)


class RunLease:
    """One lease, renewed by threads so that a store that hangs does not keep us from anything else."""

    def __init__(
        self, context: Context, session: RunSession, granted: Granted, asked_at: float, kill_after: float
    ) -> None:
        self.session = session
        self.lease: Lease = granted.lease
        self.lost: str | None = None
        """Why it is lost, once it is."""
        self._is_over = False
        """Whether the store itself says so; otherwise it may live on until it expires."""
        self.on_lost: str = context.values["on_lost"]
        self.kill_after = 0.0 if self.on_lost == "kill" else kill_after
        self._context = context
        self.token = granted.token
        self._trouble = ""
        self._is_doubted = False
        """Whether there was a hint that it is lost since the last renewal was sent."""
        self._question: StoreCall[Renewed | Lost | Refused] | None = None
        self.times = self._times(asked_at)

    def _times(self, asked_at: float) -> Times:
        life = max(0, self.lease.expires_us - self.lease.as_of_us) / SECOND
        return times(asked_at, life, self.kill_after)

    @property
    def is_only_warned(self) -> bool:
        """Whether the command goes on without the lease."""
        return self.on_lost == "warn"

    # -------------------------------------------------------------------------------------------- renewing

    def renew(self) -> None:
        """Renew now, before anything else; raises if the store does not answer."""
        asked_at = now()
        self._learn(self._ask(), asked_at)

    def _ask(self) -> Renewed | Lost | Refused:
        return self.session.renew(self.lease.id, self.token)

    def watch(self, bell: WakeupPipe) -> None:
        """From now on, ring the bell and renew at once if there is a hint that the lease is lost. Starts a thread."""

        def doubt() -> None:
            self._is_doubted = True
            bell.ring()

        watch_of(self._context.locks).add(self.lease, doubt)

    def keep(self, bell: WakeupPipe) -> bool:
        """Renew when it is time, without waiting for the answer; whether an answer has moved the times."""
        if self.lost is not None:
            return False
        if self._question is not None and self._question.is_answered:
            question, self._question = self._question, None
            return self._hear(question)
        if self._question is None and (self._is_doubted or now() >= self.times.renew_at):
            self._is_doubted = False
            self._question = StoreCall(self._ask, bell, now())
        return False

    def _hear(self, question: StoreCall[Renewed | Lost | Refused]) -> bool:
        try:
            self._learn(question.result(), question.asked_at)
        except LeaseholdError as error:
            pause = min(MOST_RETRY, (self.times.gone_at - question.asked_at) / 10)
            self.times = self.times._replace(renew_at=now() + max(0.01, pause))
            if str(error) != self._trouble:
                self._trouble = str(error)
                self.tell("trouble", message=f"the lease could not be renewed yet: {error}")
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
        """It is over; the first reason counts."""
        if self.lost is None:
            self.lost = reason
            self.tell("lost", reason=reason)

    # ------------------------------------------------------------------------------------------- its end

    def release(self, status: str, error: str | None) -> Released | Refused | None:
        """Release it and end its session, if the store answers before it expires; None if it does not, or was lost."""
        bell = WakeupPipe(())
        question = self._question
        if question is not None and not self._waited(question, bell):
            return None
        done = StoreCall(lambda: self._end(status, error), bell, now())
        if not self._waited(done, bell):
            return None
        try:
            return done.result()
        except LeaseholdError as trouble:
            self.tell("trouble", message=f"the lease could not be released: {trouble}; it expires by itself")
            return None

    def _end(self, status: str, error: str | None) -> Released | Refused | None:
        lease, locks = self.lease.id, self._context.locks
        released = None if self._is_over else locks.release(lease, self.token, status=status, error=error)
        self.session.end()
        return released

    def _waited(self, question: StoreCall[T], bell: WakeupPipe) -> bool:
        while not question.is_answered and now() < self.times.gone_at:
            bell.wait(min(0.05, self.times.gone_at - now()))
        if not question.is_answered:
            self._context.abandon()
            if self.lost is None:
                self.tell("trouble", message="the lease could not be released: the store does not answer; it expires")
        return question.is_answered

    # ------------------------------------------------------------------------------------------ telling

    def tell(self, event: str, **detail: object) -> None:
        """JSON lines for programs; a line on standard error for people, where there is something to say."""
        out = self._context.out
        if out.json:
            out.give({"schema_version": wire.SCHEMA_VERSION, "event": event, **detail})
        elif event in ("lost", "trouble"):
            said = shown(str(detail.get("reason") or detail.get("message")))
            words = "leasehold: the lease is lost: " if event == "lost" else "leasehold: "
            out.warn(out.paint(words, "red", sys.stderr) + said)
