"""The etcd store: records by consensus, one transaction with a compare for each batch. It decides nothing about leases.

It speaks etcd's JSON gateway: see docs/adr for why, and docs/etcd.md for how to run it.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, get_ident

from leasehold.errors import StoreError
from leasehold.stores import Capabilities
from leasehold.stores.cache import Cache
from leasehold.stores.etcd import rows
from leasehold.stores.etcd.address import parse
from leasehold.stores.etcd.clock import clock_of
from leasehold.stores.etcd.gateway import Gateway, text64
from leasehold.stores.etcd.transaction import OPERATIONS, EtcdTransaction
from leasehold.stores.etcd.watching import Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from leasehold.model import Event, Record
    from leasehold.stores import HistoryQuery

__all__ = ["EtcdStore"]

EPOCH = 1 << 40
"""After a restore, fences go on above everything that can have been given out since the backup."""
PAGE = 500
PRUNE = 200
MEET_AGAIN = 0.002


class EtcdStore:
    """A `Store` in one etcd cluster. Transactions from one thread at a time, everything else from any."""

    capabilities = Capabilities(
        name="etcd",
        durable="a crash of any server, and of any minority of etcd's members",
        fifo=True,
        history=True,
        wakeup="in the same process at once, in others by a watch; with all of them lost, by looking every 0.5 s",
        receipts=True,
        poll=10_000,
        remote=True,
        batch=24,
    )

    def __init__(self, rest: str) -> None:
        self.address = parse(rest)
        self.names = rows.Names(self.address.prefix)
        self.clock = clock_of(self.address.members)
        self.gateway = Gateway(self.address, self.clock.tell)
        self.cache = Cache()
        self.meta = rows.Meta()
        self.revision = -1
        """At which the state that we know was written; -1: we know nothing."""
        self.cluster = ""
        self._latest = 0
        self._mutex = allocate_lock()
        self._owner = 0
        self._losses = 0
        self._watcher: Watcher | None = None
        try:
            self._learn_the_time()
        except BaseException:
            self.gateway.close()
            raise

    def _learn_the_time(self) -> None:
        """Ask until a second has turned: then their clock is known as exactly as an exchange takes."""
        self.txn([], [rows.get(self.names.meta)], [])  # also if it is known: is anybody there?
        while not self.clock.is_exact:
            self.txn([], [rows.get(self.names.meta)], [])

    # ------------------------------------------------------------------------------------ the protocol

    def begin(self) -> EtcdTransaction:
        """Start a transaction. Nobody is kept out: who commits first wins."""
        if self._owner == get_ident():
            raise StoreError("a transaction of this store is already under way in this thread")
        self._mutex.acquire()
        self._owner = get_ident()
        if self._losses:
            time.sleep(MEET_AGAIN * (1 + id(self) % 7) * min(self._losses, 8) / 4)
        return EtcdTransaction(self)

    def hint(self) -> bool:
        """Whether somebody else has committed since the last call, or may have."""
        if self._watcher is None:
            self._watcher = Watcher(self.gateway, text64(self.names.meta))
        return self._watcher.take()

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """The time and these records, as of one moment."""
        wanted = list(dict.fromkeys(keys))
        records: dict[str, Record] = {}
        told = self.txn([], [rows.get(self.names.meta)], [])
        revision = told["header"]["revision"]
        pairs = rows.found(told["responses"][0])
        latest = rows.meta_of(pairs[0][1]).now if pairs else 0
        for start in range(0, len(wanted), OPERATIONS):
            some = wanted[start : start + OPERATIONS]
            asked = [rows.get(self.names.record(key), revision=revision) for key in some]
            answer = self.txn([], asked, [])
            records |= dict(zip(some, map(rows.record_in, answer["responses"]), strict=True))
        return max(self.clock.now(), latest, self._latest), records

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Every record whose key starts with this letter, as of one moment."""
        first = self.names.record(kind)
        for name, text, _ in self._each(first, rows.after(first)):
            yield self.names.key(name), rows.record_of(text)

    def _each(self, first: str, end: str, **more: Any) -> Iterator[tuple[str, str, int]]:
        at: dict[str, Any] = {}
        while True:
            asked = {"key": text64(first), "range_end": text64(end), "limit": PAGE, **at, **more}
            answer = self.gateway.ask("/v3/kv/range", asked)
            at = at or {"revision": answer["header"]["revision"]}
            pairs = rows.found(answer)
            yield from pairs
            if not answer.get("more"):
                return
            if more:
                end = pairs[-1][0]
            else:
                first = pairs[-1][0] + "\0"

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Past events, newest first. It is looked through: there is no index."""
        found: list[Event] = []
        first = self.names.events(0)[:-16]
        newest = rows.after(first)
        for _, text, _ in self._each(first, newest, sort_order="DESCEND", sort_target="KEY"):
            for event in rows.events_of(text):
                if len(found) >= max(query.limit, 0):
                    return found
                if query.wants(event):
                    found.append(event)
        return found[: max(query.limit, 0)]

    def prune(self) -> int:
        """Forget some of what is older than the newest events that are kept; about how many went."""
        first = self.names.events(0)[:-16]
        pairs = rows.found(self.txn([], [rows.get(self.names.meta)], [])["responses"][0])
        last = (rows.meta_of(pairs[0][1]).seq if pairs else 0) - self.address.keep_events
        if last <= 0:
            return 0
        asked = {"key": text64(first), "range_end": text64(self.names.events(last + 1)), "limit": PRUNE}
        old = rows.found(self.gateway.ask("/v3/kv/range", asked))
        if not old:
            return 0
        self.txn([], [rows.delete(first, old[-1][0] + "\0")], [], changes=True)
        return sum(len(rows.events_of(text)) for _, text, _ in old)

    def close(self) -> None:
        """Give everything back. Idempotent."""
        if self._watcher is not None:
            self._watcher.close()
        self.gateway.close()

    # ---------------------------------------------------------------------------- for our transactions

    def txn(
        self,
        compares: list[dict[str, Any]],
        then: list[dict[str, Any]],
        otherwise: list[dict[str, Any]],
        *,
        changes: bool = False,
    ) -> dict[str, Any]:
        """One transaction of etcd's."""
        body = {"compare": compares, "success": then, "failure": otherwise}
        asking = self.gateway.change if changes else self.gateway.ask
        answer = asking("/v3/kv/txn", body)
        self.cluster = str(answer["header"].get("cluster_id", ""))
        return answer

    def keep(self, keys: Sequence[str], answer: dict[str, Any]) -> None:
        """These records were read while nobody had changed anything."""
        self.cache.records.update(zip(keys, map(rows.record_in, answer.get("responses", [])), strict=True))

    def restart(self, keys: Sequence[str], answer: dict[str, Any]) -> None:
        """Somebody has changed something: this is all that we know now."""
        self.cache.clear()
        meta, *records = answer["responses"]
        pairs = rows.found(meta)
        self.revision = pairs[0][2] if pairs else 0
        self.meta = rows.meta_of(pairs[0][1]) if pairs else rows.Meta()
        self.cache.records.update(zip(keys, map(rows.record_in, records), strict=True))
        self._raise_fence(int(answer["header"]["revision"]))

    def _raise_fence(self, revision: int) -> None:
        """Above etcd's own revision, should our number be lost; and far above, if this was restored from a backup."""
        fence = max(self.meta.fence, revision)
        if self.meta.cluster not in ("", self.cluster):
            fence = (fence // EPOCH + 1) * EPOCH
        self.meta = self.meta._replace(fence=fence)

    def tell_time(self) -> int:
        """The time of etcd; never earlier than any that was told before by anybody."""
        self._latest = max(self._latest, self.meta.now, self.clock.now())
        return self._latest

    def due(self, now: int, limit: int) -> list[str]:
        """Keys of records with a reminder up to now."""
        first, end = self.names.dues(now)
        asked = {"key": text64(first), "range_end": text64(end), "limit": limit, "keys_only": True}
        pairs = rows.found(self.gateway.ask("/v3/kv/range", asked))
        return [self.names.due_key(name) for name, _, _ in pairs]

    def committed(self, answer: dict[str, Any], meta: rows.Meta, after: dict[str, Record]) -> None:
        """It is written: what we know is what is there."""
        self.revision = int(answer["header"]["revision"])
        self.meta = meta
        self._losses = 0
        self.cache.records.update(after)
        if self._watcher is not None:
            self._watcher.ours(self.revision)

    def lost_out(self) -> None:
        """Somebody else was quicker: what we know is old."""
        self._losses += 1
        self.forget()

    def forget(self) -> None:
        """Nothing that we know can be trusted."""
        self.cache.clear()
        self.revision = -1

    def leave(self) -> None:
        """The next transaction of this store may begin."""
        self.cache.trim()
        self._owner = 0
        self._mutex.release()
