"""A deterministic simulation of engines and their store: virtual time, crashes, lost replies. No threads, no real time.

    python -m leasehold.testing.simulation --seed 7 --steps 20000

One seeded chance decides everything: which caller does what, whose engine takes its turn, how much time goes by, and
what goes wrong. The same seed gives the same history, so a failure can be looked at as often as it takes.
"""

from __future__ import annotations

import random
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING
from unittest.mock import patch

from leasehold.domain import commands as c
from leasehold.domain.nouns import Noun
from leasehold.domain.rules import step
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.engine import batch
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.testing.faults import CALM, Crash, FaultyStore, Luck, Weather
from leasehold.testing.simulation.callers import SimulatedCaller
from leasehold.testing.simulation.nodes import SimulatedNode
from leasehold.testing.simulation.watch import Broken, Watch

if TYPE_CHECKING:
    from typing import Any

    from leasehold.domain.entries import Hold
    from leasehold.domain.events import Event
    from leasehold.domain.records import Records
    from leasehold.domain.rules import NeedRecords, Step


__all__ = ["Broken", "Failure", "Report", "Simulation", "run"]

NODES = 3
CALLERS = 8
ANSWERED_WITHIN = 3 * SECOND
"""How long after its time to wait is over a caller must have its answer."""
MISHAPS = ("crash", "pause", "blackout", "leap")
START = 1_000 * SECOND
DAY = 24 * 3600 * SECOND


def draw_weather(chance: random.Random, seed: int) -> Weather:
    """Draw how often each mishap strikes. Some never do in a run, so that each is also seen without the others.

    The seed itself decides about some, so that a few seeds in a row have seen them all.
    """
    odds = [chance.choice((0, 0, 0, 0.01, 0.04)) for _ in Weather._fields]
    return Weather(*odds)._replace(
        dies_before=chance.choice((0, 0, 0.001)),
        dies_after=chance.choice((0, 0, 0.001)),
        lost_reply=(0.01, 0.04, 0)[seed % 3],
        deaf=(0, 0.5, 1)[seed // 3 % 3],
        mute=chance.choice((0, 0.5)),
    )


class Simulation:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.watch = Watch(self._undisturbed_since, self._could_tell_since)
        self.now = START
        self.tally: Counter[str] = Counter()
        self._memory = Memory(clock=lambda: self.now)
        self._luck = Luck(self.chance, draw_weather(self.chance, seed))
        self._mishaps = [each for place, each in enumerate(MISHAPS) if seed >> place & 1]
        self._bustle = self.chance.choice((0.2, 0.25, 0.3, 0.36))
        """How much callers do in the time in which engines do anything at all."""
        self._dark_until = 0
        self._numbers = 0
        self._nodes = [self._new_node() for _ in range(NODES)]
        self._callers = {caller.name: caller for caller in (self._new_caller() for _ in range(CALLERS))}
        self._dead: dict[str, SimulatedCaller] = {}

    def _new_node(self) -> SimulatedNode:
        self._numbers += 1
        store = FaultyStore(MemoryStore(self._memory), self._luck, self.watch.committed)
        return SimulatedNode(self._numbers, store, lambda: self.now, self.chance)

    def _new_caller(self, name: str = "") -> SimulatedCaller:
        self._numbers += 1
        return SimulatedCaller(self, name or f"agent-{self._numbers}", self._numbers)

    def a_node(self) -> SimulatedNode:
        """Choose a process that answers calls, even if it is paused."""
        return self.chance.choice(self._nodes)

    # ----------------------------------------------------------------------------------------- one step

    def step(self) -> None:
        """Let one thing happen."""
        draw = self.chance.random()
        if draw < self._bustle:
            self._caller_acts()
        elif draw < self._bustle + 0.4:
            ready = [node for node in self._nodes if node.runs and node.due_in() == 0]
            if ready:
                self._turn(self.chance.choice(ready))
        elif draw < 0.988:
            self._time_passes()
        elif draw < 0.997:
            self._admin_acts()
        elif self._mishaps:
            self._mishap(self.chance.choice(self._mishaps))
        self.watch.look(self.now)

    def _caller_acts(self) -> None:
        caller = self.chance.choice(list(self._callers.values()))
        caller.act()
        if not caller.is_alive:
            self.tally["died"] += 1
            self._dead[caller.name] = self._callers.pop(caller.name)
            # It may come back under its old name, if nothing of it is left that could still be granted something.
            reborn = self._new_caller(caller.name if caller.excused < FOREVER and self.chance.random() < 0.3 else "")
            reborn.excused = caller.excused
            self._callers[reborn.name] = reborn

    def _turn(self, node: SimulatedNode) -> None:
        try:
            node.turn()
        except Crash:
            self._crash(node)

    def _crash(self, node: SimulatedNode) -> None:
        """Gone, with everything it knew. Some of its callers lived in it, the others lose their calls."""
        self.tally["crash"] += 1
        node.is_alive = False
        self._nodes[self._nodes.index(node)] = self._new_node()
        for caller in (*self._callers.values(), *self._dead.values()):
            caller.lose(node)

    def _time_passes(self) -> None:
        dues = [due for node in self._nodes if node.runs and (due := node.due_in()) is not None]
        soonest = min(dues, default=SECOND // 2)
        if soonest == 0:
            self.now += self.chance.randrange(3_000)
        elif self.chance.random() < 0.7:
            self.now += soonest
        else:
            self.now += self.chance.randrange(soonest + 20_000)
        self._luck.is_dark = self.now < self._dark_until
        self._look_around()

    def _admin_acts(self) -> None:
        """Have an admin end a lease, or open what an accident has closed."""
        node = self.a_node()
        closed = [hold for hold in self._holds() if hold.closed and hold.ask is not None]
        if closed:
            self._clear(node, self.chance.choice(closed))
        elif self.watch.latest and self.chance.random() < 0.3:
            node.engine.submit(c.Force("ops", "it hangs", lease=self.chance.choice(self.watch.latest)))

    def _clear(self, node: SimulatedNode, hold: Hold) -> None:
        if hold.ask is not None:
            for place, resource in enumerate(hold.ask.options[0].resources):
                own = [claim.node for claim in hold.ask.options[0].claims if claim.of == place]
                node.engine.submit(c.Clear("ops", "looked at it", "default", resource, own[0]))

    def _holds(self) -> list[Hold]:
        return [hold for record in self.watch.records.values() for hold in record.holds.values()]

    def _mishap(self, what: str) -> None:
        node = self.a_node()
        if what == "crash" and self.chance.random() < 0.3:
            self._crash(node)
        elif what == "pause":
            self.tally[what] += 1
            node.pause(self.chance.choice((SECOND // 5, SECOND, 2 * SECOND, 5 * SECOND)))
        elif what == "blackout" and self.chance.random() < 0.3:
            self.tally[what] += 1
            self._dark_until = self.now + self.chance.choice((SECOND // 2, 3 * SECOND))
        elif what == "leap":
            self.tally[what] += 1
            self.now += self.chance.choice((SECOND // 10, SECOND, 10 * SECOND, 1000 * SECOND))
            for each in self._nodes:
                each.pause(0)

    # ------------------------------------------------------------------------------- nobody is forgotten

    def _look_around(self) -> None:
        self.watch.look(self.now)
        self.watch.look_for_forgotten()
        for caller in self._callers.values():
            for asked in caller.calls:
                # A wait begins when its engine takes it up.
                began = self._undisturbed_since(asked.node.engine.key) or 0
                if self.now - max(asked.until, began + asked.wait) > ANSWERED_WITHIN:
                    raise Broken(f"{caller.name} still has no answer to {asked.pending and asked.pending.command}")

    def _undisturbed_since(self, engine: str) -> int | None:
        for node in self._nodes:
            if node.engine.key == engine:
                return node.undisturbed_since()
        return None

    def _could_tell_since(self, hold: Hold) -> int | None:
        """Return None if its holder knows of it, or cannot know."""
        caller = self._callers.get(hold.holder) or self._dead.get(hold.holder)
        if caller is None or caller.excused >= hold.acquired_at:
            return None
        if hold.id in caller.leases or hold.id in caller.released:
            return None
        asked = [node.undisturbed_since() for node in self._nodes if node.engine.key in caller.nodes]
        return max(asked, default=None)

    # ---------------------------------------------------------------------------------------- the end

    def finish(self) -> None:
        """Everybody stops, the weather clears up, time goes by: everybody is answered, and nothing is left."""
        self._luck.weather, self._dark_until = CALM, 0
        for caller in self._callers.values():
            for action in (caller.release, caller.abandon):
                if self.chance.random() < 0.5:
                    action()
        self._run_for(20 * SECOND)
        left = [caller.name for caller in self._callers.values() if caller.calls]
        if left:
            raise Broken(f"these were never answered: {left}")
        for node in self._nodes:
            node.engine.close()
        self._clean_up()
        self.watch.judge(finished=True)
        if self.watch.records != self._memory.records:
            raise Broken("the store does not have what was written to it")

    def _run_for(self, us: int) -> None:
        end = self.now + us
        while self.now < end:
            for node in self._nodes:
                if node.runs:
                    self._turn(node)
            self._time_passes()

    def _clean_up(self) -> None:
        """Sweep with one engine, as a server does, until there is nothing left to sweep."""
        store = FaultyStore(MemoryStore(self._memory), self._luck, self.watch.committed)
        sweeper = SimulatedNode(0, store, lambda: self.now, self.chance, housekeeping=True)
        for leap in (20 * SECOND, SECOND, SECOND, DAY + SECOND, *[SECOND] * 200):
            self.now += leap
            sweeper.turn()
            for hold in self._holds():
                if hold.closed and hold.ask is not None:
                    self._clear(sweeper, hold)
            if set(self.watch.records) <= {sweeper.engine.key}:
                return
        left = {key: record for key, record in self.watch.records.items() if key != sweeper.engine.key}
        raise Broken(f"{len(left)} records are left over, such as {next(iter(left.items()))}")


class RuleBroke(BaseException):
    """Report that a rule raised an error. It ends the run, even if no caller asked (a sweep)."""


def _watched(records: Records, command: c.Command, *state: Any) -> Step | NeedRecords:
    try:
        return step(records, command, *state)
    except Exception as error:
        raise RuleBroke(f"{error!r} at {command}") from error


def run(seed: int, steps: int) -> Report:
    """Simulate; raises `Failure` as soon as a promise is broken."""
    simulation, at = Simulation(seed), 0
    try:
        with patch.object(batch, "step", _watched):
            for at in range(1, steps + 1):  # noqa: B007 (told in the failure)
                simulation.step()
            seconds = (simulation.now - START) / SECOND
            simulation.finish()
    except (Exception, RuleBroke) as broken:
        raise Failure(seed, steps, at, broken, simulation.watch.events[-30:]) from broken
    history = simulation.watch.events
    kinds = simulation.tally + Counter(event.kind for event in history)
    digest = blake2b("\n".join(map(repr, history)).encode(), digest_size=16).hexdigest()
    return Report(seed, steps, kinds, seconds, digest)


class Report(Noun):
    """Describe a run that broke no promise."""

    seed: int
    steps: int
    kinds: Counter[str]
    """How often each kind of event happened, and each mishap."""
    seconds: float
    """How much virtual time went by."""
    digest: str
    """Of the whole history: the same for the same seed."""


class Failure(AssertionError):
    """A promise was broken; says how to see it again."""

    def __init__(self, seed: int, steps: int, at: int, why: object, last: list[Event]) -> None:
        told = ""
        for event in last:
            about = {key: value for key, value in event.detail.items() if value not in (None, 0, False, [])}
            told += f"  {event.at_us} {event.kind} {event.holder} {list(event.resources)} {event.lease or ''} {about}\n"
        again = f"python -m leasehold.testing.simulation --seed {seed} --steps {steps}"
        super().__init__(f"{why}\nlast events:\n{told}seed {seed}, step {at}; again: {again}")
