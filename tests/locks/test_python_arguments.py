"""What Python code may pass: times of the standard library, what was granted, nothing where there is a default."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain.api_keys import Key
from leasehold.domain.events import Event
from leasehold.domain.graph import Edge, Graph
from leasehold.domain.leases import Blocker, Inspection, Lease, Waiting
from leasehold.domain.outcomes import Granted, Held, Released, Renewed, TimedOut, Updated
from leasehold.domain.sessions import Session, SessionStarted
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput, LeaseLost, NotAcquired
from leasehold.locks import arguments
from leasehold.testing.conformance.asking import Asking, expect
from tests.kit.holders import last_end, until

if TYPE_CHECKING:
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks
    from tests.kit.holders import Run

MINUTE = 60 * SECOND


def taken(locks: Locks, name: str = "job", **more: Any) -> Granted:
    return expect(Granted, locks.acquire(name, **{"ttl": 60, **more}))


# ---------------------------------------------------------------------------------------------- times


def test_a_timedelta_is_a_duration(locks: Locks) -> None:
    granted = taken(locks, ttl=timedelta(minutes=5), wait=timedelta(0), grace=timedelta(milliseconds=1500))
    assert granted.lease.ttl_us == 5 * MINUTE
    renewed = expect(Renewed, locks.renew(granted, ttl=timedelta(minutes=7, microseconds=1)))
    assert renewed.lease.ttl_us == 7 * MINUTE + 1
    session = expect(SessionStarted, locks.start_session(ttl=timedelta(hours=1)))
    assert session.session.ttl_us == 60 * MINUTE


def test_a_datetime_is_the_time_until_then(locks: Locks, ops: Locks) -> None:
    granted = taken(locks, ttl=datetime.now(UTC) + timedelta(minutes=5))
    assert 4 * MINUTE < granted.lease.ttl_us <= 5 * MINUTE
    over = datetime.now(UTC) - timedelta(seconds=1)
    assert isinstance(ops.acquire("job", ttl=60, wait=over), TimedOut | Held), "it is too late to wait"
    with pytest.raises(InvalidInput, match=r"ttl: .* is over"):
        locks.acquire("other", ttl=over)


@pytest.mark.parametrize("field", ["ttl", "wait", "grace"])
def test_a_datetime_needs_a_time_zone(locks: Locks, field: str) -> None:
    naive: Any = (datetime.now(UTC) + timedelta(minutes=1)).replace(tzinfo=None)
    with pytest.raises(InvalidInput, match=f"{field}: .* no time zone"):
        taken(locks, **{field: naive})


def test_the_history_since_a_datetime(locks: Locks) -> None:
    taken(locks)
    now = datetime.now(UTC)
    assert len(expect(tuple, locks.history(since=now - timedelta(hours=1)))) == 1
    assert locks.history(since=now + timedelta(hours=1)) == ()
    with pytest.raises(InvalidInput, match="since: "):
        locks.history(since=now.replace(tzinfo=None))


@pytest.mark.parametrize("span", [timedelta(seconds=-1), timedelta(0), timedelta(days=-1)])
def test_a_ttl_is_never_nothing(locks: Locks, span: timedelta) -> None:
    with pytest.raises(InvalidInput, match="ttl: "):
        locks.acquire("job", ttl=span)


def test_times_in_answers_are_of_the_standard_library(locks: Locks, ops: Locks) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    lease = taken(locks, ttl="90s").lease
    assert lease.ttl == timedelta(seconds=90)
    assert before < lease.acquired_at < datetime.now(UTC) + timedelta(seconds=5)
    assert lease.expires_at - lease.acquired_at == lease.ttl
    assert lease.as_of == lease.acquired_at
    held = expect(Held, ops.acquire("job", ttl=60))
    blocker = held.blockers[0]
    assert (blocker.since, blocker.until) == (lease.acquired_at, lease.expires_at)
    assert timedelta(0) < held.retry_after <= lease.ttl
    event = expect(tuple, locks.history(kinds=["granted"]))[0]
    assert event.at == lease.acquired_at
    seen = expect(leasehold.Inspection, locks.inspect("job"))
    assert seen.now >= seen.leases[0].acquired_at


def test_a_resource_that_is_quarantined_is_so_until_it_is_cleared(locks: Locks, ops: Locks) -> None:
    taken(locks, on_expiry="quarantine")
    ops.force_release("job", by="ops", reason="test")
    assert expect(Held, ops.acquire("job", ttl=60)).blockers[0].until is None


@pytest.mark.parametrize(
    "kind", [Lease, Blocker, Waiting, Inspection, Edge, Graph, Event, Held, TimedOut, Session, Key]
)
def test_each_time_in_microseconds_has_its_property(kind: Any) -> None:  # noqa: ANN401 (any noun)
    values = {field: 1_500_000 if field.endswith("_us") else None for field in kind._fields}
    shown = kind(**values)
    found = [name for name, each in vars(kind).items() if isinstance(each, property) and name[:3] not in ("is_", "val")]
    assert len(found) == sum(field.endswith("_us") for field in kind._fields) > 0
    for name in found:
        assert getattr(shown, name) in (datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC), timedelta(seconds=1.5))


# ----------------------------------------------------------------------------------------- what is held


def test_what_was_granted_stands_for_its_lease_and_token(locks: Locks) -> None:
    granted = taken(locks)
    assert isinstance(locks.renew(granted), Renewed)
    assert isinstance(locks.update(granted, context={"step": 2}), Updated)
    assert locks.release(granted)
    assert not locks.release(granted), "it is released once"


def test_a_lease_needs_its_token(locks: Locks) -> None:
    granted = taken(locks)
    with pytest.raises(TypeError):
        locks.release()  # type: ignore[call-arg]
    assert not locks.release(granted.lease, "another")
    assert locks.release(granted.lease, granted.token)


def test_a_token_or_session_that_is_given_is_what_counts(locks: Locks) -> None:
    session = expect(SessionStarted, locks.start_session(ttl=60)).secret
    granted = taken(locks, session=session)
    assert not locks.release(granted, "another")
    assert locks.renew(granted, session=session)
    assert locks.release(granted, session=session)


def test_what_a_block_holds_can_be_updated(locks: Locks) -> None:
    with locks.lock("job", ttl=60) as held:
        assert locks.update(held, context={"step": 2})


def test_a_refusal_stands_for_no_lease(locks: Locks, ops: Locks) -> None:
    taken(locks)
    held: Any = ops.acquire("job", ttl=60)
    for verb in (ops.release, ops.renew):
        with pytest.raises(InvalidInput, match=r"lease: .* not Held: test it first"):
            verb(held)
    with pytest.raises(InvalidInput, match=r"lease: .* not nothing"):
        ops.release(None)  # type: ignore[arg-type]


def test_coroutines_pass_the_same(run: Run) -> None:
    async def story(locks: AsyncLocks) -> None:
        granted = expect(Granted, await locks.acquire("job", ttl=timedelta(minutes=1), wait=False))
        assert await locks.renew(granted)
        assert await locks.update(granted, context={})
        assert await locks.release(granted)

    run(story)


# --------------------------------------------------------------------------------------------- for ever


def test_true_waits_for_ever(locks: Locks, ops: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks again after the longest wait of one request."""
    monkeypatch.setattr(arguments, "WAIT_AT_ONCE", 0.05)
    granted = taken(locks)
    waiting: Asking[object] = Asking(lambda: ops.acquire("job", ttl=60, wait=True))
    until(lambda: len(expect(tuple, locks.history(kinds=["timeout"]))) >= 3)
    assert not waiting.is_over
    assert locks.release(granted)
    assert isinstance(waiting.answer(), Granted)


def test_coroutines_wait_for_ever_too(run: Run, ops: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "WAIT_AT_ONCE", 0.05)
    granted = taken(ops)

    def release() -> None:
        until(lambda: len(expect(tuple, ops.history(kinds=["timeout"]))) >= 3)
        ops.release(granted)

    async def story(locks: AsyncLocks) -> None:
        releasing = threading.Thread(target=release)
        releasing.start()
        async with locks.lock("job", wait=True) as held:
            held.ensure()
        releasing.join()

    run(story)


def test_a_request_that_is_remembered_for_a_day_cannot_wait_for_ever(locks: Locks) -> None:
    with pytest.raises(InvalidInput, match="wait: "):
        locks.acquire("job", ttl=60, wait=True, request_id="r1")


# -------------------------------------------------------------------------------------------- lock objects


def test_a_lock_has_the_default_ttl(locks: Locks) -> None:
    with locks.lock("job") as held:
        assert held.lease.ttl_us == 30 * MINUTE


def test_the_default_ttl_is_as_configured(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TTL", "90s")
    with leasehold.connect(url) as locks:
        with locks.lock("job") as held:
            assert held.lease.ttl_us == 90 * SECOND

        @locks.guarded("other")
        def work() -> int:
            return leasehold.current_lease().lease.ttl_us

        assert work() == 90 * SECOND


def test_a_lock_without_a_block(locks: Locks, ops: Locks) -> None:
    lock = locks.lock("job", ttl=60)
    for _ in range(2):
        held = lock.acquire()
        assert not ops.acquire("job", ttl=60)
        held.ensure()
        with pytest.raises(RuntimeError, match="held already"):
            lock.acquire()
        lock.release()
        with pytest.raises(RuntimeError, match="not held"):
            lock.release()
        assert last_end(locks) == ("completed", None)


def test_a_lock_that_is_not_had_raises_and_can_be_tried_again(locks: Locks, ops: Locks) -> None:
    granted = taken(ops)
    lock = locks.lock("job", ttl=60)
    for _ in range(2):
        with pytest.raises(NotAcquired):
            lock.acquire()
    ops.release(granted)
    lock.acquire()
    lock.release()


def test_the_history_says_that_the_work_failed(locks: Locks) -> None:
    lock = locks.lock("job", ttl=60)
    lock.acquire()

    def work() -> None:
        try:
            _ = 1 // 0
        finally:
            lock.release()

    with pytest.raises(ZeroDivisionError):
        work()
    status, error = last_end(locks)
    assert status == "failed"
    assert "ZeroDivisionError" in str(error)


def test_the_release_of_a_lost_lease_raises(locks: Locks, ops: Locks) -> None:
    lock = locks.lock("job", ttl=60)
    lock.acquire()
    ops.force_release("job", by="ops", reason="test")
    with pytest.raises(LeaseLost):
        lock.release()


def test_two_threads_need_two_locks(locks: Locks) -> None:
    """The second is told so, also while the first still waits for its lease."""
    granted = taken(locks)
    lock = locks.lock("job", ttl=60, wait=60)
    first: Asking[object] = Asking(lock.acquire)
    until(lambda: expect(leasehold.Inspection, locks.inspect("job")).waiting)
    with pytest.raises(RuntimeError, match="held already"):
        lock.acquire()
    locks.release(granted)
    first.answer()
    lock.release()


def test_a_lock_without_a_block_for_coroutines(run: Run, ops: Locks) -> None:
    async def story(locks: AsyncLocks) -> None:
        lock = locks.lock("job", ttl=60)
        for _ in range(2):
            await lock.acquire()
            assert not ops.acquire("job", ttl=60)
            with pytest.raises(RuntimeError, match="held already"):
                await lock.acquire()
            await lock.release()
        with pytest.raises(RuntimeError, match="not held"):
            await lock.release()
        granted = taken(ops)
        with pytest.raises(NotAcquired):
            await lock.acquire()
        ops.release(granted)
        async with lock as held:
            held.ensure()

    run(story)


# ------------------------------------------------------------------------------------------- the rest


def test_a_bare_decorator_is_refused_when_it_is_written(locks: Locks, run: Run) -> None:
    with pytest.raises(TypeError, match=r"locks.guarded"):

        @locks.guarded  # type: ignore[arg-type]
        def work() -> None: ...

    async def story(locks: AsyncLocks) -> None:
        with pytest.raises(TypeError, match=r"locks.guarded"):

            @locks.guarded  # type: ignore[arg-type]
            async def work() -> None: ...

    run(story)


def test_dir_lists_the_public_names() -> None:
    listed = set(dir(leasehold))
    assert set(leasehold.__all__) <= listed
    assert not listed & {"TYPE_CHECKING", "annotations", "sys", "_MODULES", "_WHERE"}


def test_released_is_true_once(locks: Locks) -> None:
    granted = taken(locks)
    assert locks.release(granted) == Released(granted.lease.id, True, "completed", ("job",))
