"""Another agent works between any two steps of a hook: whatever the moment, its work is neither lost nor held against
the agent of that hook, and what that agent did itself is reported.

A step is a question to the locks, a start of git, or an access to a file.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.guard.editors.adapters import AFTER, BEFORE
from tests.guard.effects.agents import Agent, held, until_stamped_later
from tests.guard.effects.repository import FILE, FREE, sh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasehold.guard.editors.decision import Deciding, Decision

LONG = os.environ.get("LEASEHOLD_PROVE") == "1"
EACH = 1 if LONG else 4
"""Every so many steps the other agent works, each time in a repository of its own."""
MOST = 200
STEPS = ("open", "os.rename", "os.remove", "os.listdir", "os.mkdir", "shutil.copyfile", "subprocess.Popen")
"""Audit events of Python that count as steps."""


class Interruption:
    """Calls something at one step of what this thread does."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._left = -1
        self._action: Callable[[], object] | None = None
        self.is_reached = False
        sys.addaudithook(self._audited)

    @contextmanager
    def at(self, step: int, action: Callable[[], object]) -> Iterator[None]:
        """Call this at a step of what runs inside, if it has so many."""
        self._left, self._action = step, action
        yield
        self.is_reached, self._action = self._action is None, None

    def step(self) -> None:
        """Count a step."""
        if self._action is None:
            return
        self._left -= 1
        if self._left < 0:
            action, self._action = self._action, None
            action()

    def _audited(self, event: str, _: tuple[Any, ...]) -> None:
        if self._action is not None and event in STEPS and threading.get_ident() == self._thread and self.counts:
            self.step()

    counts = False
    """False while the locks are asked: their transactions are no place for another agent."""

    def around(self, steps: Deciding) -> Deciding:
        """Drive a conversation, and count its steps."""
        answer = None
        while True:
            self.counts = True
            try:
                asked = steps.send(answer)
            except StopIteration as stop:
                decision: Decision = stop.value
                return decision
            finally:
                self.counts = False
            self.step()
            answer = yield asked
            self.step()


INTERRUPTION = Interruption()


@pytest.fixture
def pair(app: Path, tmp_path: Path) -> tuple[Agent, Agent]:
    """Ann, who uses her file tool, and Bob, who uses a shell."""
    locks = leasehold.connect(f"sqlite:///{tmp_path}/locks.db", holder="test")
    env = {"HOME": str(tmp_path / "home")}
    return Agent("anns", locks, app, env), Agent("bobs", locks, app, env, INTERRUPTION.around)


def write(agent: Agent, path: str, text: str) -> None:
    until_stamped_later(agent.here / path)
    (agent.here / path).write_text(f"{text}\n")


def edit(agent: Agent, path: str, number: int) -> bool:
    """Write a file by the file tool, if its hook allows it."""
    if not agent.hook(BEFORE, number, path=path).allowed:
        return False
    write(agent, path, agent.name)
    agent.hook(AFTER, number, path=path)
    return True


def acquire(agent: Agent, path: str) -> None:
    """Ask to write a file by the file tool, which has not written it yet."""
    agent.hook(BEFORE, 1, path=path)


def finish(agent: Agent, path: str, told: list[Decision]) -> None:
    """Write a file by a script that runs already, and end it."""
    write(agent, path, agent.name)
    told.append(agent.hook(AFTER, 1, "./build"))


def trespass(ann: Agent, bob: Agent, told: list[Decision]) -> None:
    """Have one agent write by a script what the other has just written by its file tool."""
    assert edit(ann, FILE, 1)
    assert bob.hook(BEFORE, 1, "./build").allowed
    finish(bob, FILE, told)


def obey(agent: Agent, decision: Decision) -> None:
    """Run the commands that a message asks for, through the agent's hooks."""
    for number, line in enumerate(decision.message.splitlines()):
        if line.startswith(("  git -C ", "  cp -p ", "  rm ")):
            agent.run(line.strip(), number=1_000 + number)


def content(agent: Agent, path: str) -> str:
    return (agent.here / path).read_text().strip()


def each_step() -> Iterator[int]:
    """Yield the steps at which to interrupt, until one is not reached."""
    for step in range(0, MOST, EACH):
        yield step
        if not INTERRUPTION.is_reached:
            return
    raise AssertionError("a hook takes fewer steps")


def afresh(agents: tuple[Agent, Agent], number: int) -> tuple[Agent, Agent]:
    """Put the files back, forget all calls and give both agents new sessions."""
    ann, bob = agents
    leases = ann.locks.list()
    assert not isinstance(leases, leasehold.Refused)
    for lease in leases:
        ann.locks.force_release(lease.id, by="test", reason="next")
    sh("git checkout -q -f main; git clean -qfd", ann.here)
    env = {"HOME": f"{ann.env['HOME']}/{number}"}
    return ann._replace(name=f"ann{number}", env=env), bob._replace(name=f"bob{number}", env=env)


@pytest.mark.parametrize("has_it", [True, False], ids=["held before", "acquired now"])
@pytest.mark.parametrize("bob_writes", [True, False])
def test_an_edit_beside_the_hook_before_a_shell_call(
    pair: tuple[Agent, Agent], *, has_it: bool, bob_writes: bool
) -> None:
    for step in each_step():
        ann, bob = afresh(pair, step)
        if has_it:
            assert edit(ann, FILE, 0)
        with INTERRUPTION.at(step, partial(edit, ann, FILE, 1)):
            assert bob.hook(BEFORE, 1, "./build").allowed
        if not INTERRUPTION.is_reached:
            continue
        if bob_writes:
            write(bob, FILE, bob.name)
        after = bob.hook(AFTER, 1, "./build")
        assert (f"{FILE}, held by" in after.message) == bob_writes, (step, after)
        obey(bob, after)
        assert content(ann, FILE) == ann.name, (step, after)
        assert held(ann) == {f"path:{FILE}": f"claude-{ann.name}"}


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_edit_beside_the_hook_after_a_shell_call(pair: tuple[Agent, Agent], *, goes_on: bool) -> None:
    for step in each_step():
        ann, bob = afresh(pair, step)
        assert bob.hook(BEFORE, 1, "./build").allowed
        write(bob, FILE, bob.name)
        with INTERRUPTION.at(step, partial(edit, ann, FILE, 1) if goes_on else partial(acquire, ann, FILE)):
            after = bob.hook(AFTER, 1, "./build")
        obey(bob, after)
        (holder,) = held(ann).values()
        if holder == f"claude-{bob.name}":
            assert content(ann, FILE) == bob.name, (step, after)
        elif goes_on:
            assert content(ann, FILE) == ann.name, (step, after)
        else:
            assert f"{FILE}, held by" in after.message, (step, after)
            assert content(ann, FILE) == "one\ntwo\nthree", (step, after)


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_a_trespass_beside_a_hook_of_the_holder_stays_on_record(pair: tuple[Agent, Agent], moment: str) -> None:
    for step in each_step():
        ann, bob = afresh(pair, step)
        ann, bob = ann._replace(around=bob.around), bob._replace(around=ann.around)
        assert edit(ann, FILE, 0)
        assert bob.hook(BEFORE, 1, "./build").allowed
        if moment == AFTER:
            assert ann.hook(BEFORE, 2, "./build").allowed
        told: list[Decision] = []
        with INTERRUPTION.at(step, partial(finish, bob, FILE, told)):
            ann.hook(moment, 2, "./build")
        if moment == BEFORE:
            ann.hook(AFTER, 2, "./build")
        for after in told:
            assert f"{FILE}, held by" in after.message, (step, after)
            obey(bob, after)
            assert content(ann, FILE) == ann.name, (step, after)


def test_a_file_that_its_holder_has_changed_again_is_not_undone(pair: tuple[Agent, Agent]) -> None:
    ann, bob = pair
    assert edit(ann, FILE, 0)
    assert bob.hook(BEFORE, 1, "./build").allowed
    write(bob, FILE, bob.name)
    after = bob.hook(AFTER, 1, "./build")
    (command,) = [line.strip() for line in after.message.splitlines() if line.startswith("  ")]
    write(ann, FILE, "by hand")
    refused = bob.run(command, number=2)
    assert not refused.allowed
    assert "was changed again since, so leave it as it is" in refused.message
    assert content(ann, FILE) == "by hand"


def test_a_trespass_on_a_younger_lease_is_not_forgotten(pair: tuple[Agent, Agent]) -> None:
    for step in each_step():
        ann, bob = afresh(pair, step)
        carl = ann._replace(name=f"carl{step}", around=bob.around)
        bob = bob._replace(around=ann.around)
        assert edit(ann, FREE, 0)
        assert bob.run(f"echo bob > {FREE}", bob.here).message  # so that this tree has trespasses on record
        assert carl.hook(BEFORE, 1, "./build").allowed
        told: list[Decision] = []
        with INTERRUPTION.at(step, partial(trespass, ann, bob, told)):
            carl.hook(AFTER, 1, "./build")
        for after in told:
            obey(bob, after)
            assert content(ann, FILE) == ann.name, (step, after)
