"""A random walk through everything that the rules know, replayable from its seed: where good histories come from."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from leasehold.domain import commands as c
from leasehold.domain import keys, names
from leasehold.domain.outcomes import Granted, Queued
from leasehold.domain.timestamps import SECOND
from leasehold.requests import checks
from leasehold.testing.asking import asking
from leasehold.testing.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.domain.entries import LeaseRequest
    from leasehold.domain.outcomes import Outcome

RESOURCES = ("alpha", "beta", "path:src", "path:src/a.py", "path:src/b/c", "path:.", "repo:x", "issue:1")
ROOT = c.Proof(admin="root")
LONG = 60 * 24 * 3600 * SECOND
"""Longer than anything is remembered."""


class Wanderer:
    """Several engines on one world, all alive unless `kill` was called, doing whatever comes to mind."""

    def __init__(self, seed: int, engines: int = 2) -> None:
        self.random = random.Random(seed)
        self.world = World()
        self.engines = [keys.engine(str(number)) for number in range(engines)]
        self.dead: dict[str, int] = {}
        self.leases: list[str] = []
        self.waits: dict[str, tuple[LeaseRequest, str]] = {}

    def walk(self, steps: int) -> None:
        """Take that many steps, at random."""
        doings: tuple[Callable[[], object], ...] = (
            *6 * (self.acquire,),
            *2 * (self.release, self.check, self.sweep),
            *(self.renew, self.steal, self.force, self.clear, self.cancel, self.update),
            *(self.start_session, self.renew_session, self.end_session),
        )
        for _ in range(steps):
            self.world.advance(self.random.choice((0, 0, 1, 10_000, 300_000, SECOND)))
            self.beat()
            self.random.choice(doings)()

    def kill(self) -> None:
        """One of the engines is no more: nobody beats for it, and nobody asks in its name."""
        engine = self.random.choice(self.alive())
        self.dead[engine] = self.world.now

    def alive(self) -> list[str]:
        return [engine for engine in self.engines if engine not in self.dead]

    def go_home(self) -> None:
        """Give everything back, cancel every wait, end every session, and let all memories fade."""
        for waiter in self.waits:
            self.do(c.Cancel(waiter=waiter))
        for number in range(3):
            self.do(c.EndSession(self.actor(number), f"s{number}", ROOT))
        self.world.advance(LONG)
        for resource in RESOURCES:
            self.do(self.clearing(resource))
        for lease in dict.fromkeys((*self.leases, *(event.lease for event in self.world.events if event.lease))):
            self.do(c.Release(lease, ROOT))
        self.world.sweep()

    # ------------------------------------------------------------------------------------------ doings

    def do(self, command: c.Command, engine: str | None = None) -> Outcome:
        outcome = self.world.do(command, engine or self.random.choice(self.alive()))
        if isinstance(outcome, Granted):
            self.leases.append(outcome.lease.id)
        self.leases.extend(lease.id for _, lease in self.world.picked_up)
        self.world.picked_up.clear()
        return outcome

    def beat(self) -> None:
        for engine in self.alive():
            self.do(c.Beat(engine, 5 * SECOND), engine)

    def asking(self, **more: object) -> c.Acquire:
        pick = self.random.choice
        mode, slots = pick((("exclusive", 1), ("exclusive", 1), ("shared", 1), ("slots", 2)))
        resources = self.random.sample(RESOURCES, pick((1, 1, 1, 2, 3)))
        asked = asking(
            resources,
            ttl=pick((0.5, 2, 10)),
            holder=pick(("ann", "bob", "cyd")),
            mode=mode,
            slots=slots,
            wait=pick((0, 0, 1, 5)),
            any_of=pick((True, False)),
            session=pick((None, None, "s0.secret", "s1.secret", "s2.secret")),
            priority=pick((0, 0, 0, 1, -1)),
            reentrant=pick((True, False, False)),
            grace=pick((0, 0, 1)),
            on_expiry=pick((*9 * ("free",), "quarantine")),
            request_id=pick((None, None, None, "r1", "r2", "r3")),
            intent=pick((True, False)),
        )
        return checks.acquire(asked | more, checks.Settings(), "token", pick(self.alive()))

    def acquire(self) -> None:
        asked = self.asking()
        outcome = self.do(asked, asked.engine)
        if isinstance(outcome, Queued):
            self.waits[outcome.waiter] = (asked.ask, asked.engine)

    def steal(self) -> None:
        self.do(c.Steal("root", "because", self.asking(any_of=False, wait=0, session=None)))

    def lease(self) -> str | None:
        return self.random.choice(self.leases[-8:]) if self.leases else None

    def release(self) -> None:
        if lease := self.lease():
            self.do(c.Release(lease, ROOT))

    def renew(self) -> None:
        if lease := self.lease():
            self.do(c.Renew(lease, ROOT, self.random.choice((None, SECOND))))

    def update(self) -> None:
        if lease := self.lease():
            self.do(c.Update(lease, ROOT, '{"a":1}'))

    def force(self) -> None:
        """Also what was promised to a waiter that has not come for it yet."""
        granted = [event.lease for event in self.world.events if event.kind == "granted"]
        if granted:
            self.do(c.Force("root", "because", lease=self.random.choice(granted[-8:])))

    def clearing(self, resource: str) -> c.Clear:
        return c.Clear("root", "mended", "default", resource, names.claims("default", resource, "X")[0].node)

    def clear(self) -> None:
        self.do(self.clearing(self.random.choice(RESOURCES)))

    def check(self) -> None:
        """An engine looks after one of its waiters."""
        waits = [(waiter, *wait) for waiter, wait in self.waits.items() if wait[1] not in self.dead]
        if waits:
            waiter, ask, engine = self.random.choice(waits[-8:])
            self.do(c.Check(waiter, ask), engine)

    def cancel(self) -> None:
        if self.waits:
            self.do(c.Cancel(waiter=self.random.choice(list(self.waits))))

    def sweep(self) -> None:
        self.do(c.Sweep(tuple(self.world.due())))

    def actor(self, number: int) -> str:
        return keys.actor("default", "", f"s{number}")

    def start_session(self) -> None:
        number = self.random.randrange(3)
        secret = keys.secret_hash("secret")
        self.do(c.StartSession(self.actor(number), "default", f"s{number}", "dan", secret, 5 * SECOND))

    def renew_session(self) -> None:
        self.do(c.RenewSession(self.actor(self.random.randrange(3)), ROOT))

    def end_session(self) -> None:
        number = self.random.randrange(3)
        self.do(c.EndSession(self.actor(number), f"s{number}", ROOT))
