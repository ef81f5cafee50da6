"""The plans of a duel: announced, ended and compared, the matrix of each of them included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain import commands as c
from leasehold.domain import entries, names
from leasehold.domain.entries import EMPTY
from leasehold.domain.outcomes import Planned
from leasehold.domain.rules import Draft
from leasehold.domain.rules import plans as rules
from leasehold.requests import checks
from leasehold.testing.asking import asking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.plans import Plan as Seen
    from tests.domain.duel import Duel
    from tests.domain.oracle_nouns import Answer, Who
    from tests.domain.oracle_plans import Plan


class PlansOfDuel:
    """What both sides know of plans."""

    def __init__(self, duel: Duel) -> None:
        self._duel = duel
        self.ids: dict[Plan, str] = {}

    def announce(self, who: Who, resources: list[str], ttl: int, shown: frozenset[str] = frozenset()) -> Answer:
        duel = self._duel
        duel.tokens += 1
        token = f"token-{duel.tokens}"
        asked = asking(
            resources=resources,
            ttl=f"{ttl // 1000}ms",
            holder=who.holder,
            any_of=True,
            session=None if who.session is None else f"{who.session}.secret-of-{who.session}",
            token=sorted(shown),
        )
        was_due = duel.world.due()
        command = c.Announce(checks.acquire(asked, checks.Settings(), token, duel.engine))

        def ask_oracle(outcome: Outcome) -> Answer:
            answer = duel.oracle.plans.announce(who, resources, ttl, token, shown)
            if isinstance(outcome, Planned):
                self.ids[duel.oracle.plans.all[-1]] = outcome.plan.id
                if not was_due:  # else the sweep, which came after the answer, may have ended what it told of
                    assert _cells(outcome.plan) == _cells(self._seen(outcome.plan.id)), "later it is told otherwise"
            return answer

        return duel.both(command, ask_oracle)

    def release(
        self, plan: Plan, token: str | None = None, secret_of: str | None = None, admin: bool = False
    ) -> Answer:
        session = None if secret_of is None else f"{secret_of}.secret-of-{secret_of}"
        command = c.EndPlan(self.ids[plan], checks.proof(token, session, "ops" if admin else None))
        return self._duel.both(command, lambda _: self._duel.oracle.plans.release(plan, token, secret_of, admin))

    def compare(self) -> None:
        """Both see the same plans, the same matrix, and marks on exactly the nodes that the plans would need."""
        known, records = self._duel.oracle.plans.all, self._duel.world.records
        stored = {note.id: note for note in self._notes() if isinstance(note, entries.PlanTerms)}
        assert stored.keys() == {self.ids[plan] for plan in known}
        marks = {(key, note.id) for key in records for note in records[key].notes.values() if _is_mark(note)}
        wanted: set[tuple[str, str]] = set()
        for plan in known:
            id_ = self.ids[plan]
            seen = self._seen(id_)
            assert (list(seen.resources), seen.since_us, seen.expires_us) == (
                plan.resources,
                plan.since,
                plan.expires_at,
            )
            self._same_matrix(plan, seen)
            claims = [claim for name in plan.resources for claim in names.claims("default", name, "X")]
            wanted |= {(claim.node, id_) for claim in claims}
        assert marks == wanted

    def _same_matrix(self, plan: Plan, seen: Seen) -> None:
        theirs = {(each.resource, each.state, each.other, each.id) for each in seen.overlaps}
        ids = {
            id(thing): id_ for known in (self._duel.ids, self._duel.places, self.ids) for thing, id_ in known.items()
        }
        ours = {
            (mine, state, other, ids[id(thing)]) for mine, state, other, thing in self._duel.oracle.plans.matrix(plan)
        }
        assert theirs == ours, f"told only by the rules: {theirs - ours}; only by the oracle: {ours - theirs}"

    def _notes(self) -> Iterator[entries.Note]:
        for key, record in self._duel.world.records.items():
            if key.startswith("a"):
                yield from record.notes.values()

    def _seen(self, id_: str) -> Seen:
        """As a query looks at it."""
        draft = Draft(_All(self._duel.world.records), self._duel.world.now, 0, "")
        plan = rules.live(draft, id_)
        assert plan is not None
        return rules.shown(draft, plan)


def _cells(plan: Seen) -> set[tuple[str, str, str, str]]:
    return {(each.resource, each.state, each.other, each.id) for each in plan.overlaps}


class _All(dict[str, entries.Record]):
    """Every record there is; one that there is not is empty."""

    def get(self, key: str, default: object = None) -> entries.Record:
        return super().get(key, EMPTY)

    def __contains__(self, key: object) -> bool:
        return True


def _is_mark(note: entries.Note) -> bool:
    return isinstance(note, entries.PlanMark)
