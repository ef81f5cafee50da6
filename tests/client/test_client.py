"""The clients of a server, plain and asynchronous: lost requests and answers, busy servers, fail-over, TLS."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import socket
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pytest

import leasehold
from leasehold.client import deciding
from leasehold.client.deciding import KEPT_OPEN, RETRY_AFTER_MOST, SLACK, TRIES, NotSent, PendingCall, Resend
from leasehold.client.encoding import request
from leasehold.domain.outcomes import Granted
from leasehold.errors import Closed, OutcomeUnknown, Unreachable
from leasehold.requests.calls import Call
from leasehold.server.api.decoding import decode, decode_query
from leasehold.server.api.requests import Body
from leasehold.server.api.routes import ROUTES, Route
from leasehold.testing.lending import free_port
from tests.kit.flaky import (
    BUSY,
    CUT_ANSWER,
    GARBLE_ANSWER,
    GOING_AWAY,
    LOSE_ANSWER,
    LOSE_REQUEST,
    NOBODY_BEHIND,
    PASS,
    Line,
    flaky,
)
from tests.kit.scripting import answer, scripted
from tests.kit.serving import Running, serving, until
from tests.server.test_conformance import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VERBS = [name for name, _ in inspect.getmembers(leasehold.Locks, inspect.isfunction)]
UNSENT = {"plan": ("firm", "wait")}
"""Arguments that no server gets: they make an acquire of a plan before it is sent."""
OF_A_VERB: dict[str, dict[str, Any]] = {"declare_pool": {"resource": "pool://gpu", "members": ("gpu-1", "gpu-2 a100")}}


@pytest.fixture
def line(server: Running) -> Iterator[Line]:
    with flaky(server) as found:
        yield found


@pytest.fixture(params=[leasehold.connect, Awaited], ids=["plain", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Any]]:
    opened: list[Any] = []

    def connect(url: str) -> Any:  # noqa: ANN401 (either kind of locks)
        opened.append(request.param(url, holder="ann"))
        return opened[-1]

    yield connect
    for locks in opened:
        locks.close()


def test_one_connection_is_kept(line: Line, connect: Callable[[str], Any]) -> None:
    locks = connect(line.url)
    for _ in range(5):
        assert locks.list(holder="nobody") == ()
    assert line.connections == 1


@pytest.mark.parametrize("verb", [route for route in ROUTES if route.verb in VERBS], ids=lambda route: route.verb)
def test_whatever_a_verb_can_say_the_server_understands(verb: Route) -> None:
    """Each argument of each verb, by the name that the body has for it."""
    numbers = {"ttl": 60, "wait": 1, "grace": 1, "slots": 1, "priority": 1, "limit": 5}
    numbers |= {"since": 1, "before": 7, "overlap": 60}
    words = {
        "mode": "exclusive",
        "on_expiry": "quarantine",
        "status": "failed",
        "role": "agent",
        "session": "s1.secret",
    }
    flags = {"any_of": False, "reentrant": True, "intent": True, "merge": True}
    others = {"lease": f"l1-{'0' * 32}", "key": "0" * 16, "prefixes": ("path:",), "kinds": ("granted",), "context": {}}
    said: dict[str, Any] = {**numbers, **words, **flags, **others, **OF_A_VERB.get(verb.verb, {})}
    names = [name for name in inspect.signature(getattr(leasehold.Locks, verb.verb)).parameters if name != "self"]
    names = [name for name in names if name not in UNSENT.get(verb.verb, ())]
    asked = request(Call(verb.verb, {name: said.get(name, "text") for name in names}))
    assert (asked.method, asked.path.partition("?")[0]) == (verb.method, verb.path)
    if issubclass(verb.takes, Body):
        decode(verb.takes, json.dumps(asked.body).encode(), "application/json")
    else:
        decode_query(verb.takes, parse_qsl(asked.path.partition("?")[2]))


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_ANSWER, BUSY, GOING_AWAY])
def test_an_acquire_is_sent_again_and_granted_once(
    server: Running, line: Line, connect: Callable[[str], Any], fault: str
) -> None:
    """By its request_id: also where the first was granted, and nobody heard of it."""
    locks = connect(line.url)
    line.faults = [fault, fault, PASS]
    name = f"again {fault} {type(locks).__name__}"
    granted = locks.acquire(name, ttl=60)
    assert isinstance(granted, leasehold.Granted)
    ids = {json.loads(request.partition(b"\r\n\r\n")[2])["request_id"] for request in line.requests}
    assert (len(line.requests), len(ids)) == (3, 1)
    assert [each["fence"] for each in server.get(f"leases?resource={name.replace(' ', '%20')}").json["leases"]] == [
        granted.lease.fence
    ]
    assert isinstance(locks.renew(granted.lease.id, granted.token), leasehold.Renewed)


def test_a_release_whose_answer_was_lost_was_ours(line: Line, connect: Callable[[str], Any]) -> None:
    locks = connect(line.url)
    granted = locks.acquire("given back", ttl=60)
    line.faults = [LOSE_ANSWER]
    assert locks.release(granted.lease.id, granted.token).released
    assert not locks.release(granted.lease.id, granted.token).released


def test_what_would_happen_twice_is_not_sent_twice(line: Line, connect: Callable[[str], Any]) -> None:
    locks = connect(line.url)
    assert locks.list(holder="nobody") == ()
    line.faults = [LOSE_ANSWER]
    before = len(line.requests)
    with pytest.raises(OutcomeUnknown, match="look whether it happened"):
        locks.steal("stolen", ttl=60, by="ops", reason="why")
    assert len(line.requests) == before + 1


def test_a_forced_release_is_not_sent_twice_unless_it_names_the_lease(
    line: Line, connect: Callable[[str], Any]
) -> None:
    locks = connect(line.url)
    granted = locks.acquire("to be forced", ttl=60)
    assert locks.list(holder="nobody") == ()
    line.faults = [LOSE_ANSWER]
    with pytest.raises(OutcomeUnknown, match="look whether it happened"):  # again, it would end the next one's lease
        locks.force_release("to be forced", by="ops", reason="why")
    assert isinstance(locks.renew(granted.lease.id, granted.token), leasehold.Lost)
    granted = locks.acquire("to be forced", ttl=60)
    line.faults = [LOSE_ANSWER]
    locks.force_release(granted.lease.id, by="ops", reason="why")
    assert isinstance(locks.renew(granted.lease.id, granted.token), leasehold.Lost)


def test_a_proxy_with_nobody_behind_it_is_passed_by(
    server: Running, line: Line, connect: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    line.faults = [NOBODY_BEHIND] * 10
    locks = connect(f"{line.url},{server.url}")
    granted = locks.acquire("behind a proxy", ttl=60)
    assert locks.release(granted.lease.id, granted.token).released
    assert len(line.requests) == 1
    with pytest.raises(Unreachable, match="a proxy answered 502 instead of the server"):
        connect(line.url).list()


@pytest.mark.parametrize("fault", [GARBLE_ANSWER, CUT_ANSWER, LOSE_ANSWER])
@pytest.mark.parametrize("wait", [0, 600])
def test_a_grant_that_cannot_be_read_is_given_up(
    server: Running, line: Line, connect: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, fault: str, wait: int
) -> None:
    """Nobody has its token: it would stay granted for its TTL. The server cannot know, as the line took it whole."""
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    locks = connect(line.url)
    assert locks.list(holder="nobody") == ()
    line.fault_of = lambda _: fault  # from now on, no answer can be read
    with pytest.raises(Unreachable):
        locks.acquire("garbled", ttl=3_600, wait=wait)
    assert line.requests[-1].startswith(b"POST /v1/cancel ")
    assert server.holders("garbled") == []


def test_several_grants_that_cannot_be_read_are_all_given_up(
    server: Running, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)

    cancelled: Counter[bytes] = Counter()

    def fault(request: bytes) -> str:
        """Garble each acquire, however they are sent, and the first attempt to cancel it."""
        path = request.split(b" ")[1]
        if path == b"/v1/batch":
            return GARBLE_ANSWER
        if path not in (b"/v1/acquire", b"/v1/cancel"):
            return PASS
        asked = json.loads(request.partition(b"\r\n\r\n")[2])["request_id"]
        cancelled[asked] += path == b"/v1/cancel"
        return GARBLE_ANSWER if cancelled[asked] < 2 else PASS

    async def ask() -> list[object]:
        async with await leasehold.aconnect(line.url, holder="ann") as locks:
            await locks.list(holder="nobody")
            line.fault_of = fault
            asked = (locks.acquire(f"b:{number}", ttl=3_600) for number in range(3))
            return list(await asyncio.gather(*asked, return_exceptions=True))

    assert all(isinstance(each, Unreachable) for each in asyncio.run(ask()))
    assert sorted(cancelled.values()) == [2, 2, 2]
    until(lambda: all(server.holders(f"b:{n}") == [] for n in range(3)))


def test_a_request_that_its_caller_can_name_is_left_to_the_caller(
    server: Running, line: Line, connect: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry with the same request_id must find its lease; a cancelled one would be refused for good."""
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    locks = connect(line.url)
    line.faults = [GARBLE_ANSWER] * (TRIES + 1)
    named = token_hex()
    with pytest.raises(Unreachable):
        locks.acquire("named", ttl=60, request_id=named)
    granted = locks.acquire("named", ttl=60, request_id=named)
    assert isinstance(granted, leasehold.Granted)
    assert locks.release(granted.lease.id, granted.token).released


def test_an_answer_to_something_else_is_none(connect: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    for told in (b"{}", b'{"lease": 1, "token": null}', b'{"lease": {"id": []}}'):
        with scripted() as script:
            script.by_path = {"/v1/acquire": answer(told), "/v1/cancel": answer(b'{"cancelled": true, "was": "held"}')}
            with pytest.raises(Unreachable, match="its answer to acquire cannot be understood"):
                connect(script.url).acquire("x", ttl=60)
            assert script.requests[-1].startswith(b"POST /v1/cancel ")


def test_nobody_there_is_told_after_some_tries(connect: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    port = free_port()
    locks = connect(f"http://127.0.0.1:{port}")
    with pytest.raises(Unreachable):
        locks.acquire("x", ttl=60)


def test_another_server_is_asked_if_one_is_gone(
    server: Running, line: Line, connect: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = free_port()
    locks = connect(f"http://127.0.0.1:{gone},{line.url},{server.url}")
    granted = locks.acquire(f"fail over {type(locks).__name__}", ttl=60)
    assert isinstance(granted, leasehold.Granted)
    assert len(line.requests) == 1
    line.faults = [GOING_AWAY]
    assert isinstance(locks.renew(granted.lease.id, granted.token), leasehold.Renewed)
    assert len(line.requests) == 2  # it said that it goes away: the third one answered
    assert isinstance(locks.renew(granted.lease.id, granted.token), leasehold.Renewed)
    assert len(line.requests) == 2  # and is the one that is asked from now on


def test_a_wait_goes_on_at_another_server(tmp_path: Any, connect: Callable[[str], Any]) -> None:  # noqa: ANN401
    """Two servers on one store; the one at which somebody waits ends, and the wait goes on at the other."""
    from leasehold.testing.conformance.asking import Asking

    with serving(tmp_path) as first, serving(tmp_path) as second:
        held = second.post("acquire", {"resources": "moved", "holder": "bob"}).json
        locks = connect(f"{first.url},{second.url}")
        asking = Asking(lambda: locks.acquire("moved", ttl=60, wait=600))
        until(lambda: second.waiting("moved") == ["ann"])
        assert first.stop() == 0
        until(lambda: second.waiting("moved") == ["ann"])
        second.post("release", {"lease": held["lease"]["id"], "token": held["token"]})
        assert isinstance(asking.answer(), leasehold.Granted)


def test_a_connection_that_the_server_closed_is_not_used(server: Running, connect: Callable[[str], Any]) -> None:
    with flaky(server) as line:
        locks = connect(line.url)
        assert locks.list(holder="nobody") == ()
        line.faults = [LOSE_REQUEST, PASS]
        assert locks.list(holder="nobody") == ()
        assert locks.list(holder="nobody") == ()
    assert line.connections == 2


def test_many_tasks_that_find_a_server_gone_ask_the_next_one(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many find out at once: the next one, and not the one after it."""
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.001)
    gone = free_port()

    async def all_at_once() -> None:
        async with await leasehold.aconnect(f"http://127.0.0.1:{gone},{server.url}", holder="ann") as locks:
            answers = await asyncio.gather(*(locks.acquire(f"at once {number}", ttl=60) for number in range(8)))
            assert all(isinstance(each, leasehold.Granted) for each in answers)
            assert locks._answers._first == 1  # type: ignore[attr-defined]

    asyncio.run(all_at_once())


def test_many_threads_that_find_a_server_gone_ask_the_next_one(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above. With two servers, the one after the next is the one that is gone."""
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.001)
    with ThreadPoolExecutor(2) as pool, socket.create_server(("127.0.0.1", 0)) as going:
        port = going.getsockname()[1]
        with leasehold.connect(f"http://127.0.0.1:{port},{server.url}", holder="ann") as locks:
            asked = [pool.submit(locks.acquire, f"by thread {number}", ttl=60) for number in range(2)]
            taken = [going.accept()[0] for _ in asked]
            going.close()
            for each in taken:
                each.recv(1)
                each.close()
            assert all(isinstance(each.result(), leasehold.Granted) for each in asked)
            assert locks._answers._first == 1  # type: ignore[attr-defined]


FORKING = {
    "plain": """
import os, sys, leasehold
locks = leasehold.connect(sys.argv[1], holder="ann")
locks.list()
child = os.fork()
locks.acquire("in the child" if child == 0 else "in the parent", ttl=60)
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
locks.close()
""",
    "async": """
import asyncio, os, sys, leasehold
with asyncio.Runner() as runner:
    locks = runner.run(leasehold.aconnect(sys.argv[1], holder="ann"))
    runner.run(locks.list())
    child = os.fork()
    if child == 0:
        asyncio.run(locks.acquire("in the child", ttl=60))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    runner.run(locks.acquire("in the parent", ttl=60))
    runner.run(locks.close())
""",
}


@pytest.mark.parametrize("kind", FORKING)
def test_a_forked_child_has_connections_of_its_own(tmp_path: Path, kind: str) -> None:
    """On its parent's connection, each could get the other's answers: another's lease, with its token."""
    with serving(tmp_path) as alone, flaky(alone) as line:
        words = [sys.executable, "-c", FORKING[kind], line.url]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert line.connections == 2
        assert alone.holders("in%20the%20parent") == alone.holders("in%20the%20child") == ["ann"]


def test_a_caller_that_is_still_connecting_when_the_locks_are_closed_gets_an_error(server: Running) -> None:
    async def closed_meanwhile() -> None:
        locks = await leasehold.aconnect(server.url, holder="ann")
        asking = asyncio.create_task(locks.acquire("too late", ttl=60))
        await asyncio.sleep(0)
        await locks.close()
        with pytest.raises(Closed):
            await asking

    asyncio.run(closed_meanwhile())
    assert server.get("leases?resource=too%20late").json["leases"] == []


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the loops that ended have left it behind
def test_locks_outlive_the_loop_that_they_were_opened_in(server: Running) -> None:
    async def take(resource: str) -> None:
        assert isinstance(await locks.acquire(resource, ttl=60), leasehold.Granted)

    locks = asyncio.run(leasehold.aconnect(server.url, holder="ann"))
    for resource in ("first loop", "second loop", "third loop"):
        asyncio.run(take(resource))
    asyncio.run(locks.close())
    gc.collect()


# --------------------------------------------------------------------------------- what is decided, alone


def pending() -> PendingCall:
    asked = {"resources": "x", "ttl": 60, "wait": 0, "mode": None, "slots": 1, "any_of": False, "holder": "a"}
    more = {"session": None, "space": "default", "name": None, "context": None, "reason": None, "priority": 0}
    rest = {"reentrant": False, "grace": 0, "on_expiry": "free", "request_id": None, "intent": False, "token": None}
    return PendingCall(Call("acquire", {**asked, **more, **rest}), 0.0)


def test_pauses_grow_and_are_jittered() -> None:
    seen: list[list[float]] = []
    for _ in range(50):
        one = pending()
        seen.append([one.failed(ConnectionResetError(), 0.0).pause for _ in range(TRIES)])
        with pytest.raises(Unreachable):
            one.failed(ConnectionResetError(), 0.0)
    for place, longest in enumerate((0.1, 0.2, 0.4, 0.8, 1.6, 2.0)):
        pauses = [each[place] for each in seen]
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(set(pauses)) > 25


def test_a_caller_says_how_long_to_go_on_while_nobody_answers() -> None:
    """Refused or silent, for as long as that and no longer; an answer begins it anew, and a queue does not count."""
    asked = {"resources": "x", "ttl": 60, "holder": "a"}
    one = PendingCall(Call("acquire", {**asked, "wait": 3}), 0.0, patience=10.0)
    now, pauses = 100.0, 0
    while now < 109.999:
        now += one.failed(ConnectionRefusedError(), now, was_sent=False).pause
        pauses += 1
    assert now == pytest.approx(110.0)
    assert pauses > TRIES
    assert isinstance(one.answered(202, {"ticket": "t1"}, None, now), Resend)
    assert one.failed(ConnectionRefusedError(), now, was_sent=False).pause > 0
    with pytest.raises(Unreachable, match="within 10 s"):
        one.failed(ConnectionRefusedError(), now + 10, was_sent=False)
    silent = PendingCall(Call("acquire", {**asked, "wait": 3}), 0.0, patience=2.0)
    assert silent.time_out == 2 + 3
    with pytest.raises(Unreachable, match="within 2 s"):
        silent.failed(TimeoutError(), 5.0)
    undoing = silent.undo()
    assert undoing is not None
    assert (next(undoing).path, silent.time_out) == ("/v1/cancel", 2.0)


def test_what_always_answers_something_else_is_given_up_in_time() -> None:
    """Such as a proxy's page of JSON: it is there, but no server of ours is."""
    one = PendingCall(Call("acquire", {"resources": "x", "ttl": 60, "holder": "a"}), 0.0, patience=10.0)
    now = 100.0
    while now < 109.999:
        now += one.answered(200, {"ok": True}, None, now).pause
    assert now == pytest.approx(110.0)
    with pytest.raises(Unreachable, match="cannot be understood"):
        one.answered(200, {"ok": True}, None, now)
    assert one.undo() is not None


def test_a_request_of_the_callers_own_id_is_not_cancelled() -> None:
    """A cancelled id would be refused for good, also if it was never granted."""
    one = PendingCall(Call("acquire", {"resources": "x", "ttl": 60, "holder": "a", "request_id": "mine"}), 0.0)
    assert isinstance(one.failed(ConnectionResetError(), 0.0), Resend)
    assert one.undo() is None


@pytest.mark.parametrize("timeout", [0.2, "200ms", timedelta(milliseconds=200)])
def test_connect_takes_a_timeout(timeout: Any) -> None:  # noqa: ANN401 (three ways to say it)
    with (
        leasehold.connect("http://127.0.0.1:1", holder="ada", timeout=timeout) as locks,
        pytest.raises(Unreachable, match=r"within 0\.2 s"),
    ):
        locks.acquire("x", ttl=60)

    async def main() -> None:
        async with await leasehold.aconnect("http://127.0.0.1:1", holder="ada", timeout=timeout) as locks:
            with pytest.raises(Unreachable, match=r"within 0\.2 s"):
                await locks.acquire("x", ttl=60)

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [0, -1, "soon", True, [1], "0s"])
def test_connect_refuses_a_timeout_that_is_none(timeout: Any) -> None:  # noqa: ANN401 (junk)
    with pytest.raises(leasehold.InvalidInput, match=r"^timeout: "):
        leasehold.connect("http://127.0.0.1:1", timeout=timeout)


def test_only_the_first_copy_says_that_it_is_the_first() -> None:
    one = pending()
    first = one.next.body
    assert first is not None
    assert first["first"] is True
    for again in (one.failed(ConnectionResetError(), 0.0), one.answered(503, {"code": "closed"}, None, 0.0)):
        assert isinstance(again, Resend)
        assert again.request == one.next
        assert again.request.body == {key: value for key, value in first.items() if key != "first"}
    own = PendingCall(Call("acquire", {"resources": "x", "ttl": 60, "holder": "a", "request_id": "chosen"}), 0.0)
    assert own.next.body is not None
    assert "first" not in own.next.body, "the caller that chose it may have sent it before"


def granted_body(lease: str) -> dict[str, object]:
    """What a server answers to an acquire."""
    told = {
        "id": lease,
        "resources": ["x"],
        "holder": "a",
        "session": None,
        "mode": "exclusive",
        "slots": 1,
        "fence": 7,
    }
    times = {
        "ttl_seconds": 60,
        "acquired_at": "2026-11-19T12:00:00Z",
        "as_of": "2026-11-19T12:00:00Z",
        "expires_at": "2026-11-19T12:01:00Z",
    }
    more = {"expires_in_seconds": 60, "name": None, "reason": None, "context": None, "space": "default", "slots": 1}
    return {"lease": {**told, **times, **more}, "token": "t", "fresh": True}


def waited() -> PendingCall:
    """An acquire that was granted after a second in the queue, and is being confirmed."""
    one = PendingCall(Call("acquire", {"resources": "x", "ttl": 60, "holder": "a", "wait": 3}), 0.0)
    again = one.answered(200, granted_body("l1-" + "0" * 32), None, 1.0)
    assert isinstance(again, Resend)
    assert (again.request.path, again.pause) == ("/v1/renew", 0.0)
    assert again.request.body == {"lease": "l1-" + "0" * 32, "token": "t"}
    return one


def test_a_grant_that_was_waited_for_is_renewed_before_the_caller_gets_it() -> None:
    one = waited()
    assert isinstance(one.failed(ConnectionResetError(), 1.1), Resend)
    renewed = granted_body("l1-" + "0" * 32)["lease"]
    outcome = one.answered(200, {"lease": renewed}, None, 1.2)
    assert isinstance(outcome, Granted)
    assert (outcome.token, outcome.lease.fence) == ("t", 7)


def test_a_grant_that_was_released_before_it_was_confirmed_is_waited_for_again() -> None:
    one = waited()
    lost = {"code": "lost", "message": "gone", "lease": "l1-" + "0" * 32, "reason": "released"}
    again = one.answered(410, lost, None, 1.5)
    assert isinstance(again, Resend)
    assert (again.request.path, again.request.body and again.request.body["wait_seconds"]) == ("/v1/acquire", 1.5)
    second = one.answered(200, granted_body("l2-" + "0" * 32), None, 1.51)
    assert isinstance(second, Granted), "it was quick"


def test_a_grant_that_cannot_be_confirmed_is_cancelled() -> None:
    one = waited()
    for _ in range(TRIES):
        one.failed(ConnectionResetError(), 1.1)
    with pytest.raises(Unreachable):
        one.failed(ConnectionResetError(), 1.1)
    undoing = one.undo()
    assert undoing is not None
    assert next(undoing).path == "/v1/cancel"


def test_a_quick_grant_is_not_confirmed() -> None:
    one = PendingCall(Call("acquire", {"resources": "x", "ttl": 60, "holder": "a", "wait": 3}), 0.0)
    assert isinstance(one.answered(200, granted_body("l1-" + "0" * 32), None, 0.01), Granted)


def test_nor_does_a_wait_that_goes_on() -> None:
    one = PendingCall(Call("acquire", {"resources": "x", "ttl": 60, "holder": "a", "wait": 600}), 0.0)
    one.answered(200, {"status": "ok"}, None, 0.5)
    assert one.next.body is not None
    assert one.next.body["first"] is True
    again = one.answered(202, {"ticket": "t1"}, None, 1.0)
    assert isinstance(again, Resend)
    assert again.request.body is not None
    assert "first" not in again.request.body
    assert again.request.body["request_id"] == "t1"


def test_who_waits_long_first_asks_whether_anybody_is_there() -> None:
    """So a silent server is noticed within seconds; and after a silence, a live one is not taken for a silent one."""
    one = PendingCall(Call("acquire", {"resources": "x", "ttl": 60, "holder": "a", "wait": 3_600}), 0.0)
    for now in range(0, 3_000, 100):
        assert (one.next.path, one.time_out) == ("/healthz", SLACK)
        again = one.answered(200, {"status": "ok"}, None, float(now))
        assert isinstance(again, Resend)
        assert (again.request, again.pause) == (one.next, 0.0)
        assert one.next.body is not None
        assert one.next.body["wait_seconds"] == 3_600 - now
        assert ("first" in one.next.body) == (now == 0)
        assert one.time_out == KEPT_OPEN + SLACK
        one.answered(202, {"ticket": "t1"}, None, now + 50.0)
        assert one.next.path == "/v1/acquire"
        one.answered(503, {"code": "closed"}, None, now + 60.0)
        assert one.next.path == "/healthz", "it is another server that is asked next"
        one.answered(503, {}, None, now + 60.0)
        assert one.next.path == "/v1/acquire"
        one.failed(TimeoutError(), now + 100.0)
    with pytest.raises(Unreachable):
        one.failed(TimeoutError(), 3_001.0)


@pytest.mark.parametrize("resources", ["unheard", ["unheard", "unheard too"]])
def test_a_wait_whose_end_was_not_heard_is_a_timeout_all_the_same(
    server: Running, line: Line, connect: Callable[[str], Any], resources: object
) -> None:
    held = connect(server.url).acquire("unheard", ttl=60, holder="bob")
    locks = connect(line.url)
    line.faults = [LOSE_ANSWER]
    outcome = locks.acquire(resources, ttl=60, wait=0.05)
    assert isinstance(outcome, leasehold.TimedOut), outcome
    assert outcome.resources[0] == "unheard"
    assert connect(server.url).release(held.lease.id, held.token).released


def test_a_server_that_was_just_heard_of_is_not_asked(line: Line, connect: Callable[[str], Any]) -> None:
    locks = connect(line.url)
    for _ in range(3):
        held = locks.acquire("heard of", ttl=60, wait=600)
        assert locks.release(held.lease.id, held.token).released
    assert [each.split()[1] for each in line.requests].count(b"/healthz") == 1


def test_a_long_wait_lasts_as_long_as_was_asked(tmp_path: Path) -> None:
    """Over many tickets, and in its place: once it ended when the server's patience with one request did."""
    with (
        serving(tmp_path, "--keep-open", "200ms") as server,
        leasehold.connect(server.url, holder="ann") as ann,
        leasehold.connect(server.url, holder="bob") as bob,
    ):
        held = ann.acquire("x", ttl=600)
        assert isinstance(held, leasehold.Granted)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(bob.acquire, "x", ttl=600, wait=3_600)
            until(lambda: server.get("inspect?resource=x").json["waiting"])
            place = server.get("inspect?resource=x").json["waiting"][0]["id"]
            seen = server.get("history?kind=queued").json["events"]
            until(lambda: len(server.get("history?kind=queued").json["events"]) >= len(seen) + 3)
            assert server.get("inspect?resource=x").json["waiting"][0]["id"] == place
            ann.release(held.lease.id, held.token)
            assert isinstance(waiting.result(), leasehold.Granted)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured_and_jittered(status: int) -> None:
    told = {"code": "rate_limited"}
    pauses = set()
    for _ in range(20):
        again = pending().answered(status, told, 3.0, 0.0)
        assert isinstance(again, Resend)
        assert 3.0 < again.pause <= 3.2
        pauses.add(again.pause)
    assert len(pauses) > 10
    later = pending().answered(status, told, 3_600.0, 0.0)
    assert isinstance(later, Resend)
    assert later.pause < RETRY_AFTER_MOST + 1


def test_what_is_too_much_is_told_at_once() -> None:
    refused = pending().answered(429, {"code": "too_many", "message": "release some first"}, 1.0, 0.0)
    assert isinstance(refused, leasehold.Refused)
    assert refused.code == "too_many"


@pytest.mark.parametrize("was_lost", [False, True])
def test_a_release_that_was_only_put_off_is_not_taken_for_ours(was_lost: bool) -> None:
    one = PendingCall(Call("release", {"lease": "l1-" + "0" * 32, "token": "t"}), 0.0)
    if was_lost:
        assert isinstance(one.failed(ConnectionResetError(), 0.0), Resend)
    assert isinstance(one.answered(429, {"code": "rate_limited"}, None, 0.0), Resend)
    told = {"lease": "l1-" + "0" * 32, "released": False, "reason": "released", "resources": []}
    outcome = one.answered(200, told, None, 0.0)
    assert isinstance(outcome, leasehold.Released)
    assert outcome.released == was_lost


def test_a_request_that_was_not_sent_may_always_be_sent_again() -> None:
    one = PendingCall(Call("revoke_key", {"key": "0" * 16}), 0.0)
    assert isinstance(one.failed(NotSent("nobody there"), 0.0, was_sent=False), Resend)
    stolen = {"resources": "x", "ttl": 60, "by": "ops", "reason": "why", "holder": "a"}
    other = PendingCall(Call("steal", {**stolen, "space": "default", "name": None, "context": None}), 0.0)
    assert isinstance(other.failed(NotSent("nobody there"), 0.0, was_sent=False), Resend)
    with pytest.raises(OutcomeUnknown):
        other.failed(ConnectionResetError(), 0.0)
