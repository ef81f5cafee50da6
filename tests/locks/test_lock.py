"""`with locks.lock(...)` on a real store: a block under a lease, no block without one, and forks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain.outcomes import Deadlock, Granted, Held, Refused, TimedOut
from leasehold.errors import InvalidInput, LeaseLost, NotAcquired
from leasehold.locks.holding import sync as holding
from leasehold.testing.conformance.asking import expect
from tests.kit.holders import TTL, Losses, events, give_back_later, last_end, until

if TYPE_CHECKING:
    from leasehold.locks.holding.held import HeldLease
    from leasehold.locks.sync import Locks


pytestmark = pytest.mark.usefixtures("eager")


# -------------------------------------------------------------------------------------------- the good way


def test_a_block_under_a_lease(locks: Locks, ops: Locks) -> None:
    with locks.lock("deploy://api", ttl="5m", name="release 7", context={"pr": 3}) as lease:
        assert lease.resources == ("deploy://api",)
        assert lease.fence == lease.lease.fence > 0
        assert lease.lease.name == "release 7"
        assert 0 < lease.remaining() < 300
        assert lease.lost is None
        lease.ensure()
        refused = ops.acquire("deploy://api", ttl=1)
        assert isinstance(refused, Held)
        assert refused.blockers[0].lease == lease.id
    assert isinstance(ops.acquire("deploy://api", ttl=1), Granted)
    assert last_end(locks) == ("completed", None)


def test_after_the_block_it_is_over(locks: Locks) -> None:
    with locks.lock("x", ttl=60) as lease:
        pass
    assert lease.lost == "released"
    assert lease.remaining() == 0
    with pytest.raises(LeaseLost, match="released"):
        lease.ensure()


def test_it_is_renewed_in_the_background(locks: Locks) -> None:
    with locks.lock("x", ttl=TTL) as lease:
        first = lease.lease.expires_us
        until(lambda: len(events(locks, "renewed")) >= 3)
        lease.ensure()
        assert lease.lease.expires_us > first
        assert lease.remaining() > 0
    assert last_end(locks) == ("completed", None)


def test_one_thread_renews_many(locks: Locks) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(locks.lock(f"part:{number}", ttl=TTL)) for number in range(20)]
        before = {lease.id: lease.lease.expires_us for lease in held}
        assert len(locks._keepers[os.getpid()]._threads) == 1, "and nobody wants to be told of losses"
        until(lambda: all(lease.lease.expires_us > before[lease.id] for lease in held))
    assert locks.list() == ()


def test_the_threads_go_when_there_is_nothing_to_do(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "LINGER", 0.01)
    for _ in range(3):
        with locks.lock("x", ttl=60, on_lost=Losses()):
            threads = list(locks._keepers[os.getpid()]._threads.values())
            assert len(threads) == 2
        for thread in threads:
            thread.join()


def test_a_grant_that_waited_was_renewed_before_the_block_begins(locks: Locks, ops: Locks) -> None:
    first = ops.acquire("x", ttl=600)
    assert isinstance(first, Granted)
    releasing = give_back_later(ops, first)
    with locks.lock("x", ttl=TTL, wait=600) as lease:
        releasing.join()
        lease.ensure()
        assert lease.fence > first.lease.fence
        assert events(locks, "renewed")[-1].lease == lease.id
    assert last_end(locks) == ("completed", None)


def test_a_lock_can_be_used_again_but_not_twice_at_once(locks: Locks) -> None:
    lock = locks.lock("x", ttl=60)
    with lock as first:
        with pytest.raises(RuntimeError, match="held already"):
            lock.__enter__()
        first.ensure()
    with lock as second:
        assert second.fence > first.fence
    with pytest.raises(RuntimeError, match="not held"):
        lock.__exit__(None, None, None)


def test_the_same_holder_again(locks: Locks, ops: Locks) -> None:
    with locks.lock("x", ttl=60) as outer:
        with locks.lock("x", ttl=60, reentrant=True, token=outer.token) as inner:
            assert inner.id == outer.id
        assert inner.lost == "released"
        outer.ensure()
        assert isinstance(ops.acquire("x", ttl=1), Held), "the inner block's end released nothing"
    assert isinstance(ops.acquire("x", ttl=1), Granted)


@pytest.mark.parametrize("step", ["before its renewal stops", "before the release", "after the release"])
def test_an_interrupt_while_the_block_is_left(
    locks: Locks, ops: Locks, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def released_and_interrupted(held: HeldLease, *_: object, **__: object) -> None:
        locks.release(held.id, held.token)
        raise KeyboardInterrupt

    steps = {
        "before its renewal stops": (holding.Keeper, "stop_keeping", interrupt),
        "before the release": (holding, "leave", interrupt),
        "after the release": (holding, "leave", released_and_interrupted),
    }
    losses = Losses()
    with pytest.raises(KeyboardInterrupt), locks.lock("x", ttl=TTL, on_lost=losses):
        monkeypatch.setattr(*steps[step])
    assert ops.list() == ()
    assert not holding.keeper_of(locks)._kept, "nobody renews it any more"
    assert losses == []


def test_an_interrupt_while_the_inner_of_two_blocks_is_left(
    locks: Locks, ops: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with locks.lock("x", ttl=TTL) as outer:
        with (
            monkeypatch.context() as patched,
            pytest.raises(KeyboardInterrupt),
            locks.lock("x", ttl=TTL, reentrant=True, token=outer.token),
        ):
            patched.setattr(holding, "leave", interrupt)
        outer.ensure()
        assert len(expect(tuple, ops.list())) == 1, "the outer block goes on"
    assert ops.list() == ()


def test_a_lock_that_cannot_be_kept_is_released(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with locks.lock("y", ttl=60):
        pass  # the engine has its thread now; the keeper will need a new one
    locks._keepers.clear()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            locks.lock("x", ttl=60).__enter__()
    assert last_end(locks) == ("cancelled", "never handed out: RuntimeError: can't start new thread")


# -------------------------------------------------------------------------------------------------- no lease


def refusal_of(locks: Locks, resource: str, **options: Any) -> NotAcquired:
    with pytest.raises(NotAcquired) as caught, locks.lock(resource, **options):
        raise AssertionError("the block must not run")
    return caught.value


def test_no_grant_no_block(locks: Locks, ops: Locks) -> None:
    with ops.lock("x", ttl=60, name="the release"):
        held = refusal_of(locks, "x", ttl=1)
        assert isinstance(held.outcome, Held)
        assert str(held).startswith("x is held by ops (the release)")
        late = refusal_of(locks, "x", ttl=1, wait=0.02)
        assert isinstance(late.outcome, TimedOut)
        assert str(late).endswith("the wait is over")


@pytest.mark.parametrize(("options", "field"), [({"ttl": "abc"}, "ttl"), ({"ttl": 1, "priority": "high"}, "priority")])
def test_a_bad_argument_raises_where_it_stands(locks: Locks, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        locks.lock("x", **options)
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        locks.guarded("x", **options)


def test_what_the_settings_forbid_is_a_refusal(locks: Locks) -> None:
    refused = refusal_of(locks, "x", ttl="25h")
    assert isinstance(refused.outcome, Refused)
    assert refused.outcome.field == "ttl"


def test_an_unknown_option_is_a_mistake(locks: Locks) -> None:
    options: dict[str, Any] = {"colour": "red"}
    with pytest.raises(TypeError, match="colour"), locks.lock("x", ttl=1, **options):
        raise AssertionError("the block must not run")


def test_errors_survive_pickling(locks: Locks, ops: Locks) -> None:
    with ops.lock("x", ttl=60):
        refused = refusal_of(locks, "x", ttl=1)
    deadlock = NotAcquired(Deadlock(("x",), ("a", "x", "b", "y")), "possible deadlock")
    for error in (refused, deadlock, LeaseLost("l1-00", "expired")):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert str(copy) == str(error)
        assert vars(copy) == vars(error)
        assert copy.code == error.code


def test_renewal_in_the_background_needs_an_engine_with_a_thread(url: str) -> None:
    with leasehold.connect(url, threaded=False) as locks:
        with pytest.raises(InvalidInput, match="threaded"):
            locks.lock("x", ttl=1).__enter__()
        assert locks.list() == ()


# ------------------------------------------------------------------------------------------------------ forks

FORK = """
import os, sys, leasehold

def in_child(block):
    child = os.fork()
    if child == 0:
        try:
            block()
        except BaseException as error:
            print(type(error).__name__, error, *getattr(error, "__notes__", ()), flush=True)
            os._exit(0)
        print("nothing was raised", flush=True)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0

locks = leasehold.connect(sys.argv[1], holder="a")
lock = locks.lock("x", ttl=60, on_lost=print)

def leave_by_exception():
    error = ValueError("the child's own")
    lock.__exit__(ValueError, error, None)
    raise error

with lock as lease:
    in_child(lease.ensure)
    in_child(lambda: print(lease.remaining(), lease.lost) or lock.__exit__(None, None, None))
    in_child(leave_by_exception)
    in_child(lambda: locks.lock("y", ttl=60).__enter__())
    lease.ensure()
    print("parent holds", [each.id for each in locks.list()] == [lease.id], flush=True)
print("parent released", locks.list() == (), flush=True)
locks.close()
"""


def test_a_fork_fails_loudly_and_leaves_the_parents_lease_alone(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    ensured, asked, left, raised, entered, holds, released = done.stdout.splitlines()
    assert ensured.startswith("LeaseLost")
    assert "forked" in ensured
    assert asked.startswith("0.0 this process was forked")
    assert left.startswith("LeaseLost")
    assert "forked" in left
    assert raised.startswith("ValueError the child's own the lease")
    assert entered.startswith("StoreError")
    assert "before a fork" in entered
    assert (holds, released) == ("parent holds True", "parent released True")
