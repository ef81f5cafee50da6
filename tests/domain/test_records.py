"""Records change one entry at a time and share the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from leasehold.domain.entries import EMPTY, Drop, Hold, Put, Record, Ref, Waiter
from leasehold.domain.records import apply, build
from tests.kit.samples import any_entry, hold, holds, notes, plain_ids, waiter, waiter_ids, waiters

if TYPE_CHECKING:
    from leasehold.domain.entries import Entry

node_entries = st.one_of(holds, waiters, notes)
changes = st.lists(
    st.one_of(
        node_entries.map(lambda entry: Put("n", entry)),
        st.builds(Drop, st.just("n"), plain_ids | waiter_ids),
    ),
    max_size=12,
)


def naive(done: list[Put | Drop]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for change in done:
        if isinstance(change, Put):
            entries.pop(change.entry.id, None)
            entries[change.entry.id] = change.entry
        else:
            entries.pop(change.id, None)
    return entries


def parts(entries: dict[str, Entry]) -> tuple[dict[str, Entry], list[Waiter], dict[str, Entry]]:
    queue = [entry for entry in entries.values() if isinstance(entry, Waiter)]
    return (
        {id_: entry for id_, entry in entries.items() if isinstance(entry, Hold)},
        sorted(queue, key=lambda entry: entry.order),
        {id_: entry for id_, entry in entries.items() if not isinstance(entry, Hold | Waiter)},
    )


def applied(done: list[Put | Drop]) -> Record:
    record = EMPTY
    for change in done:
        record = apply(record, change)
    return record


@given(changes)
def test_a_record_is_what_its_changes_left(done: list[Put | Drop]) -> None:
    record = applied(done)
    expected_holds, expected_queue, expected_notes = parts(naive(done))
    assert record.holds == expected_holds
    assert [each.order for each in record.waiters] == [each.order for each in expected_queue]
    assert set(record.waiters) == set(expected_queue)
    assert record.notes == expected_notes


@given(st.lists(any_entry, unique_by=lambda entry: entry.id))
def test_building_equals_putting_one_by_one(all_of_it: list[Entry]) -> None:
    record = build(all_of_it)
    assert record.holds == applied([Put("n", entry) for entry in all_of_it]).holds
    assert record.notes == applied([Put("n", entry) for entry in all_of_it]).notes
    assert set(record.waiters) == {entry for entry in all_of_it if isinstance(entry, Waiter)}


@given(changes)
def test_nothing_is_changed_in_place(done: list[Put | Drop]) -> None:
    record = EMPTY
    for change in done:
        before = Record(dict(record.holds), record.waiters, dict(record.notes))
        after = apply(record, change)
        assert record == before
        record = after
    assert Record({}, (), {}) == EMPTY


@given(changes)
def test_what_is_emptied_is_the_empty_record(done: list[Put | Drop]) -> None:
    record = applied(done)
    for id_ in naive(done):
        record = apply(record, Drop("n", id_))
    assert record is EMPTY or record == EMPTY


def test_dropping_what_is_not_there_gives_the_same_record() -> None:
    record = build([hold(1, "a", now=1), waiter(2, "a"), Ref("l1")])
    assert apply(record, Drop("n", "l9")) is record
    assert apply(record, Drop("n", waiter(3, "a").id)) == record
    assert apply(EMPTY, Drop("n", "l9")) is EMPTY


def test_waiters_stand_in_the_order_of_service() -> None:
    late, early, urgent = waiter(9, "a"), waiter(3, "a"), waiter(10, "a", priority=1)
    record = applied([Put("n", late), Put("n", early), Put("n", urgent)])
    assert record.waiters == (urgent, early, late)


def test_a_waiter_that_is_put_again_keeps_its_place() -> None:
    queue = [waiter(number, "a") for number in range(5)]
    record = build(queue)
    changed = queue[2]._replace(engine="another")
    assert apply(record, Put("n", changed)).waiters == (*queue[:2], changed, *queue[3:])


def test_a_waiter_of_another_order_moves() -> None:
    queue = [waiter(number, "a") for number in range(5)]
    moved = queue[3]._replace(order=(-1, 3))
    assert apply(build(queue), Put("n", moved)).waiters == (moved, *queue[:3], queue[4])


def test_a_thousand_waiters_come_and_go() -> None:
    queue = [waiter(number, "a") for number in range(1_000)]
    record = applied([Put("n", each) for each in reversed(queue)])
    assert record.waiters == tuple(queue)
    for each in queue[::2]:
        record = apply(record, Drop("n", each.id))
    assert record.waiters == tuple(queue[1::2])
