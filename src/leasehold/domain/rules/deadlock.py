"""The wait-for graph and its cycles. Pure: it knows actors and what they need, not how leases work.

A waiting actor needs something from others: an exclusive resource needs *all* of its blockers to give way, a
semaphore only *enough* of them, and a choice between resources only *one* of its alternatives. So a plain
cycle search would find phantoms; instead the graph is reduced. An actor is **live** if it waits for
nothing, or if everything that it waits for can come about through live actors alone. An actor that
is left over when nothing more can be reduced will wait for ever.
"""

from __future__ import annotations

from itertools import accumulate

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeAlias


class Need(Noun):
    """One resource that is wanted: at least `enough` of its blockers have to give way."""

    resource: str
    blockers: Sequence[str]
    enough: int
    first: int | None = None
    """Only so many of the blockers count, from the first on; None: all of them.

    A queue is one sequence for all who wait in it, each behind the first so many: then it is followed once, and not
    once for each of them.
    """

    @property
    def size(self) -> int:
        """The number of blockers that count."""
        return len(self.blockers) if self.first is None else self.first


if TYPE_CHECKING:
    Choice: TypeAlias = tuple[Need, ...]
    """All of these needs have to be met."""
    Wait: TypeAlias = tuple[Choice, ...]
    """One of these choices has to come about."""
    WaitsOf: TypeAlias = Callable[[str], Sequence[Wait]]


def find_cycle(actor: str, waits_of: WaitsOf, wait: Wait | None = None) -> tuple[str, ...] | None:
    """Return the shortest cycle through `actor`, as actor, resource, actor, …; None if it can go on some day.

    None also when it merely waits for others who are deadlocked among themselves: that cycle has had its
    victim, and a second one would help nobody. With `wait`, one of the actor's waits, only cycles that begin
    with it count: a request is no victim for the sake of another one of the same actor.
    """
    graph = _reachable(actor, waits_of)
    live = _live(graph)
    return None if actor in live else _shortest_way_back(actor, graph, live, graph[actor] if wait is None else [wait])


def _reachable(actor: str, waits_of: WaitsOf) -> dict[str, Sequence[Wait]]:
    graph: dict[str, Sequence[Wait]] = {}
    followed: dict[int, int] = {}
    frontier = [actor]
    while frontier:
        here = frontier.pop()
        if here not in graph:
            graph[here] = waits_of(here)
            for need in _needs(graph[here]):
                frontier.extend(_not_followed(need, followed))
    return graph


def _needs(waits: Iterable[Wait]) -> Iterable[Need]:
    return (need for wait in waits for choice in wait for need in choice)


def _not_followed(need: Need, followed: dict[int, int]) -> Sequence[str]:
    """Return the blockers that no search has followed yet, and count them as followed."""
    line, size = id(need.blockers), need.size
    start = followed.get(line, 0)
    if size <= start:
        return ()
    followed[line] = size
    return need.blockers[start:size]


# ---------------------------------------------------------------------------------------------- who can go on


def _live(graph: dict[str, Sequence[Wait]]) -> set[str]:
    """Return the actors that can go on, in linear time: each place in each line is examined at most twice."""
    lines: dict[tuple[int, int], _SharedNeed] = {}
    freed = [actor for actor, waits in graph.items() if not _open(actor, waits, lines)]
    places: dict[str, list[tuple[_SharedNeed, int]]] = {}
    for line in lines.values():
        for place, blocker in enumerate(line.begin()):
            places.setdefault(blocker, []).append((line, place))
    live: set[str] = set()
    while freed:
        here = freed.pop()
        live.add(here)
        for line, place in places.get(here, ()):
            for met in line.pass_live(place, live):
                actor = met.count_down()
                if actor is not None:
                    freed.append(actor)
    return live


class _Count:
    """How much is missing of something; when nothing is, the larger thing that it is a part of misses one less."""

    __slots__ = ("actor", "missing", "part_of")

    def __init__(self, missing: int, part_of: _Count | None, actor: str | None = None) -> None:
        self.missing = missing
        self.part_of = part_of
        self.actor = actor

    def count_down(self) -> str | None:
        """Count one need as met. Return the actor if that was the last need that it missed: it is live."""
        self.missing -= 1
        if self.missing:  # or it was met before, and goes on below zero
            return None
        return self.actor if self.part_of is None else self.part_of.count_down()


class _SharedNeed:
    """Needs that look at the same blockers in the same order, and can do without as many of them.

    It is passed from the front for as long as no more than those stand in it for ever, so far as is known. A need of no
    more than was passed is met.
    """

    __slots__ = ("_blockers", "_counts", "_passed", "_spare", "_stuck", "waiting")

    def __init__(self, blockers: Sequence[str], spare: int) -> None:
        self.waiting: list[tuple[int, _Count]] = []
        """How many of the blockers each need looks at, and what it is a part of."""
        self._blockers = blockers
        self._spare = spare
        self._passed = 0
        self._stuck = 0
        self._counts = bytearray()
        """Which of the places that were passed count as stuck."""

    def begin(self) -> Sequence[str]:
        """Begin with no actor live. Return the blockers that matter here, by their places."""
        self.waiting.sort(key=_first_of, reverse=True)
        size = self.waiting[0][0]
        self._counts = bytearray(size)
        self._pass(frozenset())
        return self._blockers[:size]

    def pass_live(self, place: int, live: AbstractSet[str]) -> list[_Count]:
        """Take the actor at this place as live. Return the needs that are met by that."""
        if not self._counts[place]:
            return []  # not passed yet
        self._counts[place] = 0
        self._stuck -= 1
        self._pass(live)
        free = self._passed - (self._stuck > self._spare)
        met = []
        while self.waiting and self.waiting[-1][0] <= free:
            met.append(self.waiting.pop()[1])
        return met

    def _pass(self, live: AbstractSet[str]) -> None:
        while self._stuck <= self._spare and self._passed < len(self._counts):
            if self._blockers[self._passed] not in live:
                self._counts[self._passed] = 1
                self._stuck += 1
            self._passed += 1


def _first_of(waiting: tuple[int, _Count]) -> int:
    return waiting[0]


def _open(actor: str, waits: Sequence[Wait], lines: dict[tuple[int, int], _SharedNeed]) -> int:
    """Have every line count down what this actor misses; how many waits that is."""
    missed = [wait for wait in waits if all(wait)]
    all_of_it = _Count(len(missed), None, actor)
    for wait in missed:
        one_of_them = all_of_it if len(wait) == 1 else _Count(1, all_of_it)
        for choice in wait:
            all_needs = one_of_them if len(choice) == 1 else _Count(len(choice), one_of_them)
            for need in choice:
                size = need.size
                key = (id(need.blockers), size - need.enough)
                line = lines.get(key)
                if line is None:
                    line = lines[key] = _SharedNeed(need.blockers, size - need.enough)
                line.waiting.append((size, all_needs))
    return len(missed)


# ------------------------------------------------------------------------------------------ the way of a cycle


class _Met:
    """Which needs are met by those who are live."""

    def __init__(self, live: AbstractSet[str]) -> None:
        self._live = live
        self._lines: dict[int, list[int]] = {}
        """How many are not live among the first so many of each line."""

    def can_come_about(self, wait: Wait) -> bool:
        """Return True if one of its choices is met as a whole."""
        return any(all(self.is_met(need) for need in choice) for choice in wait)

    def is_met(self, need: Need) -> bool:
        """Return True if enough of its blockers are live."""
        line = self._lines.get(id(need.blockers))
        if line is None:
            line = list(accumulate((each not in self._live for each in need.blockers), initial=0))
            self._lines[id(need.blockers)] = line
        return need.size - line[need.size] >= need.enough


def _shortest_way_back(
    actor: str, graph: dict[str, Sequence[Wait]], live: set[str], first: Sequence[Wait]
) -> tuple[str, ...] | None:
    """Search breadth-first, along needs that cannot be met, for a path from the actor to itself."""
    paths: dict[str, tuple[str, ...]] = {actor: (actor,)}
    frontier = [actor]
    met = _Met(live)
    followed: dict[int, int] = {}
    for here in frontier:
        waits = first if here == actor else graph[here]
        for need in _needs(wait for wait in waits if not met.can_come_about(wait)):
            if met.is_met(need):
                continue
            # It does not wait for itself where it stands in a line; others behind it do, and have to find it there.
            for blocker in _not_followed(need, followed if here != actor else {}):
                if blocker == actor != here:
                    return (*paths[here], need.resource)
                if blocker not in live and blocker not in paths:
                    paths[blocker] = (*paths[here], need.resource, blocker)
                    frontier.append(blocker)
    return None
