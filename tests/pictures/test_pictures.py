"""Runs, contention, the graph's layout and the pictures: pure, so that they can be looked at without a store."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.domain.events import Event
from leasehold.domain.graph import Agent, Edge, Graph
from leasehold.domain.leases import Inspection, Lease, Waiting
from leasehold.pictures.contention import contention
from leasehold.pictures.graph import as_dot, as_mermaid, as_picture, as_text
from leasehold.pictures.layout import NODES_MOST, placed
from leasehold.pictures.png import png
from leasehold.pictures.runs import runs_of
from leasehold.pictures.shapes import Box, cut
from leasehold.pictures.svg import svg
from leasehold.pictures.timeline import timeline
from leasehold.pictures.waits import together, waits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND = 1_000_000
NASTY = '<script>alert(1)</script> & "x" \x1b[2J\u202e]'


def event(kind: str, at: int, lease: str | None = "l1", resource: str = "x", **detail: Any) -> Event:
    return Event(kind, at * SECOND, "default", (resource,), "ann", None, lease, 7, detail, at)


def graph(*edges: tuple[str, str, str, str], deadlocks: tuple[Event, ...] = (), complete: bool = True) -> Graph:
    names = dict.fromkeys(name for edge in edges for name in edge[:2])
    agents = tuple(Agent(name, "default", name, None) for name in names)
    made = tuple(Edge(*edge, f"by-{number}", "w1", 0, 9 * SECOND) for number, edge in enumerate(edges))
    return Graph(5 * SECOND, agents, made, complete, deadlocks)


# --------------------------------------------------------------------------------------------------- runs


def test_a_run_lasts_from_its_grant_to_its_end() -> None:
    events = [
        event("released", 9, status="failed", error="red", acquired_at=2 * SECOND, context='{"a":1}'),
        event("updated", 5, context='{"a":1}'),
        event("granted", 2, name="work", mode="S", waited=3 * SECOND),
    ]
    (run,) = runs_of(events)
    assert (run.began, run.ended, run.waited) == (2 * SECOND, 9 * SECOND, 3 * SECOND)
    assert (run.outcome, run.error, run.name, run.mode, run.context) == ("failed", "red", "work", "shared", '{"a":1}')


def test_the_end_alone_tells_when_it_began_and_the_grant_alone_that_it_is_held() -> None:
    (ended,) = runs_of([event("expired", 9, acquired_at=1 * SECOND, expired_at=8 * SECOND)])
    assert (ended.began, ended.ended, ended.outcome) == (SECOND, 8 * SECOND, "expired")
    (held,) = runs_of([event("granted", 3)])
    assert (held.ended, held.outcome) == (None, "held")
    (forced,) = runs_of([event("forced", 3, by="ops", why="stuck", stolen=True)])
    assert forced.error == "stolen by ops: stuck"


def test_what_is_no_lease_is_no_run() -> None:
    assert runs_of([event("refused", 3, None), event("queued", 2, None), event("cancelled", 1, None)]) == []


# --------------------------------------------------------------------------------------------- contention


def test_waits_count_whatever_came_of_them() -> None:
    events = [
        event("queued", 60, None, waiter="w3"),  # waits still
        event("timeout", 50, None, waiter="w2"),
        event("queued", 40, None, waiter="w2"),
        event("granted", 30, "l2", waiter="w1", waited=10 * SECOND),
        event("released", 30, "l1", acquired_at=0),
        event("queued", 20, None, waiter="w1"),
        event("refused", 10, None, resource="y"),
    ]
    first, second = contention(events, 0, 100 * SECOND)
    assert (first.resource, first.waits, first.refused) == ("x", 3, 1)
    assert (first.median_wait, first.worst_wait) == (10 * SECOND, 40 * SECOND)
    assert first.utilisation == 1.0  # from 0 to 30, and from 30 until now
    assert (second.resource, second.refused, second.utilisation) == ("y", 1, 0)


def test_shared_leases_that_overlap_count_once() -> None:
    events = [
        event("released", 60, "l2", acquired_at=20 * SECOND),
        event("released", 40, "l1", acquired_at=10 * SECOND),
    ]
    assert contention(events, 0, 100 * SECOND)[0].utilisation == 0.5
    assert contention(events, 30 * SECOND, 130 * SECOND)[0].utilisation == 0.3  # what lies before does not count


# -------------------------------------------------------------------------------------------------- graph


def seen(resource: str, holder: str, *waiting: str) -> Inspection:
    lease = Lease(
        f"l1-{holder}", "default", (resource,), holder, None, "exclusive", 1, 1, 60, 0, 60, None, None, None, 0
    )
    queue = (
        Waiting(f"w-{it}", (resource,), it, None, "exclusive", at, 0, 0, None, None) for at, it in enumerate(waiting, 1)
    )
    return Inspection(resource, 0, (lease,), tuple(queue), ())


@pytest.mark.parametrize(("any_of", "position"), [(False, 3), (True, 1)])
def test_who_wants_several_stands_where_it_takes_longest_and_who_wants_any_where_it_does_not(
    any_of: bool, position: int
) -> None:
    def place(waiting: Sequence[Waiting]) -> int:
        return next((each.position for each in waiting if each.holder == "me"), 0)

    looks = [seen("x", "ann", "me"), seen("y", "bob", "cid", "dan", "me"), seen("z", "ann", "eve")]
    both = together(looks, place, any_of=any_of)
    assert [lease.holder for lease in both.leases] == ["ann", "bob"]
    assert place(both.waiting) == position


def test_a_wait_is_told_as_a_whole() -> None:
    agents = tuple(Agent(it, "team", it, None) for it in ("ann", "bob", "cid"))
    edges = (
        Edge("ann", "bob", "x", "held", "l1", "w1", 1, 9),
        Edge("ann", "bob", "y", "held", "l1", "w1", 1, 9),
        Edge("cid", "bob", "path:src/a", "held", "l2", "w2", 2, 9),
        Edge("cid", "ann", "path:src/a", "waiting", "w1", "w2", 2, 9),
        Edge("bob", "cid", "z", "held", "l3", None, 3, 9),
    )
    first, second, polls = waits_of(Graph(5, agents, edges, True, ()))
    assert (first.id, first.holder, first.space, first.resources, first.leases) == (
        "w1",
        "ann",
        "team",
        ("x", "y"),
        ("l1",),
    )
    assert (second.behind, second.leases) == ((("bob", "held"), ("ann", "waiting")), ("l2",))
    assert (polls.polls, polls.holder, polls.leases) == (True, "bob", ("l3",))


def test_what_a_crowd_waits_for_stands_beside_who_has_waited_longest() -> None:
    drawing = placed(graph(*((f"a{number:02}", "hub", "x", "held") for number in range(60))))
    y = {node.label: node.y for node in drawing.nodes}
    assert sorted((label for label in y if label.startswith("a")), key=lambda label: y[label])[:3] == [
        "a00",
        "a01",
        "a02",
    ]
    assert y["hub"] == y["x"] <= y["a02"]


def test_waiters_stand_left_of_what_they_wait_for() -> None:
    drawing = placed(graph(("ann", "bob", "x", "held"), ("bob", "cid", "y", "held"), ("dan", "ann", "x", "waiting")))
    x = {node.label: node.x for node in drawing.nodes}
    assert x["ann"] < x["x"] < x["bob"] < x["y"] < x["cid"]
    assert {(join.begin, join.kind) for join in drawing.joins} >= {("ann", "waits"), ("r default x", "held")}
    assert drawing.complete


def test_no_two_nodes_share_a_place_even_in_a_ring() -> None:
    ring = graph(("ann", "bob", "x", "held"), ("bob", "cid", "y", "held"), ("cid", "ann", "z", "held"))
    drawing = placed(ring)
    assert len({(node.x, node.y) for node in drawing.nodes}) == len(drawing.nodes) == 6
    assert all(0 <= node.x < drawing.width and 0 <= node.y < drawing.height for node in drawing.nodes)


def test_a_crowd_is_cut_and_says_so_and_a_long_chain_is_no_trouble() -> None:
    crowd = graph(*((f"a{number}", "hub", "x", "held") for number in range(NODES_MOST)))
    assert len(placed(crowd).nodes) == NODES_MOST
    assert not placed(crowd).complete
    chain = graph(*((f"a{number}", f"a{number + 1}", f"r{number}", "held") for number in range(70)))
    assert len(placed(chain).nodes) == 70 * 2 + 1


def test_the_graph_in_every_tongue() -> None:
    cycle = event("deadlock", 3, None, cycle=["ann", "x", "bob", "y"])
    seen = graph(("ann", "bob", "x", "held"), ("cid", "ann", "x", "waiting"), deadlocks=(cycle,))
    text = as_text(seen)
    assert "ann waits for x, held by bob (since 5s)" in text
    assert "cid waits for x, behind ann" in text
    assert "ann → x → bob → y → ann" in text
    assert as_mermaid(seen).startswith("flowchart LR\n")
    assert "==>" in as_mermaid(seen)
    assert as_dot(seen).startswith("digraph waits {")
    assert as_dot(seen).count("{") == as_dot(seen).count("}")
    assert as_text(graph()) == "Nobody waits."


def test_names_are_inert_in_every_tongue() -> None:
    cycle = event("deadlock", 3, None, cycle=[NASTY, NASTY])
    seen = graph((NASTY, "bob", NASTY, "held"), deadlocks=(cycle,))
    for said in (as_text(seen), as_mermaid(seen), as_dot(seen), svg(as_picture(seen))):
        assert "\x1b" not in said
        assert "\u202e" not in said
    assert "<script" not in as_mermaid(seen)
    assert '"x"' not in as_mermaid(seen)
    assert '\\"x\\"' in as_dot(seen)
    root = ET.fromstring(svg(as_picture(seen)))
    tags = {each.tag.partition("}")[2] for each in root.iter()}
    assert tags <= {"svg", "title", "rect", "text", "polyline", "polygon"}


# ----------------------------------------------------------------------------------------------- pictures


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.text(max_size=30)), max_size=20))
def test_any_history_can_be_drawn(given_: list[tuple[int, int, str]]) -> None:
    events = [
        event("released", at + length, f"l{number}", name or "x", acquired_at=at * SECOND)
        for number, (at, length, name) in enumerate(given_)
    ]
    picture = timeline(runs_of(events), 2 * 10**7 * SECOND)
    root = ET.fromstring(svg(picture))
    bars = [each for each in root.iter() if each.tag.endswith("rect") and len(each)]
    assert len(bars) == len(given_)
    for each in bars:
        assert float(each.attrib["x"]) + float(each.attrib["width"]) <= picture.width


def test_leases_that_share_a_resource_lie_below_each_other() -> None:
    events = [
        event("released", 9, "l3", acquired_at=7 * SECOND),
        event("released", 6, "l2", acquired_at=2 * SECOND),
        event("released", 5, "l1", acquired_at=1 * SECOND),
    ]
    bars = [shape for shape in timeline(runs_of(events), 20 * SECOND).shapes if isinstance(shape, Box) and shape.says]
    tops = [bar.y for bar in sorted(bars, key=lambda bar: bar.x)]
    assert tops[0] < tops[1]
    assert tops[2] == tops[0]
    assert bars[0].height * 2 == 17


def test_png_is_png() -> None:
    events = [event("released", 9, status="failed", acquired_at=SECOND), event("granted", 3, "l2", "日本語")]
    assert png(timeline(runs_of(events), 20 * SECOND)).startswith(b"\x89PNG")
    assert png(as_picture(graph(("ann", "bob", "x", "held")))).startswith(b"\x89PNG")


def test_a_long_name_keeps_its_end() -> None:
    assert cut("path:src/leasehold/server/dashboard/views.py", 20) == "path:src/leas…ews.py"
    assert len(cut("x" * 100, 20)) == 20
