"""What comes over a client's connection, byte by byte: answers in pieces, too much of one, none in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

import leasehold
from leasehold.client import deciding
from leasehold.client.aio import AsyncConnection
from leasehold.client.messages import ServerAddress, parse_head
from leasehold.errors import Unreachable
from tests.kit.scripting import HANG_UP, NOBODY, NOTHING, Script, answer, bytewise, scripted
from tests.server.test_conformance import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize(
    "pieces",
    [bytewise(NOBODY), (NOBODY[:-1], NOBODY[-1:]), (NOBODY[: NOBODY.index(b"{")], NOBODY[NOBODY.index(b"{") :])],
    ids=["bytes", "all but one", "head and body"],
)
def test_an_answer_in_pieces_is_one_answer(script: Script, locks: Any, pieces: tuple[bytes, ...]) -> None:  # noqa: ANN401
    script.answers = [pieces, (NOBODY,), pieces]
    for _ in range(3):
        assert locks.list() == ()
    assert script.asked == [1, 1, 1]


def test_a_large_answer_is_heard_whole(script: Script, locks: Any) -> None:  # noqa: ANN401
    blanks = answer(b'{"leases": []%b}' % (b" " * 3_000_000))
    script.answers = [(blanks,), (blanks[:100], blanks[100:2_000_000], blanks[2_000_000:])]
    assert locks.list() == locks.list() == ()
    assert script.asked == [1, 1]


def test_what_comes_after_an_answer_ends_the_connection(script: Script, locks: Any) -> None:  # noqa: ANN401
    """It would be taken for the answer to the next request."""
    script.answers = [(NOBODY + answer(b'{"leases": "somebody else\'s"}'),)]
    assert locks.list() == locks.list() == ()
    assert script.asked == [1, 2]


@pytest.mark.parametrize(
    "told",
    [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", answer(b"[]"), answer(b"{"), answer(b"\xff"), answer(b"{} {}"), b"x" * 70_000],
    ids=["ssh", "array", "cut", "latin", "two", "endless"],
)
def test_what_is_no_server_of_ours_is_told(script: Script, locks: Any, told: bytes) -> None:  # noqa: ANN401
    script.answers = [(told,)] * (deciding.TRIES + 1)
    with pytest.raises(leasehold.Unreachable, match="what answers there"):
        locks.list()


@pytest.mark.parametrize("before", [0, 600], ids=["after another", "after a long wait"])
def test_no_answer_in_time_is_asked_for_again(
    script: Script,
    locks: Any,  # noqa: ANN401
    before: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On another connection; however long the connection was allowed to be silent before."""
    refused = answer(b'{"code": "not_found", "detail": "no"}', b"HTTP/1.1 404 Not Found")
    script.by_path["/v1/acquire"] = refused
    assert isinstance(locks.acquire("x", ttl=60, wait=before), leasehold.Refused)
    monkeypatch.setattr(deciding, "SLACK", 0.05)
    script.answers = [NOTHING]
    assert locks.list() == ()
    assert script.asked[-2:] == [1, 2]


@pytest.mark.parametrize("wait", [0, 3_600])
def test_a_server_that_says_nothing_is_soon_given_up_and_named(
    script: Script,
    locks: Any,  # noqa: ANN401
    wait: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also for a request that would wait for an hour: no server is there to keep its place."""
    monkeypatch.setattr(deciding, "SLACK", 0.05)
    script.answers = [NOTHING] * 20
    with pytest.raises(leasehold.Unreachable, match=f"no answer from .*: {script.url[7:]}: nothing came in time"):
        locks.acquire("x", ttl=60, wait=wait)
    asked = [each.split()[1] for each in script.requests]
    assert len(asked) == deciding.SILENCES if wait else asked == [b"/v1/acquire"] * deciding.SILENCES + [b"/v1/cancel"]


def test_a_server_that_disconnected_is_named(script: Script, locks: Any) -> None:  # noqa: ANN401
    script.answers = [(HANG_UP,)] * 20
    with pytest.raises(leasehold.Unreachable, match=f"{script.url[7:]}: the server closed the connection"):
        locks.list()


@pytest.mark.parametrize("connect", [leasehold.connect, Awaited], ids=["plain", "async"])
def test_silent_servers_are_passed_by(connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "SLACK", 0.05)
    with scripted() as one, scripted() as two, scripted() as three:
        one.answers = two.answers = [NOTHING] * 20
        locks = connect(f"{one.url},{two.url},{three.url}", holder="ann")
        assert locks.list() == ()
        locks.close()
        assert [len(each.asked) for each in (one, two, three)] == [1, 1, 1]


# ------------------------------------------------------------------------------------ the timer, alone


class HandMoved:
    """As much of an event loop as a connection needs, with a clock that is moved by hand."""

    def __init__(self) -> None:
        self._real = asyncio.new_event_loop()
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.create_future = self._real.create_future

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, look: Callable[[], None]) -> HandMoved:
        self.timers.append((at, look))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def is_closed(self) -> bool:
        return False

    def move(self, now: float) -> None:
        self.now = now
        for at, look in [each for each in self.timers if each[0] <= now]:
            self.timers.remove((at, look))
            look()

    def close(self) -> None:
        self._real.close()


class Deaf(asyncio.Transport):
    """Takes everything and says nothing."""

    def write(self, data: object) -> None:
        """Drop what is written."""

    def abort(self) -> None:
        """Do nothing: nothing is connected."""


@pytest.fixture
def loop() -> Iterator[HandMoved]:
    made = HandMoved()
    yield made
    made.close()


def test_one_timer_serves_all_requests_of_a_connection(loop: HandMoved) -> None:
    line = AsyncConnection(ServerAddress("h", 1, tls=False, path=""), cast("asyncio.AbstractEventLoop", loop))
    line.connection_made(Deaf())
    for now in range(10):
        loop.move(now)
        heard = line.ask(b"", 15.0)
        line.data_received(NOBODY)
        assert heard.done()
    assert [at for at, _ in loop.timers] == [15.0]
    late = line.ask(b"", 15.0)  # at 9
    loop.move(15.0)
    assert not late.done()
    loop.move(24.0)
    assert isinstance(late.exception(), TimeoutError)
    assert loop.timers == []


def test_the_timer_of_an_idle_connection_ends(loop: HandMoved) -> None:
    line = AsyncConnection(ServerAddress("h", 1, tls=False, path=""), cast("asyncio.AbstractEventLoop", loop))
    line.connection_made(Deaf())
    heard = line.ask(b"", 15.0)
    line.data_received(NOBODY)
    assert heard.done()
    loop.move(15.0)
    assert loop.timers == []
    late = line.ask(b"", 15.0)
    assert [at for at, _ in loop.timers] == [30.0]
    line.disconnect()
    assert loop.timers == []
    assert not late.done()


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 \xb2 OK\r\nContent-Length: 2",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000,
    ],
)
def test_numbers_that_are_none_are_not_a_leasehold_servers(head: bytes) -> None:
    with pytest.raises(Unreachable, match="what answers there"):
        parse_head(head)


def test_a_pause_that_is_no_number_is_none() -> None:
    assert parse_head(b"HTTP/1.1 503 No\r\nContent-Length: 2\r\nRetry-After: \xb2").retry_after is None
