"""Lay out the wait-for graph: agents and resources in columns, each to the right of its waiters. Pure arithmetic."""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.domain.graph import Graph

NODES_MOST = 150
"""The most nodes, since more are unreadable: the agents that wait longest come first."""
WIDTH, HEIGHT = 190.0, 44.0
GAP_X, GAP_Y = 90.0, 22.0
MARGIN = 16.0
SWEEPS = 4
REACH = 2 * (HEIGHT + GAP_Y)
"""The lowest start of a column: a resource with a hundred waiters stands beside the first of them, not the 50th."""


class GraphNode(Noun):
    """An agent or a resource with its position."""

    id: str
    kind: str
    """`agent` or `resource`."""
    label: str
    space: str
    x: float = 0
    y: float = 0


class Join(Noun):
    """A line from one node to another."""

    begin: str
    end: str
    kind: str
    """`waits`: from an agent to a resource (`polls` if it only retries); `held`: from a resource to its holder."""
    since: int = 0


class Placed(Noun):
    """The whole drawing."""

    nodes: tuple[GraphNode, ...]
    joins: tuple[Join, ...]
    width: float
    height: float
    complete: bool
    """True if no waiter was left out."""


def placed(graph: Graph) -> Placed:
    """Return the wait-for graph with agents and resources as nodes, each with its position."""
    nodes, joins, complete = _bipartite(graph)
    columns = _columns(nodes, joins)
    rows = _ordered(columns, joins)
    found: list[GraphNode] = []
    tallest = max((len(column) for column in rows), default=0)
    height = tallest * (HEIGHT + GAP_Y) - GAP_Y
    for number, column in enumerate(rows):
        top = min(REACH, (height - (len(column) * (HEIGHT + GAP_Y) - GAP_Y)) / 2)
        for place, id_ in enumerate(column):
            x = MARGIN + number * (WIDTH + GAP_X)
            found.append(nodes[id_]._replace(x=x, y=MARGIN + top + place * (HEIGHT + GAP_Y)))
    width = 2 * MARGIN + max(1, len(rows)) * (WIDTH + GAP_X) - GAP_X
    return Placed(tuple(found), tuple(joins), width, 2 * MARGIN + max(height, HEIGHT), complete and graph.complete)


def _bipartite(graph: Graph) -> tuple[dict[str, GraphNode], list[Join], bool]:
    """Turn edges from agent to agent into agent → resource → agent, which is easier to read."""
    agents = {agent.id: agent for agent in graph.agents}
    nodes: dict[str, GraphNode] = {}
    joins: dict[tuple[str, str], Join] = {}
    for edge in graph.edges:
        waiter, blocker = agents[edge.waiter], agents[edge.blocker]
        wanted = f"r {waiter.space} {edge.resource}"
        new = {edge.waiter, edge.blocker, wanted} - set(nodes)
        if len(nodes) + len(new) > NODES_MOST:
            return nodes, list(joins.values()), False
        for agent in (waiter, blocker):
            nodes.setdefault(agent.id, GraphNode(agent.id, "agent", agent.holder, agent.space))
        nodes.setdefault(wanted, GraphNode(wanted, "resource", edge.resource, waiter.space))
        kind = "polls" if edge.place is None else "waits"
        joins.setdefault((edge.waiter, wanted), Join(edge.waiter, wanted, kind, edge.since_us))
        if edge.state == "held":
            joins.setdefault((wanted, edge.blocker), Join(wanted, edge.blocker, "held"))
    return nodes, list(joins.values()), True


def _columns(nodes: Iterable[str], joins: Sequence[Join]) -> dict[str, int]:
    """Return the column of each node: to the right of all nodes that wait for it. Cycles are cut."""
    before: dict[str, list[str]] = {id_: [] for id_ in nodes}
    for join in joins:
        before[join.end].append(join.begin)
    found: dict[str, int] = {}
    for id_ in before:
        _place(id_, before, found)
    return {id_: found[id_] for id_ in before}  # in their order: the longest waits on top


def _place(start: str, before: dict[str, list[str]], found: dict[str, int]) -> None:
    """Add the column of `start`, and of all nodes to its left, to `found`: one more than the last column `before` it.

    `before` has the nodes that wait for each one; those of a cycle do not count. Depth first, with an explicit stack: a
    chain of waiters may exceed Python's recursion limit.
    """
    stack, open_ = [start], set[str]()
    while stack:
        id_ = stack[-1]
        if id_ in found:
            stack.pop()
            continue
        open_.add(id_)
        waits = [each for each in before[id_] if each not in found and each not in open_]
        if waits:
            stack.extend(waits)
            continue
        found[id_] = max((found[each] + 1 for each in before[id_] if each in found), default=0)
        stack.pop()


def _ordered(columns: dict[str, int], joins: Sequence[Join]) -> list[list[str]]:
    """Order the nodes of each column close to their neighbours, so that few lines cross."""
    rows: list[list[str]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for id_, column in columns.items():
        rows[column].append(id_)
    near: dict[str, list[str]] = {id_: [] for id_ in columns}
    for join in joins:
        near[join.begin].append(join.end)
        near[join.end].append(join.begin)
    for _ in range(SWEEPS):
        places = {id_: place - len(row) / 2 for row in rows for place, id_ in enumerate(row)}
        for row in rows:
            row.sort(key=lambda id_: sum(places[each] for each in near[id_]) / max(1, len(near[id_])))
    return rows
