"""Commits of several lanes in one transaction of etcd: each lane gets what it would get by itself."""

from __future__ import annotations

import os
import random
import select
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from leasehold.config import settings
from leasehold.domain.entries import Put, Ref
from leasehold.domain.events import Event
from leasehold.errors import OutcomeUnknown, StoreError
from leasehold.locks.connect import divide
from leasehold.steps import through
from leasehold.stores.etcd import EtcdStore, joint, messages, rows
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from leasehold.steps import Steps
    from leasehold.stores.protocol import Answering

LANES = 4
PATIENCE = 60_000
"""Milliseconds."""
EVENT = Event("granted", 1, "default", ("x",), "ada", None, None, 1, {})


class Lanes:
    """The lanes of one server, whose commits this thread drives, and the calls that change something."""

    def __init__(self, url: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = url
        self.control = EtcdStore(url)
        stack.callback(self.control.close)
        self.stores = [self.control.lane(lane) for lane in range(1, LANES + 1)]
        for store in self.stores:
            stack.callback(store.close)
        self.coming = 0
        """For so many questions, another lane is about to commit."""
        self.control.commit_together(self._are_others_coming)
        for store in self.stores:
            put(store, "first")
        self.calls: list[int] = []
        """The number of lanes of each call."""
        self.fails: Callable[[Callable[[], Steps[bytes]]], Steps[bytes]] | None = None
        self._changing = self.control.calls.changing
        monkeypatch.setattr(self.control.calls, "changing", self._count)

    def _are_others_coming(self) -> bool:
        self.coming -= 1
        return self.coming >= 0

    def _count(self, path: str, message: bytes, accepted: str) -> Steps[bytes]:
        self.calls.append(sum(message.count(store.names.meta.encode()) > 0 for store in self.stores))
        if self.fails is not None:
            return self.fails(lambda: self._changing(path, message, accepted))
        return self._changing(path, message, accepted)

    def putting(self, lane: int, id_: str) -> Steps[None]:
        return putting(self.stores[lane], id_)

    def contents(self) -> list[list[tuple[str, bytes]]]:
        """All keys of each lane, with their values."""
        prefixes = [store.names.prefix for store in self.stores]
        return [[*self.control.each(prefix, rows.after(prefix))] for prefix in prefixes]

    def notes(self) -> list[set[str]]:
        """What another process finds in each lane."""
        with ExitStack() as stack:
            control = EtcdStore(self.url)
            stack.callback(control.close)
            others = [control.lane(lane) for lane in range(1, LANES + 1)]
            for other in others:
                stack.callback(other.close)
            return [set(other.read(["na"])[1]["na"].notes) - {"first"} for other in others]


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lanes]:
    with ExitStack() as stack:
        yield Lanes(etcd.empty(LANES), stack, monkeypatch)


def putting(store: EtcdStore, id_: str) -> Steps[None]:
    turn = store.begin()
    turn.load(["na"])
    return turn.committing([Put("na", Ref(id_))], [EVENT], turn.fence + 1)


def put(store: EtcdStore, id_: str) -> None:
    through(putting(store, id_))


def play(turns: Sequence[Steps[None]]) -> list[str]:
    """Drive these turns as one event loop does. Return the outcome of each."""
    outcomes = [""] * len(turns)
    waiting: dict[int, Answering] = {}

    def take(turn: int) -> None:
        try:
            answering = next(turns[turn])
        except StopIteration:
            outcomes[turn] = "written"
        except StoreError as error:
            outcomes[turn] = type(error).__name__
        else:
            if answering is None:
                outcomes[turn] = finished(turns[turn])
            else:
                waiting[turn] = answering

    for turn in range(len(turns)):
        take(turn)
    while waiting:
        ready = select.poll()
        by_number = {each.fileno(): turn for turn, each in waiting.items()}
        for number in by_number:
            ready.register(number, select.POLLIN)
        found = ready.poll(PATIENCE)
        assert found, "no answer"
        for number, _ in found:
            turn = by_number[number]
            if waiting[turn].is_answered():
                del waiting[turn]
                take(turn)
    return outcomes


def finished(turn: Steps[None]) -> str:
    try:
        through(turn)
    except StoreError as error:
        return type(error).__name__
    return "written"


# ------------------------------------------------------------------------------------------ together


def test_lanes_that_become_ready_during_a_commit_share_the_next_one(lanes: Lanes) -> None:
    assert play([lanes.putting(lane, "x") for lane in range(LANES)]) == ["written"] * LANES
    assert lanes.calls == [1, 3]
    assert lanes.notes() == [{"x"}] * LANES


def test_a_lane_waits_for_others_that_are_about_to_commit(lanes: Lanes) -> None:
    lanes.coming = 1
    assert play([lanes.putting(lane, "x") for lane in range(LANES)]) == ["written"] * LANES
    assert lanes.calls == [LANES]
    assert lanes.notes() == [{"x"}] * LANES


def test_a_lane_that_waits_for_nobody_commits_at_once(lanes: Lanes) -> None:
    for number in range(3):
        assert play([lanes.putting(0, f"x{number}")]) == ["written"]
    assert lanes.calls == [1, 1, 1]


def test_each_lane_knows_its_own_commit(lanes: Lanes) -> None:
    """What it remembers is what etcd has: the next commits need no other try."""
    for number in range(20):
        lanes.coming = number % 3
        assert play([lanes.putting(lane, f"x{number}") for lane in range(LANES)]) == ["written"] * LANES
    assert all(store.losses == 0 for store in lanes.stores)
    assert lanes.notes() == [{f"x{number}" for number in range(20)}] * LANES


def test_other_threads_commit_by_themselves(lanes: Lanes) -> None:
    threads = [threading.Thread(target=put, args=(store, "x")) for store in lanes.stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lanes.calls == [1] * LANES
    assert lanes.notes() == [{"x"}] * LANES


def test_as_many_share_a_commit_as_etcd_accepts(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "OPERATIONS", 6)  # of a lane there are three
    lanes.coming = 1
    assert play([lanes.putting(lane, "x") for lane in range(LANES)]) == ["written"] * LANES
    assert lanes.calls == [2, 2]
    assert lanes.notes() == [{"x"}] * LANES


def test_large_commits_are_not_joined(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "LARGEST", 100)
    lanes.coming = 1
    assert play([lanes.putting(lane, "x") for lane in range(LANES)]) == ["written"] * LANES
    assert lanes.calls == [1] * LANES


# ------------------------------------------------------------------------------------------ one of them fails


@pytest.mark.parametrize("beaten", [0, 2])
def test_the_conflict_of_a_lane_is_not_the_others(lanes: Lanes, beaten: int) -> None:
    turns = [lanes.putting(lane, "x") for lane in range(LANES)]
    other = EtcdStore(lanes.url)
    try:
        quicker = other.lane(beaten + 1)
        put(quicker, "y")
        quicker.close()
    finally:
        other.close()
    lanes.coming = 1
    outcomes = play(turns)
    assert outcomes == ["Conflict" if lane == beaten else "written" for lane in range(LANES)]
    assert lanes.calls == [LANES, *[1] * LANES]
    assert lanes.notes() == [{"y"} if lane == beaten else {"x"} for lane in range(LANES)]
    put(lanes.stores[beaten], "x")  # it has learnt what was new


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_an_unknown_outcome_is_looked_up_by_each_lane(lanes: Lanes, is_carried_out: bool) -> None:
    def lose(change: Callable[[], Steps[bytes]]) -> Steps[bytes]:
        if is_carried_out:
            yield from change()
        raise OutcomeUnknown("the answer never came")

    lanes.fails, lanes.coming = lose, 1
    assert play([lanes.putting(lane, "x") for lane in range(LANES)]) == ["OutcomeUnknown"] * LANES
    lanes.fails = None
    found = [set(store.read(["na"])[1]["na"].notes) - {"first"} for store in lanes.stores]
    assert found == lanes.notes() == [{"x"} if is_carried_out else set()] * LANES


def test_a_commit_that_is_settled_for_one_lane_arrives_for_none(lanes: Lanes) -> None:
    """It is still on its way when a lane has made sure that it does not succeed late."""
    late: list[Callable[[], Steps[bytes]]] = []

    def keep_back(change: Callable[[], Steps[bytes]]) -> Steps[bytes]:
        late.append(change)
        yield None
        raise OutcomeUnknown("the answer never came")

    lanes.fails, lanes.coming = keep_back, 1
    assert play([lanes.putting(lane, "x") for lane in range(LANES)]) == ["OutcomeUnknown"] * LANES
    lanes.fails = None
    lanes.stores[1].read(["na"])
    assert not messages.answer(through(late.pop()())).succeeded
    assert lanes.notes() == [set()] * LANES


def test_a_refusal_of_what_is_joined_is_asked_for_each(lanes: Lanes) -> None:
    def refuse(change: Callable[[], Steps[bytes]]) -> Steps[bytes]:
        if lanes.calls[-1] > 1:
            raise StoreError("etcd: request is too large")
        return (yield from change())

    lanes.fails, lanes.coming = refuse, 1
    assert play([lanes.putting(lane, "x") for lane in range(LANES)]) == ["written"] * LANES
    assert lanes.calls == [LANES, *[1] * LANES]
    assert lanes.notes() == [{"x"}] * LANES


def test_lanes_that_know_different_clusters_do_not_commit_together(lanes: Lanes) -> None:
    turns = [lanes.putting(lane, "x") for lane in range(LANES)]
    lanes.stores[1]._accepted = "restored"
    lanes.coming = 1
    assert play(turns) == ["written", "Conflict", "written", "written"]
    assert lanes.notes() == [{"x"}, set(), {"x"}, {"x"}]


# ------------------------------------------------------------------------------------------ one of them is closed


class CutOff(BaseException):
    """The command that changes the number of lanes ends here."""


def close_some(url: str, closed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin to change the number of lanes, and stop when so many are closed, besides the control lane."""
    writes, ask = 0, EtcdStore.txn

    def txn(store: EtcdStore, *words: Any, changes: bool = False) -> messages.TxnAnswer:
        nonlocal writes
        writes += changes
        if writes > 1 + closed:
            raise CutOff
        return ask(store, *words, changes=changes)

    with monkeypatch.context() as patched:
        patched.setattr(EtcdStore, "txn", txn)
        with pytest.raises(CutOff):
            divide(settings.find(url), LANES + 1)


@pytest.mark.parametrize("closed", range(1, LANES + 1))
def test_a_lane_that_is_closed_writes_nothing_together_with_others(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch, closed: int
) -> None:
    """Those that are open come first, and compare what they know of themselves."""
    close_some(lanes.url, closed, monkeypatch)
    before, lanes.coming = lanes.contents(), 1
    outcomes = play([lanes.putting(lane, "x") for lane in reversed(range(LANES))])
    assert outcomes == ["written"] * (LANES - closed) + ["StoreUnsuitable"] * closed
    assert lanes.calls == [LANES, *[1] * LANES]
    is_as_before = [now == then for now, then in zip(lanes.contents(), before, strict=True)]
    assert is_as_before == [True] * closed + [False] * (LANES - closed)


# ------------------------------------------------------------------------------------------ driven by others


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]])
def test_no_lane_waits_for_the_driver_of_another(lanes: Lanes, order: list[int]) -> None:
    """Each is finished in turn, as a server does that ends in the midst of them: the others do nothing meanwhile."""
    turns = [lanes.putting(lane, "x") for lane in range(LANES)]
    for turn in turns:
        next(turn)
    assert [finished(turns[lane]) for lane in order] == ["written"] * LANES
    assert lanes.notes() == [{"x"}] * LANES


def test_a_lane_that_is_finished_by_a_thread_waits_for_no_others(lanes: Lanes) -> None:
    lanes.coming = most = 1_000
    turn = lanes.putting(0, "x")
    next(turn)
    assert finished(turn) == "written"
    assert lanes.coming > most - 3


def test_threads_may_finish_what_the_loop_has_begun(lanes: Lanes) -> None:
    for number in range(10):
        lanes.coming = number % 3
        turns = [lanes.putting(lane, f"x{number}") for lane in range(LANES)]
        for turn in turns:
            next(turn)
        outcomes = dict[int, str]()

        def finish(lane: int, turn: Steps[None], found: dict[int, str] = outcomes) -> None:
            found[lane] = finished(turn)

        threads = [threading.Thread(target=finish, args=each) for each in enumerate(turns)]
        random.Random(number).shuffle(threads)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == dict.fromkeys(range(LANES), "written")
    assert lanes.notes() == [{f"x{number}" for number in range(10)}] * LANES


def test_a_lane_that_is_closed_meanwhile_holds_up_nobody(lanes: Lanes) -> None:
    turns = [lanes.putting(lane, "x") for lane in range(LANES)]
    for turn in turns:
        next(turn)
    turns[1].close()
    lanes.stores[1].close()
    ear, hand = os.pipe()  # with the numbers that have become free
    try:
        assert [finished(turns[lane]) for lane in (0, 2, 3)] == ["written"] * 3
        os.set_blocking(ear, False)
        with pytest.raises(BlockingIOError):
            os.read(ear, 1)
    finally:
        os.close(ear)
        os.close(hand)


def test_a_lane_whose_caller_left_is_in_doubt_and_holds_up_nobody(lanes: Lanes) -> None:
    turns = [lanes.putting(lane, "x") for lane in range(LANES)]
    for turn in turns:
        next(turn)
    turns[1].close()
    assert [finished(turns[lane]) for lane in (0, 2, 3)] == ["written"] * 3
    found = set(lanes.stores[1].read(["na"])[1]["na"].notes) - {"first"}
    assert lanes.notes() == [{"x"}, found, {"x"}, {"x"}]
