"""The flow lock service at its edges: any string is a key, steps in other processes, circles of flows, bad input."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leasehold
from leasehold import flow
from leasehold.compat import fireflow
from leasehold.domain import names
from leasehold.errors import InvalidInput
from leasehold.flow import FlowLockService, SyncFlowLockService, flow_lock, sync_flow_lock
from tests.kit.serving import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = 60_000
KEYS = [
    "my-resource",
    " ",
    "a ",
    "a\nb",
    "\x00",
    "'; DROP TABLE lease; --",
    'a"b',
    "path:src",
    "repo:all",
    "PATH:src",
    "../../etc/passwd",
    "%41",
    "\n",
    "%%0A",  # as the one before it is escaped
    "//Host/x",
    "//host/x",
    "#x",
    "A",
    "a",
    "é",
    "e\u0301",
    "\ud800",
    "x" * 505,
    "x" * 5000,
    "x" * 5001,
    "y" * 505 + " ",
    "\n" * 300,
    "\n" * 301,
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'locks.db'}"


@pytest.fixture
def service(url: str) -> Iterator[SyncFlowLockService]:
    with SyncFlowLockService.connect(url) as service:
        yield service


def test_any_string_is_a_key_and_no_two_meet(service: SyncFlowLockService) -> None:
    got = {key: service.acquire(key, LONG, 0) for key in KEYS}
    assert all(each["acquired"] for each in got.values())  # `path:src` and `repo:all` do not overlap here
    assert not any(service.acquire(key, LONG, 0)["acquired"] for key in KEYS)
    for key, each in got.items():
        assert service.release(key, each["lockId"]) == {"released": True}, key


@settings(max_examples=200)
@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_names_are_names_and_differ_as_keys_do(one: str, two: str) -> None:
    assert names.parse(fireflow.name_of(one)) == fireflow.name_of(one)
    assert (fireflow.name_of(one) == fireflow.name_of(two)) == (one == two)


def test_a_key_is_seen_as_it_is_where_it_can_be(service: SyncFlowLockService, url: str) -> None:
    service.acquire("/data/report.csv", LONG, 0)
    with leasehold.connect(url) as locks:
        listed = locks.list()
        assert not isinstance(listed, leasehold.Refused)
        assert [lease.resources for lease in listed] == [("flow:/data/report.csv",)]


@pytest.mark.parametrize("value", ["abc", "5000", None, True, float("nan"), float("inf"), [], -0.5])
def test_what_is_no_time_is_refused(service: SyncFlowLockService, value: Any) -> None:  # noqa: ANN401 (bad on purpose)
    with pytest.raises(InvalidInput) as refused:
        service.acquire("k", value, 0)
    assert refused.value.field == "lock_ttl_ms"
    with pytest.raises(InvalidInput) as refused:
        service.acquire("k", LONG, value)
    assert refused.value.field == "wait_timeout_ms"


def test_an_empty_key_is_refused(service: SyncFlowLockService) -> None:
    with pytest.raises(InvalidInput, match="lock_key: must not be empty"):
        service.acquire("", LONG, 0)
    with pytest.raises(InvalidInput, match="lock_key: must not be empty"):
        service.release("", "x")


@pytest.mark.parametrize("kind", [FlowLockService, SyncFlowLockService])
def test_a_url_in_the_place_of_locks_is_refused(kind: Any) -> None:  # noqa: ANN401 (either class)
    with pytest.raises(InvalidInput, match=rf"not a URL: write {kind.__name__}.connect\(url\)"):
        kind("sqlite:///x.db")


@pytest.mark.parametrize("key", [None, 7, b"k", ["k"]])
def test_what_is_no_text_is_no_key(service: SyncFlowLockService, key: Any) -> None:  # noqa: ANN401 (bad on purpose)
    with pytest.raises(InvalidInput, match="lock_key"):
        service.acquire(key, LONG, 0)


@pytest.mark.parametrize("lock_id", ["", "x", "l1", "l1-0.x.y", "..", None, 7, "l1-" + "0" * 32 + ".t.m"])
def test_what_is_no_id_releases_nothing(service: SyncFlowLockService, lock_id: Any) -> None:  # noqa: ANN401
    assert service.release("k", lock_id) == {"released": False}


def test_a_wrong_token_releases_nothing(service: SyncFlowLockService) -> None:
    got = service.acquire("k", LONG, 0)
    lease, _, mark = got["lockId"].split(".")
    assert service.release("k", f"{lease}.{'0' * 32}.{mark}") == {"released": False}
    assert service.acquire("k", LONG, 0)["acquired"] is False


def waiters(url: str, resource: str) -> int:
    with leasehold.connect(url) as locks:
        seen = locks.inspect(resource)
        assert isinstance(seen, leasehold.Inspection)
        return len(seen.waiting)


def test_flows_in_a_circle_are_told_at_once(url: str) -> None:
    async def flows() -> list[bool]:
        async with await FlowLockService.connect(url) as service:
            one, two = service.of("flow-1"), service.of("flow-2")
            held = await one.acquire("a", LONG, 0)
            await two.acquire("b", LONG, 0)
            waiting = asyncio.create_task(one.acquire("b", LONG, 5_000_000))
            await asyncio.to_thread(until, lambda: waiters(url, "flow:b"))
            second = await two.acquire("a", LONG, 5_000_000)  # whose end nobody would wait for
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert (await one.release("a", held["lockId"]))["released"]
            return [second["acquired"]]

    assert asyncio.run(flows()) == [False]


def test_a_cancelled_task_holds_nothing(url: str) -> None:
    async def cancelled() -> bool:
        async with await FlowLockService.connect(url) as service:
            held = await service.acquire("k", LONG, 0)
            waiting = asyncio.create_task(service.acquire("k", LONG, LONG))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await service.release("k", held["lockId"])
            return (await service.acquire("k", LONG, LONG))["acquired"]

    assert asyncio.run(cancelled())


# ------------------------------------------------------------------------------------------ separate steps


def test_two_steps_of_a_flow(url: str) -> None:
    async def steps() -> None:
        async with await FlowLockService.connect(url) as service:
            context: dict[str, Any] = {"services": {"flowLock": service}}
            await flow_lock(context).acquire("k", LONG, 0)
            stored = json.dumps(context["flowLocks"])  # a flow may be stored between its steps
            later: dict[str, Any] = {"services": {"flowLock": service}, "flowLocks": json.loads(stored)}
            with pytest.raises(TimeoutError, match="'k'"):
                await flow_lock(context).acquire("k", LONG, 0)
            assert await flow_lock(later).release("k") is True
            assert await flow_lock(later).release("k") is False
            assert later["flowLocks"] == {}

    asyncio.run(steps())


def test_two_steps_in_two_processes(url: str) -> None:
    with SyncFlowLockService.connect(url) as service:
        context: dict[str, Any] = {"services": {"flowLock": service}}
        sync_flow_lock(context).acquire("k", LONG, 0)
        kept = json.loads(json.dumps(context["flowLocks"]))
    with SyncFlowLockService.connect(url) as service:
        later = {"services": {"flowLock": service}, "flowLocks": kept}
        assert sync_flow_lock(later).release("k") is True
        assert sync_flow_lock({"services": {"flowLock": service}}).release("k") is False


def test_a_lost_lock_is_told_at_the_release(url: str) -> None:
    with SyncFlowLockService.connect(url) as service:
        context: dict[str, Any] = {"services": {"flowLock": service}}
        sync_flow_lock(context).acquire("k", 20, 0)
        assert service.acquire("k", LONG, LONG)["acquired"]
        assert sync_flow_lock(context).release("k") is False


@pytest.mark.parametrize("context", [{}, {"services": None}, {"services": {}}, {"services": {"flowLock": "x"}}])
def test_a_context_without_a_service_is_told(context: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="no lock service"):
        flow_lock(context)
    with pytest.raises(InvalidInput, match="no lock service"):
        sync_flow_lock(context)


def test_the_twins_have_the_same_signatures() -> None:
    for one, two in ((FlowLockService, SyncFlowLockService), (flow.FlowLock, flow.SyncFlowLock)):
        for name in ("acquire", "release"):
            assert inspect.signature(getattr(one, name)) == inspect.signature(getattr(two, name))
