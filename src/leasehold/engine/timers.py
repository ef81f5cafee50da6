"""The requests that wait at one engine, and the times at which it must check them. It decides nothing."""

from __future__ import annotations

from heapq import heappop, heappush

from leasehold.domain.rules.granting import nodes_of
from leasehold.engine.pending import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.entries import LeaseRequest
    from leasehold.engine.pending import Pending


class WaitingRequest:
    """One place in the queue, and the callers who wait for it."""

    __slots__ = ("actor", "ask", "deadline", "id", "nodes", "pendings")

    def __init__(self, id_: str, actor: str, ask: LeaseRequest, deadline: float) -> None:
        self.id = id_
        self.actor = actor
        self.ask = ask
        self.deadline = deadline
        """On this process's monotonic clock."""
        self.nodes = nodes_of(ask)
        self.pendings: list[Pending] = []
        """Usually one; a retry with the same request_id joins the first."""

    @property
    def was_sent_elsewhere(self) -> bool:
        """True if a delayed copy of it may reach another server, and take its place there."""
        return any(pending.was_sent_elsewhere for pending in self.pendings)


class WaitTimers:
    """All waiting requests of one engine, with their deadlines and the times at which holds in their way end."""

    def __init__(self) -> None:
        self._waits: dict[str, WaitingRequest] = {}
        self._watched: dict[str, int] = {}
        """The number of requests that want each node, by its key."""
        self._deadlines: list[tuple[float, str]] = []
        self._changes: list[tuple[float, str]] = []
        """When a hold on a watched node ends. For each node only the time in `_next_checks` counts."""
        self._next_checks: dict[str, float] = {}
        self._backups: set[str] = set()
        """Nodes whose next check is for the case that the process of the first waiter does not check them."""

    def __len__(self) -> int:
        return len(self._waits)

    def all(self) -> list[WaitingRequest]:
        """Return all waiting requests."""
        return list(self._waits.values())

    def get(self, id_: str) -> WaitingRequest | None:
        """Return the waiting request of this id, or None."""
        return self._waits.get(id_)

    def add(self, wait: WaitingRequest) -> None:
        """Add a request that has queued."""
        self._waits[wait.id] = wait
        for node in wait.nodes:
            self._watched[node] = self._watched.get(node, 0) + 1
        heappush(self._deadlines, (wait.deadline, wait.id))

    def remove(self, id_: str) -> WaitingRequest | None:
        """Remove a request whose wait is over, and return it."""
        wait = self._waits.pop(id_, None)
        if wait is not None:
            for node in wait.nodes:
                others = self._watched[node] - 1
                if others:
                    self._watched[node] = others
                else:
                    del self._watched[node]
                    self._next_checks.pop(node, None)
                    self._backups.discard(node)
        return wait

    def is_watched(self, node: str) -> bool:
        """Return whether a request here waits for this node."""
        return node in self._watched

    def watched(self) -> tuple[str, ...]:
        """Return every node that a request here waits for."""
        return tuple(self._watched)

    def check_node(self, node: str, at: float, later: float = 0.0) -> None:
        """Check this node at `at`, unless an earlier check is due anyway; as a backup, `later` than at its time."""
        known, at = self._next_checks.get(node), at + later
        if known is None or at < known:
            self._next_checks[node] = at
            heappush(self._changes, (at, node))
            if later:
                self._backups.add(node)
            else:
                self._backups.discard(node)

    def was_backup(self, node: str) -> bool:
        """Return True if the check of this node that has become due is a backup."""
        if node not in self._backups:
            return False
        self._backups.remove(node)
        return True

    def next_time(self) -> float:
        """Return the next deadline or end of a hold."""
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
            if self._next_checks.get(first[1]) == first[0]:
                return min(at, first[0])
            heappop(changes)
        return at

    def overdue(self, now: float) -> list[WaitingRequest]:
        """Return the requests whose deadline has passed."""
        found: list[WaitingRequest] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            wait = self._waits.get(heappop(self._deadlines)[1])
            if wait is not None:
                found.append(wait)
        return found

    def check_request(self, wait: WaitingRequest, at: float) -> None:
        """Report this request as overdue at `at`."""
        heappush(self._deadlines, (at, wait.id))

    def changing(self, now: float) -> tuple[str, ...]:
        """Return the watched nodes on which a hold has ended."""
        nodes = []
        while self._changes and self._changes[0][0] <= now:
            at, node = heappop(self._changes)
            if self._next_checks.get(node) == at:
                del self._next_checks[node]
                nodes.append(node)
        return tuple(nodes)
