"""From records to the wait-for graph: who waits for whom, as the store has it at this moment. Pure."""

from __future__ import annotations

from leasehold.deadlock import Need, find_cycle
from leasehold.keys import home
from leasehold.model import EXCLUSIVE, FOREVER, SLOTS, Ref, Session, Wish
from leasehold.noun import Noun
from leasehold.records import place_in, place_of
from leasehold.rules.conflicts import compatible, is_alive, modes_of, nodes_of
from leasehold.rules.granting import SESSION, WISH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasehold.deadlock import Choice, Wait
    from leasehold.model import Ask, Claim, Option, Waiter
    from leasehold.rules.draft import Draft

LAST = (FOREVER, FOREVER)
"""The order of somebody who is in no queue: behind everybody."""


def cycle_closed_by(draft: Draft, actor: str, ask: Ask, order: tuple[int, int]) -> tuple[str, ...] | None:
    """The cycle (holder, resource, holder, resource, …) that this request would close by waiting."""
    if not _is_entangled(draft, actor) and not _overtakes(draft, ask, order):
        return None
    graph = _Considered(draft, actor, ask, order)
    return graph.named(find_cycle(actor, graph.waits_of, graph.wanted()))


def cycle_of(draft: Draft, waiter: Waiter, ask: Ask) -> tuple[str, ...] | None:
    """The same of somebody who is in the queue already."""
    graph = _Searched(draft)
    graph.names[waiter.actor] = ask.holder
    wait = graph.choices(waiter.actor, ask.options, ask.slots, waiter.order)
    return graph.named(find_cycle(waiter.actor, graph.waits_of, wait))


def _is_entangled(draft: Draft, actor: str) -> bool:
    """Nobody can wait for an actor that neither holds nor waits: it cannot be part of a cycle."""
    return any(isinstance(note, Ref) for note in draft.record(actor).notes.values())


def _overtakes(draft: Draft, ask: Ask, order: tuple[int, int]) -> bool:
    """Whether somebody who waits already would have to wait for this request as well."""
    queues = (draft.record(node).waiters for node in nodes_of(ask))
    return any(queue and queue[-1].order > order for queue in queues)


class Rival(Noun):
    """A hold, or a place in the queue, that somebody else would have to give up."""

    actor: str
    holder: str
    mode: str
    slots: int
    id: str
    """Of the lease or of the waiter; empty for one that is only being considered."""


class Seeker(Noun):
    """Somebody who wants one of these, at this place of the order."""

    actor: str
    options: tuple[Option, ...]
    slots: int
    order: tuple[int, int]


class WaitGraph:
    """The waits of every actor."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.names: dict[str, str] = {}

    def named(self, cycle: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The same cycle with the actors' names."""
        if cycle is None:
            return None
        return tuple(self.names[each] if place % 2 == 0 else each for place, each in enumerate(cycle))

    def waits_of(self, actor: str) -> list[Wait]:
        """What this actor waits for and does not get; nothing, if its session is over."""
        if not self.lives(actor):
            return []
        waits = [self.choices(actor, ask.options, ask.slots, waiter.order) for waiter, ask in self.waiters(actor)]
        return [wait for wait in (*waits, *self._outside_of_queues(actor)) if all(wait)]

    def _outside_of_queues(self, actor: str) -> list[Wait]:
        wish = self.wish(actor)
        return [] if wish is None else [self.choices(actor, wish.options, wish.slots, LAST)]

    def lives(self, actor: str) -> bool:
        """Whether it is no session, or one that is not over."""
        session = self.draft.record(actor).notes.get(SESSION)
        return not isinstance(session, Session) or session.expires_at > self.draft.now

    def wish(self, actor: str) -> Wish | None:
        """What it was refused a short while ago, and is expected to ask for again."""
        wish = self.draft.record(actor).notes.get(WISH)
        return wish if isinstance(wish, Wish) and wish.until > self.draft.now else None

    def waiters(self, actor: str) -> list[tuple[Waiter, Ask]]:
        """Its places in queues."""
        ids = [note.id for note in self.draft.record(actor).notes.values() if isinstance(note, Ref)]
        ids = [id_ for id_ in ids if id_.startswith("w")]
        self.draft.require([home(id_) for id_ in ids])
        waiters = [self._waiter(id_) for id_ in ids]
        return [(each, each.ask) for each in waiters if each and each.ask is not None and is_alive(self.draft, each)]

    def _waiter(self, id_: str) -> Waiter | None:
        queue = self.draft.record(home(id_)).waiters
        place = place_of(queue, id_)
        return None if place is None else queue[place]

    def choices(self, actor: str, options: tuple[Option, ...], slots: int, order: tuple[int, int]) -> Wait:
        """What stands before somebody who wants one of these, at this place of the order."""
        self.draft.require([claim.node for option in options for claim in option.claims])
        seeker = Seeker(actor, options, slots, order)
        return tuple(self._choice(seeker, option) for option in options)

    def _choice(self, seeker: Seeker, option: Option) -> Choice:
        return tuple(need for claim in option.claims for need in self._needs(seeker, option, claim))

    def _needs(self, seeker: Seeker, option: Option, claim: Claim) -> Iterable[Need]:
        """Who would have to give way; whoever asks does not wait for itself, nor for a closed resource's ghost."""
        counted: list[Rival] = []
        others: list[Rival] = []
        for rival in self._in_the_way(seeker, option, claim):
            is_counted = claim.mode == rival.mode == SLOTS and rival.slots == seeker.slots
            (counted if is_counted else others).append(rival)
        resource = option.resources[claim.of]
        yield from self._need(seeker.actor, resource, others, len(others))
        yield from self._need(seeker.actor, resource, counted, len(counted) - seeker.slots + 1)

    def _in_the_way(self, seeker: Seeker, _option: Option, claim: Claim) -> list[Rival]:
        return [*self._rivals(claim, seeker.order), *self._newcomer_ahead(claim, seeker.order)]

    def _need(self, actor: str, resource: str, rivals: list[Rival], enough: int) -> Iterable[Need]:
        others = [rival for rival in rivals if rival.actor != actor]
        self.names.update((rival.actor, rival.holder) for rival in others)
        if others and enough > 0:
            yield Need(resource, tuple(rival.actor for rival in others), min(enough, len(others)))

    def _rivals(self, claim: Claim, order: tuple[int, int]) -> Iterable[Rival]:
        """Whoever has this node, or is to be given it before, in a mode that does not go together with the claim's."""
        record = self.draft.record(claim.node)
        for hold in record.holds.values():
            if hold.expires_at > self.draft.now and not hold.closed and not compatible(claim.mode, hold.mode):
                yield Rival(hold.actor, hold.holder, hold.mode, hold.slots, hold.id)
        for waiter in record.waiters[: place_in(record.waiters, order)]:
            if not compatible(claim.mode, waiter.mode) and is_alive(self.draft, waiter):
                yield Rival(waiter.actor, waiter.holder, waiter.mode, waiter.slots, waiter.id)

    def _newcomer_ahead(self, _claim: Claim, _order: tuple[int, int]) -> list[Rival]:
        """Whoever is not in the records yet."""
        return []


class _Searched(WaitGraph):
    """Without the edges that change nothing: in a queue of thousands, most of those to everybody ahead.

    Whoever is ahead, and wants what the seeker wants and nothing else, waits for nobody that the seeker does not wait
    for as well. It can go on if all those can, and a way through it can be made shorter by leaving it out.
    """

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._only_waits: dict[str, Ask | None] = {}
        """By waiter: what its actor waits for, if that is all it waits for."""
        self._met: set[str] = set()
        """Of whom everything is loaded."""

    def _in_the_way(self, seeker: Seeker, option: Option, claim: Claim) -> list[Rival]:
        rivals = super()._in_the_way(seeker, option, claim)
        self._meet([rival for rival in rivals if rival.id not in self._met])
        is_behind = any(rival.id.startswith("w") for rival in rivals)
        if not is_behind or claim.mode == SLOTS or self._is_ahead_itself(seeker):
            return rivals  # for slots, it matters how many there are
        return [rival for rival in rivals if not self._is_implied(rival, seeker, option)]

    def _meet(self, rivals: list[Rival]) -> None:
        """Their waits are looked at next: one by one, each of them would make the search begin again."""
        homes = [home(rival.id) for rival in rivals if rival.id.startswith("w")]
        self.draft.require([*(rival.actor for rival in rivals), *homes])
        self._met.update(rival.id for rival in rivals)

    def _is_ahead_itself(self, seeker: Seeker) -> bool:
        """Whether somebody ahead may wait for the seeker, which does not wait for itself."""
        for claim in (claim for option in seeker.options for claim in option.claims):
            record = self.draft.record(claim.node)
            ahead = record.waiters[: place_in(record.waiters, seeker.order)]
            if seeker.actor in (each.actor for each in ahead) or seeker.actor in (
                each.actor for each in record.holds.values()
            ):
                return True
        return False

    def _is_implied(self, rival: Rival, seeker: Seeker, option: Option) -> bool:
        if not rival.id.startswith("w"):
            return False
        if rival.id not in self._only_waits:
            self._only_waits[rival.id] = self._only_wait(rival)
        ask = self._only_waits[rival.id]
        if ask is None:
            return False
        if ask.options == seeker.options:
            return True
        return any(_is_within(each, option) for each in ask.options) and all(
            any(_is_within(each, other) for other in seeker.options) for each in ask.options
        )

    def _only_wait(self, rival: Rival) -> Ask | None:
        if self.wish(rival.actor) is not None:
            return None
        refs = (note.id for note in self.draft.record(rival.actor).notes.values() if isinstance(note, Ref))
        if [id_ for id_ in refs if id_.startswith("w")] != [rival.id]:
            return None
        waiter = self._waiter(rival.id)
        return waiter.ask if waiter is not None else None


def _is_within(option: Option, other: Option) -> bool:
    """Whether whoever is in the way of this option is in the way of the other one as well."""
    modes = {claim.node: claim.mode for claim in other.claims}
    return all(modes.get(claim.node) in (EXCLUSIVE, claim.mode) for claim in option.claims)


class _Considered(_Searched):
    """With one more wait that is only being considered."""

    def __init__(self, draft: Draft, actor: str, ask: Ask, order: tuple[int, int]) -> None:
        super().__init__(draft)
        self.actor = actor
        self.ask = ask
        self.order = order
        self.names[actor] = ask.holder

    def wanted(self) -> Wait:
        """What is being considered, as a wait."""
        return self.choices(self.actor, self.ask.options, self.ask.slots, self.order)

    def _outside_of_queues(self, actor: str) -> list[Wait]:
        return [self.wanted()] if actor == self.actor else super()._outside_of_queues(actor)

    def _only_wait(self, rival: Rival) -> Ask | None:
        return None if rival.actor == self.actor else super()._only_wait(rival)

    def _newcomer_ahead(self, claim: Claim, order: tuple[int, int]) -> list[Rival]:
        """The request that is being considered, where its priority would put it before an older waiter.

        Who only polls is not held up by it yet: if that goes on, the next poll will be the one that closes the cycle.
        """
        if order <= self.order or order == LAST:
            return []
        mode = modes_of(self.ask).get(claim.node)
        if mode is None or compatible(claim.mode, mode):
            return []
        return [Rival(self.actor, self.ask.holder, mode, self.ask.slots, "")]
