"""Calls that tasks make at the same moment travel together: who goes along, who goes alone, and what may go wrong."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

import leasehold
from leasehold.client import deciding
from leasehold.client.batching import MOST
from leasehold.errors import Closed
from leasehold.testing.lending import free_port
from tests.kit.flaky import GOING_AWAY, HOLD, LOSE_ANSWER, LOSE_REQUEST, PASS, Line, flaky
from tests.kit.scripting import Script, answer, scripted
from tests.kit.serving import Running, serving, until_soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from leasehold import AsyncLocks

P = ParamSpec("P")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("gathering"), "--rate", "0") as running:
        assert running.get("leases").status == 200
        yield running


@pytest.fixture
def line(server: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.001)
    with flaky(server) as found:
        yield found


def run(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine."""

    @wraps(test)
    def ran(*args: P.args, **fixtures: P.kwargs) -> None:
        asyncio.run(test(*args, **fixtures))

    return ran


@asynccontextmanager
async def connected(url: str, holder: str = "ann") -> AsyncIterator[AsyncLocks]:
    async with await leasehold.aconnect(url, holder=holder) as locks:
        yield locks


def asked(line: Line | Script) -> list[tuple[str, Any]]:
    """The path and the body of each request."""
    found = []
    for request in line.requests:
        head, _, body = request.partition(b"\r\n\r\n")
        found.append((head.split()[1].decode(), json.loads(body) if body else None))
    return found


async def take(locks: AsyncLocks, name: str, **more: Any) -> leasehold.Granted:
    granted = await locks.acquire(name, ttl=60, **more)
    assert isinstance(granted, leasehold.Granted), granted
    return granted


@run
async def test_what_is_asked_at_once_travels_together(line: Line) -> None:
    async with connected(line.url) as locks:
        many = 2 * MOST
        granted = await asyncio.gather(*(take(locks, f"together {number}") for number in range(many)))
        assert [each.lease.resources for each in granted] == [(f"together {number}",) for number in range(many)]
        released = await asyncio.gather(*(locks.release(each.lease.id, each.token) for each in granted))
        assert all(isinstance(each, leasehold.Released) and each.released for each in released)
    paths = [path for path, _ in asked(line)]
    assert paths.count("/v1/batch") >= 4
    assert len(paths) <= 8
    assert all(len(body["calls"]) <= MOST for path, body in asked(line) if path == "/v1/batch")


@run
async def test_a_call_that_comes_alone_goes_alone(line: Line) -> None:
    async with connected(line.url) as locks:
        granted = await take(locks, "alone")
        await locks.renew(granted.lease.id, granted.token)
        await locks.release(granted.lease.id, granted.token)
    assert [path for path, _ in asked(line)] == ["/v1/acquire", "/v1/renew", "/v1/release"]


@run
async def test_a_call_that_waits_goes_alone(server: Running, line: Line) -> None:
    async with connected(line.url) as locks:
        await asyncio.gather(*(take(locks, f"waits-{number}", wait=60) for number in range(3)))
    assert [path for path, _ in asked(line) if path != "/healthz"] == ["/v1/acquire"] * 3
    async with connected(server.url, "bob") as others:
        waits = [asyncio.create_task(others.acquire("waits-0", ttl=60, wait=60)) for _ in range(3)]
        await until_soon(lambda: len(server.waiting("waits-0")) == 3)
        for wait in waits:
            wait.cancel()
        await until_soon(lambda: server.waiting("waits-0") == [])


@run
async def test_a_refusal_is_its_own_callers(line: Line) -> None:
    async with connected(line.url) as locks, connected(line.url, "bob") as others:
        held = await take(locks, "held by ann")
        calls = (
            others.acquire("held by ann", ttl=60),
            others.acquire("free", ttl=60),
            others.acquire("long", ttl="25h"),
        )
        _, refused, granted, wrong = await asyncio.gather(others.acquire("also free", ttl=60), *calls)
        assert isinstance(refused, leasehold.Held)
        assert refused.blockers[0].holder == "ann"
        assert isinstance(granted, leasehold.Granted)
        assert isinstance(wrong, leasehold.Refused)
        assert wrong.field == "ttl"
        await locks.release(held.lease.id, held.token)


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_ANSWER, GOING_AWAY])
@run
async def test_all_of_them_are_sent_again_and_granted_once(server: Running, line: Line, fault: str) -> None:
    async with connected(line.url) as locks:
        line.faults = [fault] * 3 + [PASS]
        granted = await asyncio.gather(*(take(locks, f"again {fault} {number}") for number in range(10)))
        assert len({each.lease.id for each in granted}) == 10
        held = server.get("leases?holder=ann").json["leases"]
        assert {each["id"] for each in held if "again" in each["resources"][0]} == {each.lease.id for each in granted}
        released = await asyncio.gather(*(locks.release(each.lease.id, each.token) for each in granted))
        assert all(isinstance(each, leasehold.Released) and each.released for each in released)


@run
async def test_one_that_is_cancelled_holds_nothing_and_the_others_do(server: Running, line: Line) -> None:
    async with connected(line.url) as locks:
        line.faults = [HOLD, HOLD]
        tasks = [asyncio.create_task(take(locks, f"cancelled-{number}")) for number in range(5)]
        await until_soon(lambda: server.holders("cancelled-3") == ["ann"])
        tasks[3].cancel()
        line.end_connections.set()
        granted = [await task for task in tasks if task is not tasks[3]]
        with pytest.raises(asyncio.CancelledError):
            await tasks[3]
        await until_soon(lambda: server.holders("cancelled-3") == [])
        assert [server.holders(f"cancelled-{number}") for number in (0, 1, 2, 4)] == [["ann"]] * 4
        for each in granted:
            await locks.release(each.lease.id, each.token)


@run
async def test_a_grant_of_a_cancelled_task_is_released_before_the_locks_are_closed(server: Running, line: Line) -> None:
    locks = await leasehold.aconnect(line.url, holder="ann")
    line.faults = [HOLD, HOLD]
    tasks = [asyncio.create_task(take(locks, f"left-{number}")) for number in range(3)]
    await until_soon(lambda: server.holders("left-1") == ["ann"])
    tasks[1].cancel()
    line.end_connections.set()
    while not locks._answers._undoing:  # type: ignore[attr-defined] # noqa: ASYNC110 (there is nothing to be told by)
        await asyncio.sleep(0)
    await locks.close()
    assert server.holders("left-1") == []
    assert isinstance(await tasks[2], leasehold.Granted)


@run
async def test_what_was_there_before_stays_when_asking_for_it_again_is_cancelled(server: Running, line: Line) -> None:
    async with connected(line.url) as locks:
        held = await take(locks, "mine")
        line.faults = [HOLD, HOLD]
        tasks = [
            asyncio.create_task(take(locks, name, reentrant=name == "mine", token=held.token))
            for name in ("other", "another", "mine")
        ]
        await until_soon(lambda: server.holders("another") == ["ann"])
        tasks[2].cancel()
        line.end_connections.set()
        await asyncio.gather(*tasks[:2])
        await until_soon(lambda: asked(line)[-1][0] == "/v1/cancel")
        await until_soon(lambda: not locks._answers._undoing)  # type: ignore[attr-defined]
        assert server.holders("mine") == ["ann"]
        assert isinstance(await locks.renew(held.lease.id, held.token), leasehold.Renewed)


@run
async def test_what_is_cancelled_before_it_was_sent_is_never_sent(line: Line) -> None:
    async with connected(line.url) as locks:
        tasks = [asyncio.create_task(take(locks, f"unsent-{number}")) for number in range(4)]
        await asyncio.sleep(0)  # all of them have asked, and nothing was sent but the first
        tasks[2].cancel()
        await asyncio.gather(*(task for task in tasks if task is not tasks[2]))
    assert not any("unsent-2" in json.dumps(body) for _, body in asked(line))


@run
async def test_a_caller_of_locks_that_are_closed_meanwhile_gets_an_error(line: Line) -> None:
    locks = await leasehold.aconnect(line.url, holder="ann")
    tasks = [asyncio.create_task(take(locks, f"closed-{number}")) for number in range(4)]
    await asyncio.sleep(0)
    await locks.close()
    for told in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(told, Closed)


@run
async def test_a_server_that_does_not_know_batches_is_asked_one_by_one() -> None:
    with scripted() as script:
        unknown = answer(b'{"code": "not_found", "detail": "no such route"}', b"HTTP/1.1 404 Not Found")
        yes = answer(b'{"lease": "l1", "released": true, "reason": "completed", "resources": []}')
        script.by_path = {"/v1/batch": unknown, "/v1/release": yes}
        async with connected(script.url) as locks:
            for _ in range(3):
                told = await asyncio.gather(*(locks.release(f"l{number}-{'0' * 32}", "x") for number in range(1, 6)))
                assert all(isinstance(each, leasehold.Released) for each in told)
        paths = [path for path, _ in asked(script)]
        assert (paths.count("/v1/batch"), paths.count("/v1/release")) == (1, 15)


@run
async def test_all_of_them_go_to_another_server_if_one_is_gone(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many find out at once, the next server is asked, and not the one after it."""
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.001)
    gone = free_port()
    async with connected(f"http://127.0.0.1:{gone},{server.url}") as locks:
        granted = await asyncio.gather(*(take(locks, f"fail over {number}") for number in range(8)))
        assert len(granted) == 8
        assert locks._answers._first == 1  # type: ignore[attr-defined]
