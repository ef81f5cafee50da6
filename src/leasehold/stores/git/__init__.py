"""Leases with nothing but a git remote: refs below `refs/leasehold/`, changed by pushes that name the expected value.

It decides nothing about who gets a lease. A transaction fetches the refs it needs, and its commit is one atomic push.
If another process has pushed meanwhile, the commit raises `Conflict` and the engine decides again. Times are those of
this observer's clock (see ``observing``).
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
from leasehold.stores.git import refs, repository
from leasehold.stores.git.head import RECEIPTS
from leasehold.stores.git.objects import Objects
from leasehold.stores.git.observing import Observer
from leasehold.stores.git.prefetch import Prefetch
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
"""Seconds for which a transaction may start from our own last push without a fetch."""
MANY = 5_000
"""Records beyond which a snapshot is not kept for the next transaction."""
PAUSE = 0.01
PAUSES_GROW = 5
"""After a rejected push, `begin` pauses for up to 20 ms; each further rejection doubles that, up to 320 ms."""


class GitStore(NetworkStore, ObservingStore):
    """A `Store` at one remote. Transactions from one thread at a time, everything else from any thread."""

    def __init__(self, address: GitAddress, clock: Clock | None = None) -> None:
        self._cache = address.cache
        self._own = repository.make(address.cache)
        self._capabilities = CAPABILITIES._replace(poll=address.poll, beat=max(4 * address.poll, CAPABILITIES.beat))
        self.objects = Objects(address.cache)
        self.prefetch = Prefetch(address.cache, self.objects)
        self.remote = Remote(address, self._own)
        self.observer = Observer(
            os.path.join(address.cache, "seen.db"),  # noqa: PTH118 (pathlib is slow to import)
            clock or system_clock(),
            address.max_skew,
        )
        self.due_times: dict[str, int] = {}
        """When a sweep should check each record that was fetched here, by key."""
        self.swept_at = -(10**12)
        """When a sweep last fetched all records, on the observer's clock."""
        self._process_lock = repository.ProcessLock(address.cache, 2 * address.timeout / SECOND)
        self._lock = allocate_lock()
        self._owner = 0
        self._pid = os.getpid()
        self._is_closed = False
        self.known_head = ""
        """The commit that the head pointed to at the last fetch or at our own last push; empty if unknown."""
        self.losses = 0
        """Number of pushes in a row that were rejected because another process pushed first."""
        self.broken_off: list[str] = []
        """Why each of the last pushes in a row had an unknown outcome."""
        self.in_doubt: tuple[str, int] | None = None
        """The engine whose last push has an unknown outcome, and the number of commits before that push."""
        self._hinted = ""
        self._mark = ""
        """The head that the last `loss_mark` fetched, at `_marked_at`."""
        self._marked_at = -math.inf
        self._trusted: tuple[Snapshot, float] | None = None
        self._distrusted_until = 0.0

    @property
    def capabilities(self) -> Capabilities:
        """Return what this store can do; the URL sets its polling interval."""
        return self._capabilities

    # ------------------------------------------------------------------- starting from our own last push

    def trust(self, snapshot: Snapshot) -> None:
        """Keep what our push has left at the remote: the next transaction may start from it without a fetch.

        Its push compares all the same. If another process has pushed meanwhile, that push is rejected, and for a while
        each transaction fetches first.
        """
        self.known_head = snapshot.head_id or ""
        self._trusted = (snapshot, time.monotonic()) if len(snapshot.oids) < MANY else None

    def trusted(self) -> Snapshot | None:
        """Return what our last push left, once, if it is recent enough to start from; otherwise None."""
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
        """Fetch before the next transaction; if `seconds` are given, before each one for that long."""
        self.known_head = ""
        self._trusted = None
        self._distrusted_until = time.monotonic() + seconds

    # ---------------------------------------------------------------------------------- mutual exclusion

    def enter(self) -> None:
        """Exclude the other threads of this process and the other processes of this user. Blocks."""
        if self._is_closed:
            raise Closed("this store is closed; connect again")
        if os.getpid() != self._pid:
            raise StoreError("these locks were opened before a fork; connect again in the child process")
        if self._owner == get_ident():
            raise StoreError("a transaction is already under way in this thread")
        self._lock.acquire()
        try:
            if repository.ensure(self._cache, self._own):
                self.objects.forget()  # the cache was deleted, which is allowed at any time
            self._process_lock.acquire()
        except BaseException:
            self._lock.release()
            raise
        self._owner = get_ident()

    def leave(self) -> None:
        """Admit the next thread or process."""
        self._owner = 0
        self._process_lock.release()
        self._lock.release()

    # ---------------------------------------------------------------------------------------- the store

    def begin(self) -> GitTransaction:
        """Start a transaction; block until it is this caller's turn.

        After a rejected push it begins with a random pause: of several pushes at the same moment only one succeeds.
        """
        if self.losses:
            time.sleep(int.from_bytes(os.urandom(2)) / 65_536 * PAUSE * 2 ** min(self.losses, PAUSES_GROW))
        self.enter()
        return GitTransaction(self)

    def hint(self) -> bool:
        """Return True if another process has pushed since the last call. Fetches one ref."""
        head = self._fetch_head()
        if head != self.known_head:
            self._trusted = None
        before, self._hinted = self._hinted, head
        return head not in (before, self.known_head)

    def loss_mark(self) -> str:
        """Return a value that changes with each push. Fetches at most once per polling interval."""
        now = time.monotonic()
        if now - self._marked_at < self.capabilities.poll / SECOND:
            return self._mark
        self._mark, self._marked_at = self._fetch_head(), now
        return self._mark

    def _fetch_head(self) -> str:
        self.enter()
        try:
            return self.remote.fetch([refs.exact(refs.HEAD)]).get(refs.HEAD, "")
        finally:
            self.leave()

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return the time and these records, as of one moment."""
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
        """Raise `OutcomeUnknown` if the receipt of a push in doubt may have been dropped already."""
        if self.in_doubt is None or self.in_doubt[0] not in keys:
            return
        engine, before = self.in_doubt
        self.in_doubt = None
        if snapshot.head.commits - before >= RECEIPTS and snapshot.head.receipt_of(engine) is None:
            raise OutcomeUnknown(
                "the push broke off, and the remote has dropped the receipts that would show its outcome"
            )

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Return every record whose key starts with this letter, as of one moment."""
        self.enter()
        try:
            snapshot = Snapshot(self)
            keys = snapshot.fetch_all(refs.folder(kind))
            found = [(key, snapshot.record(key)) for key in keys]
        finally:
            self.leave()
        return iter([(key, record) for key, record in found if record != EMPTY])

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Return the events that the records still show: grants of present leases, and unclean ends of the last day."""
        events = [event for _, record in self.scan("n") for event in _events_in(record)]
        wanted = list(filter(query._replace(before=None).wants, events))  # they have no numbers yet
        wanted.sort(key=lambda event: (event.at_us, event.fence), reverse=True)
        numbered = [event._replace(seq=len(wanted) - place) for place, event in enumerate(wanted)]
        return [event for event in numbered if query.before is None or event.seq < query.before][: max(query.limit, 0)]

    def prune(self) -> int:
        """Delete outdated sightings and objects. There is no history to delete."""
        self.enter()
        try:
            self.observer.forget_old()
            repository.clear_left_over(self._cache)
            if repository.is_crowded(self._cache):
                self.remote.tidy()
        finally:
            self.leave()
        return 0

    def watched(self, lease: str) -> Watched | None:
        """Return since when this observer has watched a lease that it has read."""
        return self.observer.watched.get(lease)

    def close(self) -> None:
        """Release everything. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if os.getpid() == self._pid:
            with self._lock:
                if repository.is_crowded(self._cache):
                    self.remote.tidy()
                self.observer.close()
                self._process_lock.close()
                repository.clear(self._own)


def _events_in(record: Record) -> Iterator[Event]:
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
