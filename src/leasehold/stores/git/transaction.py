"""One atomic change at a git remote: fetch, decide elsewhere, push. Optimistic: whoever pushes first wins."""

from __future__ import annotations

import os

from leasehold.domain.entries import Put, Receipt
from leasehold.domain.records import due
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, OutcomeUnknown, StoreError, Unreachable
from leasehold.steps import through
from leasehold.stores.git import head as heads
from leasehold.stores.git import payload, refs
from leasehold.stores.git.payload import Stamp, Stored
from leasehold.stores.git.remote import Change
from leasehold.stores.git.snapshot import Snapshot, Torn
from leasehold.stores.protocol import NetworkTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.entries import Drop, Record
    from leasehold.domain.events import Event
    from leasehold.steps import Steps
    from leasehold.stores.git import GitStore

LOOK_EVERY = 60 * SECOND
"""Nobody asked for anything: everything is looked at once in so long a time."""
DISTRUST = 5.0
"""So many seconds the remote is asked first, once somebody else was seen to push as well."""
BROKEN_OFF = 2
"""So many pushes in a row may break off before no more are tried."""
COMPARED = 200
"""At most so many refs that were only read are compared by the push once more."""


class GitTransaction(NetworkTransaction):
    """One turn."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._snapshot = store.trusted() or Snapshot(store)
        self._loaded: dict[str, None] = {}
        self._is_over = False
        self._now: int | None = None

    @property
    def now(self) -> int:
        """This observer's clock, read once the first records were fetched."""
        if self._now is None:
            self._now = self._store.observer.now()
        return self._now

    @property
    def fence(self) -> int:
        """The next unused number."""
        return self._snapshot.head.fence

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """These records, as of the moment of the first load."""
        self._check_under_way()
        wanted = list(dict.fromkeys(keys))
        self._loaded.update(dict.fromkeys(wanted))
        if wanted:
            self._fetch(wanted)
        return {key: self._snapshot.record(key) for key in wanted}

    def _fetch(self, wanted: list[str]) -> None:
        try:
            self._snapshot.fetch(wanted)
        except Torn:
            raise Conflict("somebody else has pushed meanwhile") from None
        if self._now is None:
            self._now = self._store.observer.now()

    def due(self, limit: int) -> Sequence[str]:
        """Keys of records that a sweep should look at, the most urgent first.

        Whoever came for certain records looks at those alone: nobody should pay for the whole remote. Whoever came for
        none (a clearing up) looks at all of them, if that was not done in the last minute.
        """
        self._check_under_way()
        times, now = self._store.due_times, self.now
        if self._loaded:
            times = {key: times[key] for key in self._loaded if key in times}
        elif now - self._store.looked_at > LOOK_EVERY:
            times.clear()
            self._snapshot = Snapshot(self._store)
            self._snapshot.fetch_everything()
            self._store.looked_at = now
        come = sorted((at, key) for key, at in times.items() if at <= now)
        return [key for _, key in come[:limit]]

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],  # noqa: ARG002
        fence: int,
        after: Mapping[str, Record] | None = None,  # noqa: ARG002
    ) -> None:
        """All of this in one push, or nothing of it. Events are not kept."""
        self._check_under_way()
        try:
            if fence != self.fence or not all(map(_is_receipt, changes)):
                self._push(changes, fence)
            else:
                through(self.confirming())
        finally:
            self.close()

    def confirming(self) -> Steps[None]:
        """Nothing is written: then what was decided on must have been seen, and not only carried over or assumed."""
        yield None
        if self._snapshot.is_trusted:
            self._distrust()

    def _distrust(self) -> None:
        self._store.distrust()
        raise Conflict("what was assumed has to be looked at")

    def _push(self, changes: Sequence[Put | Drop], fence: int) -> None:
        store, snapshot = self._store, self._snapshot
        self._check_broken_off()
        self._fetch_unknown(changes)
        stamp = Stamp(os.urandom(8).hex(), self.now, store.observer.wall())
        moves, after = self._moves(changes, stamp)
        created = {refs.key_of(move.ref) for move in moves if not move.old}
        if not snapshot.assumed <= created:
            self._distrust()
        engine, receipt = _receipt_among(changes)
        changed = {move.ref: move.new for move in moves if move.new != move.old}
        head = snapshot.head.after(fence, receipt, engine, changed)
        head_id = store.objects.write(heads.encode(head), stamp.wall)
        # Counted from before the push, as its holder counts; and noted before it, as nobody may be left to do it after.
        store.observer.sight((stamp.id,), stamp.at)
        moves.insert(0, Change(refs.HEAD, snapshot.head_id or "", head_id))
        try:
            store.remote.push(moves)
        except Conflict:
            store.distrust(DISTRUST)
            store.losses += not snapshot.is_trusted
            raise
        except OutcomeUnknown as error:
            store.distrust()
            store.broken_off.append(str(error))
            store.in_doubt = (engine, snapshot.head.commits)
            raise
        store.observer.note_fence(head.fence)
        snapshot.follow(head_id, head, after)
        store.trust(snapshot)
        store.losses = 0
        store.broken_off.clear()
        store.foresight.note(moves)
        self._note_due(changes)

    def _check_broken_off(self) -> None:
        """Each time the remote said that nothing had come of it: so it will not the next time either."""
        broken_off = self._store.broken_off
        if len(broken_off) >= BROKEN_OFF:
            complaint = broken_off.pop()
            broken_off.clear()
            raise Unreachable(complaint)

    def _note_due(self, changes: Sequence[Put | Drop]) -> None:
        """Not later than need be: what it really is, is seen at the next load."""
        times = self._store.due_times
        for change in changes:
            moment = due(change.entry) if isinstance(change, Put) else None
            if moment is not None:
                times[change.key] = min(moment, times.get(change.key, moment))

    def _fetch_unknown(self, changes: Sequence[Put | Drop]) -> None:
        """What is written must have been seen, if only to be compared."""
        keys = [change.key for change in changes if not _is_receipt(change)]
        if self._snapshot.head_id is None or any(key not in self._snapshot.oids for key in keys):
            self._fetch(keys)

    def _moves(
        self, changes: Sequence[Put | Drop], stamp: Stamp
    ) -> tuple[list[Change], dict[str, tuple[str, dict[str, Stored]]]]:
        """The refs that change, those that must be as they were seen; and the records that come of it, by key."""
        store, snapshot = self._store, self._snapshot
        after: dict[str, dict[str, Stored]] = {}
        for change in changes:
            if _is_receipt(change):
                continue
            entries = after.setdefault(change.key, dict(snapshot.stored[change.key]))
            if isinstance(change, Put):
                entries[change.entry.id] = Stored(change.entry, stamp)
            else:
                entries.pop(change.id, None)
        made = {
            key: (store.objects.write(payload.encode(key, entries), stamp.wall) if entries else "", entries)
            for key, entries in after.items()
        }
        moves = [Change(refs.of_key(key), snapshot.oids[key], oid) for key, (oid, _) in made.items()]
        only_read = [key for key in snapshot.now_seen if snapshot.oids[key] and key not in after]
        moves = [move for move in moves if move.old or move.new]
        compared = [Change(refs.of_key(key), snapshot.oids[key], snapshot.oids[key]) for key in only_read[:COMPARED]]
        return moves + compared, made

    def _check_under_way(self) -> None:
        if self._is_over:
            raise StoreError("this transaction is over; begin another")

    def close(self) -> None:
        """Give the turn to the next; what was not pushed never happened."""
        if not self._is_over:
            self._is_over = True
            self._store.leave()


def _receipt_among(changes: Sequence[Put | Drop]) -> tuple[str, Receipt | None]:
    for change in changes:
        if isinstance(change, Put) and isinstance(change.entry, Receipt):
            return change.key, change.entry
    return "", None


def _is_receipt(change: Put | Drop) -> bool:
    """Receipts stand in the head: a ref for each would be one for every process that ever asked."""
    return isinstance(change, Put) and isinstance(change.entry, Receipt)
