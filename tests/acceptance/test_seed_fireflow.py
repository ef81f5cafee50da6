"""FireFlow's page on `IFlowLockService`: its example and each sentence about its methods, on a store and a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypedDict

import pytest

from leasehold.flow import FlowLockService, SyncFlowLockService

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.serving import Running

LONG = 60_000


class Place(TypedDict):
    """Where the locks live: a space of its own for each test."""

    url: str
    space: str


@pytest.fixture(params=["embedded", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: Running) -> Place:
    url = f"sqlite:///{tmp_path / 'locks.db'}" if request.param == "embedded" else server.url
    return {"url": url, "space": tmp_path.name}


def test_the_example(place: Place) -> None:
    """`context.services?.flowLock`, acquire, check, try, finally release."""

    async def flow() -> list[str]:
        done: list[str] = []
        async with await FlowLockService.connect(**place) as flow_lock:
            context = {"services": {"flowLock": flow_lock}}
            lock_svc = context["services"]["flowLock"]
            got = await lock_svc.acquire("my-resource", 5000, 10000)
            assert got["acquired"] is True
            try:
                done.append("critical section")
            finally:
                assert await lock_svc.release("my-resource", got["lockId"]) == {"released": True}
        return done

    assert asyncio.run(flow()) == ["critical section"]


def test_the_example_for_plain_code(place: Place) -> None:
    with SyncFlowLockService.connect(**place) as service:
        got = service.acquire("my-resource", 5000, 10000)
        assert got.keys() == {"acquired", "lockId"}
        assert service.release("my-resource", got["lockId"]) == {"released": True}


def test_a_lock_is_released_by_itself_if_the_holder_crashes(place: Place) -> None:
    with SyncFlowLockService.connect(**place) as crashed, SyncFlowLockService.connect(**place) as other:
        lost = crashed.acquire("entity-7", 50, 0)
        got = other.acquire("entity-7", LONG, LONG)  # waits for the expiry, and for nothing else
        assert (lost["acquired"], got["acquired"]) == (True, True)
        # "{ released: false } if it had already expired … (not an error — idempotent)"
        assert crashed.release("entity-7", lost["lockId"]) == {"released": False}
        assert other.release("entity-7", got["lockId"]) == {"released": True}  # and the successor's was not touched
        assert other.release("entity-7", got["lockId"]) == {"released": False}


def test_a_wait_that_is_exceeded_is_not_acquired(place: Place) -> None:
    with SyncFlowLockService.connect(**place) as one, SyncFlowLockService.connect(**place) as two:
        one.acquire("/data/report.csv", LONG, 0)
        assert two.acquire("/data/report.csv", LONG, 50) == {"acquired": False, "lockId": ""}
        assert two.acquire("/data/report.csv", LONG, 0) == {"acquired": False, "lockId": ""}


def test_a_wait_ends_as_soon_as_the_lock_is_released(place: Place) -> None:
    """One service, as a flow engine has it: two flows of it exclude each other all the same."""

    async def flows() -> list[str]:
        order: list[str] = []
        async with await FlowLockService.connect(**place) as service:
            first = await service.acquire("k", LONG, 0)
            waiting = asyncio.create_task(service.acquire("k", LONG, LONG))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
            order.append("first")
            await service.release("k", first["lockId"])
            second = await waiting
            order.append("second")
            assert second["acquired"]
            await service.release("k", second["lockId"])
        return order

    assert asyncio.run(flows()) == ["first", "second"]


def test_an_id_does_not_release_another_holders_lock(place: Place) -> None:
    with SyncFlowLockService.connect(**place) as service:
        one, two = service.acquire("a", LONG, 0), service.acquire("b", LONG, 0)
        assert service.release("a", two["lockId"]) == {"released": False}
        assert service.release("b", one["lockId"]) == {"released": False}
        assert service.acquire("a", LONG, 0)["acquired"] is False
        assert service.release("a", one["lockId"]) == {"released": True}


@pytest.mark.parametrize("ttl", [0, -1, -5000, 10**12])
def test_a_ttl_is_required_and_never_0(place: Place, ttl: int) -> None:
    with SyncFlowLockService.connect(**place) as service:
        with pytest.raises(ValueError, match="lock_ttl_ms"):
            service.acquire("k", ttl, 0)
        assert service.acquire("k", LONG, 0)["acquired"]
