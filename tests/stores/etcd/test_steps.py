"""The etcd store step by step: a caller that works meanwhile gets what a caller that waits gets."""

from __future__ import annotations

import os
import random
import select
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.entries import Put, Receipt, Ref
from leasehold.domain.events import Event
from leasehold.errors import Conflict, OutcomeUnknown, StoreError
from leasehold.steps import through
from leasehold.stores import HistoryQuery
from leasehold.stores.etcd import MANY, EtcdStore, calls, checkpointing, journal, rows
from leasehold.stores.etcd.grpc import GrpcConnection
from leasehold.testing.etcd import QUICK, Etcd
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.steps import Steps
    from leasehold.stores.etcd.transaction import EtcdTransaction
    from leasehold.stores.protocol import Answering
    from leasehold.testing.etcd import Member

PATIENCE = 60_000
"""Milliseconds."""
EVENT = Event("granted", 1, "default", ("x",), "ada", None, None, 1, {})
HOUR = 3_600_000_000


@contextmanager
def opened(*urls: str) -> Iterator[list[EtcdStore]]:
    with ExitStack() as stack:
        stores = []
        for url in urls:
            stores.append(EtcdStore(url))
            stack.callback(stores[-1].close)
        yield stores


@pytest.fixture
def store() -> Iterator[EtcdStore]:
    with opened(etcd.empty()) as (one,):
        put(one, "na", "first")
        yield one


def url_of(store: EtcdStore) -> str:
    host, port = store.address.members[0]
    return f"etcd://{host}:{port}/{store.names.prefix.strip('/')}"


def begun(store: EtcdStore, key: str = "na") -> EtcdTransaction:
    turn = store.begin()
    turn.load([key])
    return turn


def put(store: EtcdStore, key: str, id_: str) -> None:
    through(putting(store, key, id_))


def putting(store: EtcdStore, key: str, id_: str) -> Steps[None]:
    turn = begun(store, key)
    return turn.committing([Put(key, Ref(id_))], [EVENT], turn.fence + 1)


def notes(store: EtcdStore, key: str = "na") -> set[str]:
    return set(store.read([key])[1][key].notes)


def sent(steps: Steps[None]) -> Answering:
    """Its answer is on its way, and it may not have to wait for anything before."""
    answering: Answering | None = next(steps)
    assert answering is not None
    return answering


def hear(answering: Answering) -> None:
    """As an event loop does it."""
    readable = select.poll()
    readable.register(answering.fileno(), select.POLLIN)
    while not answering.is_answered():
        assert readable.poll(PATIENCE), "no answer"


@contextmanager
def without_waiting() -> Iterator[None]:
    """Nobody may wait for a member in here."""

    def wait(_connection: GrpcConnection, _event: int) -> None:
        raise AssertionError("it waits")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(GrpcConnection, "_wait", wait)
        yield


def follow(store: EtcdStore, id_: str) -> None:
    """Commit as an event loop does it, which waits for nothing but the answer."""
    with without_waiting():
        steps = putting(store, "na", id_)
        answering = sent(steps)
        hear(answering)
        assert answering.is_answered()
        assert next(steps, "over") == "over"


# --------------------------------------------------------------------------------------- an answer comes


def test_a_commit_that_is_followed_is_a_commit(store: EtcdStore) -> None:
    for number in range(5):
        follow(store, f"step{number}")
    put(store, "na", "whole")
    with opened(url_of(store)) as (other,):
        assert notes(other) == notes(store) == {"first", "whole", *(f"step{number}" for number in range(5))}
        assert len(other.history(HistoryQuery())) == 7
        assert other.replica.meta == store.replica.meta


def test_the_same_over_tls(tmp_path: Path) -> None:
    cert, key = etcd.certificate(tmp_path)
    with Etcd(*QUICK, tls=(cert, key)) as cluster, opened(f"{cluster.url}?ca={cert}") as (store,):
        put(store, "na", "first")
        for number in range(5):
            follow(store, f"step{number}")
        assert len(notes(store)) == 6


def test_a_store_that_loses_learns_what_is_new_without_waiting(store: EtcdStore) -> None:
    with opened(url_of(store)) as (other,):
        steps = putting(store, "na", "mine")
        put(other, "na", "theirs")
        with without_waiting():
            hear(sent(steps))
            with pytest.raises(Conflict):
                next(steps)
            assert store.ready(["na"])
            turn = begun(store)
            assert set(turn.load(["na"])["na"].notes) == {"first", "theirs"}
            turn.close()


def test_a_store_that_loses_against_something_large_says_that_it_waits(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(url_of(store)) as (other,):
        steps = putting(store, "na", "mine")
        with monkeypatch.context() as patched:
            patched.setattr(rows, "ROOM", 200)
            turn = begun(other)
            turn.commit([Put("na", Receipt("large", os.urandom(500).hex(), HOUR))], [], turn.fence + 1)
        with without_waiting():
            hear(sent(steps))
            assert next(steps) is None
        with pytest.raises(Conflict):
            through(steps)
        assert notes(store) == {"first", "large"}


def test_something_large_waits_before_it_is_committed(store: EtcdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROOM", 200)
    long = os.urandom(500).hex()
    turn = begun(store)
    steps = turn.committing([Put("na", Receipt("large", long, HOUR))], [], turn.fence + 1)
    yielded = list(steps)
    assert yielded[:-1] == [None] * (len(yielded) - 1) != []
    assert isinstance(yielded[-1], GrpcConnection)
    assert notes(store) == {"first", "large"}


def test_what_confirms_an_answer_can_be_followed(store: EtcdStore) -> None:
    with opened(url_of(store)) as (other,):
        for is_true in (True, False):
            turn = begun(store)
            steps = turn.confirming()
            if not is_true:
                put(other, "na", "theirs")
            with without_waiting():
                hear(sent(steps))
                if is_true:
                    assert next(steps, "over") == "over"
                else:
                    with pytest.raises(Conflict):
                        next(steps)
            turn.close()


# -------------------------------------------------------------------------------------- what is in between


def test_a_connection_with_a_call_on_its_way_carries_no_other(store: EtcdStore) -> None:
    steps = putting(store, "na", "x")
    answering = sent(steps)
    assert notes(store) <= {"first", "x"}  # of the same thread
    with pytest.raises(StoreError, match="already under way"):
        store.begin()
    assert not store.ready(["na"])
    hear(answering)
    assert next(steps, "over") == "over"
    assert store.ready(["na"])
    assert notes(store) == {"first", "x"}
    assert len(store.calls._idle) == 2
    for turn in range(5):
        put(store, "na", f"y{turn}")
    assert len(store.calls._all) == 2  # nobody needs another one


def test_the_rest_of_a_commit_can_be_another_threads(store: EtcdStore) -> None:
    steps = putting(store, "na", "x")
    sent(steps)
    assert elsewhere(steps) is None
    assert not store._mutex.locked()
    follow(store, "y")  # by the connection that the thread has used
    assert notes(store) == {"first", "x", "y"}
    assert store.replica.meta.at == 3


def elsewhere(steps: Steps[None]) -> BaseException | None:
    """What comes of the rest of it in a thread of its own."""
    came: list[BaseException] = []

    def rest() -> None:
        try:
            through(steps)
        except StoreError as error:
            came.append(error)

    thread = threading.Thread(target=rest)
    thread.start()
    thread.join()
    return came[0] if came else None


def test_a_commit_that_is_given_up_stays_in_doubt(store: EtcdStore) -> None:
    for number in range(3):
        steps = putting(store, "na", f"x{number}")
        answering = sent(steps)
        steps.close()
        assert answering.fileno() == -1  # the answer must not be taken for another's
        assert store._in_doubt is not None
        assert not store._mutex.locked()
        assert not store.ready(["na"])
        known = notes(store)  # from here on it has been carried out, or never will be
        assert store._in_doubt is None
        put(store, "na", f"y{number}")
        assert notes(store) == known | {f"y{number}"}
        with opened(url_of(store)) as (other,):
            assert notes(other) == known | {f"y{number}"}


def test_a_commit_that_was_given_up_before_it_was_sent_never_happens(store: EtcdStore) -> None:
    steps = putting(store, "na", "x")
    store.client.members.next(store.client.members.turn)  # so that it has to connect first
    assert next(steps) is None
    steps.close()
    assert not store._mutex.locked()
    assert notes(store) == {"first"}


# ----------------------------------------------------------------------------------------- no answer comes


@pytest.mark.timeout(60)
def test_a_connection_that_breaks_is_an_answer_too() -> None:
    with Etcd(*QUICK) as cluster, opened(cluster.url) as (store,):
        put(store, "na", "first")
        steps = putting(store, "na", "x")
        with paused(cluster.members[0]):
            answering = sent(steps)
            assert isinstance(answering, GrpcConnection)
            answering.shut_down()
            with without_waiting():
                hear(answering)
                with pytest.raises(OutcomeUnknown):
                    next(steps)
        assert store._in_doubt is not None
        assert notes(store) <= {"first", "x"}
        assert store._in_doubt is None


@contextmanager
def paused(member: Member) -> Iterator[None]:
    member.pause()
    try:
        yield
    finally:
        member.go_on()


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.timeout(120)
def test_an_answer_that_never_comes_is_missed_by_another_thread(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a caller that waits from the beginning: the outcome is unknown."""
    with Etcd(*QUICK, members=members) as cluster, opened(cluster.url, cluster.url) as (one, two):
        for store in (one, two, one, two):
            put_in_the_end(store, "first")
        waiting, following = begun(two), putting(one, "na", "x")
        monkeypatch.setattr(calls, "TIMEOUT", 1.0 if members == 1 else HOUR)
        with paused(cluster.members[0]):
            answering = sent(following)
            assert not answering.is_answered()
            followed = elsewhere(following)
            with pytest.raises(OutcomeUnknown) as waited:
                waiting.commit([Put("na", Ref("x"))], [EVENT], waiting.fence + 1)
            assert type(followed) is waited.type
            assert str(followed) == str(waited.value)
            assert one._in_doubt is not None
            assert one.client.members.turn == two.client.members.turn == 1
        put_in_the_end(one, "later")
        assert {"first", "later"} <= notes(one)


def put_in_the_end(store: EtcdStore, id_: str) -> None:
    """Somebody else may be quicker, and members may have to come to themselves."""
    while True:
        try:
            put(store, "na", id_)
        except (Conflict, StoreError):
            continue
        return


@pytest.mark.timeout(60)
def test_an_answer_that_comes_late_is_heard_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with Etcd(*QUICK) as cluster, opened(cluster.url) as (store,):
        put(store, "na", "first")
        steps = putting(store, "na", "x")
        member, wait = cluster.members[0], GrpcConnection._wait

        def waits(connection: GrpcConnection, event: int) -> None:
            member.go_on()  # not before there is somebody who waits
            wait(connection, event)

        with paused(member):
            assert not sent(steps).is_answered()
            monkeypatch.setattr(GrpcConnection, "_wait", waits)
            assert elsewhere(steps) is None
        assert notes(store) == {"first", "x"}


# ---------------------------------------------------------------------------------- whether it has to wait


def test_a_store_says_whether_it_has_to_wait(store: EtcdStore) -> None:
    assert store.ready(["na", "nb", "nc"])
    assert not store.ready([f"n{number}" for number in range(1_000)])  # more than can be assumed
    with opened(url_of(store)) as (other,):
        assert not other.ready([])  # it knows nothing yet
        other.read(())
        assert other.ready([])
    turn = store.begin()
    assert not store.ready([])
    turn.close()
    store.client.members.next(store.client.members.turn)
    assert not store.ready(["na"])  # it has to connect
    notes(store)
    assert store.ready(["na"])
    for _ in range(MANY):
        store.losses += 1
    assert not store.ready(["na"])  # it would sleep
    store.losses = 0
    store.doubt()
    for _ in range(100):
        assert store.ready(["na"])
        assert not store.ready(["nb"])  # such records were there lately
    store.note_doubt()
    assert not store.ready(["na"])
    store.settle()


def test_a_store_that_is_ready_decides_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a journal that is moved all the time, another server, and little memory."""
    monkeypatch.setattr(journal, "ENTRIES", 4)
    monkeypatch.setattr(checkpointing, "OPERATIONS", 7)
    chance, url = random.Random(5), etcd.empty()
    told = {True: 0, False: 0}
    with opened(url, url) as stores:
        for each in stores:
            each.replica.limit = 5
        for number in range(300):
            store = stores[0] if chance.random() < 0.8 else stores[1]
            keys = [f"n{chance.randrange(20)}" for _ in range(chance.choice((1, 1, 2, 5)))]
            is_ready = store.ready(keys)
            told[is_ready] += 1
            turn = _decided(store, keys, is_ready=is_ready)
            try:
                turn.commit([Put(key, Ref(f"i{number % 3}")) for key in keys], [], turn.fence + 1)
            except Conflict:
                turn.close()
        assert min(told.values()) > 20, told


def _decided(store: EtcdStore, keys: list[str], *, is_ready: bool) -> EtcdTransaction:
    if not is_ready:
        turn = store.begin()
        turn.load(keys)
        return turn
    with without_waiting():
        turn = store.begin()
        turn.load(keys)
        assert turn.now
        assert turn.fence
    return turn
