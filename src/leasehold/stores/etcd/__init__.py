"""The etcd store: records by consensus, one transaction with a compare for each batch. It decides nothing about leases.

`docs/how-to/etcd.md` says how it works and how to run it, `docs/adr/0026` and `0042` why.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, get_ident
from typing import TYPE_CHECKING, TypeVar

from leasehold.domain.entries import EMPTY
from leasehold.errors import StoreError
from leasehold.steps import through
from leasehold.stores import Capabilities
from leasehold.stores.cache import evict
from leasehold.stores.etcd import history, messages, rows
from leasehold.stores.etcd.address import parse
from leasehold.stores.etcd.calls import RANGE, TRANSACTION
from leasehold.stores.etcd.client import EtcdClient
from leasehold.stores.etcd.joint import Bell, LaneCommit
from leasehold.stores.etcd.journal import Replica
from leasehold.stores.etcd.lanes import check as check_layout
from leasehold.stores.etcd.lanes import find_layout
from leasehold.stores.etcd.precedence import Precedence
from leasehold.stores.etcd.reading import bring_up_to_date
from leasehold.stores.etcd.refusals import Compacted
from leasehold.stores.etcd.transaction import ASSUMED, EtcdTransaction
from leasehold.stores.layout import CONTROL, Layout
from leasehold.stores.protocol import NetworkStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from leasehold.domain.entries import Record
    from leasehold.domain.events import Event
    from leasehold.steps import Steps
    from leasehold.stores import HistoryQuery
    from leasehold.stores.etcd.watching import KeyNews

Found = TypeVar("Found")

__all__ = ["EtcdStore"]

EPOCH = 1 << 40
"""After a restore, the fence jumps to a multiple of this: above any fence issued since the backup."""
PAGE = 500
PRUNE = 200
TRIES = 5
"""Attempts at a read of several requests whose revision is compacted meanwhile."""
MANY, MEET_AGAIN = 10, 0.002
"""Failed commits in a row after which a transaction begins with a random pause, and its longest, in seconds."""
DOUBT = 20
"""Transactions that read unknown records, after one was found that had been assumed to be absent."""


class EtcdStore(NetworkStore):
    """A `Store` in one etcd cluster. Transactions from one thread at a time, everything else from any."""

    capabilities = Capabilities(
        name="etcd",
        durable="a crash of any server, and of any minority of etcd's members",
        fifo=True,
        history=True,
        wakeup="in the same process at once, in others by a watch; with all of them lost, by checking every 0.5 s",
        receipts=True,
        poll=10_000,
        remote=True,
        batch=120,
    )

    layout = Layout()

    def __init__(
        self,
        rest: str,
        *,
        lane: int = CONTROL,
        lanes: int | None = None,
        client: EtcdClient | None = None,
        is_examined: bool = False,
        may_be_closed: bool = False,
    ) -> None:
        """Open the store, and create its lanes if there are none, unless it is only examined.

        `lane` is the number of the lane to open, and `lanes` how many there must be; lanes share their `client`. See
        `lane`. `may_be_closed`: only to finish a change of the number of lanes.
        """
        self._rest = rest
        self.address = parse(rest).of_lane(lane)
        self.names = rows.KeyNames(self.address.prefix)
        self.client = client or EtcdClient(self.address)
        self.calls = self.client.calls
        self.gateway = self.client.gateway
        self.clock = self.client.clock
        self.id = self.client.id
        self.replica = Replica()
        self._accepted = ""
        """Id of the cluster that the replica describes."""
        self._bell: Bell | None = None
        self._latest = 0
        self._mutex = allocate_lock()
        self._owner = 0
        self.losses = 0
        """Failed commits in a row: another store was first."""
        self.precedence = Precedence(self)
        self._doubts = 0
        self._in_doubt: tuple[bytes, bytes] | None = None
        """The compare of a commit with an unknown outcome, and the operation that keeps it from succeeding late."""
        self._told: list[Callable[[], None]] = []
        self._news: KeyNews | None = None
        self._is_closed = False
        self.client.join()
        try:
            # This also fails if the clock is known already, but no member answers.
            self.layout = find_layout(
                self, lane, lanes or self.address.lanes, is_examined=is_examined, may_be_closed=may_be_closed
            )
            while not self.client.clock.is_exact:  # until a second has turned
                self.client.gateway.ask_the_time()
            self.client.gateway.rest()
            self._accept_cluster()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------------------------ the protocol

    def begin(self) -> EtcdTransaction:
        """Start a transaction. It excludes no other store: the first commit wins."""
        if self._owner == get_ident():
            raise StoreError("a transaction of this store is already under way in this thread")
        self._mutex.acquire()
        self._owner = get_ident()
        try:
            self._accept_cluster()
            self.settle()
            self.precedence.prepare(self.losses)
        except BaseException:
            self.leave()
            raise
        if self.losses >= MANY:
            time.sleep(MEET_AGAIN * os.urandom(1)[0] / 255)
        return EtcdTransaction(self)

    def ready(self, keys: Iterable[str]) -> bool:
        """Return True if a transaction on these records could begin and decide now without waiting. Changes nothing.

        Begin it at once: a reader in another thread may take the store in between.
        """
        if self._mutex.locked() or self._in_doubt is not None or not self.calls.is_connected:
            return False
        if self.losses >= MANY or self.precedence.is_theirs or self._accepted != self.cluster:
            return False
        unknown = self.replica.unknown(keys)
        if unknown is None:
            return False
        return not unknown or (self._doubts <= 1 and len(unknown) <= ASSUMED)  # `may_assume` is about to allow it

    def hint(self) -> bool:
        """Return True if another store may have committed since the last call."""
        return self._hear().take()

    def loss_mark(self) -> int:
        """Return a value that differs once another store may have committed."""
        return self._hear().number

    def _hear(self) -> KeyNews:
        if self._news is None:
            news = self.client.news_of(self.names.meta, self.layout.lanes)
            news.tell = self._tell
            self._news = news
        return self._news

    def listen(self, engine: str, told: Callable[[], None]) -> bool:  # noqa: ARG002 (the watch is for all engines)
        """Have `told` called, from the watching thread, as soon as there is a hint."""
        self._told.append(told)
        return False

    def _tell(self) -> None:
        for told in self._told:
            told()

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return the time and these records, as of one moment."""
        wanted = list(dict.fromkeys(keys))
        self.settle()
        if not self._mutex.acquire(blocking=False):  # a transaction uses the replica: read into a new one
            return self._read(Replica(), wanted, wanted if all(map(_is_plain, wanted)) else None)
        self._owner = get_ident()
        try:
            return self._read(self.replica, wanted)
        finally:
            self.leave()

    def _read(
        self, replica: Replica, wanted: list[str], only: list[str] | None = None
    ) -> tuple[int, Mapping[str, Record]]:
        self.client.keep_time()
        bring_up_to_date(self, replica, wanted, only)
        records = replica.records
        return max(self.clock.now(), replica.meta.now, self._latest), {key: records[key] for key in wanted}

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Return every record whose key starts with this letter, as of one moment."""
        return iter(self._undisturbed(lambda: [*self._scan(kind)]))

    def _undisturbed(self, read: Callable[[], list[Found]]) -> list[Found]:
        """Read by several requests as of one revision; start over if etcd compacts that revision meanwhile."""
        for _ in range(TRIES):
            try:
                return read()
            except Compacted:
                continue
        return read()

    def _scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        replica = Replica()
        revision = bring_up_to_date(self, replica, (), [kind])
        overlay = replica.overlay
        left = {key: line for key, line in overlay.lines.items() if key.startswith(kind)}
        first = self.names.record(kind)
        for name, data in self.each(first, rows.after(first), revision=revision):
            key = self.names.key(name)
            left.pop(key, None)
            record = overlay.on(key, rows.record_of(rows.whole(self, data)))
            if record is not EMPTY:
                yield key, record
        for key in left:
            record = overlay.on(key, EMPTY)
            if record is not EMPTY:
                yield key, record

    def each(self, first: str, end: str, *, revision: int = 0, **more: bool) -> Iterator[tuple[str, bytes]]:
        """Yield the names and values of a range, as of one revision."""
        while True:
            asked = messages.range_request(first, end, limit=PAGE, revision=revision, **more)
            found = messages.range_answer(self.calls.ask(RANGE, asked))
            revision = revision or found.revision
            pairs = rows.each(found)
            yield from pairs
            if not found.more:
                return
            first = pairs[-1][0] + "\0"

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Return past events, newest first."""
        return self._undisturbed(lambda: history.find(self, query))

    def prune(self) -> int:
        """Remove some of the events beyond those to keep, or parts without a reference; return about how many."""
        first, _ = self.names.all_events()
        meta = rows.meta_of(rows.only(self.txn([], [messages.get(self.names.meta)], []).responses[0]))
        check_layout(self.address, meta.layout, self.layout)
        last = meta.seq - self.address.keep_events
        asked = messages.range_request(first, self.names.events(max(last, 0) + 1), limit=PRUNE)
        old = rows.each(messages.range_answer(self.calls.ask(RANGE, asked))) if last > 0 else []
        if not old:
            return rows.collect(self, self.clock.now())
        went = history.count(self, old)
        spilled = [rows.removal(self, rows.id_in(data)) for _, data in old if rows.is_reference(data)]
        self.txn([], [messages.delete(first, old[-1][0] + "\0"), *spilled], [], changes=True)
        return max(went, 1)

    def lane(self, number: int) -> EtcdStore:
        """Open a lane of this store."""
        return EtcdStore(self._rest, lane=number, lanes=self.layout.lanes, client=self.client)

    def commit_together(self, are_others_coming: Callable[[], bool]) -> None:
        """Write the commits of this thread's lanes together from now on."""
        self.client.commits.begin(are_others_coming)

    def divide(self, lanes: int) -> int:
        """Change the number of lanes. A change that was cut off leaves the store closed, and goes on when repeated."""
        from leasehold.stores.etcd.dividing import change_lanes  # noqa: PLC0415 (rare)

        return change_lanes(
            self, lanes, lambda lane: EtcdStore(self._rest, lane=lane, client=self.client, may_be_closed=True)
        )

    def close(self) -> None:
        """Close this lane; with the last one, all connections and threads. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._bell is not None:
            self._bell.close()
        self.client.leave()

    # ---------------------------------------------------------------------------- for our transactions

    def txn(
        self, compares: list[bytes], then: list[bytes], otherwise: list[bytes], *, changes: bool = False
    ) -> messages.TxnAnswer:
        """Run one transaction of etcd."""
        return through(self.asking(compares, then, otherwise, changes=changes))

    def asking(
        self, compares: list[bytes], then: list[bytes], otherwise: list[bytes], *, changes: bool = False
    ) -> Steps[messages.TxnAnswer]:
        """Run one transaction of etcd, step by step."""
        request = messages.transaction(compares, then, otherwise)
        if changes:
            told = yield from self.calls.changing(TRANSACTION, request, self._accepted)
        else:
            told = yield from self.calls.asking(TRANSACTION, request)
        return messages.answer(told, is_wanted=not changes)

    def committing(
        self, compares: list[bytes], then: list[bytes], otherwise: Callable[[], list[bytes]]
    ) -> Steps[messages.TxnAnswer]:
        """Run a transaction that commits, step by step: together with those of other lanes, if some are ready.

        `otherwise` returns the operations for a transaction that fails; those of several lanes do without.
        """
        if self.client.commits.is_possible:
            if self._bell is None:
                self._bell = Bell()
            part = LaneCommit(compares, then, otherwise, self._accepted, self._bell)
            answer = yield from self.client.commits.committing(part)
            if answer is not None:
                return answer
        return (yield from self.asking(compares, then, otherwise(), changes=True))

    @property
    def cluster(self) -> str:
        """Id of the cluster that answered last."""
        return self.calls.cluster

    def _accept_cluster(self) -> None:
        """Discard the replica if another cluster answers than before: it was restored, and may issue fences again.

        The restored snapshot may equal the replica, so no compare would reveal it.
        """
        if self._accepted != self.cluster:
            self.replica.forget()
            self._accepted = self.cluster

    def note_doubt(self) -> None:
        """Note that a commit was sent whose outcome is unknown."""
        replica = self.replica
        later = replica.meta._replace(now=replica.meta.now + 1)
        self._in_doubt = replica.unchanged(self.names), messages.put(self.names.meta, rows.meta_data(later))

    def settle(self) -> None:
        """Settle a commit whose outcome is unknown: afterwards it has been carried out, or never will be.

        It may still be on its way, at a member that is cut off. So change the value that it compares; if that value has
        changed already, the commit has succeeded or will fail.
        """
        doubt = self._in_doubt
        if doubt is not None:
            self.txn([doubt[0]], [doubt[1]], [])
            if self._in_doubt is doubt:  # several threads may settle it at once
                self._in_doubt = None

    def raise_fence(self, replica: Replica, revision: int) -> None:
        """Raise the fence above etcd's revision, in case `meta` was deleted; far above it after a restore."""
        fence = max(replica.meta.fence, revision)
        if replica.meta.cluster not in ("", self.cluster):
            fence = (fence // EPOCH + 1) * EPOCH
        replica.meta = replica.meta._replace(fence=fence)

    def tell_time(self) -> int:
        """Return etcd's time; never earlier than any time that any store has used."""
        self.client.keep_time()
        self._latest = max(self._latest, self.replica.meta.now, self.clock.now())
        return self._latest

    def may_assume(self) -> bool:
        """Return True if unknown records may be assumed absent: none was found in the last transactions."""
        self._doubts = max(0, self._doubts - 1)
        return not self._doubts

    @property
    def is_doubtful(self) -> bool:
        """True if an unknown record was found in one of the last transactions."""
        return self._doubts > 0

    def doubt(self) -> None:
        """Note that an unknown record exists."""
        self._doubts = DOUBT

    def leave(self) -> None:
        """End the transaction under way, so that the next one can begin."""
        if len(self.replica.records) > self.replica.limit:
            evict(self.replica.records, self.replica.limit)
        self._owner = 0
        self._mutex.release()


def _is_plain(key: str) -> bool:
    """Return True if every JSON encoder spells this key the same."""
    return key.isascii() and key.isalnum()
