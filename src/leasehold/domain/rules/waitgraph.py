"""From records to the wait-for graph: who waits for whom, as the store has it at this moment. Pure."""

from __future__ import annotations

from bisect import bisect_left

from leasehold.domain.entries import NAMED_MODES, OWN_MODES, PATTERN_MODES, POOL, SLOTS, Hold, Poll, Ref, Waiter
from leasehold.domain.keys import home
from leasehold.domain.nouns import Noun
from leasehold.domain.records import place_in
from leasehold.domain.rules import pools
from leasehold.domain.rules.conflicts import BY_NAME, COMPATIBLE, is_alive, load, meet_by_name, modes_of, resources
from leasehold.domain.rules.deadlock import Need, find_cycle
from leasehold.domain.rules.granting import SESSION, WISH
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasehold.domain.entries import Alternative, Claim, LeaseRequest
    from leasehold.domain.rules import Draft
    from leasehold.domain.rules.deadlock import Choice, Wait

LAST = (FOREVER, FOREVER)
"""The order of an actor that is in no queue: behind all others."""
FIRST = (-FOREVER, 0)
"""The order of a holder."""


def cycle_closed_by(draft: Draft, actor: str, ask: LeaseRequest, order: tuple[int, ...]) -> tuple[str, ...] | None:
    """Return the cycle (holder, resource, holder, …) that this request would close by waiting.

    Worth asking only of one that `may_close_cycle`.
    """
    graph = _Considered(draft, actor, ask, order)
    return graph.named(find_cycle(actor, graph.waits_of, graph.wanted()))


def cycle_of(draft: Draft, waiter: Waiter, ask: LeaseRequest) -> tuple[str, ...] | None:
    """Return a cycle through an actor that is in the queue already."""
    graph = _Searched(draft)
    graph.names[waiter.actor] = ask.holder
    wait = graph.choices(waiter.actor, ask.options, ask.slots, waiter.order)
    return graph.named(find_cycle(waiter.actor, graph.waits_of, wait))


class Rival(Noun):
    """A hold, or a place in the queue, that another actor would have to give up."""

    actor: str
    holder: str
    mode: str
    slots: int
    id: str
    """Of the lease or of the waiter; empty for one that is only being considered."""
    order: tuple[int, ...]
    """Its place in the order of service."""


class Seeker(Noun):
    """An actor that wants one of these, at this place of the order."""

    actor: str
    options: tuple[Alternative, ...]
    slots: int
    order: tuple[int, ...]


class SoughtNode(Noun):
    """A node that an actor wants, and the resource for which it does."""

    node: str
    mode: str
    resource: str
    name: str | None = None
    """The same resource where patterns are around, which are compared by name."""
    is_first: bool = True
    """False for a further resource below the same node: nothing but what is compared by name is in its way here."""
    is_part: bool = False
    """True for members of a pool that the same waiters want, and of which any would do."""


class WaitGraph:
    """The waits of every actor."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.names: dict[str, str] = {}
        self._queues: dict[str, dict[str, Waiter]] = {}
        """By node, and by id: almost everybody in a queue is looked up."""
        self._patterned: dict[str, bool] = {}

    def named(self, cycle: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return this cycle with the actors' names."""
        if cycle is None:
            return None
        return tuple(self.names[each] if place % 2 == 0 else each for place, each in enumerate(cycle))

    def waits_of(self, actor: str) -> list[Wait]:
        """Return what this actor waits for; nothing if its session is over."""
        if not self.lives(actor):
            return []
        waits = [self.choices(actor, ask.options, ask.slots, waiter.order) for waiter, ask in self.waiters(actor)]
        waits += self._outside_of_queues(actor)
        return [wait for wait in waits if all(wait)]

    def _outside_of_queues(self, actor: str) -> list[Wait]:
        wish = self.wish(actor)
        return [] if wish is None else [self.choices(actor, wish.options, wish.slots, LAST)]

    def lives(self, actor: str) -> bool:
        """Return True if it is no session, or one that is alive."""
        session = self.draft.record(actor).notes.get(SESSION)
        return not isinstance(session, Session) or session.expires_us > self.draft.now

    def wish(self, actor: str) -> Poll | None:
        """Return its last refused try, which it is expected to repeat."""
        wish = self.draft.record(actor).notes.get(WISH)
        return wish if isinstance(wish, Poll) and wish.until > self.draft.now else None

    def waiters(self, actor: str) -> list[tuple[Waiter, LeaseRequest]]:
        """Its places in queues."""
        notes = self.draft.record(actor).notes
        ids = [id_ for id_, note in notes.items() if id_.startswith("w") and isinstance(note, Ref)]
        if len(ids) > 1:
            self.draft.require([home(id_) for id_ in ids])
        waiters = [self._waiter(id_) for id_ in ids]
        return [(each, each.ask) for each in waiters if each and each.ask is not None and is_alive(self.draft, each)]

    def _waiter(self, id_: str) -> Waiter | None:
        node = home(id_)
        queue = self._queues.get(node)
        if queue is None:
            queue = self._queues[node] = {waiter.id: waiter for waiter in self.draft.record(node).waiters}
        return queue.get(id_)

    def choices(self, actor: str, options: tuple[Alternative, ...], slots: int, order: tuple[int, ...]) -> Wait:
        """Return the obstacles to an actor that wants one of these, at this place of the order."""
        if len(options) > 1 or len(options[0].claims) > 1:
            self.draft.require([claim.node for option in options for claim in option.claims])
        seeker = Seeker(actor, options, slots, order)
        return tuple(self._choice(seeker, option) for option in options)

    def _choice(self, seeker: Seeker, option: Alternative) -> Choice:
        spots = (spot for claim in option.claims for spot in self._spots(option, claim))
        return tuple(need for spot in spots for need in self._needs(seeker, spot))

    def _spots(self, option: Alternative, claim: Claim) -> list[SoughtNode]:
        first = option.resources[claim.of]
        if claim.mode in OWN_MODES or not (claim.mode in NAMED_MODES or self._has_patterns(claim.node)):
            return [SoughtNode(claim.node, claim.mode, first)]
        return [SoughtNode(claim.node, claim.mode, name, name, name == first) for name in option.resources]

    def _has_patterns(self, node: str) -> bool:
        found = self._patterned.get(node)
        if found is None:
            record = self.draft.record(node)
            modes = {*(hold.mode for hold in record.holds.values()), *(waiter.mode for waiter in record.waiters)}
            found = self._patterned[node] = not modes.isdisjoint(PATTERN_MODES)
        return found

    def _needs(self, seeker: Seeker, spot: SoughtNode) -> Iterable[Need]:
        """Yield those that would have to give way. An actor waits neither for itself nor for a closed resource."""
        counted: list[Rival] = []
        others: list[Rival] = []
        order = seeker.order
        for rival in [*self._holding(spot), *self._queueing(spot, order), *self._newcomer_ahead(spot, order)]:
            (counted if _is_counted(rival, spot, seeker.slots) else others).append(rival)
        yield from self._need(seeker.actor, spot.resource, others, len(others))
        yield from self._need(seeker.actor, spot.resource, counted, len(counted) - self.room(spot, seeker.slots) + 1)

    def room(self, spot: SoughtNode, slots: int) -> int:
        """Return how many can be on this node at once: so many slots, or the members that are wanted of a pool."""
        return slots if spot.mode != POOL else pools.size(spot.name or spot.resource)

    def _need(self, actor: str, resource: str, rivals: list[Rival], enough: int) -> Iterable[Need]:
        others = [rival for rival in rivals if rival.actor != actor]
        self.names.update((rival.actor, rival.holder) for rival in others)
        if others and enough > 0:
            yield Need(resource, tuple(rival.actor for rival in others), min(enough, len(others)))

    def _conflicts(self, spot: SoughtNode, other: Hold | Waiter) -> bool:
        pair = (spot.mode, other.mode)
        if pair in COMPATIBLE:
            return False
        if pair not in BY_NAME:
            return spot.is_first
        return spot.name is None or meet_by_name((spot.name,), resources(self.draft, other))

    def _holding(self, spot: SoughtNode) -> list[Rival]:
        """Return the holders of this node whose mode conflicts with the one that is wanted."""
        holds = self.draft.record(spot.node).holds.values()
        load(self.draft, spot.mode, holds)
        return [
            Rival(hold.actor, hold.holder, hold.mode, hold.slots, hold.id, FIRST)
            for hold in holds
            if hold.expires_at > self.draft.now and not hold.closed and self._conflicts(spot, hold)
        ]

    def _queueing(self, spot: SoughtNode, order: tuple[int, ...], start: int = 0) -> list[Rival]:
        """Return the waiters to be served first, apart from the first so many in the queue."""
        waiters = self.draft.record(spot.node).waiters
        ahead = waiters[start : place_in(waiters, order)]
        load(self.draft, spot.mode, ahead)
        return [
            Rival(waiter.actor, waiter.holder, waiter.mode, waiter.slots, waiter.id, waiter.order)
            for waiter in ahead
            if self._conflicts(spot, waiter) and is_alive(self.draft, waiter)
        ]

    def _newcomer_ahead(self, _spot: SoughtNode, _order: tuple[int, ...]) -> list[Rival]:
        """Return the rivals that are not in the records yet."""
        return []


def _is_counted(rival: Rival, spot: SoughtNode, slots: int) -> bool:
    """Return True if both want one of so many slots or members; all other rivals have to give way."""
    if spot.is_part:
        return rival.order == FIRST
    return spot.mode == rival.mode and (spot.mode == POOL or (spot.mode == SLOTS and rival.slots == slots))


class _Rivals:
    """The rivals of actors that want the same, in the order of service, as far as they are loaded."""

    def __init__(self) -> None:
        self.actors: list[str] = []
        self.orders: list[tuple[int, ...]] = []
        self._places: dict[str, list[int]] = {}

    def add(self, rival: Rival) -> None:
        """Add a rival behind all others."""
        self._places.setdefault(rival.actor, []).append(len(self.actors))
        self.actors.append(rival.actor)
        self.orders.append(rival.order)

    def own(self, actor: str, first: int) -> int:
        """Return how often this actor is among the first so many."""
        return sum(place < first for place in self._places.get(actor, ()))


class _ClaimRivals:
    """Of one kind of claim on one node: those who are counted, and those who all have to give way."""

    def __init__(self) -> None:
        self.others = _Rivals()
        self.counted = _Rivals()
        self.looked_at = 0
        """Length of the part of the queue that is blocked."""
        self.seen: tuple[int, ...] = FIRST
        """Everybody before this place is in here."""


class _Searched(WaitGraph):
    """The same graph, in which all who want the same share one line: a queue of thousands has millions of edges."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._lines: dict[tuple[str, str, int, bool, str | None, bool, bool], _ClaimRivals] = {}
        self._parts: dict[tuple[str, str], list[str]] = {}

    def choices(self, actor: str, options: tuple[Alternative, ...], slots: int, order: tuple[int, ...]) -> Wait:
        """Return the obstacles to each option; of a pool, also to each part of it, of which any member will do."""
        wait = super().choices(actor, options, slots, order)
        claim, name = options[0].claims[0], options[0].resources[0]
        if claim.mode != POOL:
            return wait
        key = (claim.node, name)
        if key not in self._parts:
            self._parts[key] = pools.parts(name, self._wanted_at(claim.node))
        seeker = Seeker(actor, options, slots, order)
        spots = [SoughtNode(claim.node, POOL, name, part, is_part=True) for part in self._parts[key]]
        return (*wait, *(tuple(self._needs(seeker, spot)) for spot in spots))

    def _wanted_at(self, node: str) -> list[str]:
        """Return the names of a pool that waiters want."""
        return [resources(self.draft, waiter)[0] for waiter in self.draft.record(node).waiters]

    def _needs(self, seeker: Seeker, spot: SoughtNode) -> Iterable[Need]:
        order, slots = seeker.order, seeker.slots
        key = (spot.node, spot.mode, slots, order == LAST, spot.name, spot.is_first, spot.is_part)
        lines = self._lines.get(key)
        if lines is None:
            lines = self._lines[key] = _ClaimRivals()
            self._add(lines, spot, slots, self._holding(spot))
        if lines.seen < order:
            self._look(lines, spot, slots, order)
        needs = (
            _shared_need(seeker, spot, lines.others, 0),
            _shared_need(seeker, spot, lines.counted, self.room(spot, slots) - 1),
        )
        return [need for need in needs if need is not None]

    def _look(self, lines: _ClaimRivals, spot: SoughtNode, slots: int, order: tuple[int, ...]) -> None:
        """See everybody who is before this place, and was not seen yet."""
        for newcomer in self._newcomer_ahead(spot, order):
            if lines.seen <= newcomer.order:
                self._look_along(lines, spot, slots, newcomer.order)
                self._add(lines, spot, slots, [newcomer])
        self._look_along(lines, spot, slots, order)
        lines.seen = order

    def _look_along(self, lines: _ClaimRivals, spot: SoughtNode, slots: int, order: tuple[int, ...]) -> None:
        self._add(lines, spot, slots, self._queueing(spot, order, lines.looked_at))
        lines.looked_at = place_in(self.draft.record(spot.node).waiters, order)

    def _add(self, lines: _ClaimRivals, spot: SoughtNode, slots: int, rivals: list[Rival]) -> None:
        """Their waits are looked at next: loaded one by one, each of them would make the search begin again."""
        homes = [home(rival.id) for rival in rivals if rival.id.startswith("w")]
        self.draft.require([*(rival.actor for rival in rivals), *homes])
        for rival in rivals:
            self.names[rival.actor] = rival.holder
            (lines.counted if _is_counted(rival, spot, slots) else lines.others).add(rival)


def _shared_need(seeker: Seeker, spot: SoughtNode, line: _Rivals, spare: int) -> Need | None:
    """Return the need that all rivals ahead but `spare` give way.

    An actor never waits for itself; but a part of a pool that it blocks itself is no way out for it.
    """
    if len(line.actors) <= spare:
        return None
    first = bisect_left(line.orders, seeker.order)
    kept = spare if spot.is_part else max(spare, line.own(seeker.actor, first))
    return Need(spot.resource, line.actors, first - kept, first) if first > kept else None


class _Considered(_Searched):
    """With one more wait that is only being considered."""

    def __init__(self, draft: Draft, actor: str, ask: LeaseRequest, order: tuple[int, ...]) -> None:
        super().__init__(draft)
        self.actor = actor
        self.ask = ask
        self.order = order
        self.names[actor] = ask.holder

    def wanted(self) -> Wait:
        """Return the request that is being considered, as a wait."""
        return self.choices(self.actor, self.ask.options, self.ask.slots, self.order)

    def _outside_of_queues(self, actor: str) -> list[Wait]:
        return [self.wanted()] if actor == self.actor else super()._outside_of_queues(actor)

    def _wanted_at(self, node: str) -> list[str]:
        option = self.ask.options[0]
        return super()._wanted_at(node) + [option.resources[0]] * (option.claims[0].node == node)

    def _newcomer_ahead(self, spot: SoughtNode, order: tuple[int, ...]) -> list[Rival]:
        """Return the request under consideration if its priority would put it before an older waiter.

        It does not hold up an actor that only polls yet: if that goes on, the next poll will close the cycle.
        """
        if order <= self.order or order == LAST:
            return []
        mode = modes_of(self.ask).get(spot.node)
        if mode is None or not self._is_crossed(spot, mode):
            return []
        return [Rival(self.actor, self.ask.holder, mode, self.ask.slots, "", self.order)]

    def _has_patterns(self, node: str) -> bool:
        return modes_of(self.ask).get(node) in PATTERN_MODES or super()._has_patterns(node)

    def _is_crossed(self, spot: SoughtNode, mode: str) -> bool:
        """Return True if the request that is being considered, in this mode, excludes what is wanted here."""
        pair = (spot.mode, mode)
        if pair in COMPATIBLE:
            return False
        if pair not in BY_NAME:
            return spot.is_first
        wanted = tuple([name for option in self.ask.options for name in option.resources])
        return spot.name is None or meet_by_name((spot.name,), wanted)
