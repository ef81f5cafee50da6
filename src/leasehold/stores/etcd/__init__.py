"""The etcd store: records by consensus, one transaction with a compare for each batch. It decides nothing about leases.

It speaks gRPC by hand: see docs/adr for why, and docs/etcd.md for how to run it.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, get_ident
from typing import TypeVar

from leasehold.errors import StoreError
from leasehold.model import EMPTY
from leasehold.stepwise import through
from leasehold.stores import Capabilities
from leasehold.stores.etcd import history, messages, parts, rows
from leasehold.stores.etcd.address import parse
from leasehold.stores.etcd.calls import RANGE, TRANSACTION, EtcdCalls
from leasehold.stores.etcd.clock import clock_of
from leasehold.stores.etcd.gateway import Gateway, text64
from leasehold.stores.etcd.members import Members
from leasehold.stores.etcd.precedence import Precedence
from leasehold.stores.etcd.reading import look
from leasehold.stores.etcd.refusals import Compacted
from leasehold.stores.etcd.replica import Replica
from leasehold.stores.etcd.timekeeping import Timekeeper
from leasehold.stores.etcd.transaction import ASSUMED, EtcdTransaction
from leasehold.stores.etcd.watching import Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from leasehold.model import Event, Record
    from leasehold.stepwise import Steps
    from leasehold.stores import HistoryQuery

Looked = TypeVar("Looked")

__all__ = ["EtcdStore"]

EPOCH = 1 << 40
"""After a restore, fences go on above everything that can have been given out since the backup."""
PAGE = 500
PRUNE = 200
TRIES = 5
"""So often a look is begun anew."""
MANY, MEET_AGAIN = 10, 0.002
"""Whoever loses knows what is new and tries again at once; after so many losses in a row, at another moment."""
SETTLED = 2.0
"""So many seconds after it was opened a store is here to stay. A command that only asks something is gone by then."""
DOUBT = 20
"""So many times records are looked for before they are assumed not to be there, once one was."""


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
        batch=120,
    )

    def __init__(self, rest: str) -> None:
        self.address = parse(rest)
        self.names = rows.KeyNames(self.address.prefix)
        self.clock = clock_of(self.address.members)
        self._members = members = Members(self.address)
        self.gateway = Gateway(members, self.clock.tell)
        greeting = messages.range_request(self.names.meta, keys_only=True)
        self.calls = EtcdCalls(members, self.gateway.authenticate, greeting)
        self.replica = Replica()
        self.id = os.urandom(8).hex()
        self._latest = 0
        self._mutex = allocate_lock()
        self._owner = 0
        self._losses = 0
        self.precedence = Precedence(self)
        self._doubts = 0
        self._in_doubt: tuple[bytes, bytes] | None = None
        """What a commit compared of which nobody knows, and what then keeps it from being carried out late."""
        self._told: list[Callable[[], None]] = []
        self._starting = allocate_lock()
        self._watcher: Watcher | None = None
        self._timekeeper: Timekeeper | None = None
        self._opened = time.monotonic()
        try:
            self._learn_the_time()
            self._accept_cluster()
        except BaseException:
            self.close()
            raise

    def _learn_the_time(self) -> None:
        """Ask until a second has turned: then their clock is known as exactly as an exchange takes."""
        self.txn([], [messages.get(self.names.meta)], [])  # also if it is known: is anybody there?
        while not self.clock.is_exact:
            self.gateway.ask_the_time()

    # ------------------------------------------------------------------------------------ the protocol

    def begin(self) -> EtcdTransaction:
        """Start a transaction. Nobody is kept out: who commits first wins."""
        if self._owner == get_ident():
            raise StoreError("a transaction of this store is already under way in this thread")
        self._mutex.acquire()
        self._owner = get_ident()
        try:
            self._accept_cluster()
            self.settle()
            self.precedence.prepare(self._losses)
        except BaseException:
            self.leave()
            raise
        if self._losses >= MANY:
            time.sleep(MEET_AGAIN * os.urandom(1)[0] / 255)
        return EtcdTransaction(self)

    def ready(self, keys: Iterable[str]) -> bool:
        """Whether a transaction on these could begin and decide now without waiting for anything. It changes nothing.

        It then has to be begun at once: a reader of another thread may come in between.
        """
        if self._mutex.locked() or self._in_doubt is not None or not self.calls.is_connected:
            return False
        if self._losses >= MANY or self.precedence.is_theirs or self.calls.accepted != self.cluster:
            return False
        unknown = self.replica.unknown(keys)
        if unknown is None:
            return False
        return not unknown or (self._doubts <= 1 and len(unknown) <= ASSUMED)  # the next to ask `may_assume` may

    def hint(self) -> bool:
        """Whether somebody else has committed since the last call, or may have."""
        return self._watching().take()

    def loss_mark(self) -> int:
        """Another value once somebody else has committed, or may have."""
        return self._watching().news

    def _watching(self) -> Watcher:
        with self._starting:
            if self._watcher is None:
                self._watcher = Watcher(self.gateway, text64(self.names.meta), self.id, self._tell)
                self._members.moved = self._watcher.move
            return self._watcher

    def tell_hints(self, told: Callable[[], None]) -> None:
        """Have `told` called as soon as there is a hint."""
        self._told.append(told)

    def _tell(self) -> None:
        for told in self._told:
            told()

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """The time and these records, as of one moment."""
        wanted = list(dict.fromkeys(keys))
        self.settle()
        if not self._mutex.acquire(blocking=False):  # what is remembered is in use: as if nothing were
            return self._read(Replica(), wanted, wanted if all(map(_is_plain, wanted)) else None)
        self._owner = get_ident()
        try:
            return self._read(self.replica, wanted)
        finally:
            self.leave()

    def _read(
        self, replica: Replica, wanted: list[str], only: list[str] | None = None
    ) -> tuple[int, Mapping[str, Record]]:
        self._keep_time()
        look(self, replica, wanted, only)
        records = replica.cache.records
        return max(self.clock.now(), replica.meta.now, self._latest), {key: records[key] for key in wanted}

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Every record whose key starts with this letter, as of one moment."""
        return iter(self._undisturbed(lambda: [*self._scan(kind)]))

    def _undisturbed(self, look: Callable[[], list[Looked]]) -> list[Looked]:
        """What takes several questions as of one moment, once more if somebody had etcd forget that one meanwhile."""
        for _ in range(TRIES):
            try:
                return look()
            except Compacted:
                continue
        return look()

    def _scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        replica = Replica()
        revision = look(self, replica, (), [kind])
        overlay = replica.overlay
        left = {key: line for key, line in overlay.lines.items() if key.startswith(kind)}
        first = self.names.record(kind)
        for name, data in self._each(first, rows.after(first), revision=revision):
            key = self.names.key(name)
            left.pop(key, None)
            record = overlay.on(key, rows.record_of(parts.whole(self, data)))
            if record is not EMPTY:
                yield key, record
        for key in left:
            record = overlay.on(key, EMPTY)
            if record is not EMPTY:
                yield key, record

    def _each(self, first: str, end: str, *, revision: int = 0, **more: bool) -> Iterator[tuple[str, bytes]]:
        """KeyNames of a range, and what is kept there, as of one moment."""
        while True:
            asked = messages.range_request(first, end, limit=PAGE, revision=revision, **more)
            found = messages.range_answer(self.calls.ask(RANGE, asked))
            revision = revision or found.revision
            pairs = rows.each(found)
            yield from pairs
            if not found.more:
                return
            first = pairs[-1][0] + "\0"

    def each_name(self, first: str, end: str) -> Iterator[str]:
        """Every key of a range, as of one moment."""
        return (name for name, _ in self._each(first, end, keys_only=True))

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Past events, newest first. They are looked through: there is no index."""
        return self._undisturbed(lambda: history.find(self, query))

    def prune(self) -> int:
        """Forget some of what is older than the newest events that are kept; about how many went."""
        first, _ = self.names.all_events()
        meta = rows.meta_of(rows.only(self.txn([], [messages.get(self.names.meta)], []).responses[0]))
        last = meta.seq - self.address.keep_events
        asked = messages.range_request(first, self.names.events(max(last, 0) + 1), limit=PRUNE)
        old = rows.each(messages.range_answer(self.calls.ask(RANGE, asked))) if last > 0 else []
        if not old:
            return parts.collect(self, self.clock.now())
        went = history.count(self, old)
        spilled = [parts.removal(self, parts.id_in(data)) for _, data in old if parts.is_reference(data)]
        self.txn([], [messages.delete(first, old[-1][0] + "\0"), *spilled], [], changes=True)
        return max(went, 1)

    def close(self) -> None:
        """Give everything back. Idempotent."""
        if self._watcher is not None:
            self._watcher.close()
        self.calls.close()
        self.gateway.close()
        if self._timekeeper is not None:
            self._timekeeper.close()

    # ---------------------------------------------------------------------------- for our transactions

    def txn(
        self, compares: list[bytes], then: list[bytes], otherwise: list[bytes], *, changes: bool = False
    ) -> messages.TxnAnswer:
        """One transaction of etcd's."""
        return through(self.asking(compares, then, otherwise, changes=changes))

    def asking(
        self, compares: list[bytes], then: list[bytes], otherwise: list[bytes], *, changes: bool = False
    ) -> Steps[messages.TxnAnswer]:
        """The same, step by step."""
        asking = self.calls.changing if changes else self.calls.asking
        told = yield from asking(TRANSACTION, messages.transaction(compares, then, otherwise))
        return messages.answer(told, is_wanted=not changes)

    @property
    def cluster(self) -> str:
        """The id of the cluster that has answered."""
        return self.calls.cluster

    def _accept_cluster(self) -> None:
        """If another cluster answers than before, nothing that is remembered can be trusted, above all no fence.

        It may be just what the snapshot has: then no compare would tell that others have gone on from there.
        """
        if self.calls.accepted != self.cluster:
            self.replica.forget()
            self.calls.accepted = self.cluster

    def note_doubt(self) -> None:
        """A commit from what is remembered was sent, and nobody knows whether it was carried out."""
        replica = self.replica
        later = replica.meta._replace(now=replica.meta.now + 1)
        self._in_doubt = replica.unchanged(self.names), messages.put(self.names.meta, rows.meta_data(later))

    def settle(self) -> None:
        """If a commit is in doubt: from here on it has been carried out, or never will be.

        It may still be on its way, with a member that is cut off for now. So what it compares is changed; and if that
        has changed already, it has got there or comes too late.
        """
        doubt = self._in_doubt
        if doubt is not None:
            self.txn([doubt[0]], [doubt[1]], [])
            if self._in_doubt is doubt:  # several may settle it at once
                self._in_doubt = None

    def raise_fence(self, replica: Replica, revision: int) -> None:
        """Above etcd's own revision, should our number be lost; and far above, if this was restored from a backup."""
        fence = max(replica.meta.fence, revision)
        if replica.meta.cluster not in ("", self.cluster):
            fence = (fence // EPOCH + 1) * EPOCH
        replica.meta = replica.meta._replace(fence=fence)

    def tell_time(self) -> int:
        """The time of etcd; never earlier than any that was told before by anybody."""
        self._keep_time()
        self._latest = max(self._latest, self.replica.meta.now, self.clock.now())
        return self._latest

    def _keep_time(self) -> None:
        """Whoever stays for long looks at their clock again and again."""
        if self._timekeeper is None and time.monotonic() > self._opened + SETTLED:
            self._timekeeper = Timekeeper(self.clock, self.gateway.ask_the_time)

    def may_assume(self) -> bool:
        """Whether records that are not known are so seldom there that they need not be looked for first."""
        self._doubts = max(0, self._doubts - 1)
        return not self._doubts

    @property
    def is_doubtful(self) -> bool:
        """Whether one that was not known was there, not long ago."""
        return self._doubts > 0

    def note_presence(self, records: Mapping[str, Record], keys: Iterable[str]) -> None:
        """Whether some of these were there, which were not known."""
        if any(records[key] is not EMPTY for key in keys):
            self.doubt()

    def doubt(self) -> None:
        """A record that was not known was there."""
        self._doubts = DOUBT

    def won(self) -> None:
        """It is written."""
        self._losses = 0

    def lost_out(self) -> None:
        """Somebody else was quicker."""
        self._losses += 1

    def leave(self) -> None:
        """The next transaction of this store may begin."""
        self.replica.cache.trim()
        self._owner = 0
        self._mutex.release()


def _is_plain(key: str) -> bool:
    """Whether it is spelled the same in whatever JSON, as keys are."""
    return key.isascii() and key.isalnum()
