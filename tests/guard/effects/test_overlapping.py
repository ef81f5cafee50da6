"""Three agents in one tree, whose edits and shell calls overlap: only what an agent did itself is held against it."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

import leasehold
from leasehold.guard.editors.adapters import AFTER, BEFORE
from tests.guard.effects.agents import Agent, held, until_stamped_later
from tests.guard.effects.repository import sh

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 300 if os.environ.get("LEASEHOLD_PROVE") == "1" else 40
SEEDS = range(3) if os.environ.get("LEASEHOLD_PROVE") == "1" else range(1)
FILES = [f"src/f{number}.py" for number in range(6)]
ACCUSED = re.compile(r"what others hold: (.*?)\. Undo this")
DOUBTED = re.compile(r"it is not known who changed them: (.*?)\. Only if your call did")


class OpenCall(NamedTuple):
    """A tool call that has begun, and what is true of it."""

    number: int
    path: str
    """The file that a file tool writes; empty for a shell command."""
    held_before: dict[str, str]
    rivals: set[str]
    """The files of the calls of others that were open while this one ran; empty: a shell command, which writes any."""
    wrote: set[str]


class Play:
    """The agents, their calls, and who wrote which file last."""

    def __init__(self, agent: Agent) -> None:
        self.agents = [agent._replace(name=letter * 4) for letter in "abc"]
        self.calls: dict[str, OpenCall] = {}
        self.last_writer: dict[str, str] = {}
        self.trespasses = self.doubts = 0

    def begin(self, agent: Agent, number: int, path: str) -> None:
        before = held(agent)
        allowed = agent.hook(BEFORE, number, path=path, command="" if path else "./build").allowed
        assert allowed or before.get(f"path:{path}", self.name(agent)) != self.name(agent)
        if not allowed:
            return
        rivals = {each.path for each in self.calls.values()}
        for each in self.calls.values():
            each.rivals.add(path)
        self.calls[agent.name] = OpenCall(number, path, before, rivals, set())

    def write(self, agent: Agent, path: str) -> None:
        file = agent.here / path
        until_stamped_later(file)
        file.write_text(f"{agent.name} {self.calls[agent.name].number}\n")
        self.calls[agent.name].wrote.add(path)
        self.last_writer[path] = agent.name

    def end(self, agent: Agent) -> None:
        call = self.calls.pop(agent.name)
        said = agent.hook(AFTER, call.number, path=call.path, command="" if call.path else "./build")
        accused, doubted = (self.named(pattern, said.message) for pattern in (ACCUSED, DOUBTED))
        after = held(agent)
        real = {path for path in call.wrote if self.is_trespass(agent, call, path, after)}
        assert accused <= real, (accused, real)
        assert real <= accused | doubted, (real, said)
        assert "" in call.rivals or real - call.rivals <= accused, (real, said)
        assert not call.path or not said.message.count("what others hold"), said
        self.trespasses += len(accused)
        self.doubts += len(real - accused)

    def is_trespass(self, agent: Agent, call: OpenCall, path: str, after: dict[str, str]) -> bool:
        """Return True if another agent held the file before and after, and has not overwritten it since."""
        names = [each.get(f"path:{path}", self.name(agent)) for each in (call.held_before, after)]
        return self.name(agent) not in names and self.last_writer[path] == agent.name

    @staticmethod
    def name(agent: Agent) -> str:
        return f"claude-{agent.name}"

    @staticmethod
    def named(pattern: re.Pattern[str], message: str) -> set[str]:
        found = pattern.search(message)
        return {each.partition(", held by")[0] for each in found.group(1).split("; ")} if found else set()


@pytest.mark.parametrize("seed", SEEDS)
def test_three_agents_whose_calls_overlap(app: Path, tmp_path: Path, seed: int) -> None:
    (app / "src").mkdir(exist_ok=True)
    for name in FILES:
        (app / name).write_text("0\n")
    sh("git add -A; git commit -qm files", app)
    locks = leasehold.connect(f"sqlite:///{tmp_path}/locks.db", holder="test")
    play = Play(Agent("aaaa", locks, app, {"HOME": str(tmp_path / "home")}))
    chance = random.Random(seed)
    for number in range(ROUNDS):
        agent = chance.choice(play.agents)
        call = play.calls.get(agent.name)
        if call is None:
            play.begin(agent, number, chance.choice(FILES) if chance.random() < 0.5 else "")
        elif call.path:
            play.write(agent, call.path)
            play.end(agent)
        elif chance.random() < 0.6:
            play.write(agent, chance.choice(FILES))
        else:
            play.end(agent)
    for agent in play.agents:
        if agent.name in play.calls:
            play.end(agent)
    print(f"{ROUNDS} rounds: {play.trespasses} trespasses reported, {play.doubts} as doubtful")
    assert play.trespasses
    events = locks.history(kinds=["trespass"], limit=1_000)
    assert not isinstance(events, leasehold.Refused)
    assert len(events) > 0
