"""The etcd store beside the conformance suite: its clock, its address, its bounds, doubt, restore, TLS and users."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.entries import EMPTY, Put, Ref
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, InvalidInput, OutcomeUnknown, StoreError, StoreUnsuitable, Unreachable
from leasehold.stores.etcd import EPOCH, EtcdStore, messages, rows
from leasehold.stores.etcd.address import parse
from leasehold.stores.etcd.calls import RANGE
from leasehold.stores.etcd.clock import EXACT, MemberClock
from leasehold.stores.etcd.clock import parse as parse_date
from leasehold.testing.conformance.asking import leases_of, until
from leasehold.testing.etcd import QUICK, Etcd
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.steps import Steps


@pytest.fixture
def store() -> Iterator[EtcdStore]:
    opened = EtcdStore(etcd.empty())
    yield opened
    opened.close()


def put(store: EtcdStore, key: str, id_: str) -> None:
    transaction = store.begin()
    try:
        transaction.load([key])
        transaction.commit([Put(key, Ref(id_))], [], transaction.fence + 1)
    finally:
        transaction.close()


# ---------------------------------------------------------------------------------------------- its address


def test_an_address() -> None:
    address = parse("etcd://ada:p%40ss@h1,h2:2380,[::1]:2379/team/a?ca=/ca.pem&cert=/c.pem&key=/k.pem&keep_events=5")
    assert address.members == (("h1", 2379), ("h2", 2380), ("::1", 2379))
    assert (address.user, address.password, address.prefix) == ("ada", "p@ss", "team/a/")
    assert (address.tls, address.ca, address.cert, address.key) == (True, "/ca.pem", "/c.pem", "/k.pem")
    assert address.keep_events == 5
    assert "p@ss" not in address.place
    assert parse("etcd://h").prefix == "leasehold/"


@pytest.mark.parametrize(
    "url",
    [
        "etcd:h1",
        "etcd://",
        "etcd://h1,",
        "etcd://h1:0",
        "etcd://h1:x",
        "etcd://h1:²",
        "etcd://:pw@h1",
        "etcd://h?x=1",
        "etcd://h?tls=maybe",
        "etcd://h?cert=/c",
        "etcd://h?keep_events=x",
        "etcd://h?keep_events=²",
    ],
)
def test_a_bad_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(url)
    assert refused.value.field == "url"


@pytest.mark.parametrize("password", ["sesame/x", "sesame?x", "sesame?x=1", "x/sesame", "x?sesame=1"])
def test_a_password_that_cuts_the_address_is_in_no_message(password: str) -> None:
    with pytest.raises(InvalidInput, match="%XX") as refused:
        parse(f"etcd://ada:{password}@h1:2379,h2:2379")
    assert "sesame" not in str(refused.value)


def test_nobody_there_is_told_clearly() -> None:
    with pytest.raises(Unreachable, match=r"no member of etcd at 127\.0\.0\.1:1 answers"):
        EtcdStore("etcd://ada:secret@127.0.0.1:1")


# ------------------------------------------------------------------------------------------------- its clock


def test_dates_narrow_down_how_far_ahead_the_clock_is() -> None:
    clock = MemberClock()
    assert not clock.is_exact
    ahead = 1_000_000.25  # seconds
    moment = 5.0
    for _ in range(1_500):
        asked, answered = moment, moment + 0.001
        clock.narrow(_date(int(asked + 0.0005 + ahead)), asked, answered)
        moment += 0.002
    assert clock.is_exact
    assert ahead * SECOND - EXACT <= clock._low <= ahead * SECOND  # never ahead of theirs


def test_one_look_at_each_turn_of_a_second_keeps_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although our own clock goes slow by one part in ten thousand: the estimate is never ahead, nor far behind."""
    clock, ahead, moment = MemberClock(), 1_000_000.6, 5.0
    monkeypatch.setattr("time.monotonic_ns", lambda: int(moment * 1e9))
    clock.narrow(_date(int(moment + ahead)), moment, moment)
    for turn in range(200):
        moment += clock.until_a_turn()
        theirs = moment * 1.0001 + ahead
        clock.narrow(_date(int(theirs + 0.0005)), moment, moment + 0.001)
        behind = (theirs * SECOND) - clock.now()
        assert behind >= 0
        assert behind < 3_000 or turn < 20


def test_a_clock_that_was_set_is_noticed_and_nonsense_is_not_a_date() -> None:
    clock = MemberClock()
    clock.narrow(_date(1_000), 1.0, 1.0)
    clock.narrow(_date(90_000), 1.5, 1.5)
    assert clock._low == 90_000 * SECOND - 1_500_000
    clock.narrow("yesterday", 2.0, 2.0)
    assert parse_date("yesterday") is None


def _date(seconds: int) -> str:
    from email.utils import formatdate

    return formatdate(seconds, usegmt=True)


# ------------------------------------------------------------------------------------------- who was quicker


@pytest.mark.parametrize("kept", ["", '"schema": 99, "unknown": 1, '])
def test_what_another_version_kept_is_refused(kept: str) -> None:
    url = etcd.empty()
    store = EtcdStore(url)
    store.txn([], [messages.put(store.names.meta, f'{{{kept}"fence": 7, "seq": 1}}'.encode())], [])
    store.close()
    with pytest.raises(StoreUnsuitable, match="once nothing is held there"):
        leasehold.connect(f"etcd:{url}").acquire("r", ttl=60)


def test_who_comes_second_starts_over_and_nothing_is_lost() -> None:
    url = etcd.empty()
    one, two = EtcdStore(url), EtcdStore(url)
    try:
        first, second = one.begin(), two.begin()
        first.load(["na"])
        fence = first.fence
        second.load(["nb"])  # another record: the numbers are shared all the same
        first.commit([Put("na", Ref("x"))], [], first.fence + 1)
        with pytest.raises(Conflict):
            second.commit([Put("nb", Ref("y"))], [], second.fence + 1)
        put(two, "nb", "y")
        assert set(one.read(["na"])[1]["na"].notes) == {"x"}
        assert set(one.read(["nb"])[1]["nb"].notes) == {"y"}
        later = one.begin()
        assert later.fence > fence
        later.close()
    finally:
        one.close()
        two.close()


def test_many_at_once_lose_no_update() -> None:
    url = etcd.empty()

    def work(number: int) -> None:
        store = EtcdStore(url)
        for turn in range(10):
            while True:
                try:
                    put(store, "na", f"{number}-{turn}")
                    break
                except Conflict:
                    continue
        store.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = EtcdStore(url)
    assert len(store.read(["na"])[1]["na"].notes) == 40
    store.close()


def test_many_records_at_once(store: EtcdStore) -> None:
    transaction = store.begin()
    keys = [f"n{number}" for number in range(1_000)]  # of which one transaction of etcd's takes 128
    transaction.load(keys)
    transaction.commit([Put(key, Ref("x")) for key in keys], [], transaction.fence + 1)
    assert sorted(key for key, _ in store.scan("n")) == sorted(keys)


def test_one_lease_on_many_deep_names() -> None:
    url = etcd.empty()
    with leasehold.connect(url, holder="ada") as locks, leasehold.connect(url, holder="bob") as others:
        deep = [f"path:d{number}/e/f/g/h.py" for number in range(64)]
        granted = locks.acquire(deep, ttl=60)
        assert isinstance(granted, leasehold.Granted)
        assert isinstance(others.acquire(deep[:1], ttl=60), leasehold.Held)
        assert isinstance(locks.release(granted.lease.id, granted.token), leasehold.Released)


# ---------------------------------------------------------------------------------------- doubt and restore


def test_an_answer_that_never_came_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with leasehold.connect(etcd.empty(), holder="ada") as locks:
        store = locks._answers.engine.store  # type: ignore[attr-defined]
        changing = store.calls.changing
        lost: list[str] = []

        def lose(path: str, message: bytes, accepted: str) -> Steps[bytes]:
            answer: bytes = yield from changing(path, message, accepted)
            if not lost:
                lost.append(path)
                raise OutcomeUnknown("the answer never came")
            return answer

        monkeypatch.setattr(store.calls, "changing", lose)
        granted = locks.acquire("x", ttl=60)
        assert lost
        assert isinstance(granted, leasehold.Granted)
        leases = locks.list()
        assert not isinstance(leases, leasehold.Refused)
        assert [lease.id for lease in leases] == [granted.lease.id]


def test_a_commit_that_arrives_after_it_was_looked_for_is_not_carried_out(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on its way all the time, with a member that was cut off: nobody may learn of it any more."""
    late: list[tuple[str, bytes, str]] = []

    def keep_back(path: str, message: bytes, accepted: str) -> Steps[bytes]:
        late.append((path, message, accepted))
        yield None
        raise OutcomeUnknown("the answer never came")

    for number in range(3):  # also the very first one
        with monkeypatch.context() as patched:
            patched.setattr(store.calls, "changing", keep_back)
            with pytest.raises(OutcomeUnknown):
                put(store, "na", f"x{number}")
        if number == 1:
            assert store.read(["na"])[1]["na"] == EMPTY
        else:
            store.begin().close()
        assert not messages.answer(store.calls.change(*late.pop())).succeeded
    assert store.read(["na"])[1]["na"] == EMPTY
    put(store, "na", "y")
    assert set(store.read(["na"])[1]["na"].notes) == {"y"}


def test_a_commit_that_arrived_before_it_was_looked_for_stays(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing = store.calls.changing

    def hear_nothing(path: str, message: bytes, accepted: str) -> Steps[bytes]:
        yield from changing(path, message, accepted)
        raise OutcomeUnknown("the answer never came")

    monkeypatch.setattr(store.calls, "changing", hear_nothing)
    with pytest.raises(OutcomeUnknown):
        put(store, "na", "x")
    assert set(store.read(["na"])[1]["na"].notes) == {"x"}


def test_after_a_restore_fences_go_on_far_above(store: EtcdStore) -> None:
    put(store, "na", "x")
    before = store.replica.meta.fence
    meta = store.replica.meta._replace(cluster="another one")
    store.txn([], [messages.put(store.names.meta, rows.meta_data(meta))], [], changes=True)
    with pytest.raises(Conflict):
        put(store, "na", "y")
    transaction = store.begin()
    assert transaction.fence >= EPOCH > before
    transaction.close()
    put(store, "na", "y")
    transaction = store.begin()
    assert EPOCH < transaction.fence < 2 * EPOCH  # once
    transaction.close()


def test_fences_are_never_below_etcds_own_revision(store: EtcdStore) -> None:
    put(store, "na", "x")
    store.txn([], [messages.delete(store.names.meta)], [], changes=True)  # by somebody's mistake
    transaction = store.begin()
    assert transaction.fence > 2
    transaction.close()


def test_hints_tell_of_others_only() -> None:
    url = etcd.empty()
    one, two = EtcdStore(url), EtcdStore(url)
    try:
        give_up = threading.Event()
        while one.hint():  # until the watch is there
            assert not give_up.wait(0.02)
        put(one, "na", "x")
        assert not one.hint()
        put(two, "na", "y")
        while not one.hint():
            assert not give_up.wait(0.01)
    finally:
        one.close()
        two.close()


def test_what_nobody_listened_to_counts_as_changed(store: EtcdStore) -> None:
    until(lambda: not store.hint(), "it listens")
    news, watcher = store._news, store.client._watcher
    assert news is not None
    assert watcher is not None
    watcher.move()
    until(lambda: news.is_cut_off, "it does not listen")
    until(lambda: not news.is_cut_off, "it listens again")
    assert store.hint()
    assert not store.hint()


# ---------------------------------------------------------------------------------------------- TLS, users


def test_a_user_with_a_password() -> None:
    with Etcd(*QUICK) as cluster:
        address = cluster.url.removeprefix("etcd://")
        etcd.let_in_users(cluster)
        with leasehold.connect(f"etcd://ada:secret@{address}", holder="ada") as locks:
            assert isinstance(locks.acquire("x", ttl=60), leasehold.Granted)
        with pytest.raises(StoreError) as refused:
            leasehold.connect(f"etcd://ada:wrong@{address}")
        assert "wrong" not in str(refused.value)


def test_users_are_let_in_by_the_gateway_and_told_if_there_is_none() -> None:
    with Etcd(*QUICK, "--enable-grpc-gateway=false") as cluster:
        leasehold.connect(cluster.url).close()
        with pytest.raises(StoreUnsuitable, match="--enable-grpc-gateway"):
            leasehold.connect(cluster.url.replace("etcd://", "etcd://ada:secret@"))


def test_who_may_only_read_is_told_what_it_needs_and_goes_on_reading() -> None:
    with Etcd(*QUICK) as cluster:
        address = cluster.url.removeprefix("etcd://")
        etcd.let_in_users(cluster)
        with leasehold.connect(f"etcd://ada:secret@{address}", holder="ada") as locks:
            assert isinstance(locks.acquire("x", ttl=60), leasehold.Granted)
            for change in (["revoke-permission", "locks"], ["grant-permission", "locks", "read"]):
                cluster.control("--user", "root:top", "role", *change, "--prefix=true", "leasehold/")
            with pytest.raises(StoreUnsuitable, match="readwrite leasehold/"):
                locks.acquire("y", ttl=60)
            assert [lease.resources for lease in leases_of(locks)] == [("x",)]
        with pytest.raises(StoreError, match=r"etcd://USER:PASSWORD@"):
            leasehold.connect(cluster.url)


def test_etcd_without_space_says_what_to_do() -> None:
    def fill(locks: leasehold.Locks) -> None:
        for number in range(1_000):
            locks.acquire(f"{number}", ttl=60, context={"much": "x" * 10_000})

    with Etcd(*QUICK, "--quota-backend-bytes", str(2**20)) as cluster:
        locks = leasehold.connect(cluster.url, holder="ada")
        with pytest.raises(StoreError, match="alarm disarm"):
            fill(locks)
        locks.close()


def test_what_etcd_was_told_to_forget_while_it_was_read_is_read_again(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "na", "x")
    asking, forgotten = store.calls.asking, list[int]()

    def compact_first(path: str, message: bytes) -> Steps[bytes]:
        if path == RANGE and not forgotten:
            forgotten.append(_revision(store))
            put(store, "na", "y")
            etcd.server().control("compact", str(_revision(store)))
        return asking(path, message)

    monkeypatch.setattr(store.calls, "asking", compact_first)
    assert [set(record.notes) for _, record in store.scan("n")] == [{"x", "y"}]
    assert forgotten


def _revision(store: EtcdStore) -> int:
    return store.txn([], [messages.get(store.names.meta)], []).revision


def test_tls_with_certificates_of_ones_own(tmp_path: Path) -> None:
    cert, key = etcd.certificate(tmp_path)
    with Etcd(*QUICK, tls=(cert, key)) as cluster:
        url = f"{cluster.url}?ca={cert}"
        with leasehold.connect(url, holder="ada") as locks:
            assert isinstance(locks.acquire("x", ttl=60), leasehold.Granted)
        with pytest.raises(Unreachable):
            leasehold.connect(f"{cluster.url}?tls=true")


# ------------------------------------------------------------------------------------------- its own cluster


def test_an_etcd_ends_with_the_process_that_started_it() -> None:
    """Although that one was killed, and could clear nothing up."""
    program = (
        "from leasehold.testing.etcd import QUICK, Etcd\n"
        "cluster = Etcd(*QUICK).__enter__()\n"
        "print(cluster.url, cluster.folder, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        url, folder = started.stdout.readline().split()
        EtcdStore(url).close()
        started.kill()
    until(lambda: not Path(folder).exists(), "its folder is gone")
    until(lambda: not _listens(int(url.rpartition(":")[2])), "it is gone")


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return not asking.connect_ex(("127.0.0.1", port))
