"""A store that has lost too often on etcd goes first; the others do not wait for one that is gone."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.entries import Put, Ref
from leasehold.errors import Conflict
from leasehold.steps import through
from leasehold.stores.etcd import EtcdStore, messages, precedence, rows
from leasehold.stores.etcd.precedence import LOSSES
from leasehold.testing.conformance.asking import Asking, until
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.stores.etcd.transaction import EtcdTransaction


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for a store that goes first, also on a machine that stands still for a while."""
    monkeypatch.setattr(precedence, "LONGEST", 3_600.0)


@pytest.fixture
def stores() -> Iterator[tuple[EtcdStore, EtcdStore]]:
    url = etcd.empty()
    with ExitStack() as stack:
        one, two = EtcdStore(url), EtcdStore(url)
        stack.callback(one.close)
        stack.callback(two.close)
        yield one, two


def decided(store: EtcdStore) -> EtcdTransaction:
    """A transaction that knows all it needs."""
    turn = store.begin()
    turn.load(["n1"])
    return turn


def put(store: EtcdStore, id_: str) -> None:
    """Until it goes through."""
    while not tried(decided(store), id_):
        pass


def tried(turn: EtcdTransaction, id_: str) -> bool:
    try:
        turn.commit([Put("n1", Ref(id_))], [], turn.fence)
    except Conflict:
        return False
    return True


def loses(store: EtcdStore, other: EtcdStore, times: int) -> None:
    for number in range(times):
        turn = decided(store)
        put(other, f"other{number}")
        assert not tried(turn, "mine")


def mark(store: EtcdStore) -> bytes:
    return rows.only(store.txn([], [messages.get(store.names.first)], []).responses[0])


def ids(store: EtcdStore) -> set[str]:
    return set(store.read(["n1"])[1]["n1"].notes)


def test_who_has_lost_too_often_cannot_be_beaten_any_more(stores: tuple[EtcdStore, EtcdStore]) -> None:
    slow, quick = stores
    loses(slow, quick, LOSSES)
    turn = decided(slow)
    assert mark(slow)
    beaten = decided(quick)
    assert not tried(beaten, "too quick")
    assert tried(turn, "mine")
    assert not mark(slow)
    put(quick, "later")
    assert {"mine", "later"} <= ids(slow)
    assert "too quick" not in ids(slow)


def test_who_is_kept_waiting_goes_on_as_soon_as_it_may(stores: tuple[EtcdStore, EtcdStore]) -> None:
    slow, quick = stores
    loses(slow, quick, LOSSES)
    turn = decided(slow)
    waiting = Asking(lambda: put(quick, "later"))
    waiting.wait(0.1)
    assert not waiting.is_over
    assert tried(turn, "mine")
    waiting.answer()
    assert {"mine", "later"} <= ids(slow)


def test_nobody_waits_for_ever_for_one_that_is_gone(
    stores: tuple[EtcdStore, EtcdStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precedence, "LONGEST", 0.05)
    gone, other = stores
    loses(gone, other, LOSSES)
    turn = decided(gone)
    put(other, "in spite of it")
    assert not mark(other)
    assert not tried(turn, "too late")
    put(gone, "after all")
    assert {"in spite of it", "after all"} <= ids(other)


def test_who_changes_nothing_lets_others_go_on(stores: tuple[EtcdStore, EtcdStore]) -> None:
    slow, quick = stores
    loses(slow, quick, LOSSES)
    turn = decided(slow)
    assert mark(slow)
    through(turn.confirming())
    turn.close()
    assert not mark(slow)
    put(quick, "later")


def test_only_one_goes_first(stores: tuple[EtcdStore, EtcdStore]) -> None:
    one, two = stores
    loses(one, two, LOSSES)
    turn = decided(one)
    first = mark(one)
    two.losses = LOSSES
    waiting = Asking(lambda: put(two, "second"))
    waiting.wait(0.1)
    assert mark(one) == first
    assert tried(turn, "first")
    waiting.answer()
    assert {"first", "second"} <= ids(one)
    assert not mark(one)


def test_who_decides_slowly_gets_through_among_those_who_never_rest(stores: tuple[EtcdStore, EtcdStore]) -> None:
    slow, quick = stores
    is_over: list[bool] = []
    commits: list[str] = []

    def never_rests() -> int:
        while not is_over:
            put(quick, f"q{len(commits) % 5}")
            commits.append("")
        return len(commits)

    restless = Asking(never_rests)
    try:
        tries = 0
        while True:
            turn, before = decided(slow), len(commits)
            until(lambda before=before: mark(slow) or len(commits) > before + 1, "the other has committed, or may not")  # type: ignore[misc] # a default
            tries += 1
            if tried(turn, "mine"):
                break
            assert tries <= 2 * LOSSES, "it loses for ever"
    finally:
        is_over.append(True)
    assert restless.answer() > LOSSES
    assert tries > LOSSES, "it did not get through by chance"
    assert "mine" in ids(slow)
