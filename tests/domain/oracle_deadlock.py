"""Whether a request would wait for ever: by trying all sets of actors, and following every edge there is."""

from __future__ import annotations

from itertools import combinations

from tests.domain import oracle_pools as pools
from tests.domain.oracle_nouns import Lease, Waiter, bars, counts_against, has_slot, is_free, taken


class Standstill:
    """Everybody's holds and waits at one moment, with one more request that is only being considered."""

    def __init__(self, asked: Waiter, holds: list[Lease], others: list[Waiter]) -> None:
        self.asked = asked
        self.holds = holds
        self.waits = [*others, asked]
        self.stuck = self._stuck_for_ever()
        """Actors that wait for each other, and for whatever that includes, for ever."""
        self.blocked = [one for one in self.waits if self._is_blocked(one, self.stuck)]

    def is_deadlock(self) -> bool:
        """Whether the request would wait for ever, for a reason that leads back to the caller."""
        if self.asked not in self.blocked:
            return False
        reached = self._next(self.asked)
        while not reached >= (further := {actor for one in self._of(reached) for actor in self._next(one)}):
            reached |= further
        return self.asked.who.actor in reached

    def is_cycle(self, told: list[tuple[str, str]]) -> bool:
        """Whether each holder of (holder, resource) is stuck there because of the next; the first by this request."""
        places = {self.asked.who.actor}
        for number, (holder, resource) in enumerate(told):
            waits = [one for one in self._of(places) if one.who.holder == holder and (number or one is self.asked)]
            places = {actor for one in waits for actor in self.stuck if self._obstructs(actor, one, resource)}
        return self.asked.who.actor in places

    def _of(self, actors: set[str]) -> list[Waiter]:
        return [one for one in self.blocked if one.who.actor in actors]

    # ---------------------------------------------------------------------------------------------- who is stuck

    def _stuck_for_ever(self) -> set[str]:
        """The union of all sets of actors in which everybody waits for others of the set."""
        actors = sorted({one.who.actor for one in self.waits})
        some = (set(few) for size in range(1, len(actors) + 1) for few in combinations(actors, size))
        return set().union(*(few for few in some if all(self._is_stuck(actor, few) for actor in few)))

    def _is_stuck(self, actor: str, among: set[str]) -> bool:
        return any(self._is_blocked(one, among) for one in self.waits if one.who.actor == actor)

    def _is_blocked(self, one: Waiter, among: set[str]) -> bool:
        """Whether it still could not be served if everybody who is not among these gave way."""
        if pools.is_pool(one.want.options[0][0]):
            return self._has_no_member(one, among)
        stay, ahead = self._before(one, among - {one.who.actor})
        return not any(
            is_free(option, one.want, stay, ahead)
            and not any(self._is_short_of_slots(one, resource, among) for resource in option)
            for option in one.want.options
        )

    def _has_no_member(self, one: Waiter, among: set[str]) -> bool:
        """As for slots: the members that it has itself are no way out as long as another has one."""
        name = one.want.options[0][0]
        others, others_ahead = _names(*self._before(one, among - {one.who.actor}))
        mine, mine_ahead = _names(*self._before(one, {one.who.actor}))
        is_alone = not any(pools.is_pool(each) and pools.overlap(each, name) for each in (*others, *others_ahead))
        return not is_alone and not pools.has_way_out(name, others + mine, others_ahead + mine_ahead)

    def _is_short_of_slots(self, one: Waiter, resource: str, among: set[str]) -> bool:
        """No actor waits for itself; but as long as another has a slot, its own are no way out."""
        stay, ahead = self._before(one, among - {one.who.actor})
        mine, mine_ahead = self._before(one, {one.who.actor})
        from_others = taken(resource, one.want, stay, ahead)
        return from_others > 0 and not has_slot(resource, one.want, stay + mine, ahead + mine_ahead)

    def _before(self, one: Waiter, actors: set[str]) -> tuple[list[Lease], list[Waiter]]:
        holds = [lease for lease in self.holds if lease.who.actor in actors]
        return holds, [other for other in self.waits if other.who.actor in actors and self._is_ahead(other, one)]

    def _is_ahead(self, other: Waiter, one: Waiter) -> bool:
        """Whether `one` must let the other go first. A wish goes behind all who wait; a newcomer it has not met yet."""
        if other.behind_all or (one.behind_all and other is self.asked):
            return False
        return one.behind_all or other.order < one.order

    # -------------------------------------------------------------------------------------------- because of whom

    def _next(self, one: Waiter) -> set[str]:
        return {actor for actor in self.stuck if any(self._obstructs(actor, one, each) for each in one.places)}

    def _obstructs(self, actor: str, one: Waiter, resource: str) -> bool:
        """Whether this actor has, or waits ahead for, what `one` lacks at this resource."""
        if actor == one.who.actor:
            return False
        holds, ahead = self._before(one, {actor})
        grips = [(lease.resources, lease.want) for lease in holds]
        grips += [(other.places, other.want) for other in ahead]
        is_short = self._is_short_of_slots(one, resource, self.stuck)
        return any(
            bars(resource, mine, one.want, theirs, want)
            or (is_short and counts_against(resource, one.want, theirs, want))
            for mine in one.want.options
            if resource in mine
            for theirs, want in grips
        )


def _names(holds: list[Lease], ahead: list[Waiter]) -> tuple[list[str], list[str]]:
    return [lease.resources[0] for lease in holds], [one.want.options[0][0] for one in ahead]
