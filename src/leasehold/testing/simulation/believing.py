"""The beliefs of a caller. A belief is all that a real holder has; here each is held against the truth.

A caller is sure of a lease for its TTL, counted on its own clock from before it asked (for a retry: from before the
first try), and a little less than that because its clock may run slower than the store's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Cancelled, Granted, Held, Lost, Released, Renewed
from leasehold.domain.sessions import SessionRenewed, SessionStarted
from leasehold.domain.timestamps import SECOND
from leasehold.errors import LeaseholdError, OutcomeUnknown
from leasehold.testing.simulation.watch import Broken

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import Any, Protocol

    from leasehold.domain.commands import Command, StartSession
    from leasehold.domain.leases import Lease
    from leasehold.engine.engine import Engine
    from leasehold.engine.pending import Pending
    from leasehold.testing.simulation.watch import Watch

    class BelievedNode(Protocol):
        """A process with an engine in it, as callers see it."""

        engine: Engine

    class Surroundings(Protocol):
        """Where callers live."""

        chance: random.Random
        watch: Watch

        @property
        def now(self) -> int:
            """The store's time."""

        def a_node(self) -> BelievedNode:
            """Choose a process that answers calls."""


SURE = 998
"""Of 1000 parts of its TTL a caller is sure: clocks drift."""
SESSION_TTL = 4 * SECOND
STILL_SERVED = 2 * SECOND
"""For this long after an engine has died or lost track, what its callers asked for may still be granted."""


class BelievedRequest:
    """One call that is under way."""

    def __init__(
        self, node: BelievedNode, sent: int, wait: int = 0, request: str | None = None, lease: str = ""
    ) -> None:
        self.node = node
        self.sent = sent
        self.wait = wait
        self.until = sent + wait
        """When it should have been answered at the latest."""
        self.request = request
        self.lease = lease
        self.session: str | None = None
        self.given_up = False
        """True if the answer no longer matters to the caller."""
        self.pending: Pending | None = None


class Known:
    """A lease that a caller knows of."""

    def __init__(self, lease: Lease, token: str, request: str | None) -> None:
        self.lease = lease
        self.token = token
        self.request = request
        self.is_busy = False
        """True while a call about it is under way: one at a time, so that none overtakes another."""


class Believer:
    """Somebody with a name, a clock, some leases, and calls under way."""

    def __init__(self, place: Surroundings, name: str) -> None:
        self.place = place
        self.name = name
        self.pace = place.chance.uniform(0.9995, 1.0005)
        self.is_alive = True
        self.calls: list[BelievedRequest] = []
        self.leases: dict[str, Known] = {}
        self.released: set[str] = set()
        """Leases that it has released, as far as it knows."""
        self.requests: dict[str, tuple[dict[str, Any], int]] = {}
        """Its requests with a request_id, and the time of the first attempt."""
        self.confirmed: set[str] = set()
        """Requests that it knows to be withdrawn."""
        self.excused = -1
        """Leases granted until then may be unknown to it: an answer got lost."""
        self.session: StartSession | None = None
        self.session_until = 0

    def submit(self, asked: BelievedRequest, command: Command, token: str = "") -> None:
        """Make a call."""
        self.calls.append(asked)
        asked.pending = asked.node.engine.submit(command, token, lambda pending: self._answered(asked, pending))

    # ------------------------------------------------------------------------------------- giving up

    def give_up(self, which: Callable[[BelievedRequest], bool]) -> None:
        """Ignore the answers to these calls from now on."""
        for asked in self.calls:
            asked.given_up |= which(asked)

    def forget(self, which: Callable[[Known], bool]) -> None:
        """Stop believing in these leases."""
        for known in [each for each in self.leases.values() if which(each)]:
            id_ = known.lease.id
            self.released.add(id_)
            del self.leases[id_]
            self.place.watch.doubt(id_)

    def leave_session(self) -> None:
        """End the session, and everything that it holds."""
        if self.session is not None:
            gone, self.session = self.session.session, None
            self.give_up(lambda asked: asked.session == gone)
            self.forget(lambda known: known.lease.session == gone)
            self.requests = {id_: each for id_, each in self.requests.items() if each[0]["session"] is None}

    def lose(self, node: BelievedNode) -> None:
        """Note that this process has died, and the calls to it with it."""
        for asked in [each for each in self.calls if each.node is node]:
            self.calls.remove(asked)
            asked.given_up = True
            self.excused = max(self.excused, self.place.now + STILL_SERVED)
            if asked.lease in self.leases:
                self.leases[asked.lease].is_busy = False

    # --------------------------------------------------------------------------------------- answers

    def _answered(self, asked: BelievedRequest, pending: Pending) -> None:
        if asked in self.calls:
            self.calls.remove(asked)
        if asked.lease in self.leases:
            self.leases[asked.lease].is_busy = False
        outcome = pending.outcome
        if pending.error is not None:
            self._failed(pending.error)
        elif isinstance(outcome, Granted):
            self._granted(asked, outcome)
        elif isinstance(outcome, Held) and not outcome.blockers:
            raise Broken(f"{self.name} was refused, but nobody is in the way: {pending.command}")
        elif isinstance(outcome, Cancelled) and asked.request is not None:
            self.confirmed.add(asked.request)
        elif not asked.given_up:
            self._told(asked, outcome)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Broken):
            raise error
        if not isinstance(error, LeaseholdError):
            raise Broken(f"a rule broke: {error!r}") from error
        if isinstance(error, OutcomeUnknown):
            self.excused = max(self.excused, self.place.now + STILL_SERVED)

    def _granted(self, asked: BelievedRequest, answer: Granted) -> None:
        lease, watch = answer.lease, self.place.watch
        if lease.id not in watch.granted or lease.holder != self.name:
            raise Broken(f"{self.name} got a lease that was never granted: {lease}")
        if asked.request in self.confirmed:
            raise Broken(f"{self.name} withdrew {asked.request}, and was granted {lease} for it later")
        if answer.fresh and lease.session is None and lease.expires_us != lease.as_of_us + lease.ttl_us:
            raise Broken(f"{self.name} got less than a full TTL at {self.place.now}: {lease}")
        if asked.given_up or lease.id in self.released or not self.is_alive:
            if asked.pending is not None and not asked.pending.abandoned:
                self.released.add(lease.id)  # it stays: this caller has no use for it
            return
        known = self.leases.setdefault(lease.id, Known(lease, answer.token, asked.request))
        self._be_sure(known, lease, asked.sent)

    def _be_sure(self, known: Known, lease: Lease, sent: int) -> None:
        known.lease = lease
        until = sent + self._measured(lease.ttl_us)
        if lease.session is not None:
            until = min(until, self.session_until)
        self.place.watch.believe(self.name, lease, until)

    def _measured(self, ttl: int) -> int:
        return int(ttl * SURE / 1000 / self.pace)

    def _told(self, asked: BelievedRequest, outcome: object) -> None:
        if isinstance(outcome, Renewed):
            if asked.lease in self.leases:
                self._be_sure(self.leases[asked.lease], outcome.lease, asked.sent)
        elif isinstance(outcome, Lost):
            self._lost(outcome)
        elif isinstance(outcome, Released):
            if outcome.released and outcome.lease not in self.released:
                raise Broken(f"{self.name} released {outcome.lease}, which is not its own")
        elif isinstance(outcome, SessionStarted | SessionRenewed):
            self._session_lives(asked, outcome)

    def _session_lives(self, asked: BelievedRequest, outcome: SessionStarted | SessionRenewed) -> None:
        if self.session is None or outcome.session.session != self.session.session:
            return
        self.session_until = max(self.session_until, asked.sent + self._measured(SESSION_TTL))
        for lease in outcome.leases if isinstance(outcome, SessionRenewed) else ():
            if lease.id in self.leases:
                self._be_sure(self.leases[lease.id], lease, asked.sent)

    def _lost(self, outcome: Lost) -> None:
        if not outcome.lease:
            self.leave_session()
        elif outcome.lease in self.leases:
            if self.place.watch.is_believed(outcome.lease):
                raise Broken(f"{self.name} heard that {outcome.lease} is lost, long before its time")
            self.forget(lambda known: known.lease.id == outcome.lease)
