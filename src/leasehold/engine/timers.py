"""Whom an engine waits for, and when it must look again. It keeps times; it decides nothing."""

from __future__ import annotations

from heapq import heappop, heappush

from leasehold.domain.rules.conflicts import nodes_of
from leasehold.engine.pending import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.entries import LeaseRequest
    from leasehold.engine.pending import Pending


class Wait:
    """One caller in the queue."""

    __slots__ = ("ask", "deadline", "id", "nodes", "pendings")

    def __init__(self, id_: str, ask: LeaseRequest, deadline: float) -> None:
        self.id = id_
        self.ask = ask
        self.deadline = deadline
        """On this process's monotonic clock."""
        self.nodes = nodes_of(ask)
        self.pendings: list[Pending] = []
        """Usually one; a retry of the same request_id joins the first."""


class Waits:
    """All callers of one engine that are in a queue, with the times at which something may happen for them."""

    def __init__(self) -> None:
        self._waits: dict[str, Wait] = {}
        self._watched: dict[str, int] = {}
        """How many of them want each node."""
        self._deadlines: list[tuple[float, str]] = []
        self._changes: list[tuple[float, str]] = []
        """When a hold on a watched node runs out; at most one time a node that counts, see `_looks`."""
        self._looks: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._waits

    def all(self) -> list[Wait]:
        """Everybody who waits."""
        return list(self._waits.values())

    def get(self, id_: str) -> Wait | None:
        """The wait of this id, while it lasts."""
        return self._waits.get(id_)

    def add(self, wait: Wait) -> None:
        """Somebody queues."""
        self._waits[wait.id] = wait
        for node in wait.nodes:
            self._watched[node] = self._watched.get(node, 0) + 1
        heappush(self._deadlines, (wait.deadline, wait.id))

    def remove(self, id_: str) -> Wait | None:
        """Somebody's wait is over."""
        wait = self._waits.pop(id_, None)
        if wait is not None:
            for node in wait.nodes:
                others = self._watched[node] - 1
                if others:
                    self._watched[node] = others
                else:
                    del self._watched[node]
                    self._looks.pop(node, None)
        return wait

    def is_watched(self, node: str) -> bool:
        """Whether somebody here waits for this node."""
        return node in self._watched

    def watched(self) -> tuple[str, ...]:
        """Every node that somebody here waits for."""
        return tuple(self._watched)

    def look_again(self, node: str, at: float) -> None:
        """Something on this node runs out then. An earlier look that is due anyway will find out by itself."""
        known = self._looks.get(node)
        if known is None or at < known:
            self._looks[node] = at
            heappush(self._changes, (at, node))

    def next_time(self) -> float:
        """When something may happen without anybody asking."""
        at = NEVER
        deadlines, changes = self._deadlines, self._changes
        while deadlines:
            first = deadlines[0]
            if first[1] in self._waits:
                at = first[0]
                break
            heappop(deadlines)
        while changes:
            first = changes[0]
            if self._looks.get(first[1]) == first[0]:
                return min(at, first[0])
            heappop(changes)
        return at

    def overdue(self, now: float) -> list[Wait]:
        """Those whose time to wait is over."""
        found: list[Wait] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            wait = self._waits.get(heappop(self._deadlines)[1])
            if wait is not None:
                found.append(wait)
        return found

    def look_at_deadline(self, wait: Wait, at: float) -> None:
        """Be reminded of this wait then."""
        heappush(self._deadlines, (at, wait.id))

    def changing(self, now: float) -> tuple[str, ...]:
        """Watched nodes on which something has run out."""
        nodes = []
        while self._changes and self._changes[0][0] <= now:
            at, node = heappop(self._changes)
            if self._looks.get(node) == at:
                del self._looks[node]
                nodes.append(node)
        return tuple(nodes)
