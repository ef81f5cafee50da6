"""Records as the remote had them at one moment, in this observer's time. It changes nothing.

Refs are not fetched in one instant: a push may fall in between. The head tells which refs the last commit changed;
if one of them was seen as it was before, or has changed since, everything is fetched again. What stays like that was
changed by hand, and is taken as it is.
"""

from __future__ import annotations

import time

from leasehold.domain.entries import Put
from leasehold.domain.records import apply, build, first_due
from leasehold.stores.git import head as heads
from leasehold.stores.git import payload, refs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.domain.entries import Record
    from leasehold.stores.git import GitStore
    from leasehold.stores.git.payload import Stored

AGAIN = 12
"""So often a torn view is fetched anew."""
MANY = 200
"""More keys than this are fetched folder by folder."""


class Torn(Exception):
    """The head has moved, or does not fit the refs that were seen with it."""


class Snapshot:
    """What was fetched so far, all of it under one head."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self.head_id: str | None = None
        """What the head points to; empty if the remote has none; None before the first fetch."""
        self.head = heads.GitHead()
        self.oids: dict[str, str] = {}
        """What the ref of each fetched key points to; empty if there is none."""
        self.stored: dict[str, dict[str, Stored]] = {}
        self.now_seen: set[str] = set()
        """Keys that were fetched in this very transaction."""
        self.is_trusted = False
        """Whether it is carried over from our own last push: nobody was asked whether it is still so."""
        self.assumed: set[str] = set()
        """Keys that were never seen, and of which it is assumed that there is nothing: the push says so, or fails."""
        self._records: dict[str, Record] = {}

    def resume(self) -> None:
        """Go on from our own last push."""
        self.is_trusted = True
        self.now_seen.clear()
        self.assumed.clear()

    def follow(self, head_id: str, head: heads.GitHead, after: dict[str, tuple[str, dict[str, Stored]]]) -> None:
        """This was pushed."""
        self.head_id, self.head = head_id, head
        for key, (oid, entries) in after.items():
            self.oids[key], self.stored[key] = oid, entries
        for key in [key for key in self._records if key in after or key[0] == "e"]:
            del self._records[key]

    def fetch(self, keys: Iterable[str]) -> None:
        """Fetch these as well. Raises `Torn` if that cannot be of the same moment as what was fetched before."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self.oids]
        if not wanted and self.head_id is not None:
            return
        if self.is_trusted:
            self.assumed.update(wanted)
            self.oids.update(dict.fromkeys(wanted, ""))
            self.stored.update((key, {}) for key in wanted)
            return
        if len(wanted) > MANY:
            specs = [refs.folder(kind) for kind in dict.fromkeys(key[0] for key in wanted)]
        else:
            wanted += [key for key in self._store.foresight.related(wanted) if key not in self.oids]
            specs = [refs.exact(refs.of_key(key)) for key in wanted]
        self._fetch(specs, wanted)

    def fetch_folder(self, kind: str) -> list[str]:
        """Fetch every record of this kind; their keys."""
        return self._fetch([refs.folder(kind)], [])

    def fetch_everything(self) -> list[str]:
        """Fetch all there is; their keys."""
        return self._fetch([refs.EVERYTHING], [])

    def record(self, key: str) -> Record:
        """A record that was fetched."""
        found = self._records.get(key)
        if found is None:
            observer = self._store.observer
            found = build([observer.translated(each) for each in self.stored[key].values()])
            receipt = self.head.receipt_of(key) if key[0] == "e" else None
            if receipt is not None:
                found = apply(found, Put(key, receipt))
            self._records[key] = found
        return found

    def _fetch(self, specs: Sequence[str], wanted: Sequence[str]) -> list[str]:
        is_first = self.head_id is None
        for turn in range(AGAIN):
            try:
                return self._fetch_once(specs, wanted, is_last=turn == AGAIN - 1)
            except Torn:
                if not is_first:
                    raise
                time.sleep(0.002 * turn)
        raise AssertionError("the last look is taken as it is")

    def _fetch_once(self, specs: Sequence[str], wanted: Sequence[str], *, is_last: bool) -> list[str]:
        store = self._store
        found = store.remote.fetch([refs.exact(refs.HEAD), *specs])
        at = store.observer.now()  # afterwards: it must not be counted from before it was there
        head_id = found.get(refs.HEAD, "")
        if self.head_id not in (None, head_id):
            raise Torn
        seen = {key: oid for ref, oid in found.items() if (key := refs.key_of(ref)) is not None}
        oids = {**dict.fromkeys(wanted, ""), **seen}
        oids = {key: oid for key, oid in oids.items() if key not in self.oids}
        messages = store.objects.read([*filter(None, (head_id, *oids.values()))])
        head = self.head if self.head_id is not None else self._not_below_the_mark(_decoded(head_id, messages))
        if not is_last and not _fits(head, oids):
            raise Torn
        self.head = head
        stored = {key: payload.decode(key, messages[oid]) if oid else {} for key, oid in oids.items()}
        store.observer.sight((each.stamp.id for entries in stored.values() for each in entries.values()), at)
        self.head_id = store.known_head = head_id
        self.oids.update(oids)
        self.now_seen.update(oids)
        self.stored.update(stored)
        for key in oids:
            note_due(store.due_times, key, self.record(key))
        return list(seen)

    def _not_below_the_mark(self, head: heads.GitHead) -> heads.GitHead:
        """Only what the remote itself says is noted: a fence that we would go on with may never get there."""
        observer = self._store.observer
        observer.note_fence(head.fence)
        return head.above(observer.mark())


def _decoded(head_id: str, messages: dict[str, str]) -> heads.GitHead:
    return heads.decode(messages[head_id]) if head_id else heads.GitHead()


def _fits(head: heads.GitHead, oids: dict[str, str]) -> bool:
    """Whether all refs that the last commit changed were seen as it left them."""
    for ref, oid in (head.changed or {}).items():
        key = refs.key_of(ref)
        if key in oids and oids[key] != oid:
            return False
    return True


def note_due(times: dict[str, int], key: str, record: Record) -> None:
    """Remember when a record needs attention."""
    at = first_due(record)
    if at is not None:
        times[key] = at
    else:
        times.pop(key, None)
