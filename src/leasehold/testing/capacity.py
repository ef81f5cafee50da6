"""How much a number of agents asks of servers and databases: a model, and a simulation that counts with the real rules.

    python -m leasehold.testing.capacity --agents 1000000 --cycles-per-hour 6 --session-ttl 300

See docs/explanation/scale.md.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from leasehold.domain.entries import EMPTY
from leasehold.domain.nouns import Noun
from leasehold.domain.rules import Step, keys_of, step
from leasehold.domain.timestamps import SECOND
from leasehold.requests.checks import Settings
from leasehold.requests.to_command import Order, order
from leasehold.routing.lanes import lane_of_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.domain.commands import Command
    from leasehold.domain.entries import Record
    from leasehold.domain.outcomes import Outcome

HOUR = 3600
HEARTBEATS = 3
"""Heartbeats of a session within its TTL."""
COMMANDS_OF_A_CYCLE = 2
SPARE = 2
"""A plan leaves a lane this many times what it needs, since load comes in bursts and servers stop."""
START = 1_000_000 * SECOND


class Workload(Noun):
    """A number of agents, and what each of them does."""

    agents: int
    cycles_per_hour: float
    """Leases that each agent acquires and releases within an hour."""
    session_ttl: float = 300
    """The TTL of each agent's session, in seconds."""
    leases_per_agent: int = 1
    """Leases that each agent holds all the time, besides those of its cycles."""
    spaces: int = 1
    """The spaces that the agents are divided among."""


class CapacityPlan(Noun):
    """The servers and lanes that a workload needs."""

    commands: float
    """A second, of all agents."""
    lanes: int
    servers: int
    records: int
    """Records that are live at any time."""


def needed(workload: Workload, *, commands_per_lane: float, lanes_per_server: float = 1) -> CapacityPlan:
    """Return what a workload needs, where one lane carries so many commands a second if it is full."""
    heartbeats = workload.agents * HEARTBEATS / workload.session_ttl
    cycles = workload.agents * workload.cycles_per_hour * COMMANDS_OF_A_CYCLE / HOUR
    commands = heartbeats + cycles
    lanes = max(1, math.ceil(commands * SPARE / commands_per_lane))
    servers = max(1, math.ceil(lanes / lanes_per_server))
    return CapacityPlan(commands, lanes, servers, workload.agents * (1 + workload.leases_per_agent))


def batch_size(rate: float, commit: float, each: float) -> float:
    """Return how many commands share a commit of `commit` seconds and `each` more for every command; at least 1.

    Infinite if a lane cannot carry that rate.
    """
    left = 1 - rate * each
    return math.inf if left <= 0 else max(1.0, rate * commit / left)


class CountedLoad(Noun):
    """The load that a simulation counted."""

    commands: float
    """A second."""
    entries: float
    """Entries written a second."""
    events: float
    """Events a second, for the history."""
    records: int
    """Records at the end."""
    busiest_lane: float
    """The part of all commands that went to the busiest of 4 lanes."""


class SimulatedAgents:
    """Agents that live by the real rules, in memory and in virtual time."""

    def __init__(self, workload: Workload, seed: int = 1) -> None:
        self._workload = workload
        self._chance = random.Random(seed)
        self._settings = Settings()
        self._records: dict[str, Record] = {}
        self._fence = 1
        self._now = START
        self._sessions: list[str] = []
        self._commands = self._entries = self._events = 0
        self._lanes = [0] * 4

    def _space(self, agent: int) -> str:
        return f"team-{agent % self._workload.spaces}"

    def _do(self, agent: int, verb: str, **asked: Any) -> Outcome:
        """Have the rules decide one command."""
        made = order(verb, asked, self._settings, "e")
        assert isinstance(made, Order), f"{verb} was refused: {made}"
        done = self._step(made.command)
        for key, record in done.changed.items():
            if record == EMPTY:
                self._records.pop(key, None)
            else:
                self._records[key] = record
        self._fence = done.fence
        self._commands += 1
        self._entries += len(done.changes)
        self._events += len(done.events)
        self._lanes[lane_of_space(self._space(agent), len(self._lanes)) - 1] += 1
        return done.outcome

    def _step(self, command: Command) -> Step:
        loaded = {key: self._records.get(key, EMPTY) for key in keys_of(command)}
        while True:
            done = step(loaded, command, self._now, self._fence, "e")
            if isinstance(done, Step):
                return done
            loaded.update((key, self._records.get(key, EMPTY)) for key in done.keys)

    def _acquire(self, agent: int, name: str) -> Any:  # noqa: ANN401 (it is granted: the name is its own)
        asked = {"resources": name, "ttl": self._workload.session_ttl, "holder": f"a{agent}"}
        return self._do(agent, "acquire", **asked, session=self._sessions[agent], space=self._space(agent))

    def _begin(self, agent: int) -> None:
        """Start the agent's session, and acquire what it holds all the time."""
        told = {"holder": f"a{agent}", "ttl": self._workload.session_ttl, "name": None}
        self._sessions.append(f"s{agent}.{agent:032x}")
        self._do(agent, "start_session", **told, session=self._sessions[agent], space=self._space(agent))
        for number in range(self._workload.leases_per_agent):
            self._acquire(agent, f"of {agent}: {number}")

    def run(self, seconds: float) -> CountedLoad:
        """Let so much virtual time go by after all agents have begun; return what they did in it."""
        workload, chance = self._workload, self._chance
        for agent in range(workload.agents):
            self._begin(agent)
        self._commands = self._entries = self._events = 0
        self._lanes = [0] * len(self._lanes)
        pause, end = workload.session_ttl / HEARTBEATS, START + round(seconds * SECOND)
        due = [(START + round(chance.random() * pause * SECOND), 0, agent) for agent in range(workload.agents)]
        if workload.cycles_per_hour:
            due += [(START + self._until_next(), 1, agent) for agent in range(workload.agents)]
        heapify(due)
        while due and due[0][0] < end:
            self._now, kind, agent = heappop(due)
            if kind:
                granted = self._acquire(agent, f"work of {agent}")
                shown = {"lease": granted.lease.id, "token": None, "session": self._sessions[agent], "admin": None}
                self._do(agent, "release", **shown, status="completed", error=None)
            else:
                self._do(agent, "renew_session", session=self._sessions[agent], space=self._space(agent), admin=None)
            heappush(due, (self._now + (self._until_next() if kind else round(pause * SECOND)), kind, agent))
        return CountedLoad(
            self._commands / seconds,
            self._entries / seconds,
            self._events / seconds,
            len(self._records),
            max(self._lanes) / max(1, self._commands),
        )

    def _until_next(self) -> int:
        """Return the microseconds until the next cycle of an agent."""
        return round(self._chance.expovariate(self._workload.cycles_per_hour / HOUR) * SECOND)


def main(words: Sequence[str] | None = None) -> int:
    """Print what a workload needs, and what a simulation of it counts."""
    parser = argparse.ArgumentParser("leasehold.testing.capacity", description=__doc__)
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--cycles-per-hour", type=float, default=6)
    parser.add_argument("--session-ttl", type=float, default=300)
    parser.add_argument("--leases-per-agent", type=int, default=1)
    parser.add_argument("--spaces", type=int, default=100)
    parser.add_argument("--commands-per-lane", type=float, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args(words)
    workload = Workload(given.agents, given.cycles_per_hour, given.session_ttl, given.leases_per_agent, given.spaces)
    plan = needed(workload, commands_per_lane=given.commands_per_lane)
    counted = SimulatedAgents(workload).run(given.seconds)
    print(json.dumps({"needs": plan._asdict(), "simulated": counted._asdict()}, indent=2))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
