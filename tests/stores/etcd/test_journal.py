"""The journal in etcd: what is laid over the records, how it gets into them, and that nobody can tell."""

from __future__ import annotations

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.entries import EMPTY, Drop, Put, Receipt, Ref
from leasehold.domain.events import Event
from leasehold.domain.records import apply, first_due
from leasehold.errors import Conflict, OutcomeUnknown, StoreError
from leasehold.steps import through
from leasehold.stores import HistoryQuery
from leasehold.stores.etcd import EtcdStore, checkpointing, journal, messages, reading, rows, transaction
from leasehold.stores.etcd.calls import RANGE
from leasehold.stores.etcd.due_index import SPAN, reminders_in
from leasehold.testing.conformance.asking import until
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasehold.domain.entries import Record
    from leasehold.steps import Steps
    from leasehold.stores.etcd.due_index import Reminder
    from leasehold.stores.etcd.journal import Replica

HOUR = 3_600_000_000
KEYS = [f"n{number}" for number in range(12)]


@contextmanager
def opened(url: str, number: int = 1) -> Iterator[list[EtcdStore]]:
    with ExitStack() as stack:
        stores = [EtcdStore(url) for _ in range(number)]
        for store in stores:
            stack.callback(store.close)
        yield stores


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal of a few entries, which goes into the records a few operations at a time."""
    monkeypatch.setattr(journal, "ENTRIES", 4)
    monkeypatch.setattr(checkpointing, "OPERATIONS", 7)


def write(store: EtcdStore, changes: Sequence[Put | Drop], events: Sequence[Event] = ()) -> None:
    while True:
        turn = store.begin()
        try:
            turn.load([change.key for change in changes])
            turn.commit(changes, events, turn.fence + 1)
        except Conflict:
            continue
        finally:
            turn.close()
        return


def due(store: EtcdStore) -> tuple[int, set[str]]:
    while True:
        turn = store.begin()
        try:
            return turn.now, set(turn.due(1_000))
        except Conflict:
            continue
        finally:
            turn.close()


def said(record: Record, id_: str = "i") -> str:
    note = record.notes[id_]
    assert isinstance(note, Receipt)
    return note.batch


class Kept:
    """What should be there."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def follow(self, changes: Sequence[Put | Drop]) -> None:
        for change in changes:
            self.records[change.key] = apply(self.records.get(change.key, EMPTY), change)

    def is_seen_by(self, store: EtcdStore) -> None:
        _, read = store.read(KEYS)
        assert {key: record for key, record in read.items() if record != EMPTY} == self.live
        assert dict(store.scan("n")) == self.live
        now, found = due(store)
        assert found == {key for key, record in self.live.items() if (first_due(record) or now + 1) <= now}

    @property
    def live(self) -> dict[str, Record]:
        return {key: record for key, record in self.records.items() if record != EMPTY}


def written(store: EtcdStore) -> dict[str, Record]:
    """The records themselves, without what is laid over them."""
    records = store.names.record("")
    return {
        store.names.key(name): rows.record_of(rows.whole(store, data))
        for name, data in store.each(records, rows.after(records))
    }


def reminders(store: EtcdStore) -> list[Reminder]:
    first, _ = store.names.dues(0)
    found = messages.range_answer(store.calls.ask(RANGE, messages.range_request(first, rows.after(first))))
    return list(reminders_in(found, store.names))


def reminders_fit(store: EtcdStore) -> None:
    """Each record has a reminder that comes in time, unless what is laid over it will be written with one."""
    store.read(())
    known = [(each.at, key) for each in reminders(store) for key in each.keys]
    for key, record in written(store).items():
        at = first_due(record) if key not in store.replica.overlay.lines else None
        assert at is None or any(at - SPAN < early <= at and key == of for early, of in known), (key, at)


def numbers(store: EtcdStore) -> list[int]:
    """The entries that the journal has."""
    first = store.names.journal(0)
    return [store.names.number_in(name) for name, _ in store.each(first, store.names.journal_end, keys_only=True)]


def some_changes(chance: random.Random, now: int, records: dict[str, Record]) -> list[Put | Drop]:
    changes: dict[tuple[str, str], Put | Drop] = {}
    for _ in range(chance.choice((1, 2, 3, 9))):
        key, id_ = chance.choice(KEYS), f"i{chance.randrange(3)}"
        until_ = now + chance.choice((-HOUR, HOUR)) + chance.randrange(1_000_000)
        long = chance.choice(("", "x", os.urandom(300).hex()))
        entry = chance.choice((Ref(id_), Receipt(id_, long, until_)))
        known = id_ in records.get(key, EMPTY).notes
        changes[key, id_] = Drop(key, id_) if known and chance.random() < 0.6 else Put(key, entry)
    return list(changes.values())


# ------------------------------------------------------------------------------------ nobody can tell


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("room", [rows.ROOM, 200])
def test_readers_see_the_same_whatever_is_in_the_records(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROOM", room)
    chance = random.Random(room)
    url, kept = etcd.empty(), Kept()
    with opened(url, 3) as stores:
        for turn in range(120):
            store = chance.choice(stores)
            changes = some_changes(chance, store.read(())[0], kept.records)
            write(store, changes)
            kept.follow(changes)
            if turn % 4 == 0:
                kept.is_seen_by(chance.choice(stores))
            if turn % 30 == 0:
                with opened(url) as (fresh,):
                    kept.is_seen_by(fresh)
                reminders_fit(store)
        for store in stores:
            kept.is_seen_by(store)
        reminders_fit(stores[0])
        assert len(numbers(stores[0])) <= 4 * journal.MOST
        assert written(stores[0])


@pytest.mark.usefixtures("short")
def test_what_begins_and_ends_within_the_journal_is_never_written() -> None:
    with opened(etcd.empty()) as (store,):
        write(store, [Put("nkept", Receipt("i", "", HOUR))])
        for number in range(30):
            write(store, [Put(f"n{number}", Receipt("i", "", HOUR))])
            write(store, [Drop(f"n{number}", "i")])
        keys = {"nkept"} | {f"n{number}" for number in range(30)}
        assert set(written(store)) == {"nkept"}
        versions = [
            store.calls.ask(RANGE, messages.range_request(store.names.record(key), revision=0)) for key in sorted(keys)
        ]
        assert sum(bool(messages.range_answer(found).pairs) for found in versions) == 1


@pytest.mark.usefixtures("short")
def test_a_commit_of_very_many_records_is_moved_piece_by_piece() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        keys = [f"n{number}" for number in range(300)]
        write(one, [Put(key, Receipt("i", "", HOUR)) for key in keys])
        for _ in range(200):
            write(two, [Put("m", Ref("i"))])
            write(one, [Put("m", Ref("j"))])
            if set(keys) <= set(written(one)):
                break
        assert set(keys) <= set(written(one))
        assert {key for key, _ in two.scan("n")} == set(keys)
        reminders_fit(two)


def test_a_second_server_follows_the_journal_without_reading_the_records() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        write(one, [Put("na", Ref("x")), Put("nb", Ref("x"))])
        two.read(["na", "nb"])
        write(one, [Put("na", Ref("y")), Drop("nb", "x")])
        known = two.replica.records
        two.read(())
        assert set(known["na"].notes) == {"x", "y"}
        assert known["nb"] == EMPTY
        assert two.replica.meta.at == one.replica.meta.at


@pytest.mark.usefixtures("short")
def test_a_server_that_was_away_for_long_starts_over() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        write(two, [Put("na", Ref("x"))])
        for number in range(40):
            write(one, [Put("na", Ref(f"y{number}")), Put("nb", Ref("x"))])
        write(one, [Drop("na", "x")])
        assert len(two.read(["na"])[1]["na"].notes) == 40
        assert set(two.read(["nb"])[1]["nb"].notes) == {"x"}


def test_a_look_while_a_transaction_is_under_way_sees_what_was_committed() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        write(one, [Put("na", Ref("x"))])
        turn = one.begin()
        turn.load(["na"])
        write(two, [Put("na", Ref("y"))])
        assert set(one.read(["na"])[1]["na"].notes) == {"x", "y"}
        assert set(turn.load(["na"])["na"].notes) == {"x"}  # what was told stays so until the end
        with pytest.raises(Conflict):
            turn.commit([Put("na", Ref("z"))], [], turn.fence + 1)


@pytest.mark.usefixtures("short")
def test_a_scan_finds_all_of_its_kind_and_nothing_else() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        for number in range(12):
            write(one, [Put(f"n{number}", Ref("k"))])
            write(one, [Put(f"a{number}", Ref('["k')), *([Put(f"k{number}", Ref("x"))] if number % 3 == 0 else [])])
        write(one, [Drop("k0", "x"), Drop("n1", "k")])
        assert {key for key, _ in two.scan("k")} == {"k3", "k6", "k9"}
        assert {key for key, _ in two.scan("n")} == {f"n{number}" for number in range(12) if number != 1}
        assert {key for key, _ in two.scan("a")} == {f"a{number}" for number in range(12)}


@pytest.mark.usefixtures("short")
def test_a_look_while_a_transaction_is_under_way_finds_each_record_wherever_it_is() -> None:
    strange = ["n", 'n"x', "n\\x", "n\u00e4"]  # not that there are such keys
    with opened(etcd.empty(), 2) as (one, two):
        for number in range(6):
            for key in [*KEYS, *strange] if number % 2 else [*strange, *KEYS]:  # the last few are in the journal
                write(one, [Put(key, Receipt(f"i{number}", "\ud800" if key in strange else "", HOUR))])
            turn = two.begin()
            try:
                for keys in ([], KEYS[:1], KEYS, strange, [KEYS[0], strange[3]]):
                    told = two.read(keys)[1]
                    assert {len(told[key].notes) for key in keys} <= {number + 1}
            finally:
                turn.close()


# ------------------------------------------------------------------------------------------ reminders


@pytest.mark.usefixtures("short")
def test_records_of_the_same_second_share_a_reminder_until_none_of_them_needs_it() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        keys = [f"n{number}" for number in range(4)]
        for key in keys:
            write(one, [Put(key, Receipt("i", "", HOUR + int(key[1:])))])
        while set(keys) - set(written(one)) or set(keys) & set(one.replica.overlay.lines):
            write(one, [Put("m", Ref("x"))])
        assert 0 < len(reminders(one)) < 4
        assert due(two)[1] == set(keys)
        write(two, [Put(key, Receipt("i", "", 2 * HOUR)) for key in keys[:2]])
        assert due(two)[1] == set(keys)  # all of these times are long past
        assert reminders(one)
        write(two, [Drop(key, "i") for key in keys])
        assert due(one)[1] == set()
        assert reminders(one) == []


@pytest.mark.usefixtures("short")
def test_a_time_that_was_there_before_is_reminded_of_again() -> None:
    """The reminder of the first time may have gone meanwhile, although the record is kept as it was."""
    with opened(etcd.empty()) as (store,):
        write(store, [Put("na", Receipt("i", "", HOUR))])
        while "na" in store.replica.overlay.lines:
            write(store, [Put("m", Ref("x"))])
        write(store, [Drop("na", "i")])
        assert due(store)[1] == set()
        assert reminders(store) == []
        write(store, [Put("na", Receipt("i", "", HOUR))])
        while "na" in store.replica.overlay.lines:
            write(store, [Put("m", Ref("x"))])
        assert due(store)[1] == {"na"}


def test_more_reminders_than_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "REMINDERS", 3)
    monkeypatch.setattr(journal, "ENTRIES", 4)
    with opened(etcd.empty()) as (store,):
        keys = [f"n{number:02}" for number in range(20)]
        for number, key in enumerate(keys):
            write(store, [Put(key, Receipt("i", "", HOUR + number * 10 * SPAN))])
        while set(keys) - set(written(store)):
            write(store, [Put("m", Ref("x"))])
        swept = []
        while found := sorted(due(store)[1]):
            swept += found
            write(store, [Drop(key, "i") for key in found])
        assert swept == keys
        assert due(store)[1] == set()


# ----------------------------------------------------------------------------- remembered and assumed


def test_what_is_only_remembered_is_no_answer() -> None:
    url = etcd.empty()
    with leasehold.connect(url, holder="ada") as ada, leasehold.connect(url, holder="bob") as bob:
        granted = ada.acquire("x", ttl=60)
        assert isinstance(granted, leasehold.Granted)
        assert isinstance(bob.acquire("x", ttl=60), leasehold.Held)
        assert isinstance(ada.release(granted.lease.id, granted.token), leasehold.Released)
        assert isinstance(bob.acquire("x", ttl=60), leasehold.Granted)


@pytest.mark.usefixtures("short")
def test_a_record_that_was_assumed_not_to_be_there_is_found() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        write(one, [Put("na", Ref("x"))])
        while "na" not in written(one):
            write(one, [Put("nb", Ref("x"))])
        while "na" in one.replica.overlay.lines:
            write(one, [Put("nb", Ref("x"))])
        two.read(())
        turn = two.begin()
        assert turn.load(["na"])["na"] == EMPTY
        with pytest.raises(Conflict):
            through(turn.confirming())
        turn = two.begin()
        assert set(turn.load(["na"])["na"].notes) == {"x"}
        turn.commit([Drop("na", "x")], [], turn.fence)
        assert one.read(["na"])[1]["na"] == EMPTY


@pytest.mark.usefixtures("short")
def test_what_the_journal_has_changed_is_not_assumed_not_to_be_there() -> None:
    """The older part of the journal was moved when there was no such record; then there was one again."""
    with opened(etcd.empty(), 2) as (one, two):
        two.read(())
        for turn in range(10 * journal.ENTRIES):
            is_there = turn % 2 == 0
            write(one, [Put("na", Ref("x")) if is_there else Drop("na", "x")])
            two.read(())
            two.replica.records.clear()  # as if many others had been asked for since
            look = two.begin()
            told = look.load(["na"])["na"]
            try:
                through(look.confirming())
            except Conflict:
                continue
            finally:
                look.close()
            assert set(told.notes) == ({"x"} if is_there else set())


def confirmed(store: EtcdStore, keys: Sequence[str]) -> dict[str, Record]:
    """What a transaction was told, and what was then true."""
    while True:
        turn = store.begin()
        try:
            some = turn.load(keys[: len(keys) // 2])  # as a batch does, which finds out what else it needs
            told = {**some, **turn.load(keys)}
            through(turn.confirming())
        except Conflict:
            continue
        finally:
            turn.close()
        return {key: told[key] for key in keys}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("most", [0, 2, 5])
def test_what_was_partly_assumed_and_partly_read_is_true(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "ASSUMED", most)
    monkeypatch.setattr("leasehold.stores.etcd.DOUBT", 2)
    chance = random.Random(most)
    kept = Kept()
    with opened(etcd.empty(), 3) as stores:
        for _ in range(60):
            changes = some_changes(chance, HOUR, kept.records)
            write(chance.choice(stores), changes)
            kept.follow(changes)
            store = chance.choice(stores)
            if chance.random() < 0.5:
                store.replica.records.clear()
            keys = chance.sample(KEYS, chance.randrange(1, len(KEYS)))
            told = confirmed(store, keys)
            assert told == {key: kept.records.get(key, EMPTY) for key in keys}


def test_more_than_can_be_assumed_are_looked_for_only_beyond_that(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = reading.ask

    def note(store: EtcdStore, replica: Replica, keys: Sequence[str], only: Sequence[str] | None = None) -> int:
        asked.append(len(keys))
        return ask(store, replica, keys, only)

    with opened(etcd.empty()) as (store,):
        write(store, [Put("na", Ref("x"))])
        monkeypatch.setattr(reading, "ask", note)
        keys = [f"n{number}" for number in range(transaction.ASSUMED + 8)]
        write(store, [Put(key, Ref("x")) for key in keys])
        assert asked == [8]


@pytest.mark.usefixtures("short")
def test_what_was_assumed_in_vain_is_not_assumed_again_however_much_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.stores.etcd.DOUBT", 2)
    with opened(etcd.empty(), 2) as (one, two):
        write(two, [Put("na", Ref("x"))])
        for number in range(8):  # until it is in the records
            write(two, [Put(f"nb{number}", Ref("x"))])
        for attempt in range(3):
            one.replica.records.clear()  # there is little room
            turn = one.begin()
            try:
                for key in ("nc", "nd", "na"):
                    turn.load([key])
                turn.commit([Put("na", Ref("y"))], [], turn.fence)
                break
            except Conflict:
                assert attempt < 2, "it is wrong about the same again and again"
            finally:
                turn.close()
        assert set(two.read(["na"])[1]["na"].notes) == {"x", "y"}


def test_an_assumption_that_nobody_confirmed_is_forgotten() -> None:
    with opened(etcd.empty()) as (store,):
        write(store, [Put("nb", Ref("x"))])
        turn = store.begin()
        turn.load(["na"])
        turn.close()
        assert "na" not in store.replica.records


def test_a_decided_record_and_a_receipt_are_both_remembered() -> None:
    with opened(etcd.empty(), 2) as (one, two):
        write(one, [Put("na", Ref("x"))])
        turn = one.begin()
        before = turn.load(["na"])["na"]
        changes = [Put("na", Ref("y")), Put("na", Receipt("receipt", "b", HOUR))]
        after = {"na": apply(before, changes[0])}  # as an engine does, which adds its receipt later
        turn.commit(changes, [], turn.fence, after)
        assert set(one.replica.records["na"].notes) == {"x", "y", "receipt"}
        assert one.read(["na"])[1] == two.read(["na"])[1]
        assert one.replica.overlay.lines["na"].mark == HOUR


def test_a_commit_without_a_request_tells_the_time_all_the_same() -> None:
    with opened(etcd.empty()) as (store,):
        write(store, [Put("na", Ref("x"))])
        before = store.replica.meta.now
        turn = store.begin()
        turn.commit([Put("na", Ref("y"))], [], store.replica.meta.fence)
        assert store.replica.meta.now >= before > HOUR


# ------------------------------------------------------------------------------- a store that dies on the way


class Dies:
    """A server whose connection breaks at its n-th write: before that is carried out, or after."""

    def __init__(self, store: EtcdStore, at: int, *, is_carried_out: bool) -> None:
        self._changing = store.calls.changing
        self._count = count()
        self._at = at
        self._is_carried_out = is_carried_out

    def __call__(self, path: str, message: bytes, accepted: str) -> Steps[bytes]:
        number = next(self._count)
        if number > self._at or (number == self._at and not self._is_carried_out):
            raise OutcomeUnknown("it died")
        answer = yield from self._changing(path, message, accepted)
        if number == self._at:
            raise OutcomeUnknown("it died")
        return answer


def until_it_dies(mortal: EtcdStore, kept: Kept, chance: random.Random) -> tuple[list[Put | Drop], int]:
    """What it was about to commit, and how often it was about to."""
    for begun in count(1):
        changes = some_changes(chance, HOUR, kept.records)
        try:
            write(mortal, changes)
        except OutcomeUnknown:
            return changes, begun
        kept.follow(changes)
    raise AssertionError("it lives for ever")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("is_carried_out", [False, True])
@pytest.mark.parametrize("at", range(12))
def test_a_server_that_dies_between_two_transactions_leaves_everything_whole(
    at: int, is_carried_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROOM", 400)  # so that there are several to a commit
    url, kept = etcd.empty(), Kept()
    chance = random.Random(at)
    with opened(url, 2) as (mortal, other):
        for _ in range(3 * journal.ENTRIES):
            changes = some_changes(chance, mortal.read(())[0], kept.records)
            write(mortal, changes)
            kept.follow(changes)
        before = mortal.replica.meta.at
        monkeypatch.setattr(mortal.calls, "changing", Dies(mortal, at, is_carried_out=is_carried_out))
        last, begun = until_it_dies(mortal, kept, chance)
        other.read(())
        if other.replica.meta.at - before == begun:  # the last one was carried out, although nobody heard of it
            kept.follow(last)
        for _ in range(3 * journal.ENTRIES):
            kept.is_seen_by(other)
            changes = some_changes(chance, other.read(())[0], kept.records)
            write(other, changes)
            kept.follow(changes)
        reminders_fit(other)


# ------------------------------------------------------------------------------------ very much at once


def test_many_long_contexts_at_once() -> None:
    """Far more in one commit than etcd takes in one request, and nothing of it can be compressed."""
    url = etcd.empty()
    with leasehold.connect(url, holder="ada") as locks, ThreadPoolExecutor(60) as pool:
        contexts = [os.urandom(6_000).hex() for _ in range(120)]

        def take(number: int) -> leasehold.Granted:
            granted = locks.acquire(f"x{number}", ttl=60, context={"said": contexts[number]})
            assert isinstance(granted, leasehold.Granted), granted
            return granted

        leases = list(pool.map(take, range(len(contexts))))
        told = [lease.context for lease in _all(locks)]
        assert sorted(map(str, told)) == sorted(json.dumps({"said": each}, separators=(",", ":")) for each in contexts)
        released = list(pool.map(lambda each: locks.release(each.lease.id, each.token), leases))
        assert all(isinstance(each, leasehold.Released) for each in released)
        assert _all(locks) == ()


def _all(locks: leasehold.Locks) -> tuple[leasehold.Lease, ...]:
    leases = locks.list()
    assert not isinstance(leases, leasehold.Refused)
    return leases


def test_one_commit_of_many_times_what_etcd_takes_at_once() -> None:
    url = etcd.empty()
    with opened(url, 2) as (one, two):
        long = [os.urandom(8_000).hex() for _ in range(300)]  # together 4.8 MB
        events = [Event("granted", 1, "default", ("x",), "ada", None, None, 1, {"said": text}) for text in long]
        write(one, [Put(f"n{number}", Receipt("i", text, HOUR)) for number, text in enumerate(long)], events)
        assert {said(record) for _, record in two.scan("n")} == set(long)
        told = two.history(HistoryQuery(limit=1_000))
        assert [event.detail["said"] for event in told] == long[::-1]
        assert [event.seq for event in told] == list(range(300, 0, -1))
        assert _parts(one)
        assert one.replica.overlay.size > 4_000_000  # not what the reference weighs
        for _ in range(20):
            write(two, [Put("m", Ref("x"))])
        assert numbers(two)[0] > 1  # it was too long to stay in the journal
        assert len(_parts(one)) == 1  # of the events
        assert {said(record) for _, record in one.scan("n")} == set(long)


def test_a_queue_that_is_longer_than_etcd_takes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "ENTRIES", 4)
    with opened(etcd.empty(), 2) as (one, two):
        long = {f"i{number}": os.urandom(8_000).hex() for number in range(150)}
        for start in range(0, 150, 10):
            some = list(long.items())[start : start + 10]
            write((one, two)[start % 20 // 10], [Put("na", Receipt(id_, text, HOUR)) for id_, text in some])
        with opened(_url(one)) as (fresh,):
            record = fresh.read(["na"])[1]["na"]
        assert {id_: said(record, id_) for id_ in record.notes} == long


def _url(store: EtcdStore) -> str:
    host, port = store.address.members[0]
    return f"etcd://{host}:{port}/{store.names.prefix.strip('/')}"


def test_hundreds_that_run_out_at_the_same_moment_are_swept() -> None:
    with leasehold.connect(etcd.empty(), holder="ada") as locks, ThreadPoolExecutor(60) as pool:
        list(pool.map(lambda number: locks.acquire(f"path:a/{number}/b.py", ttl=0.5), range(300)))
        until(lambda: _all(locks) == (), "all of them are gone")


# ------------------------------------------------------------------------------------- parts left behind


def test_parts_to_which_nothing_refers_go_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROOM", 200)
    with opened(etcd.empty()) as (store,):
        long = os.urandom(1_000).hex()
        write(store, [Put("na", Receipt("i", long, HOUR))])
        now = store.read(())[0]
        spilled = rows.LargeValues(store, now)
        spilled.value(store.names.record("nb"), os.urandom(1_000))
        through(spilled.writing())  # and then it died
        assert len(_parts(store)) == 2
        assert store.prune() == 0  # they are young: somebody may be about to refer to them
        monkeypatch.setattr(rows, "PATIENCE", -HOUR)
        assert store.prune() == 1
        assert store.prune() == 0
        assert len(_parts(store)) == 1
        assert said(dict(store.scan("n"))["na"]) == long


def _parts(store: EtcdStore) -> set[str]:
    first, end = store.names.all_parts(HOUR * 24 * 365 * 100)
    return {store.names.parts_id(name) for name, _ in store.each(first, end, keys_only=True)}


def test_parts_that_went_meanwhile_are_not_referred_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROOM", 200)
    with opened(etcd.empty()) as (store,):
        write(store, [Put("na", Ref("x"))])
        checked = transaction.EtcdTransaction._put

        def too_late(self: transaction.EtcdTransaction, *told: object) -> Steps[None]:
            for id_ in _parts(store):
                store.txn([], [rows.removal(store, id_)], [], changes=True)
            return checked(self, *told)  # type: ignore[arg-type]

        turn = store.begin()
        turn.load(["nb"])
        with monkeypatch.context() as patched:
            patched.setattr(transaction.EtcdTransaction, "_put", too_late)
            with pytest.raises(Conflict):
                turn.commit([Put("nb", Receipt("i", os.urandom(1_000).hex(), HOUR))], [], turn.fence + 1)
        assert store.read(["nb"])[1]["nb"] == EMPTY


# -------------------------------------------------------------------------------------- what others have done


def test_a_journal_with_a_gap_is_told_and_not_passed_over() -> None:
    url = etcd.empty()
    with opened(url) as (store,):
        for number in range(3):
            write(store, [Put("na", Ref(f"x{number}"))])
        store.txn([], [messages.delete(store.names.journal(2))], [], changes=True)  # by somebody's mistake
    with opened(url) as (store,), pytest.raises(StoreError, match="journal"):
        store.read(["na"])
