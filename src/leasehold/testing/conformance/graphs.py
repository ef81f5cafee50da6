"""The wait-for graph as people see it: who waits for whom, and nobody who does not (spec 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.graph import Graph
from leasehold.domain.outcomes import Deadlock, Granted, Held
from leasehold.domain.sessions import SessionStarted
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    Connect,
    expect,
    needs_history,
    release,
    take,
    wait_for,
    wrong,
)

if TYPE_CHECKING:
    from leasehold.locks.sync import Locks


def edges_of(locks: Locks, **query: str | int) -> list[tuple[str, str, str, str]]:
    """Waiter, resource, blocker and how it is in the way, by the names of the agents."""
    graph = expect(Graph, locks.graph(**query))  # type: ignore[arg-type] # by name
    names = {agent.id: agent.holder for agent in graph.agents}
    assert set(names) == {id_ for edge in graph.edges for id_ in (edge.waiter, edge.blocker)}
    return [(names[edge.waiter], edge.resource, names[edge.blocker], edge.state) for edge in graph.edges]


class Graphs:
    """The answers of `graph`."""

    def test_graphs_of_a_queue(self, connect: Connect) -> None:
        """An edge to each that holds it and to each that is ahead; none once it is given."""
        ann, bob, cid = connect(holder="ann"), connect(holder="bob"), connect(holder="cid")
        assert edges_of(ann) == []
        held = take(ann, "r")
        assert edges_of(ann) == []
        second = wait_for(bob, "r")
        third = wait_for(cid, "r")
        found = [("bob", "r", "ann", "held"), ("cid", "r", "ann", "held"), ("cid", "r", "bob", "waiting")]
        assert edges_of(ann) == found
        graph = expect(Graph, ann.graph())
        assert graph.complete
        assert {edge.by for edge in graph.edges if edge.state == "held"} == {held.lease.id}
        assert all(edge.place is not None and edge.since_us <= graph.now_us < edge.until_us for edge in graph.edges)
        release(ann, held)
        granted = expect(Granted, second.answer())
        assert edges_of(ann) == [("cid", "r", "bob", "held")]
        release(bob, granted)
        expect(Granted, third.answer())
        assert edges_of(ann) == []

    def test_graphs_of_what_does_not_conflict(self, connect: Connect) -> None:
        """Readers do not wait for each other; what overlaps is waited for under the name that was asked for."""
        ann, bob, cid = connect(holder="ann"), connect(holder="bob"), connect(holder="cid")
        read = take(ann, "path:src/a.py", mode="shared")
        take(bob, "path:src/a.py", mode="shared")
        writing = wait_for(cid, "path:src")
        assert sorted(edges_of(ann)) == [("cid", "path:src", "ann", "held"), ("cid", "path:src", "bob", "held")]
        release(ann, read)
        assert edges_of(ann) == [("cid", "path:src", "bob", "held")]
        assert not writing.is_over

    def test_graphs_of_who_polls(self, connect: Connect) -> None:
        """A refused try that counts as waiting is an edge without a place in the queue."""
        ann, bob = connect(holder="ann"), connect(holder="bob")
        held = take(ann, "r")
        expect(Held, bob.acquire("r", ttl=LONG))
        assert edges_of(ann) == []
        expect(Held, bob.acquire("r", ttl=LONG, intent=True))
        assert edges_of(ann) == [("bob", "r", "ann", "held")]
        assert [edge.place for edge in expect(Graph, ann.graph()).edges] == [None]
        release(ann, held)
        assert edges_of(ann) == []

    def test_graphs_of_a_session(self, connect: Connect) -> None:
        """A session is an agent of its own, whatever its holder is called."""
        locks = connect(holder="ann")
        started = expect(SessionStarted, locks.start_session(ttl=LONG, holder="ann"))
        take(locks, "r", session=started.secret)
        waiting = wait_for(locks, "r", holder="ann")
        agents = expect(Graph, locks.graph()).agents
        assert sorted((agent.holder, agent.session or "") for agent in agents) == [
            ("ann", ""),
            ("ann", started.session.session),
        ]
        locks.end_session(started.secret)
        expect(Granted, waiting.answer())

    def test_graphs_of_one_space(self, connect: Connect) -> None:
        """Each space has its own; without one, the graph has all."""
        here, there = connect(holder="ann", space="here"), connect(holder="bob", space="there")
        take(here, "r")
        take(there, "r")
        kept = [wait_for(here, "r", holder="cid"), wait_for(there, "r", holder="dan")]
        assert edges_of(here, space="there") == [("dan", "r", "bob", "held")]
        assert sorted(edges_of(here)) == [("cid", "r", "ann", "held"), ("dan", "r", "bob", "held")]
        assert {agent.space for agent in expect(Graph, here.graph()).agents} == {"here", "there"}
        assert not any(asking.is_over for asking in kept)

    def test_graphs_has_bounds(self, connect: Connect) -> None:
        """No more edges than were asked for, and it says that there are more."""
        locks = connect(holder="ann")
        take(locks, "r")
        for place in range(3):
            wait_for(locks, "r", holder=f"w{place}")
        graph = expect(Graph, locks.graph(limit=2))
        assert (len(graph.edges), graph.complete) == (2, False)
        assert {agent.holder for agent in graph.agents} == {"ann", "w0", "w1"}
        wrong("limit", lambda: locks.graph(limit=0))
        wrong("space", lambda: locks.graph(space="bad\nspace"))

    def test_graphs_tells_the_cycles_that_were_refused(self, connect: Connect) -> None:
        """The victim of a deadlock is gone from the graph; the event is listed beside it."""
        needs_history(connect)
        ann, bob = connect(holder="ann"), connect(holder="bob")
        take(ann, "a")
        take(bob, "b")
        waiting = wait_for(ann, "b")
        deadlock = expect(Deadlock, bob.acquire("a", ttl=LONG, wait=PATIENCE))
        graph = expect(Graph, ann.graph())
        assert [(event.kind, event.holder) for event in graph.deadlocks] == [("deadlock", "bob")]
        assert graph.deadlocks[0].detail["cycle"] == list(deadlock.cycle)
        assert edges_of(ann) == [("ann", "b", "bob", "held")]
        assert not waiting.is_over
