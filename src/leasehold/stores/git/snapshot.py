"""Records as the remote had them at one moment, in this observer's time. It changes nothing.

A fetch is not atomic: a push may fall in between. The head lists the refs that the last commit changed; if one of them
has another value than listed, everything is fetched again. A ref that keeps its other value was changed by hand, and
its value is accepted.
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
"""Attempts at a fetch that no push falls into."""
MANY = 200
"""More keys than this are fetched folder by folder."""


class Torn(Exception):
    """The head has moved, or does not match the refs that were fetched with it."""


class Snapshot:
    """The records that were fetched so far, all as of one head."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self.head_id: str | None = None
        """The commit that the head points to; empty if the remote has none; None before the first fetch."""
        self.head = heads.GitHead()
        self.oids: dict[str, str] = {}
        """The commit of each fetched record, by key; empty if the record does not exist."""
        self.stored: dict[str, dict[str, Stored]] = {}
        self.now_seen: set[str] = set()
        """Keys that were fetched in this transaction."""
        self.is_trusted = False
        """True if this is what our own last push left, not confirmed by a fetch since."""
        self.assumed: set[str] = set()
        """Keys of records that are assumed not to exist; the push compares that."""
        self._records: dict[str, Record] = {}

    def resume(self) -> None:
        """Start another transaction from what our own last push left."""
        self.is_trusted = True
        self.now_seen.clear()
        self.assumed.clear()

    def follow(self, head_id: str, head: heads.GitHead, after: dict[str, tuple[str, dict[str, Stored]]]) -> None:
        """Apply our push."""
        self.head_id, self.head = head_id, head
        for key, (oid, entries) in after.items():
            self.oids[key], self.stored[key] = oid, entries
        for key in [key for key in self._records if key in after or key[0] == "e"]:
            del self._records[key]

    def fetch(self, keys: Iterable[str]) -> None:
        """Fetch these records, too. Raise `Torn` if the head has moved since the first fetch."""
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
            wanted += [key for key in self._store.prefetch.related(wanted) if key not in self.oids]
            specs = [refs.exact(refs.of_key(key)) for key in wanted]
        self._fetch(specs, wanted)

    def fetch_all(self, refspec: str) -> list[str]:
        """Fetch every record that matches; return their keys."""
        return self._fetch([refspec], [])

    def record(self, key: str) -> Record:
        """Return a record that was fetched."""
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
        raise AssertionError("the last attempt never raises Torn")

    def _fetch_once(self, specs: Sequence[str], wanted: Sequence[str], *, is_last: bool) -> list[str]:
        """Fetch the head and these refs. Raise `Torn` if they are not of one moment: the caller fetches again."""
        store = self._store
        found = store.remote.fetch([refs.exact(refs.HEAD), *specs])
        at = store.observer.now()  # after the fetch: a sighting must not precede the push
        head_id = found.get(refs.HEAD, "")
        if self.head_id not in (None, head_id):
            raise Torn
        seen = {key: oid for ref, oid in found.items() if (key := refs.key_of(ref)) is not None}
        oids = {**dict.fromkeys(wanted, ""), **seen}
        oids = {key: oid for key, oid in oids.items() if key not in self.oids}
        messages = store.objects.read([*filter(None, (head_id, *oids.values()))])
        head = self.head
        if self.head_id is None:
            head = heads.decode(messages[head_id]) if head_id else heads.GitHead()
            store.observer.note_fence(head.fence)  # the remote's own: the raised one may never be pushed
            head = head.above(store.observer.mark())
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


def _fits(head: heads.GitHead, oids: dict[str, str]) -> bool:
    """Return True if each of these refs that the last commit changed has the value that the commit gave it."""
    for ref, oid in (head.changed or {}).items():
        key = refs.key_of(ref)
        if key in oids and oids[key] != oid:
            return False
    return True


def note_due(times: dict[str, int], key: str, record: Record) -> None:
    """Note when a sweep should check a record."""
    at = first_due(record)
    if at is not None:
        times[key] = at
    else:
        times.pop(key, None)
