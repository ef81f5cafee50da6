"""The wait-for graph and its cycles. Pure: it knows actors and what they need, not how leases work.

Whoever waits needs something from others: an exclusive resource needs *all* of its blockers to give way, a
semaphore only *enough* of them, and a choice between resources only *one* of its alternatives. So a plain
cycle search would find phantoms; instead the graph is reduced. An actor is **live** if it waits for
nothing, or if everything that it waits for can come about through live actors alone. Whoever is left over
when nothing more can be reduced will wait for ever.
"""

from __future__ import annotations

from leasehold.noun import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias


class Need(Noun):
    """One resource that is wanted: at least `enough` of its blockers have to give way."""

    resource: str
    blockers: tuple[str, ...]
    enough: int


if TYPE_CHECKING:
    Choice: TypeAlias = tuple[Need, ...]
    """All of these needs have to be met."""
    Wait: TypeAlias = tuple[Choice, ...]
    """One of these choices has to come about."""
    WaitsOf: TypeAlias = Callable[[str], Sequence[Wait]]


def find_cycle(actor: str, waits_of: WaitsOf, wait: Wait | None = None) -> tuple[str, ...] | None:
    """The shortest cycle through `actor`, as actor, resource, actor, resource, …; None if it can go on some day.

    None also when it merely waits for others who are deadlocked among themselves: that cycle has had its
    victim, and a second one would help nobody. With `wait`, one of the actor's waits, only cycles that begin
    with it count: a request is no victim for the sake of another one of the same actor.
    """
    graph = _reachable(actor, waits_of)
    live = _live(graph)
    return None if actor in live else _shortest_way_back(actor, graph, live, graph[actor] if wait is None else [wait])


def _reachable(actor: str, waits_of: WaitsOf) -> dict[str, Sequence[Wait]]:
    graph: dict[str, Sequence[Wait]] = {}
    frontier = [actor]
    while frontier:
        here = frontier.pop()
        if here not in graph:
            graph[here] = waits_of(here)
            frontier.extend(blocker for need in _needs(graph[here]) for blocker in need.blockers)
    return graph


def _needs(waits: Iterable[Wait]) -> Iterable[Need]:
    return (need for wait in waits for choice in wait for need in choice)


def _live(graph: dict[str, Sequence[Wait]]) -> set[str]:
    """Each edge is followed once: who becomes live counts down whatever waits for it."""
    counting: dict[str, list[_Count]] = {}
    freed = [actor for actor, waits in graph.items() if not _open(actor, waits, counting)]
    live = set(freed)
    while freed:
        for need in counting.get(freed.pop(), ()):
            actor = need.count_down()
            if actor is not None:
                live.add(actor)
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
        """The actor that is live by that, if it is the last thing that it missed."""
        self.missing -= 1
        if self.missing:  # or it was met before, and goes on below zero
            return None
        return self.actor if self.part_of is None else self.part_of.count_down()


def _open(actor: str, waits: Sequence[Wait], counting: dict[str, list[_Count]]) -> int:
    """Have every blocker count down what this actor misses; how many waits that is."""
    missed = [wait for wait in waits if all(wait)]
    all_of_it = _Count(len(missed), None, actor)
    for wait in missed:
        one_of_them = _Count(1, all_of_it)
        for choice in wait:
            all_needs = _Count(len(choice), one_of_them)
            for need in choice:
                enough = _Count(need.enough, all_needs)
                for blocker in need.blockers:
                    counting.setdefault(blocker, []).append(enough)
    return len(missed)


def _can_come_about(wait: Wait, live: set[str]) -> bool:
    return any(all(_is_met(need, live) for need in choice) for choice in wait)


def _is_met(need: Need, live: set[str]) -> bool:
    return sum(1 for blocker in need.blockers if blocker in live) >= need.enough


def _shortest_way_back(
    actor: str, graph: dict[str, Sequence[Wait]], live: set[str], first: Sequence[Wait]
) -> tuple[str, ...] | None:
    paths: dict[str, tuple[str, ...]] = {actor: (actor,)}
    frontier = [actor]
    while frontier:
        here = frontier.pop(0)
        waits = first if here == actor else graph[here]
        for need in _needs(wait for wait in waits if not _can_come_about(wait, live)):
            if _is_met(need, live):
                continue
            for blocker in need.blockers:
                if blocker == actor:
                    return (*paths[here], need.resource)
                if blocker not in live and blocker not in paths:
                    paths[blocker] = (*paths[here], need.resource, blocker)
                    frontier.append(blocker)
    return None
