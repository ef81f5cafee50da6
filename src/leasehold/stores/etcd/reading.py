"""Bring a replica up to date: each exchange reads missing records, or what was committed since. It writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.errors import StoreError
from leasehold.stores.etcd import journal, lanes, messages, rows
from leasehold.stores.etcd.rows import id_in, is_reference, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.etcd.journal import Replica
    from leasehold.stores.etcd.messages import TxnAnswer

OPERATIONS = 128
"""etcd's default limit of operations, and of compares, in one transaction."""
AT_ONCE = OPERATIONS - 2
"""Records that one exchange can read beside the changes."""
TRIES = 5


def bring_up_to_date(store: EtcdStore, replica: Replica, keys: Iterable[str], only: Sequence[str] | None = None) -> int:
    """Read the newest commits, and those of these records that are missing; return etcd's revision.

    With `only`, journal entries are decoded only if a key in them begins with one of these.
    """
    wanted = list(dict.fromkeys(keys))
    revision = 0
    for _ in range(TRIES + len(wanted) // AT_ONCE):
        missing = replica.missing(wanted)
        if revision and not replica.is_blank and not missing:
            return revision
        revision = ask(store, replica, missing[:AT_ONCE], only)
    raise StoreError("etcd is too busy: another server committed during each of our reads; try again")


def ask(store: EtcdStore, replica: Replica, keys: Sequence[str], only: Sequence[str] | None = None) -> int:
    """Read these records, and what was committed since; return etcd's revision, or 0 to start over."""
    asked = [messages.get(store.names.record(key)) for key in keys]
    answer = store.txn([replica.unchanged(store.names)], asked, [*replica.news(store.names), *asked])
    responses = answer.responses
    if not answer.succeeded:
        if not learn(store, replica, answer, only):
            return 0
        responses = responses[2:]
    kept = [rows.record_of(whole(store, rows.only(response))) for response in responses]
    replica.keep(keys, kept)
    return answer.revision


def learn(store: EtcdStore, replica: Replica, answer: TxnAnswer, only: Sequence[str] | None = None) -> bool:
    """Apply another server's commits, as a failed compare has read them. False if they do not fit the replica."""
    meta, entries, *_ = answer.responses
    last = rows.only(meta)
    lanes.check(store.address, rows.meta_of(last).layout, store.layout)
    new = [_entry(store, name, value, only) for name, value in entries.pairs]
    was_blank = replica.is_blank
    is_known = replica.learn(last, new)
    if was_blank and not is_known:  # all of it was read at one moment
        raise StoreError(
            f"the journal in etcd below {store.names.journal_start} has a gap: some keys were deleted; "
            "restore etcd from a snapshot"
        )
    if is_known:
        store.raise_fence(replica, answer.revision)
    return is_known


def waits(answer: TxnAnswer) -> bool:
    """Return True if `learn` has to read further keys to apply this answer."""
    return any(is_reference(value) for _, value in answer.responses[1].pairs)


def _entry(store: EtcdStore, name: str, value: bytes, only: Sequence[str] | None) -> journal.JournalEntry:
    data = rows.data_of(value)
    number = store.names.number_in(name)
    if not is_reference(data):
        return journal.JournalEntry(number, journal.decode(data, only), len(value))
    found = whole(store, data)
    return journal.JournalEntry(number, journal.decode(found, only), len(found), id_in(data))
