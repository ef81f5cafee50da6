"""The oracle's own idea of plans: one flat list, and every two names compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.domain.oracle_nouns import Answer, Waiter, lies_in, touches
from tests.domain.oracle_patterns import overlaps

if TYPE_CHECKING:
    from tests.domain.oracle import Oracle
    from tests.domain.oracle_nouns import Lease, Who

MOST = 16
NEVER = 2**53 - 1


@dataclass(eq=False)
class Plan:
    who: Who
    resources: list[str]
    ttl: int
    token: str
    since: int
    expires_at: int
    mine: list[Lease] = field(default_factory=list)
    """Leases that its agent proved to be its own."""


class Plans:
    """What everybody is about to touch. It tells the oracle's events, and looks at its leases; it changes neither."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.all: list[Plan] = []

    def announce(self, who: Who, resources: list[str], ttl: int, token: str, shown: frozenset[str]) -> Answer:
        if who.session is not None and who.session not in self._oracle.sessions:
            return Answer("Refused", "session_over")
        of_actor = [plan for plan in self.all if plan.who.actor == who.actor]
        replaced = [plan for plan in of_actor if _is_own(plan, who, shown)]
        if len(of_actor) - len(replaced) >= MOST:
            return Answer("Refused", "too_many")
        now = self._oracle.now
        older = [plan.since for plan in replaced if all(name in plan.resources for name in resources)]
        for plan in replaced:
            self._end(plan)
        mine = [lease for plan in replaced for lease in plan.mine]
        mine += [
            lease
            for lease in (*self._oracle.live(), *self._oracle.closed())
            if not lease.tokens.isdisjoint(shown) and touches(tuple(resources), lease.resources)
        ]
        self.all.append(Plan(who, list(resources), ttl, token, min([now, *older]), self._expiry(who, ttl), mine))
        self._tell("planned", who)
        return Answer("Planned")

    def release(self, plan: Plan, token: str | None, secret_of: str | None, admin: bool) -> Answer:
        if plan not in self.all:
            return Answer("Released", False)
        if not (admin or token == plan.token or (secret_of is not None and secret_of == plan.who.session)):
            return Answer("Refused", "not_allowed")
        self._end(plan)
        return Answer("Released", True)

    def take_out(self, who: Who, shown: frozenset[str], lease: Lease) -> None:
        """What was leased by proof of the plan is planned no longer."""
        for plan in [plan for plan in self.all if _is_own(plan, who, shown)]:
            if not touches(tuple(plan.resources), lease.resources):
                continue
            plan.resources = [name for name in plan.resources if not lies_in(name, lease.resources)]
            plan.mine.append(lease)
            if not plan.resources:
                self._end(plan)

    def settle(self) -> None:
        for plan in list(self.all):
            if plan.expires_at <= self._oracle.now:
                self._end(plan)

    def session_gone(self, who: Who) -> None:
        for plan in [plan for plan in self.all if plan.who.actor == who.actor]:
            self._end(plan)

    def renew(self, session: str) -> None:
        for plan in self.all:
            if plan.who.session == session:
                plan.expires_at = self._expiry(plan.who, plan.ttl)

    def matrix(self, plan: Plan) -> set[tuple[str, str, str, object]]:
        """Each planned name, what others do there, with which name, and by what."""
        others: list[tuple[str, tuple[str, ...], Plan | Lease | Waiter]] = []
        others += [("planned", tuple(each.resources), each) for each in self.all]
        others += [("held", lease.resources, lease) for lease in self._oracle.live()]
        for lease in self._oracle.closed():
            others.append(("quarantined" if lease.closed_until == NEVER else "grace", lease.resources, lease))
        others += [("waiting", one.places, one) for one in self._oracle.queue()]
        return {
            (mine, state, theirs, other)
            for state, names, other in others
            if not (plan.who.session is not None and other.who.actor == plan.who.actor)
            and other is not plan
            and other not in plan.mine
            and not (isinstance(other, Waiter) and plan.token in other.shown)
            for mine in plan.resources
            for theirs in names
            if overlaps(mine, theirs)
        }

    def _expiry(self, who: Who, ttl: int) -> int:
        until = self._oracle.now + ttl
        return until if who.session is None else min(until, self._oracle.sessions[who.session].expires_at)

    def _end(self, plan: Plan) -> None:
        self.all.remove(plan)
        self._tell("plan_ended", plan.who)

    def _tell(self, kind: str, who: Who) -> None:
        self._oracle.tell(kind, who)


def _is_own(plan: Plan, who: Who, shown: frozenset[str]) -> bool:
    """By proof: its token, or the session that announced it."""
    return plan.token in shown or (who.session is not None and plan.who.actor == who.actor)
