"""What is an agent's own: by its session, its name, or the token it shows. It asks nobody, and opens nothing."""

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

    T = TypeVar("T", Lease, Waiting)

REMEMBERED = 10_000
"""So many resources that were handed out are known; of more, the oldest are forgotten."""


class Who(NamedTuple):
    """The agent that asks."""

    name: str
    session: str | None
    """`ID.SECRET`, if it has one."""
    is_one: bool
    """Whether the name is its own, and not shared by all who show the same key."""
    is_named: bool = False
    """Whether it gave that name itself: only then an acquire may return the lease that it has already."""

    def own(self, found: Sequence[T]) -> list[T]:
        """Those of this agent, and of nobody else by the same name."""
        return self.named(found) if self.is_one else []

    def named(self, found: Sequence[T]) -> list[T]:
        """Those in its name. A session acts in its own name, which may be another than the agent's here."""
        if self.session is not None:
            own = [each for each in found if each.session == session_id(self.session)]
            if own:
                return own
        return [each for each in found if each.holder == self.name]

    def place(self, waiting: Sequence[Waiting]) -> int:
        """Its place in the queue; 0 if it is in none, or if several wait in its name and nobody knows which it is."""
        named = self.named(waiting)
        return named[0].position if named and (self.is_one or len(named) == 1) else 0


def in_its_own_way(outcome: object) -> tuple[str, ...]:
    """What this agent holds itself, as it has proved, if that is all that keeps it from what it wants."""
    if not isinstance(outcome, Held) or not is_yours(outcome):
        return ()
    return tuple(each.resource for each in outcome.blockers)


class Handed:
    """The last lease that was handed out for a resource, to each agent and for each token.

    Live leases can be listed. Of one that is gone, only its id still tells why.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._leases: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._tokens: OrderedDict[tuple[str, str], dict[str, tuple[str, str]]] = OrderedDict()
        """The tokens of each agent's latest leases, by the lease's id, each with the connection that it went to."""

    def remember(self, party: str, who: Who, lease: Lease, token: str, connection: str = "") -> None:
        """This agent has it now, with this token."""
        if who.is_one:
            self._keep_token((party, who.name), lease.id, token, connection)
        for resource in lease.resources:
            if who.is_one:
                self._keep((party, who.name, resource), lease.id)
            self._keep(("", secret_hash(token), resource), lease.id)

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

    def tokens(self, party: str, who: Who) -> dict[str, str]:
        """The tokens of this agent's latest leases, by the lease's id; none if its name may be another's as well."""
        known = self._tokens.get((party, who.name), {}) if who.is_one else {}
        return {lease: token for lease, (token, _) in known.items()}

    def proofs(self, party: str, who: Who, connection: str) -> list[str]:
        """Its tokens that were handed out on this connection: agents elsewhere may have chosen the same name."""
        known = self._tokens.get((party, who.name), {}) if who.is_one else {}
        return [token for token, where in known.values() if where == connection]

    def to(self, party: str, who: Who, resource: str) -> str | None:
        """The lease that this agent got last; None if its name may be another's as well."""
        return self._leases.get((party, who.name, resource)) if who.is_one else None

    def by(self, token: str | None, resource: str) -> str | None:
        """The lease that this token came with."""
        return self._leases.get(("", secret_hash(token), resource)) if token else None
