"""The verbs for coroutines: the same signatures and answers as for plain code; who is cancelled holds nothing."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, TypeVar

import pytest

import leasehold
from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import Granted, Held, Lost, Refused, Released, Renewed
from leasehold.domain.sessions import SessionEnded, SessionStarted
from leasehold.errors import Closed, InvalidInput
from leasehold.locks.aio import AsyncLocks
from leasehold.locks.sync import Locks
from leasehold.testing.conformance.asking import (
    PATIENCE,
    at_once,
    expect,
    holders_of,
    leases_of,
    queue_of,
    release,
    take,
    until,
)
from tests.engine.rig import until_so

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from leasehold.domain.leases import Lease

R = TypeVar("R")


def verbs_of(kind: type) -> list[str]:
    """The public methods, those of its mixins included."""
    return [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]


VERBS = verbs_of(Locks)
WITH_TWINS = ("close", "lock", "lead", "guarded")
"""What is made for blocks and functions has a type of its own on each side."""


@pytest.fixture
def plain(url: str) -> Iterator[Locks]:
    with leasehold.connect(url, holder="plain") as locks:
        yield locks


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run it, but not for ever."""
    return asyncio.run(asyncio.wait_for(main, PATIENCE))


async def taken(locks: AsyncLocks, resource: str, **options: Any) -> Granted:
    return expect(Granted, await locks.acquire(resource, **{"ttl": 600, **options}))


async def in_queue(plain: Locks, resource: str, count: int) -> None:
    await until_so(lambda: len(queue_of(plain, resource)) == count, f"{count} in the queue")


class TestSignatures:
    def test_are_of_the_same_verbs(self) -> None:
        assert verbs_of(AsyncLocks) == VERBS
        assert {"acquire", "renew", "release", "inspect", "list", "history"} <= set(VERBS)

    @pytest.mark.parametrize("verb", VERBS)
    def test_take_the_same(self, verb: str) -> None:
        ours, theirs = (inspect.signature(getattr(kind, verb)) for kind in (Locks, AsyncLocks))
        assert list(ours.parameters) == list(theirs.parameters)
        for name, parameter in ours.parameters.items():
            twin = theirs.parameters[name]
            assert (parameter.kind, parameter.default) == (twin.kind, twin.default)
            assert parameter.annotation == twin.annotation

    @pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in WITH_TWINS])
    def test_give_the_same(self, verb: str) -> None:
        ours, theirs = getattr(Locks, verb), getattr(AsyncLocks, verb)
        assert inspect.signature(ours).return_annotation == inspect.signature(theirs).return_annotation
        assert inspect.iscoroutinefunction(theirs)
        assert not inspect.iscoroutinefunction(ours)

    def test_of_opening_are_the_same(self) -> None:
        ours = inspect.signature(leasehold.connect).parameters
        theirs = inspect.signature(leasehold.aconnect).parameters
        assert {name: ours[name] for name in theirs} == dict(theirs)
        assert ours.keys() - theirs.keys() == {"threaded", "progress"}, "what is for callers that drive themselves"


class TestVerbs:
    def test_of_a_lease(self, url: str) -> None:
        async def main() -> None:
            async with await leasehold.aconnect(url, holder="alice") as locks:
                granted = await taken(locks, "r", context={"a": 1})
                expect(Held, await locks.acquire("r", ttl=60))
                expect(Renewed, await locks.renew(granted.lease.id, granted.token))
                await locks.update(granted.lease.id, granted.token, context={"b": 2}, merge=True)
                seen = expect(Inspection, await locks.inspect("r"))
                assert [lease.context for lease in seen.leases] == ['{"a":1,"b":2}']
                assert len(expect(tuple, await locks.list())) == 1
                assert expect(Released, await locks.release(granted.lease.id, granted.token)).released
                kinds = [event.kind for event in expect(tuple, await locks.history())]
                assert kinds == ["released", "updated", "renewed", "refused", "granted"]

        run(main())

    def test_of_sessions_and_admins(self, url: str) -> None:
        async def main() -> None:
            async with await leasehold.aconnect(url, holder="alice", space="x") as locks:
                secret = expect(SessionStarted, await locks.start_session(ttl=600)).secret
                granted = await taken(locks, "a", session=secret)
                await locks.renew_session(secret)
                stolen = expect(Granted, await locks.steal("a", ttl=60, by="ops", reason="test"))
                expect(Lost, await locks.renew(granted.lease.id, granted.token))
                assert expect(Released, await locks.force_release(stolen.lease.id, by="ops", reason="test")).released
                assert expect(SessionEnded, await locks.end_session(secret)).ended
                await locks.cancel("q")
                await locks.clear("a", by="ops", reason="test")

        run(main())

    def test_refuse_bad_input(self, url: str) -> None:
        async def main() -> None:
            async with await leasehold.aconnect(url) as locks:
                with pytest.raises(InvalidInput, match="resource: "):
                    await locks.acquire("", ttl=60)
                with pytest.raises(InvalidInput, match="resource: "):
                    await locks.inspect(" x")
                with pytest.raises(InvalidInput, match="lease: "):
                    await locks.renew("no lease", "token")

        run(main())


class TestTasks:
    def test_64_take_turns(self, url: str) -> None:
        inside: list[int] = []
        served: list[int] = []

        async def work(locks: AsyncLocks, number: int) -> None:
            granted = await taken(locks, "r", wait=600, holder=f"task {number}")
            inside.append(number)
            await asyncio.sleep(0)
            assert inside == [number]
            inside.remove(number)
            served.append(granted.lease.fence)
            await locks.release(granted.lease.id, granted.token)

        async def main() -> None:
            async with await leasehold.aconnect(url) as locks:
                await asyncio.gather(*(work(locks, number) for number in range(64)))
                assert await locks.list() == ()

        run(main())
        assert len(served) == 64
        assert served == sorted(served)

    def test_64_on_resources_of_their_own(self, url: str) -> None:
        async def main() -> None:
            async with await leasehold.aconnect(url) as locks:
                leases = await asyncio.gather(*(taken(locks, f"r{number}") for number in range(64)))
                assert len({granted.lease.fence for granted in leases}) == 64
                assert len(expect(tuple, await locks.list())) == 64

        run(main())

    def test_that_are_cancelled_leave_the_queue_and_hold_nothing(self, url: str, plain: Locks) -> None:
        async def main() -> None:
            async with await leasehold.aconnect(url, holder="task") as locks:
                held = take(plain, "r")
                waiting = [asyncio.ensure_future(locks.acquire("r", ttl=600, wait=600)) for _ in range(3)]
                await in_queue(plain, "r", 3)
                waiting[1].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting[1]
                await in_queue(plain, "r", 2)
                release(plain, held)
                for task in (waiting[0], waiting[2]):
                    granted = expect(Granted, await task)
                    await locks.release(granted.lease.id, granted.token)
                assert leases_of(plain) == ()

        run(main())

    def test_that_are_cancelled_whenever_hold_nothing(self, url: str, plain: Locks) -> None:
        async def main() -> None:
            async with await leasehold.aconnect(url, holder="task") as locks:
                for number in range(40):
                    task = asyncio.ensure_future(locks.acquire("r", ttl=600, wait=600))
                    for _ in range(number % 8):
                        await asyncio.sleep(0.0002 * (number % 5))
                    if task.done():
                        granted = expect(Granted, task.result())
                        await locks.release(granted.lease.id, granted.token)
                        continue
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                await until_so(lambda: leases_of(plain) == () and queue_of(plain, "r") == [], "nothing is left")

        run(main())

    def test_that_time_out_by_their_own_clock_hold_nothing(self, url: str, plain: Locks) -> None:
        async def main() -> None:
            async with await leasehold.aconnect(url, holder="task") as locks:
                held = take(plain, "r")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(locks.acquire("r", ttl=600, wait=600), 0.05)
                await in_queue(plain, "r", 0)
                release(plain, held)
                assert leases_of(plain) == ()

        run(main())


class TestClosing:
    def test_answers_everybody_who_waits(self, url: str, plain: Locks) -> None:
        async def main() -> None:
            locks = await leasehold.aconnect(url, holder="task")
            take(plain, "r")
            waiting = [asyncio.ensure_future(locks.acquire("r", ttl=600, wait=600)) for _ in range(5)]
            await in_queue(plain, "r", 5)
            await locks.close()
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(answer) for answer in answers] == [Closed] * 5
            with pytest.raises(Closed):
                await locks.acquire("other", ttl=60)
            await locks.close()

        run(main())
        assert queue_of(plain, "r") == []

    def test_of_the_loop_while_a_caller_waits_leaves_nothing(self, url: str, plain: Locks) -> None:
        opened: list[AsyncLocks] = []
        waiting: list[asyncio.Future[object]] = []
        held = take(plain, "r")

        async def main() -> None:
            opened.append(await leasehold.aconnect(url, holder="task"))
            waiting.append(asyncio.ensure_future(opened[0].acquire("r", ttl=600, wait=600)))
            await in_queue(plain, "r", 1)

        run(main())  # cancels what is still running, and closes the loop
        assert waiting[0].cancelled()
        until(lambda: queue_of(plain, "r") == [], "nobody waits any more")
        release(plain, held)
        assert leases_of(plain) == ()

        async def close() -> None:
            await opened[0].close()

        run(close())

    def test_of_the_loop_before_the_answer_gives_the_lease_back(self, url: str, plain: Locks) -> None:
        held = take(plain, "r")
        loop = asyncio.new_event_loop()
        locks = loop.run_until_complete(leasehold.aconnect(url, holder="task"))
        task = loop.create_task(locks.acquire("r", ttl=600, wait=600))
        loop.run_until_complete(in_queue(plain, "r", 1))
        loop.set_exception_handler(lambda _loop, _context: None)  # it complains of the task that it leaves behind
        loop.close()
        release(plain, held)
        until(lambda: leases_of(plain) == () and queue_of(plain, "r") == [], "nobody is left to hold it")
        assert not task.done()
        release(plain, take(plain, "r"))
        run(locks.close())


class TestAnotherLoop:
    def test_goes_on_where_one_has_ended(self, url: str, plain: Locks) -> None:
        async def story(resource: str) -> None:
            expect(Granted, await locks.acquire(resource, ttl=600))
            assert resource in [lease.resources[0] for lease in await all_of(locks)]
            async with locks.lock("block", ttl=600) as lease:
                lease.ensure()

        locks = run(leasehold.aconnect(url, holder="task"))
        for resource in ("first", "second", "third"):
            run(story(resource))
        run(locks.close())
        assert len(leases_of(plain)) == 3

    def test_goes_on_where_one_has_ended_with_answers_under_way(self, url: str, plain: Locks) -> None:
        loop = asyncio.new_event_loop()
        locks = loop.run_until_complete(leasehold.aconnect(url, holder="task"))
        asking = [loop.create_task(locks.acquire(f"r{place}", ttl=600)) for place in range(20)]
        loop.run_until_complete(asyncio.sleep(0))
        until(lambda: len(leases_of(plain)) == len(asking), "all are granted, and the loop does not look")
        loop.set_exception_handler(lambda _loop, _context: None)  # it complains of the tasks that it leaves behind
        loop.close()
        expect(Granted, run(locks.acquire("other", ttl=600)))
        until(lambda: len(leases_of(plain)) == 1, "what nobody heard of was given back")
        run(locks.close())


async def all_of(locks: AsyncLocks) -> tuple[Lease, ...]:
    leases = await locks.list()
    assert not isinstance(leases, Refused)
    return leases


class TestTogether:
    def test_threads_and_tasks_on_one_database(self, url: str, plain: Locks) -> None:
        inside: list[str] = []

        def thread(name: str) -> int:
            for _ in range(10):
                granted = expect(Granted, plain.acquire("r", ttl=600, wait=600, holder=name))
                inside.append(name)
                assert inside == [name]
                inside.remove(name)
                release(plain, granted)
            return 10

        async def task(locks: AsyncLocks, name: str) -> None:
            for _ in range(10):
                granted = await taken(locks, "r", wait=600, holder=name)
                inside.append(name)
                assert inside == [name]
                inside.remove(name)
                await locks.release(granted.lease.id, granted.token)

        async def main() -> None:
            async with await leasehold.aconnect(url) as locks:
                await asyncio.gather(*(task(locks, f"task {number}") for number in range(8)))

        def loop() -> int:
            run(main())
            return 80

        names = [f"thread {number}" for number in range(4)]
        assert sum(at_once(lambda name: thread(name) if name else loop(), ["", *names])) == 120
        assert holders_of(plain, "r") == []


@pytest.mark.parametrize(("field", "value"), [("ttl", [60]), ("holder", {"a": 1}), ("slots", True), ("slots", 1.0)])
def test_what_was_right_before_is_checked_again_if_it_only_looks_the_same(url: str, field: str, value: object) -> None:
    options: dict[str, Any] = {"ttl": 60, field: value}

    async def main() -> None:
        async with await leasehold.aconnect(url, holder="h") as locks:
            for number in range(3):
                await taken(locks, f"job-{number}", slots=1)
            with pytest.raises(InvalidInput) as caught:
                await locks.acquire("other", **options)
            assert caught.value.field == field

    run(main())
