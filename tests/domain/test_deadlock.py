"""The wait-for graph by itself: who can never go on, and why. Checked by hand, and against trying everything."""

from __future__ import annotations

from itertools import chain, combinations, permutations
from typing import TYPE_CHECKING

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from leasehold.domain.rules.deadlock import Need, find_cycle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasehold.domain.rules.deadlock import Wait

Graph = dict[str, list["Wait"]]


def needs(resource: str, *blockers: str, enough: int | None = None) -> Need:
    return Need(resource, blockers, len(blockers) if enough is None else enough)


def all_of(*wanted: Need) -> Wait:
    return (wanted,)


def one_of(*wanted: Need) -> Wait:
    return tuple((need,) for need in wanted)


def found(graph: Graph, actor: str = "a", wait: Wait | None = None) -> tuple[str, ...] | None:
    return find_cycle(actor, lambda who: graph.get(who, []), wait)


# ---------------------------------------------------------------------------------------------------- by hand


def test_who_waits_for_nobody_is_not_deadlocked() -> None:
    assert found({}) is None
    assert found({"a": []}) is None


def test_two_who_wait_for_each_other() -> None:
    graph = {"a": [all_of(needs("R", "b"))], "b": [all_of(needs("S", "a"))]}
    assert found(graph) == ("a", "R", "b", "S")
    assert found(graph, "b") == ("b", "S", "a", "R")


def test_the_cycle_begins_at_the_requester_and_names_what_each_waits_for() -> None:
    graph = {"a": [all_of(needs("R", "b"))], "b": [all_of(needs("S", "c"))], "c": [all_of(needs("T", "a"))]}
    assert found(graph) == ("a", "R", "b", "S", "c", "T")


def test_a_chain_that_ends_is_no_cycle() -> None:
    assert found({"a": [all_of(needs("R", "b"))], "b": [all_of(needs("S", "c"))]}) is None


def test_of_several_resources_at_once_one_is_enough_to_be_stuck() -> None:
    graph = {"a": [all_of(needs("R", "x"), needs("S", "b"))], "b": [all_of(needs("T", "a"))]}
    assert found(graph) == ("a", "S", "b", "T")


def test_all_readers_have_to_leave() -> None:
    graph = {"a": [all_of(needs("R", "x", "b", "y"))], "b": [all_of(needs("S", "a"))]}
    assert found(graph) == ("a", "R", "b", "S")


def test_a_choice_is_stuck_only_if_every_alternative_is() -> None:
    stuck = {"b": [all_of(needs("T", "a"))], "c": [all_of(needs("U", "a"))]}
    choice = one_of(needs("R", "b"), needs("S", "c"))
    assert found({"a": [choice], **stuck}) == ("a", "R", "b", "T")
    assert found({"a": [choice], "b": stuck["b"]}) is None
    assert found({"a": [one_of(needs("R", "b"), needs("S", "x"))], **stuck}) is None


def test_a_choice_of_another_waiter_is_a_way_out_too() -> None:
    graph = {"a": [all_of(needs("R", "b"))], "b": [one_of(needs("S", "a"), needs("T", "x"))]}
    assert found(graph) is None


def test_of_a_semaphore_enough_holders_have_to_be_stuck() -> None:
    waits = {"b": [all_of(needs("T", "a"))], "c": [all_of(needs("T", "a"))]}
    one_slot = all_of(needs("S", "b", "c", enough=1))
    assert found({"a": [one_slot], "b": waits["b"]}) is None
    assert found({"a": [one_slot], **waits}) == ("a", "S", "b", "T")
    assert found({"a": [all_of(needs("S", "b", "c", enough=2))], "b": waits["b"]}) == ("a", "S", "b", "T")


def test_who_has_several_of_the_slots_counts_as_often() -> None:
    graph = {"a": [all_of(needs("S", "b", "b", "x", enough=2))], "b": [all_of(needs("T", "a"))]}
    assert found(graph) == ("a", "S", "b", "T")
    assert found({**graph, "a": [all_of(needs("S", "b", "x", "x", enough=2))]}) is None


def test_one_of_several_waits_is_enough_to_be_stuck() -> None:
    graph = {"a": [all_of(needs("R", "b"))], "b": [all_of(needs("S", "x")), all_of(needs("T", "a"))]}
    assert found(graph) == ("a", "R", "b", "T")


def test_the_cycle_does_not_lead_through_a_wait_that_will_be_served() -> None:
    """`b` is stuck, but not where it has a choice: what it says must be why it is."""
    choice = one_of(needs("S", "a"), needs("U", "x"))
    graph = {"a": [all_of(needs("R", "b"))], "b": [choice, all_of(needs("T", "c"))], "c": [all_of(needs("V", "a"))]}
    assert found(graph) == ("a", "R", "b", "T", "c", "V")


def test_who_waits_for_a_deadlock_of_others_is_not_its_victim() -> None:
    graph = {
        "a": [all_of(needs("R", "b"))],
        "b": [all_of(needs("S", "c"))],
        "c": [all_of(needs("T", "b"))],
    }
    assert found(graph) is None
    assert found(graph, "b") == ("b", "S", "c", "T")


def test_a_way_out_that_a_deadlock_of_others_blocks_is_none() -> None:
    graph = {
        "a": [one_of(needs("R", "b"), needs("S", "c"))],
        "b": [all_of(needs("T", "a"))],
        "c": [all_of(needs("U", "d"))],
        "d": [all_of(needs("V", "c"))],
    }
    assert found(graph) == ("a", "R", "b", "T")


def test_the_shortest_cycle_is_told() -> None:
    graph = {
        "a": [all_of(needs("R", "b"), needs("S", "d"))],
        "b": [all_of(needs("T", "c"))],
        "c": [all_of(needs("U", "a"))],
        "d": [all_of(needs("V", "a"))],
    }
    assert found(graph) == ("a", "S", "d", "V")


def test_a_request_is_no_victim_for_another_wait_of_the_same_actor() -> None:
    old, new = all_of(needs("R", "b")), all_of(needs("S", "x"))
    graph = {"a": [old, new], "b": [all_of(needs("T", "a"))]}
    assert found(graph) == ("a", "R", "b", "T")
    assert found(graph, wait=old) == ("a", "R", "b", "T")
    assert found(graph, wait=new) is None


def test_a_long_chain_takes_no_recursion() -> None:
    size = 5_000
    graph = {f"n{number}": [all_of(needs("R", f"n{(number + 1) % size}"))] for number in range(size)}
    cycle = found(graph, "n0")
    assert cycle is not None
    assert len(cycle) == 2 * size


# -------------------------------------------------------------------------------------- by trying everything

ACTORS = "abcde"


@st.composite
def waits(draw: st.DrawFn, who: str) -> Wait:
    others = st.lists(st.sampled_from([each for each in ACTORS if each != who]), min_size=1, max_size=3)
    choices = []
    for choice in range(draw(st.integers(1, 2))):
        wanted = []
        for number in range(draw(st.integers(1, 2))):
            blockers = draw(others)
            enough = draw(st.integers(1, len(blockers)))
            wanted.append(Need(f"{who}{choice}{number}", tuple(blockers), enough))
        choices.append(tuple(wanted))
    return tuple(choices)


graphs = st.fixed_dictionaries({who: st.lists(waits(who), max_size=2) for who in ACTORS})


def is_met_without(need: Need, stuck: set[str]) -> bool:
    return len([each for each in need.blockers if each not in stuck]) >= need.enough


def is_served_without(wait: Wait, stuck: set[str]) -> bool:
    return any(all(is_met_without(need, stuck) for need in choice) for choice in wait)


def stuck_for_ever(graph: Graph) -> set[str]:
    """The union of all sets whose members each have a wait that nobody outside of the set can serve."""
    subsets = chain.from_iterable(combinations(ACTORS, size) for size in range(1, len(ACTORS) + 1))
    return set().union(
        *(
            some
            for some in subsets
            if all(any(not is_served_without(wait, set(some)) for wait in graph[who]) for who in some)
        )
    )


def obstacles(waits_of_one: Iterable[Wait], stuck: set[str]) -> Iterator[Need]:
    for wait in waits_of_one:
        if not is_served_without(wait, stuck):
            yield from (need for choice in wait for need in choice if not is_met_without(need, stuck))


def all_cycles(graph: Graph, first: list[Wait], stuck: set[str]) -> Iterator[list[tuple[str, str]]]:
    """Every cycle through "a" without repetition, as pairs of actor and resource; by trying all orders of actors."""
    others = sorted(stuck - {"a"})
    for size in range(1, len(others) + 1):
        for order in permutations(others, size):
            path = ["a", *order]
            steps = [
                [
                    need.resource
                    for need in obstacles(first if here == "a" else graph[here], stuck)
                    if there in need.blockers
                ]
                for here, there in zip(path, [*order, "a"], strict=True)
            ]
            if all(steps):
                yield [(here, resource) for here, resources in zip(path, steps, strict=True) for resource in resources]


def agrees(graph: Graph, wait: Wait | None) -> None:
    stuck = stuck_for_ever(graph)
    first = graph["a"] if wait is None else [wait]
    cycles = list(all_cycles(graph, first, stuck)) if "a" in stuck else []
    told = found(graph, "a", wait)
    assert (told is not None) == bool(cycles)
    if told is not None:
        pairs = list(zip(told[::2], told[1::2], strict=True))
        fitting = [
            cycle for cycle in cycles if set(pairs) <= set(cycle) and len({who for who, _ in cycle}) == len(pairs)
        ]
        assert fitting
        assert len(pairs) == min(len({who for who, _ in cycle}) for cycle in cycles)


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs)
def test_any_graph(graph: Graph) -> None:
    agrees(graph, None)
    for wait in graph["a"]:
        agrees(graph, wait)


@st.composite
def queues(draw: st.DrawFn) -> Graph:
    """Everybody stands in one of two lines, or in both, or twice, and waits for enough of those ahead."""
    graph: Graph = {who: [] for who in ACTORS}
    for resource in "RS":
        line = draw(st.lists(st.sampled_from(ACTORS), min_size=1, max_size=8))
        for place, who in enumerate(line):
            others = sum(each != who for each in line[:place])
            if others and draw(st.booleans()):
                graph[who].append(((Need(resource, line, draw(st.integers(1, others)), place),),))
    return graph


def each_by_itself(who: str, wait: Wait) -> Wait:
    """The graph as if nothing were shared; without the waiter, which does not wait for itself."""
    return tuple(
        tuple(
            need._replace(blockers=tuple(each for each in need.blockers[: need.first] if each != who), first=None)
            for need in choice
        )
        for choice in wait
    )


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(queues())
def test_who_shares_a_line_is_served_as_if_it_had_one_of_its_own(graph: Graph) -> None:
    alone = {who: [each_by_itself(who, wait) for wait in waits_of_one] for who, waits_of_one in graph.items()}
    agrees(alone, None)
    for who in ACTORS:
        assert found(graph, who) == found(alone, who)
