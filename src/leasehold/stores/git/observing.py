"""Whose clock: each observer's own. A lease has expired when this observer has seen it unchanged for its TTL.

Nobody else's clock is trusted: times in a commit are taken relative to the moment it was written, and counted from
the moment it was first seen here, by a clock that counts from boot. That is never earlier than its writer counts, so
nobody takes over what its holder still believes to have. First sightings are kept in a file, so that separate
commands of one user add up. After a reboot all of them begin anew; only the largest fence that was seen is kept.
"""

from __future__ import annotations

import apsw

from leasehold.domain.api_keys import Key
from leasehold.domain.entries import End, Hold, Poll, Presence, Receipt, Request, Waiter
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
    Session: "expires_us",
    Key: "until_us",
    Request: "until",
    Presence: "until",
    Receipt: "until",
}
"""Times that have to be counted from the first sighting."""
_PAST = {Hold: "acquired_at", Waiter: "since", End: "at", Session: "started_us", Key: "created_us"}
"""Times that are only told: by the writer's clock, but not later than it was seen."""
_KEPT = 31 * 24 * 3_600 * SECOND
_MANY = 50_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS seen (stamp TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (boot TEXT NOT NULL, shift INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS mark (one INTEGER PRIMARY KEY CHECK (one = 1), fence INTEGER NOT NULL) WITHOUT ROWID;
"""


class Observer:
    """What this user of this machine has seen, and when. Used by one process at a time: its owner holds the lock."""

    def __init__(self, path: str, clock: Clock, max_skew: int | None) -> None:
        self._clock = clock
        self._max_skew = max_skew
        self._seen: dict[str, int] = {}
        self.watched: dict[str, Watched] = {}
        """What the refusals of this process tell of a lease, by its id."""
        self._boot = clock.boot()
        try:
            self._database = apsw.Connection(path)
            self._database.set_busy_timeout(10_000)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")  # a lost sighting is only counted anew
            self._shift = self._begin()
        except apsw.Error as error:
            raise StoreError(f"{path} cannot be used: {error}; remove it, it only holds first sightings") from error

    def _begin(self) -> int:
        """How far this clock is from the time since boot; what was seen before a reboot is forgotten."""
        database = self._database
        known = self._shift_of_this_boot()
        if known is not None:
            return known
        shift = self._clock.wall() - self._clock.elapsed()
        database.execute("BEGIN IMMEDIATE")
        try:
            database.execute(_SCHEMA)
            known = self._shift_of_this_boot()  # somebody may have been quicker
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
            return None  # a new file, or one of before there was a mark
        for (shift,) in self._database.execute("SELECT shift FROM clock WHERE boot = ?", (self._boot,)):
            return int(shift)
        return None

    def now(self) -> int:
        """The time, by a clock that nobody can set while the machine runs."""
        return self._clock.elapsed() + self._shift

    def wall(self) -> int:
        """What people take for the time."""
        return self._clock.wall()

    def sight(self, stamps: Iterable[str], at: int) -> None:
        """These were seen at this time; what was seen before keeps its first time."""
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
        """The largest next fence that was ever seen at the remote; asked anew, as other processes raise it, too."""
        for (fence,) in self._database.execute("SELECT fence FROM mark"):
            return int(fence)
        return 0

    def note_fence(self, fence: int) -> None:
        """This was seen at the remote: should it ever say less, it has lost something."""
        if fence <= self.mark():
            return
        try:
            with self._database:
                self._database.execute("INSERT OR REPLACE INTO mark VALUES (1, ?)", (fence,))
        except apsw.Error as error:
            raise StoreError(f"what was seen cannot be written down: {error}") from error

    def translated(self, stored: Stored) -> Entry:
        """The entry in this observer's time. Its stamp must have been sighted."""
        entry, stamp = stored.entry, stored.stamp
        first = self._first(stamp.id)
        if first is None:
            raise AssertionError(f"{stamp.id} was never seen")
        changed: dict[str, int] = {}
        future, past = _FUTURE.get(type(entry)), _PAST.get(type(entry))
        if future is not None:
            moment = getattr(entry, future)
            if moment < FOREVER:
                changed[future] = min(moment - stamp.at + first, self._trusted_end(moment, stamp))
                if isinstance(entry, Hold):
                    self._note_watched(entry, stamp, first)
        if past is not None:
            changed[past] = min(getattr(entry, past), first)
        return _with(entry, changed) if changed else entry

    def _trusted_end(self, moment: int, stamp: Stamp) -> int:
        """When it has run out for certain, if wall clocks differ by at most `max_skew`; never, if none was allowed."""
        return FOREVER if self._max_skew is None else self._by_the_wall(moment, stamp) + self._max_skew

    def _by_the_wall(self, moment: int, stamp: Stamp) -> int:
        """When it runs out by the writer's wall clock, if that shows the same as ours; on this observer's clock."""
        return moment - stamp.at + stamp.wall + (self.now() - self._clock.wall())

    def _note_watched(self, hold: Hold, stamp: Stamp, first: int) -> None:
        if len(self.watched) > _MANY:
            self.watched.clear()
        recorded = self._by_the_wall(hold.expires_at, stamp) if self._max_skew is None else None
        self.watched[hold.id] = Watched(first, recorded)

    def forget_old(self) -> None:
        """Sightings that no live entry can depend on."""
        with self._database:
            self._database.execute("DELETE FROM seen WHERE at < ?", (self.now() - _KEPT,))

    def close(self) -> None:
        """Give the file back."""
        self._database.close()


def _with(entry: Any, changed: dict[str, int]) -> Any:  # noqa: ANN401 (which fields an entry has is told above)
    return entry._replace(**changed)
