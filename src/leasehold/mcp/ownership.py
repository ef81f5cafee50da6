"""Which leases are an agent's own: by its session, its name, or its token. It asks no store, and proves nothing."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from leasehold.domain.keys import secret_hash
from leasehold.domain.outcomes import Held
from leasehold.requests.checks import session_id
from leasehold.requests.verbs import TOKENS_MOST
from leasehold.wire.sentences import is_yours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.leases import Lease, Waiting
    from leasehold.domain.outcomes import Planned

    T = TypeVar("T", Lease, Waiting)

REMEMBERED = 10_000
"""Most resources and most agents to remember; the oldest are forgotten first."""


class CallingAgent(NamedTuple):
    """The agent that asks."""

    name: str
    session: str | None
    """`ID.SECRET`, if it has one."""
    is_one: bool
    """True if the name is its own, and not shared by all callers with the same key."""
    is_named: bool = False
    """True if it gave that name itself: only then may an acquire return a lease that it has."""

    def own(self, found: Sequence[T]) -> list[T]:
        """Return those of this agent, without those of another one by the same name."""
        return self.named(found) if self.is_one else []

    def named(self, found: Sequence[T]) -> list[T]:
        """Return those in its name. The name of its session may differ from the agent's name here."""
        if self.session is not None:
            own = [each for each in found if each.session == session_id(self.session)]
            if own:
                return own
        return [each for each in found if each.holder == self.name]

    def place(self, waiting: Sequence[Waiting]) -> int:
        """Return its place in the queue; 0 if it has none, or if several requests wait in its name."""
        named = self.named(waiting)
        return named[0].position if named and (self.is_one or len(named) == 1) else 0


def in_its_own_way(outcome: object) -> tuple[str, ...]:
    """Return the resources that this agent has proved to hold, if nothing else blocks its request."""
    if not isinstance(outcome, Held) or not is_yours(outcome):
        return ()
    return tuple(each.resource for each in outcome.blockers)


class Handed:
    """The last lease of each agent, and of each token, on a resource.

    Live leases can be listed. The id of a lease that is gone is needed to find out why.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._leases: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._tokens: OrderedDict[tuple[str, str], dict[str, tuple[str, str]]] = OrderedDict()
        """The tokens of each agent's latest leases, by the lease's id, each with the connection that it went to."""
        self._connections: OrderedDict[str, dict[str, str]] = OrderedDict()
        """The tokens of the latest leases of each connection, by the lease's id."""

    def remember(self, party: str, who: CallingAgent, lease: Lease, token: str, connection: str = "") -> None:
        """Remember that this agent got this lease with this token."""
        if who.is_one:
            self._keep_token((party, who.name), lease.id, token, connection)
        if connection and who.session is None:
            self._keep_connection(connection, lease.id, token)
        for resource in lease.resources:
            if who.is_one:
                self._keep((party, who.name, resource), lease.id)
            self._keep(("", secret_hash(token), resource), lease.id)

    def remember_plan(self, party: str, who: CallingAgent, planned: Planned, connection: str) -> None:
        """Remember the token of a plan, which proves it when the agent acquires a part of it."""
        if who.is_one:
            self._keep_token((party, who.name), planned.plan.id, planned.token, connection)
        if connection and who.session is None:
            self._keep_connection(connection, planned.plan.id, planned.token)

    def _keep(self, key: tuple[str, str, str], lease: str) -> None:
        self._leases[key] = lease
        self._leases.move_to_end(key)
        while len(self._leases) > self._most:
            self._leases.popitem(last=False)

    def _keep_token(self, agent: tuple[str, str], lease: str, token: str, connection: str) -> None:
        tokens = self._tokens.setdefault(agent, {})
        self._tokens.move_to_end(agent)
        tokens.pop(lease, None)
        tokens[lease] = (token, connection)
        if len(tokens) > TOKENS_MOST:
            del tokens[next(iter(tokens))]
        if len(self._tokens) > self._most:
            self._tokens.popitem(last=False)

    def _keep_connection(self, connection: str, lease: str, token: str) -> None:
        leases = self._connections.setdefault(connection, {})
        self._connections.move_to_end(connection)
        leases[lease] = token
        if len(leases) > TOKENS_MOST:
            del leases[next(iter(leases))]
        if len(self._connections) > self._most:
            self._connections.popitem(last=False)

    def leave(self, connection: str) -> dict[str, str]:
        """Return the tokens of the leases that a connection got, by lease id, and forget the connection."""
        return self._connections.pop(connection, {})

    def tokens(self, party: str, who: CallingAgent) -> dict[str, str]:
        """Return the tokens of this agent's latest leases, by lease id; none if it may share its name."""
        known = self._tokens.get((party, who.name), {}) if who.is_one else {}
        return {lease: token for lease, (token, _) in known.items()}

    def proofs(self, party: str, who: CallingAgent, connection: str) -> list[str]:
        """Return its tokens from this connection: agents on other connections may have chosen the same name."""
        known = self._tokens.get((party, who.name), {}) if who.is_one else {}
        return [token for token, where in known.values() if where == connection]

    def to(self, party: str, who: CallingAgent, resource: str) -> str | None:
        """Return the lease that this agent got last on a resource; None if it may share its name."""
        return self._leases.get((party, who.name, resource)) if who.is_one else None

    def by(self, token: str | None, resource: str) -> str | None:
        """Return the lease that this token came with."""
        return self._leases.get(("", secret_hash(token), resource)) if token else None
