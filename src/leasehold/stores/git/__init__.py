"""Leases with nothing but a git remote: refs below `refs/leasehold/`, changed by pushes that name the expected value.

It decides nothing about who gets a lease. A transaction fetches the refs it needs, and its commit is one atomic push;
what was fetched is ours only if nobody has pushed meanwhile, otherwise the commit is a `Conflict` and the engine
decides again. Times are told by this observer's clock (see ``observing``).
"""

from __future__ import annotations

import math
import os
import time
from _thread import allocate_lock, get_ident

from leasehold.domain.entries import EMPTY, End
from leasehold.domain.events import Event
from leasehold.domain.keys import ended, number
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Closed, OutcomeUnknown, StoreError
from leasehold.stores import Capabilities
from leasehold.stores.git import place, refs
from leasehold.stores.git.foresight import Foresight
from leasehold.stores.git.head import RECEIPTS
from leasehold.stores.git.objects import Objects
from leasehold.stores.git.observing import Observer
from leasehold.stores.git.remote import Remote
from leasehold.stores.git.snapshot import Snapshot
from leasehold.stores.git.transaction import GitTransaction
from leasehold.stores.protocol import NetworkStore, ObservingStore
from leasehold.stores.sqlite.clock import system_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from leasehold.domain.entries import Record
    from leasehold.stores import HistoryQuery, Watched
    from leasehold.stores.git.address import GitAddress
    from leasehold.stores.sqlite.clock import Clock

__all__ = ["CAPABILITIES", "GitStore"]

CAPABILITIES = Capabilities(
    name="git",
    durable="whatever the remote's own disk survives",
    fifo=False,
    history=False,
    wakeup="by asking the remote every 500 ms",
    receipts=True,
    poll=SECOND // 2,
    beat=2 * SECOND,
    remote=True,
    observes=True,
)
TRUST = 1.0
"""So many seconds our last push is gone on from."""
MANY = 5_000
PAUSE = 0.01
PAUSES_GROW = 5
"""After a lost race: at most 20 ms, twice as long after each more, up to 320 ms."""


class GitStore(NetworkStore, ObservingStore):
    """A `Store` at one remote. Transactions from one thread at a time, everything else from any thread."""

    def __init__(self, address: GitAddress, clock: Clock | None = None) -> None:
        self._cache = address.cache
        self._own = place.make(address.cache)
        self._capabilities = CAPABILITIES._replace(poll=address.poll, beat=max(4 * address.poll, CAPABILITIES.beat))
        self.objects = Objects(address.cache)
        self.foresight = Foresight(address.cache, self.objects)
        self.remote = Remote(address, self._own)
        self.observer = Observer(
            os.path.join(address.cache, "seen.db"),  # noqa: PTH118 (pathlib is slow to import)
            clock or system_clock(),
            address.max_skew,
        )
        self.due_times: dict[str, int] = {}
        """When the records that were seen here need attention, by key."""
        self.looked_at = -(10**12)
        """When everything was looked at last, on the observer's clock."""
        self._turn = place.Turn(address.cache, 2 * address.timeout / SECOND)
        self._lock = allocate_lock()
        self._owner = 0
        self._pid = os.getpid()
        self._is_closed = False
        self.known_head = ""
        """What the head pointed to when it was last seen, or after our own last push."""
        self.losses = 0
        """How many pushes in a row were rejected because somebody else was quicker."""
        self.broken_off: list[str] = []
        """Why the last pushes, one after the other, broke off."""
        self.in_doubt: tuple[str, int] | None = None
        """An engine whose last push may or may not have happened, and how many commits there were before it."""
        self._hinted = ""
        self._mark = ""
        """The head as the last `loss_mark` saw it, and when that was."""
        self._marked_at = -math.inf
        self._trusted: tuple[Snapshot, float] | None = None
        self._distrusted_until = 0.0

    @property
    def capabilities(self) -> Capabilities:
        """Return what this store can do. It polls as often as its URL says."""
        return self._capabilities

    # ------------------------------------------------------------------------- going on from the last push

    def trust(self, snapshot: Snapshot) -> None:
        """This is how our own push has left the remote; whoever comes soon may go on from there without asking it.

        The next push compares all the same: if somebody else has pushed meanwhile it is rejected, and from then on
        the remote is asked first, for a while.
        """
        self.known_head = snapshot.head_id or ""
        self._trusted = (snapshot, time.monotonic()) if len(snapshot.oids) < MANY else None

    def trusted(self) -> Snapshot | None:
        """What may be gone on from, once."""
        trusted, self._trusted = self._trusted, None
        now = time.monotonic()
        if trusted is None or now - trusted[1] > TRUST or now < self._distrusted_until:
            return None
        snapshot = trusted[0]
        if snapshot.head_id != self.known_head:
            return None
        snapshot.resume()
        return snapshot

    def distrust(self, seconds: float = 0.0) -> None:
        """It is not enough (or, for so many seconds: it was wrong)."""
        self.known_head = ""
        self._trusted = None
        self._distrusted_until = time.monotonic() + seconds

    # ------------------------------------------------------------------------------------- taking turns

    def enter(self) -> None:
        """Wait for our turn, among the threads of this process and the processes of this user."""
        if self._is_closed:
            raise Closed("this store is closed; connect again")
        if os.getpid() != self._pid:
            raise StoreError("these locks were opened before a fork; connect again in the child process")
        if self._owner == get_ident():
            raise StoreError("a transaction is already under way in this thread")
        self._lock.acquire()
        try:
            if place.ensure(self._cache, self._own):
                self.objects.forget()  # somebody has removed the cache, as anybody may
            self._turn.take()
        except BaseException:
            self._lock.release()
            raise
        self._owner = get_ident()

    def leave(self) -> None:
        """It is the next one's turn."""
        self._owner = 0
        self._turn.give()
        self._lock.release()

    # ---------------------------------------------------------------------------------------- the store

    def begin(self) -> GitTransaction:
        """Start a transaction; blocks until it is this caller's turn.

        Whoever lost at the remote lets the others get on for a moment, by chance shorter or longer: where all of them
        push at once, all but one have pushed in vain.
        """
        if self.losses:
            time.sleep(int.from_bytes(os.urandom(2)) / 65_536 * PAUSE * 2 ** min(self.losses, PAUSES_GROW))
        self.enter()
        return GitTransaction(self)

    def hint(self) -> bool:
        """Whether somebody else has pushed since the last call. Asks the remote for one ref."""
        self.enter()
        try:
            head = self.remote.fetch([refs.exact(refs.HEAD)]).get(refs.HEAD, "")
        finally:
            self.leave()
        if head != self.known_head:
            self._trusted = None
        before, self._hinted = self._hinted, head
        return head not in (before, self.known_head)

    def loss_mark(self) -> str:
        """Another value once somebody has pushed. The remote is asked at most once in a poll."""
        now = time.monotonic()
        if now - self._marked_at < self.capabilities.poll / SECOND:
            return self._mark
        self.enter()
        try:
            self._mark = self.remote.fetch([refs.exact(refs.HEAD)]).get(refs.HEAD, "")
        finally:
            self.leave()
        self._marked_at = now
        return self._mark

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """The time and these records, as of one moment, without keeping anybody out."""
        wanted = list(dict.fromkeys(keys))
        self.enter()
        try:
            if not wanted:
                return self.observer.now(), {}
            snapshot = Snapshot(self)
            snapshot.fetch(wanted)
            self._check_doubt(wanted, snapshot)
            return self.observer.now(), {key: snapshot.record(key) for key in wanted}
        finally:
            self.leave()

    def _check_doubt(self, keys: Sequence[str], snapshot: Snapshot) -> None:
        """Receipts are kept for a while only: whoever asks too late is told so, and not that there was none."""
        if self.in_doubt is None or self.in_doubt[0] not in keys:
            return
        engine, before = self.in_doubt
        self.in_doubt = None
        if snapshot.head.commits - before >= RECEIPTS and snapshot.head.receipt_of(engine) is None:
            raise OutcomeUnknown("the push broke off, and too much has happened since to tell what became of it")

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Every record whose key starts with this letter, as of one moment."""
        self.enter()
        try:
            snapshot = Snapshot(self)
            keys = snapshot.fetch_folder(kind)
            found = [(key, snapshot.record(key)) for key in keys]
        finally:
            self.leave()
        return iter([(key, record) for key, record in found if record != EMPTY])

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """What the commits still tell: who holds what since when, and which leases ended uncleanly in the last day."""
        events = [event for _, record in self.scan("n") for event in _told_by(record)]
        wanted = list(filter(query._replace(before=None).wants, events))  # they have no numbers yet
        wanted.sort(key=lambda event: (event.at_us, event.fence), reverse=True)
        numbered = [event._replace(seq=len(wanted) - place) for place, event in enumerate(wanted)]
        return [event for event in numbered if query.before is None or event.seq < query.before][: max(query.limit, 0)]

    def prune(self) -> int:
        """There is no history to trim; sightings and objects that nothing depends on any more are forgotten."""
        self.enter()
        try:
            self.observer.forget_old()
            place.clear_left_over(self._cache)
            if place.is_crowded(self._cache):
                self.remote.tidy()
        finally:
            self.leave()
        return 0

    def watched(self, lease: str) -> Watched | None:
        """Return since when this observer has watched a lease that it has read."""
        return self.observer.watched.get(lease)

    def close(self) -> None:
        """Give everything back. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if os.getpid() == self._pid:
            with self._lock:
                if place.is_crowded(self._cache):
                    self.remote.tidy()
                self.observer.close()
                self._turn.close()
                place.clear(self._own)


def _told_by(record: Record) -> Iterator[Event]:
    for hold in record.holds.values():
        if hold.ask is not None and not hold.closed:
            ask = hold.ask
            about = (ask.space, ask.options[0].resources, ask.holder, ask.session, hold.id, hold.fence)
            yield Event("granted", hold.acquired_at, *about, {"name": ask.name, "reason": ask.reason, "ttl": ask.ttl})
    for note in record.notes.values():
        if isinstance(note, End):
            lease = ended(note.id)
            kind = "expired" if note.reason.startswith("expired") else "forced"
            about = (note.space, note.resources, note.holder, note.session, lease, number(lease))
            yield Event(kind, note.at, *about, {"reason": note.reason})
