"""`with locks.lock(...)` when things go wrong: leases taken away, stores that fail or hang, and who is told."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain.sessions import SessionStarted
from leasehold.errors import Closed, LeaseLost, Unreachable
from tests.kit.holders import ENDS, PATIENCE, TTL, Losses, last_end, store_of, unreachable, until

if TYPE_CHECKING:
    from leasehold.locks.sync import Locks
    from leasehold.stores.protocol import Transaction


pytestmark = pytest.mark.usefixtures("eager")


# ---------------------------------------------------------------------------------------------- taken away


def test_a_lease_that_is_taken_away(locks: Locks, ops: Locks) -> None:
    losses = Losses()

    def block() -> None:
        with locks.lock("x", ttl=TTL, on_lost=losses) as lease:
            ops.force_release("x", by="ops", reason="hotfix")
            until(lambda: losses)
            assert lease.lost == "forced by ops: hotfix"
            assert lease.remaining() == 0
            with pytest.raises(LeaseLost, match=lease.id):
                lease.ensure()

    with pytest.raises(LeaseLost) as caught:
        block()
    assert caught.value.reason == "forced by ops: hotfix"
    assert losses == ["forced by ops: hotfix"]
    assert losses.threads[0] is not threading.current_thread()


def test_a_loss_that_only_the_release_brings_to_light(locks: Locks, ops: Locks) -> None:
    losses = Losses()
    with pytest.raises(LeaseLost, match="forced by ops: hotfix"), locks.lock("x", ttl="1h", on_lost=losses):
        ops.force_release("x", by="ops", reason="hotfix")
    assert losses == []


def test_a_session_that_ends_takes_its_leases_along(locks: Locks) -> None:
    session = locks.start_session(ttl=60)
    assert isinstance(session, SessionStarted)

    def block() -> None:
        with locks.lock("x", ttl="1h", session=session.secret) as lease:
            assert lease.remaining() < 60, "no lease outlives its session"
            locks.end_session(session.secret)

    with pytest.raises(LeaseLost):
        block()


def test_what_the_body_raises_comes_first(locks: Locks, ops: Locks) -> None:
    def block(*, is_forced: bool) -> None:
        with locks.lock("x", ttl=60):
            if is_forced:
                ops.force_release("x", by="ops", reason="hotfix")
            raise ValueError("no such service")

    with pytest.raises(ValueError, match="no such service") as caught:
        block(is_forced=False)
    assert last_end(locks) == ("failed", "ValueError: no such service")
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(ValueError, match="no such service") as caught:
        block(is_forced=True)
    assert "forced by ops: hotfix" in caught.value.__notes__[0]


# ------------------------------------------------------------------------------------------- stores that fail


def test_an_unreachable_store(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = Losses()

    def block() -> None:
        with locks.lock("x", ttl=ENDS, on_lost=losses):
            monkeypatch.setattr(store_of(locks), "begin", unreachable)
            until(lambda: losses)

    with pytest.raises(LeaseLost, match="not renewed in time: nobody answers") as caught:
        block()
    assert losses == ["not renewed in time: nobody answers"]
    assert isinstance(caught.value.__cause__, Unreachable)


def test_a_store_that_comes_back_in_time(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    losses, failures, begin = Losses(), list[int](), store_of(locks).begin

    def shaky() -> Transaction:
        if len(failures) < 4:
            failures.append(1)
            unreachable()
        return begin()

    with locks.lock("x", ttl=TTL, on_lost=losses) as lease:
        monkeypatch.setattr(store_of(locks), "begin", shaky)
        before = lease.lease.expires_us
        until(lambda: lease.lease.expires_us > before)
        assert len(failures) == 4
    assert losses == []
    assert last_end(locks) == ("completed", None)


def test_a_store_that_hangs_does_not_hold_back_the_news(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    losses, hanging, go_on, begin = Losses(), threading.Event(), threading.Event(), store_of(locks).begin

    def hang() -> Transaction:
        hanging.set()
        go_on.wait(PATIENCE)
        return begin()

    def block() -> None:
        with locks.lock("x", ttl=ENDS, on_lost=losses) as lease:
            monkeypatch.setattr(store_of(locks), "begin", hang)
            until(hanging.is_set)
            until(lambda: losses)
            assert lease.lost == "not renewed in time"
            go_on.set()

    with pytest.raises(LeaseLost, match="not renewed in time"):
        block()
    assert losses == ["not renewed in time"]


def test_a_release_that_fails(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    def block(error: Exception | None) -> None:
        with locks.lock("x", ttl=60):
            monkeypatch.setattr(store_of(locks), "begin", unreachable)
            if error is not None:
                raise error

    with pytest.raises(ValueError, match="the body's own") as caught:
        block(ValueError("the body's own"))
    assert "could not be released" in caught.value.__notes__[0]
    assert "nobody answers" in caught.value.__notes__[0]
    monkeypatch.undo()
    locks.force_release("x", by="ops", reason="again")
    with pytest.raises(Unreachable) as told:
        block(None)
    assert "will expire by itself" in told.value.__notes__[0]


def test_locks_that_are_closed_too_early(url: str) -> None:
    losses = Losses()

    def block() -> None:
        locks = leasehold.connect(url)
        with locks.lock("x", ttl=TTL, on_lost=losses):
            locks.close()
            until(lambda: losses)

    with pytest.raises(LeaseLost, match="cannot be renewed") as caught:
        block()
    assert isinstance(caught.value.__cause__, Closed)
    locks = leasehold.connect(url)
    with pytest.raises(Closed), locks.lock("y", ttl=60):
        locks.close()


# ---------------------------------------------------------------------------------------------- who is told


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_an_on_lost_that_fails_is_reported_and_the_others_are_told(
    locks: Locks, ops: Locks, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    losses = Losses()

    def broken(reason: str) -> None:
        raise kind(reason)

    with ExitStack() as stack:
        stack.enter_context(pytest.raises(LeaseLost))
        stack.enter_context(locks.lock("x", ttl=TTL, on_lost=broken))
        stack.enter_context(pytest.raises(LeaseLost))
        stack.enter_context(locks.lock("y", ttl=TTL, on_lost=losses))
        ops.force_release("x", by="ops", reason="hotfix")
        until(lambda: reported)
        ops.force_release("y", by="ops", reason="hotfix")
        until(lambda: losses)
    assert [each.exc_type for each in reported] == [kind]


def test_the_end_of_the_block_waits_for_on_lost(locks: Locks, ops: Locks) -> None:
    begun, left = threading.Event(), threading.Event()
    too_early: list[bool] = []

    def slow(_reason: str) -> None:
        begun.set()
        (kept,) = locks._keepers[os.getpid()]._kept
        until(lambda: kept.is_leaving)
        too_early.append(left.wait(0.1))

    def body() -> None:
        with locks.lock("x", ttl=TTL, on_lost=slow):
            ops.force_release("x", by="ops", reason="hotfix")
            until(begun.is_set)

    with pytest.raises(LeaseLost):
        body()
    left.set()
    assert too_early == [False]


def test_on_lost_may_leave_the_block_itself(locks: Locks, ops: Locks) -> None:
    """From the thread that tells of losses: it must not wait for itself."""
    stack = ExitStack()
    raised: list[BaseException] = []

    def leave(_reason: str) -> None:
        try:
            stack.close()
        except LeaseLost as error:
            raised.append(error)

    stack.enter_context(locks.lock("x", ttl=TTL, on_lost=leave))
    ops.force_release("x", by="ops", reason="hotfix")
    until(lambda: raised)
