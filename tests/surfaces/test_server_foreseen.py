"""What a server does before it is asked: it says nothing else for that, and it counts for nobody."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import uvloop

import leasehold
from leasehold import batch, pacing
from leasehold.model import SECOND
from leasehold.server import hot
from tests.stores.early import begin_early_always
from tests.surfaces.serving import PATIENCE, read_reply, until_soon
from tests.surfaces.test_server_hot import ask, history_of, in_this_process, spelled, taken

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from leasehold.served import Served


class Relay:
    """Three who take turns at one name, at a server of this process that is told when to prepare what comes next."""

    def __init__(self, served: Served, lines: list[socket.socket]) -> None:
        self.engine = served._engine
        self.lines = lines
        self.granted: dict[str, Any] = {}

    async def begin(self) -> None:
        """The first has it, the second waits."""
        asked = {"resources": "hot", "holder": "h0"}
        self.granted = (await asyncio.to_thread(ask, self.lines[0], "acquire", asked)).json
        await self.queue(1)

    async def queue(self, number: int) -> None:
        asked = {"resources": "hot", "holder": f"h{number}", "wait_seconds": 50, "context": {"number": number}}
        self.lines[number % 3].sendall(spelled("acquire", asked))
        await until_soon(lambda: self.engine.waiting == 1)

    async def hand_on(self, number: int) -> None:
        """From the one before it to this one."""
        lease, token = self.granted["lease"]["id"], self.granted["token"]
        given_back = await asyncio.to_thread(
            ask, self.lines[(number - 1) % 3], "release", {"lease": lease, "token": token}
        )
        assert given_back.json["released"] is True
        self.granted = (await asyncio.to_thread(read_reply, self.lines[number % 3])).json


async def _relayed(path: Path, runs: int, said: list[object]) -> None:
    async with in_this_process(path, rate=1000) as (served, where):
        with ExitStack() as stack:
            lines = [stack.enter_context(socket.create_connection(where, timeout=PATIENCE)) for _ in range(3)]
            relay = Relay(served, lines)
            await relay.begin()
            for number in range(1, runs):
                await _hand_on(relay, number, said)


async def _hand_on(relay: Relay, number: int, said: list[object]) -> None:
    if number > 1:
        await relay.queue(number)
    before, idle = len(said), relay.lines[(number - 1) % 3]
    relay.engine.rehearse()
    foreseen = said[before:]
    is_disturbed = number % 3 == 0
    if is_disturbed:  # by somebody who gets the next fence
        await asyncio.to_thread(taken, idle, f"other-{number}")
    await relay.hand_on(number)
    lease, token = relay.granted["lease"], relay.granted["token"]
    assert (lease["holder"], lease["context"]) == (f"h{number}", {"number": number})
    happened = await asyncio.to_thread(history_of, idle, "hot")
    told = [each for each in happened if each["lease"] == lease["id"] and each["kind"] == "granted"]
    assert [(each["fence"], each["at"]) for each in told] == [(lease["fence"], lease["acquired_at"])]
    if number > 1 and not is_disturbed:  # before that nobody had been handed anything
        (words,) = foreseen
        assert isinstance(words, leasehold.Granted)
        assert (words.lease.id, words.token) == (lease["id"], token)
        assert len(said) == before + 2, "only the release had to be put into words"


def test_a_grant_that_is_expected_is_put_into_words_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_early_always(monkeypatch)
    monkeypatch.setattr(batch, "RECENT", 3600 * SECOND)  # this test is slower than a server,
    monkeypatch.setattr(pacing, "AWAKE", 0.0)  # and says itself when to rehearse
    said: list[object] = []
    yes = hot._yes

    def listened(outcome: object) -> bytes:
        said.append(outcome)
        return yes(outcome)

    monkeypatch.setattr(hot, "_yes", listened)
    uvloop.run(_relayed(tmp_path / "locks.db", 8, said))


def test_what_is_only_rehearsed_counts_for_nobody(tmp_path: Path) -> None:
    async def play() -> None:
        async with in_this_process(tmp_path / "locks.db", rate=5) as (served, where):
            with socket.create_connection(where, timeout=PATIENCE) as line:
                await asyncio.to_thread(taken, line, "one")
                assert served._driver.rehearse is not None
                for _ in range(100):
                    served._driver.rehearse()
                await asyncio.to_thread(taken, line, "two")  # the rate would not allow it after a hundred requests
            assert served.newest() == 4, "two grants and two releases"

    uvloop.run(play())
