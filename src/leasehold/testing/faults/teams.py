"""The processes of clients of a run: each is a team, and a new team with a new name takes the place of a killed one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.testing.faults.clients import ClientTerms
from leasehold.testing.faults.programs import Program

if TYPE_CHECKING:
    from leasehold.testing.faults.sites import Site

CLIENTS, FLOOD = "leasehold.testing.faults.clients", "leasehold.testing.faults.flood"
ARMED = "leasehold.testing.faults.armed"
QUICK = 0.05
SLOW = 0.5
"""Seconds between two turns of a client, at most; over git, where each turn takes hundreds of milliseconds, more."""


class TeamPlan(Noun):
    """The settings that all teams of a run share."""

    clients: int
    """In each team."""
    workloads: list[str]
    ttl: float
    share: float
    seed: int
    module: str = CLIENTS
    """The program of each team."""


class Team:
    """One process of clients, again and again."""

    def __init__(self, site: Site, number: int, plan: TeamPlan) -> None:
        self._site = site
        self._number = number
        self._plan = plan
        self._letter = "t" if plan.module == CLIENTS else "f"
        self._machine, self._url = site.urls()[number % len(site.urls())]
        self.killed: list[str] = []
        """The names of those that were killed."""
        self._lives = 0
        self.program = self._next()

    @property
    def slot(self) -> str:
        """The beginning of the names of all its processes, up to a dot."""
        return f"{self._letter}{self._number}"

    @property
    def name(self) -> str:
        """The name of the team as it is now."""
        return f"{self.slot}.{self._lives}"

    def _next(self) -> Program:
        self._lives += 1
        plan = self._plan
        pause = SLOW if self._site.name == "git" else QUICK
        terms = ClientTerms(
            self._url,
            self.name,
            plan.clients,
            plan.workloads,
            str(self._site.folder),
            plan.ttl,
            plan.share,
            plan.seed,
            pause,
        )
        words = [ARMED, str(self._site.folder / f"{self._machine}.dials"), plan.module, json.dumps(terms._asdict())]
        key = {"LEASEHOLD_API_KEY": self._site.key} if self._site.key else None
        host = self._site.host_of("client", self._number)
        return Program(words, self._site.folder / f"team-{self.slot}.log", key, host)

    def start(self) -> None:
        """Start the process."""
        self.program.start()

    def kill(self) -> None:
        """Kill the process; `start` then starts one with another name."""
        self.killed.append(self.name)
        self.program.kill()
        self.program = self._next()
