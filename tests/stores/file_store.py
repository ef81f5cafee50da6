"""A store of your own: a dict of records with a file behind it, for processes of one machine."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any

from leasehold.domain.entries import EMPTY
from leasehold.domain.records import apply, build, first_due, pack, unpack, unpack_event
from leasehold.errors import StoreError
from leasehold.stores import Capabilities
from leasehold.stores.cache import entries_of
from leasehold.stores.protocol import Store, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.stores import HistoryQuery

KEEP_EVENTS = 10_000
CAPABILITIES = Capabilities(
    name="file",
    durable="a crash of any process",
    fifo=True,
    history=True,
    wakeup="by checking every 20 ms",
    receipts=False,
    poll=20_000,
)


class FileStore(Store):
    """One JSON file, replaced as a whole by each commit. Transactions take turns at a lock file beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hinted = self.loss_mark()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def begin(self) -> FileTransaction:
        return FileTransaction(self)

    def hint(self) -> bool:
        before, self._hinted = self._hinted, self.loss_mark()
        return before != self._hinted

    def loss_mark(self) -> object:
        if not self.path.exists():
            return None
        status = self.path.stat()
        return status.st_ino, status.st_mtime_ns  # each commit creates a new file

    def state(self) -> dict[str, Any]:
        """Read the file."""
        if not self.path.exists():
            return {"now": 0, "fence": 1, "seq": 0, "records": {}, "events": []}
        state: dict[str, Any] = json.loads(self.path.read_text())
        state["records"] = {key: build(map(unpack, packed)) for key, packed in state["records"].items()}
        return state

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        state = self.state()
        return clock(state), {key: state["records"].get(key, EMPTY) for key in keys}

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        return iter([each for each in self.state()["records"].items() if each[0].startswith(kind)])

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        events = [unpack_event(event, event[-1]) for event in reversed(self.state()["events"])]
        return [event for event in events if query.wants(event)][: max(query.limit, 0)]

    def prune(self) -> int:
        return 0  # each commit keeps only the newest events

    def close(self) -> None:
        pass  # nothing stays open between transactions


class FileTransaction(Transaction):
    """Holds the lock file from its beginning to its end, and with it all records."""

    def __init__(self, store: FileStore) -> None:
        self._path = store.path
        self._lock = os.open(f"{store.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._state = store.state()
        self._now = clock(self._state)

    @property
    def now(self) -> int:
        return self._now

    @property
    def fence(self) -> int:
        fence: int = self._state["fence"]
        return fence

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        return {key: self._state["records"].get(key, EMPTY) for key in keys}

    def due(self, limit: int) -> Sequence[str]:
        times = [(first_due(record), key) for key, record in self._state["records"].items()]
        return [key for _, key in sorted((at, key) for at, key in times if at is not None and at <= self.now)[:limit]]

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> None:
        if self._lock < 0:
            raise StoreError("this transaction is over; begin another")
        state, records = self._state, self._state["records"]
        for change in changes:
            records[change.key] = apply(records.get(change.key, EMPTY), change)
        state["records"] = {key: packed(record) for key, record in records.items() if record != EMPTY}
        numbered = [event._replace(seq=seq) for seq, event in enumerate(events, state["seq"] + 1)]
        state["events"] = [*state["events"], *numbered][-KEEP_EVENTS:]
        state |= {"now": self.now, "fence": fence, "seq": state["seq"] + len(events)}
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        self.close()

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)  # which unlocks it
            self._lock = -1


def packed(record: Record) -> list[list[object]]:
    """Return the entries of a record as JSON."""
    return [pack(entry) for entry in entries_of(record)]


def clock(state: dict[str, Any]) -> int:
    """Return the time, but never one before the last commit: the clock of the machine may be set back."""
    last: int = state["now"]
    return max(time.time_ns() // 1_000, last)
