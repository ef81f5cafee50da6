"""Translate times to this observer's clock: a lease expires once this observer has seen it unchanged for its TTL.

No other clock is trusted. Each time in a commit is taken relative to the moment when the commit was written, and
counted from the moment when this observer first saw the commit, by a clock that counts from boot. This observer
therefore never sees an expiry earlier than the holder does, and no lease is taken over while its holder relies on it.

First sightings are kept in a file, so the separate commands of one user share them. After a reboot all are forgotten;
only the largest fence that was seen is kept.
"""

from __future__ import annotations

import apsw

from leasehold.domain.api_keys import Key
from leasehold.domain.entries import End, Hold, PlanTerms, Poll, Presence, Receipt, Request, Waiter
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.errors import StoreError
from leasehold.stores import Watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from leasehold.domain.entries import Entry
    from leasehold.stores.git.payload import Stamp, Stored
    from leasehold.stores.sqlite.clock import Clock

_FUTURE = {
    Hold: "expires_at",
    Waiter: "deadline",
    End: "until",
    Poll: "until",
    PlanTerms: "until",
    Session: "expires_us",
    Key: "until_us",
    Request: "until",
    Presence: "until",
    Receipt: "until",
}
"""The field with a time to count from the first sighting."""
_PAST = {Hold: "acquired_at", Waiter: "since", PlanTerms: "since", End: "at", Session: "started_us", Key: "created_us"}
"""The field with a time for display only: by the writer's clock, but never later than the first sighting."""
_KEPT = 31 * 24 * 3_600 * SECOND
_MANY = 50_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS seen (stamp TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (boot TEXT NOT NULL, shift INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS mark (one INTEGER PRIMARY KEY CHECK (one = 1), fence INTEGER NOT NULL) WITHOUT ROWID;
"""


class Observer:
    """The first sightings of this user on this machine. One process uses it at a time, guarded by the store's lock."""

    def __init__(self, path: str, clock: Clock, max_skew: int | None) -> None:
        self._clock = clock
        self._max_skew = max_skew
        self._seen: dict[str, int] = {}
        self.watched: dict[str, Watched] = {}
        """Facts about leases for the messages of refusals, by the lease's id."""
        self._boot = clock.boot()
        try:
            self._database = apsw.Connection(path)
            self._database.set_busy_timeout(10_000)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")  # a lost sighting only delays an expiry
            self._shift = self._begin()
        except apsw.Error as error:
            raise StoreError(f"{path} cannot be used: {error}; delete it, it only holds first sightings") from error

    def _begin(self) -> int:
        """Return the offset of this clock to the time since boot. Delete sightings from before a reboot."""
        database = self._database
        known = self._shift_of_this_boot()
        if known is not None:
            return known
        shift = self._clock.wall() - self._clock.elapsed()
        database.execute("BEGIN IMMEDIATE")
        try:
            database.execute(_SCHEMA)
            known = self._shift_of_this_boot()  # another process may have done it meanwhile
            if known is None:
                database.execute("DELETE FROM seen")
                database.execute("DELETE FROM clock")
                database.execute("INSERT INTO clock VALUES (?, ?)", (self._boot, shift))
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")
        return shift if known is None else known

    def _shift_of_this_boot(self) -> int | None:
        if not list(self._database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mark'")):
            return None  # a new file
        for (shift,) in self._database.execute("SELECT shift FROM clock WHERE boot = ?", (self._boot,)):
            return int(shift)
        return None

    def now(self) -> int:
        """Return the time by a clock that cannot be set while the machine runs."""
        return self._clock.elapsed() + self._shift

    def wall(self) -> int:
        """Return the time of the wall clock."""
        return self._clock.wall()

    def sight(self, stamps: Iterable[str], at: int) -> None:
        """Note that these stamps were seen at this time; one that was seen before keeps its first time."""
        new = [(stamp, at) for stamp in dict.fromkeys(stamps) if self._first(stamp) is None]
        if not new:
            return
        try:
            with self._database:
                self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", new)
        except apsw.Error as error:
            raise StoreError(f"what was seen cannot be written down: {error}") from error
        if len(self._seen) > _MANY:
            self._seen.clear()
        self._seen.update(new)

    def _first(self, stamp: str) -> int | None:
        if stamp not in self._seen:
            for (at,) in self._database.execute("SELECT at FROM seen WHERE stamp = ?", (stamp,)):
                self._seen[stamp] = at
        return self._seen.get(stamp)

    def mark(self) -> int:
        """Return the largest next fence ever seen at the remote. Read anew each time: other processes raise it, too."""
        for (fence,) in self._database.execute("SELECT fence FROM mark"):
            return int(fence)
        return 0

    def note_fence(self, fence: int) -> None:
        """Note a next fence that the remote has shown; if it shows a lower one later, it has lost commits."""
        if fence <= self.mark():
            return
        try:
            with self._database:
                self._database.execute("INSERT OR REPLACE INTO mark VALUES (1, ?)", (fence,))
        except apsw.Error as error:
            raise StoreError(f"what was seen cannot be written down: {error}") from error

    def translated(self, stored: Stored) -> Entry:
        """Return the entry in this observer's time. Its stamp must have been sighted."""
        entry, stamp = stored.entry, stored.stamp
        first = self._first(stamp.id)
        if first is None:
            raise AssertionError(f"{stamp.id} was never seen")
        changed: dict[str, int] = {}
        future, past = _FUTURE.get(type(entry)), _PAST.get(type(entry))
        if future is not None:
            moment = getattr(entry, future)
            if moment < FOREVER:
                trusted = FOREVER if self._max_skew is None else self._by_the_wall(moment, stamp) + self._max_skew
                changed[future] = min(moment - stamp.at + first, trusted)
                if isinstance(entry, Hold):
                    self._note_watched(entry, stamp, first)
        if past is not None:
            changed[past] = min(getattr(entry, past), first)
        any_entry: Any = entry  # its fields depend on its type
        here: Entry = any_entry._replace(**changed)
        return here

    def _by_the_wall(self, moment: int, stamp: Stamp) -> int:
        """Return, on this observer's clock, a moment of the writer's wall clock if that clock agrees with ours."""
        return moment - stamp.at + stamp.wall + (self.now() - self._clock.wall())

    def _note_watched(self, hold: Hold, stamp: Stamp, first: int) -> None:
        if len(self.watched) > _MANY:
            self.watched.clear()
        recorded = self._by_the_wall(hold.expires_at, stamp) if self._max_skew is None else None
        self.watched[hold.id] = Watched(first, recorded)

    def forget_old(self) -> None:
        """Delete sightings that no live entry can depend on."""
        with self._database:
            self._database.execute("DELETE FROM seen WHERE at < ?", (self.now() - _KEPT,))

    def close(self) -> None:
        """Close the file."""
        self._database.close()
