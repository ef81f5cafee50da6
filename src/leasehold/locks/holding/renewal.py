"""How long a holder may count on its lease, and when to renew it. It keeps times; it asks nobody and never waits.

The store's clock decides when a lease ends, and the holder cannot see that clock. The holder does know that the store
decided after the request was sent. So a holder that counts the life it was given from **before** it sent the request
never counts on more than the store gives it, however long the answer was under way.

The same holds for an acquire that waited, but there it is of no use: the time in the queue would count against the
lease. Such a lease is renewed once before it is handed out, and counted from before that renewal was sent (see
``held.take``).
"""

from __future__ import annotations

import sys
import time
from threading import RLock

from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Lost, Released, Renewed
from leasehold.domain.timestamps import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Refused

DRIFT = 1 / 1_000
"""So much of a life is not counted on: the store's clock may run a little faster than ours."""
RENEWALS = 3
"""Tries in one TTL: a lease is renewed after the first third of it."""
SHORTEST_PART = 30
"""The end of a session cuts a lease short; even then it is not renewed more often than this part of its TTL,"""
LATEST_PART = 2
"""but at half of its life at the latest: the session may have got a heartbeat meanwhile, and the lease with it."""
SHORTEST_RETRY = 0.005
LONGEST_RETRY = 1.0
LOOK_AGAIN = 5.0
"""At least this often a waiting keeper looks at the clock: while a machine sleeps, time passes that no timer counts."""

_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def steady() -> float:
    """Seconds of a clock that nobody can set, and that goes on while the machine sleeps, as a store's does."""
    return time.clock_gettime(_CLOCK)


class Term(Noun):
    """The term that one answer of the store grants, on the holder's own clock."""

    renew_at: float
    deadline: float
    """From then on another holder may have the resource."""
    retry: float
    """Seconds from one failed renewal to the next try."""


def term(lease: Lease, sent: float) -> Term:
    """Return the term of a lease, by the answer to a request that was sent at `sent`."""
    life = max(0, lease.expires_us - lease.as_of_us) / SECOND * (1 - DRIFT)
    part = lease.ttl_us / SECOND / SHORTEST_PART
    retry = min(max(part, SHORTEST_RETRY), LONGEST_RETRY)
    return Term(sent + max(life / RENEWALS, min(part, life / LATEST_PART)), sent + life, retry)


class Tenure:
    """The life of one lease in its holder's hands: it ends once, for one reason, and never comes back."""

    def __init__(self, lease: Lease, sent: float, clock: Callable[[], float] = steady) -> None:
        self.lease = lease
        """As the store showed it last."""
        self.cause: Exception | None = None
        """The error because of which it ended, if there was one."""
        self._clock = clock
        self._term = term(lease, sent)
        self._renew_at = self._term.renew_at
        self._doubted_at = sent
        self._trouble: Exception | None = None
        self._reason: str | None = None
        self._changing = RLock()  # re-entrant: a signal handler may ask while its own thread is asking

    # --------------------------------------------------------------------------------------- how it is

    @property
    def reason(self) -> str | None:
        """Why it is over; None while it can be counted on. The first reader after the deadline ends it for all."""
        with self._changing:
            if self._reason is None and self._clock() >= self._term.deadline:
                why = f": {self._trouble}" if self._trouble is not None else ""
                self.lose(f"not renewed in time{why}", self._trouble)
            return self._reason

    @property
    def is_known_lost(self) -> bool:
        """Return True if the loss was reported, or is about to be. Reads no clock."""
        return self._reason is not None

    @property
    def retry(self) -> float:
        """Seconds from one failed renewal to the next try."""
        return self._term.retry

    def remaining(self) -> float:
        """Seconds that it can still be counted on."""
        with self._changing:
            return 0.0 if self.reason is not None else max(0.0, self._term.deadline - self._clock())

    def pause(self) -> float:
        """Seconds until it should be renewed; not above zero: now."""
        return self._renew_at - self._clock()

    # ------------------------------------------------------------------------------------ what happens

    def learn(self, answer: Renewed | Lost | Refused, sent: float) -> None:
        """Take the store's answer to a renewal that was sent at `sent`. A lost lease stays lost."""
        with self._changing:
            if not isinstance(answer, Renewed):
                self.lose(answer.reason if isinstance(answer, Lost) else answer.message)
            elif self._reason is None:
                self.lease, self._trouble = answer.lease, None
                self._term = term(answer.lease, sent)
                # A renewal that was under way when the doubt came up may have been decided before what it was about.
                self._renew_at = self._term.renew_at if sent >= self._doubted_at else sent

    def doubt(self) -> None:
        """Renew now: a hint says that the lease may be lost."""
        with self._changing:
            self._renew_at = self._doubted_at = self._clock()

    def fail(self, error: Exception) -> None:
        """Note that a renewal got no answer: try again soon, before the deadline. The first error is reported."""
        with self._changing:
            self._trouble = self._trouble or error
            self._renew_at = self._clock() + self._term.retry

    def lose(self, reason: str, cause: Exception | None = None) -> None:
        """Note that the lease is lost. The first reason counts."""
        with self._changing:
            if self._reason is None:
                self._reason, self.cause = reason, cause

    def learn_release(self, answer: Released | Refused) -> None:
        """Take the store's answer to the release. If the lease was gone before, it counts as lost."""
        if not isinstance(answer, Released):
            self.lose(answer.message)
        elif not answer.released:
            self.lose(answer.reason)
