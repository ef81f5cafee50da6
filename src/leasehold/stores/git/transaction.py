"""One atomic change at a git remote: fetch, let the engine decide, push. Optimistic: the first push wins."""

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

SWEEP_EVERY = 60 * SECOND
"""Microseconds between two sweeps that fetch all records."""
DISTRUST = 5.0
"""Seconds for which each transaction fetches first, after another process pushed as well."""
BROKEN_OFF = 2
"""Pushes in a row that may have an unknown outcome before the next is refused."""
COMPARED = 200
"""Most refs that were only read and that the push compares again."""


class GitTransaction(NetworkTransaction):
    """A `Transaction` of a `GitStore`."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._snapshot = store.trusted() or Snapshot(store)
        self._loaded: dict[str, None] = {}
        self._is_over = False
        self._now: int | None = None

    @property
    def now(self) -> int:
        """The time of this observer's clock, read after the first fetch."""
        if self._now is None:
            self._now = self._store.observer.now()
        return self._now

    @property
    def fence(self) -> int:
        """The next unused fence."""
        return self._snapshot.head.fence

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """Return these records, as of the first load."""
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
            raise Conflict("another process pushed meanwhile") from None
        if self._now is None:
            self._now = self._store.observer.now()

    def due(self, limit: int) -> Sequence[str]:
        """Return the keys of records that a sweep should check, the most urgent first.

        A transaction that has loaded records checks only those: fetching all is slow. One that has loaded none (a
        clean-up) checks all records, unless that was done in the last minute.
        """
        self._check_under_way()
        times, now = self._store.due_times, self.now
        if self._loaded:
            times = {key: times[key] for key in self._loaded if key in times}
        elif now - self._store.swept_at > SWEEP_EVERY:
            times.clear()
            self._snapshot = Snapshot(self._store)
            self._snapshot.fetch_all(refs.EVERYTHING)
            self._store.swept_at = now
        come = sorted((at, key) for key, at in times.items() if at <= now)
        return [key for _, key in come[:limit]]

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],  # noqa: ARG002
        fence: int,
        after: Mapping[str, Record] | None = None,  # noqa: ARG002
    ) -> None:
        """Write all of this in one push, or nothing. Events are not kept."""
        self._check_under_way()
        try:
            if fence != self.fence or not all(map(_is_receipt, changes)):
                self._push(changes, fence)
            else:
                through(self.confirming())
        finally:
            self.close()

    def confirming(self) -> Steps[None]:
        """Raise `Conflict` if the decision rests on records that were not fetched: no push confirms them."""
        yield None
        if self._snapshot.is_trusted:
            self._distrust()

    def _distrust(self) -> None:
        self._store.distrust()
        raise Conflict("the records have to be fetched first")

    def _push(self, changes: Sequence[Put | Drop], fence: int) -> None:
        """Write the changes and the new head as commits, and push them all by compare-and-swap, or none."""
        store, snapshot = self._store, self._snapshot
        self._check_broken_off()
        keys = [change.key for change in changes if not _is_receipt(change)]
        if snapshot.head_id is None or any(key not in snapshot.oids for key in keys):
            self._fetch(keys)  # the push must name the expected value of each ref
        stamp = Stamp(os.urandom(8).hex(), self.now, store.observer.wall())
        moves, after = self._moves(changes, stamp)
        created = {refs.key_of(move.ref) for move in moves if not move.old}
        if not snapshot.assumed <= created:
            self._distrust()
        engine, receipt = _receipt_among(changes)
        changed = {move.ref: move.new for move in moves if move.new != move.old}
        head = snapshot.head.after(fence, receipt, engine, changed)
        head_id = store.objects.write(heads.encode(head), stamp.wall)
        # Sighted before the push: the holder counts from there, too, and this process may be killed after the push.
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
        store.prefetch.note(moves)
        self._note_due(changes)

    def _check_broken_off(self) -> None:
        """Raise `Unreachable` after several pushes with an unknown outcome: the next would most likely fail, too."""
        broken_off = self._store.broken_off
        if len(broken_off) >= BROKEN_OFF:
            complaint = broken_off.pop()
            broken_off.clear()
            raise Unreachable(complaint)

    def _note_due(self, changes: Sequence[Put | Drop]) -> None:
        """Note when a sweep should check the changed records; a time that is too early only costs a load."""
        times = self._store.due_times
        for change in changes:
            moment = due(change.entry) if isinstance(change, Put) else None
            if moment is not None:
                times[change.key] = min(moment, times.get(change.key, moment))

    def _moves(
        self, changes: Sequence[Put | Drop], stamp: Stamp
    ) -> tuple[list[Change], dict[str, tuple[str, dict[str, Stored]]]]:
        """Return the changes of refs, those only to compare among them; and each changed record, by key."""
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
        """End the transaction. Changes that were not pushed are discarded."""
        if not self._is_over:
            self._is_over = True
            self._store.leave()


def _receipt_among(changes: Sequence[Put | Drop]) -> tuple[str, Receipt | None]:
    for change in changes:
        if isinstance(change, Put) and isinstance(change.entry, Receipt):
            return change.key, change.entry
    return "", None


def _is_receipt(change: Put | Drop) -> bool:
    """Return True for a receipt. The head has receipts; as records, each process would leave a ref for ever."""
    return isinstance(change, Put) and isinstance(change.entry, Receipt)
