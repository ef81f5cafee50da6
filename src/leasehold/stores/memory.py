"""A store in a dict, for simulations and tests. Nothing survives the process.

`Memory` takes the place of a database, and each `MemoryStore` is a connection to it, as a process would have one.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, get_ident

from leasehold.domain.entries import EMPTY
from leasehold.domain.records import apply, first_due
from leasehold.errors import Closed, StoreError
from leasehold.stores import Capabilities
from leasehold.stores.protocol import Store, Transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery

PRUNE = 1_000
"""The most events that one call of `prune` deletes."""


def _wall() -> int:
    return time.time_ns() // 1_000


def _no_fault(_point: str) -> None:
    """Inject no fault."""


class Memory:
    """The data that several connections share.

    `fault` is called at the points `begin`, `before_commit` (nothing is written) and `after_commit` (all is written,
    and the caller does not know it yet). An exception that it raises reaches the caller of the store.
    """

    def __init__(
        self,
        clock: Callable[[], int] = _wall,
        fault: Callable[[str], None] = _no_fault,
        keep_events: int = 1_000_000,
    ) -> None:
        self.clock = clock
        self.fault = fault
        self.keep_events = keep_events
        self.records: dict[str, Record] = {}
        self.events: list[Event] = []
        self.seq = 0
        self.fence = 1
        self.version = 0
        self._latest = 0
        self._lock = allocate_lock()
        self._owner = 0

    def enter(self) -> None:
        """Wait for the turn of this thread."""
        if self._owner == get_ident():
            raise StoreError("a transaction is already under way in this thread")
        self._lock.acquire()
        self._owner = get_ident()

    def leave(self) -> None:
        """End the turn."""
        self._owner = 0
        self._lock.release()

    def now(self) -> int:
        """Return the time, which never runs backwards."""
        self._latest = max(self._latest, self.clock())
        return self._latest

    def write(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        """Write all of this. Records are replaced, not changed, so that readers keep what they have."""
        for change in changes:
            record = apply(self.records.get(change.key, EMPTY), change)
            if record == EMPTY:
                self.records.pop(change.key, None)
            else:
                self.records[change.key] = record
        self.events += [event._replace(seq=seq) for seq, event in enumerate(events, self.seq + 1)]
        self.seq += len(events)
        self.fence = fence
        self.version += 1


class MemoryStore(Store):
    """One connection to a `Memory`."""

    capabilities = Capabilities(
        name="memory",
        durable="nothing: it ends with the process",
        fifo=True,
        history=True,
        wakeup="by checking every 20 ms",
        receipts=True,
        poll=20_000,
    )

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self.own_commits = 0
        self._hinted = self.memory.version
        self._is_closed = False

    def begin(self) -> MemoryTransaction:
        """Start a transaction. Block until it is this caller's turn."""
        self._check_open()
        self.memory.fault("begin")
        self.memory.enter()
        return MemoryTransaction(self)

    def hint(self) -> bool:
        """Return True if another connection has committed since the last call."""
        self._check_open()
        others = self.memory.version - self.own_commits
        before, self._hinted = self._hinted, others
        return others != before

    def loss_mark(self) -> int:
        """Return a value that changes with each commit."""
        self._check_open()
        return self.memory.version

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return the time and these records."""
        self._check_open()
        self.memory.enter()
        try:
            return self.memory.now(), {key: self.memory.records.get(key, EMPTY) for key in keys}
        finally:
            self.memory.leave()

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Return every record whose key starts with this letter."""
        self._check_open()
        self.memory.enter()
        try:
            found = [item for item in self.memory.records.items() if item[0].startswith(kind)]
        finally:
            self.memory.leave()
        return iter(found)

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Return past events, newest first."""
        self._check_open()
        found = [event for event in reversed(list(self.memory.events)) if query.wants(event)]
        return found[: max(query.limit, 0)]

    def prune(self) -> int:
        """Delete some events that are older than the newest `keep_events`."""
        self._check_open()
        self.memory.enter()
        try:
            gone = min(PRUNE, max(0, len(self.memory.events) - self.memory.keep_events))
            del self.memory.events[:gone]
        finally:
            self.memory.leave()
        return gone

    def close(self) -> None:
        """Refuse further calls. Idempotent."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this store is closed; connect again")


class MemoryTransaction(Transaction):
    """One turn."""

    __slots__ = ("_is_over", "_memory", "_store", "fence", "now")

    now: int
    fence: int

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._memory = store.memory
        self._is_over = False
        self.now = self._memory.now()
        self.fence = self._memory.fence

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """Return these records."""
        return {key: self._memory.records.get(key, EMPTY) for key in keys}

    def due(self, limit: int) -> Sequence[str]:
        """Return keys of records with an entry that is due, the most urgent first."""
        times = {key: first_due(record) for key, record in self._memory.records.items()}
        come = [(at, key) for key, at in times.items() if at is not None and at <= self.now]
        return [key for _, key in sorted(come)[:limit]]

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,  # noqa: ARG002
    ) -> None:
        """Write all of this, or nothing."""
        if self._is_over:
            raise StoreError("this transaction is over; begin another")
        try:
            self._memory.fault("before_commit")
            if changes or events or fence != self.fence:
                self._memory.write(changes, events, fence)
                self._store.own_commits += 1
            self._memory.fault("after_commit")
        finally:
            self.close()

    def close(self) -> None:
        """End the turn; discard what was not committed."""
        if not self._is_over:
            self._is_over = True
            self._memory.leave()
