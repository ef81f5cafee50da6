"""A small world of one pool and two other names, so that random commands often meet: the rules against the oracle."""

from __future__ import annotations

import os

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from leasehold.domain.timestamps import SECOND
from tests.domain.duel import Duel
from tests.domain.oracle_nouns import Want, Who

PROVE = os.environ.get("LEASEHOLD_PROVE") == "1"
EVERYBODY = (Who("ann"), Who("bob"), Who("cat"), Who("dan"))
PARTS = ("pool://p/1-3", "pool://p/1-2", "pool://p/3,2", "pool://p/1", "pool://p/2")
LONGEST = 500 * SECOND

people = st.sampled_from(EVERYBODY)
parts = st.sampled_from(PARTS)
names = st.one_of(parts, st.sampled_from(("alpha", "beta")))
waits = st.sampled_from((0, 100 * SECOND, 100 * SECOND, 20 * SECOND))
picks = st.integers(0, 9)


class PoolMachine(RuleBasedStateMachine):
    """Few names, long waits and long leases: queues of different parts of the pool, and cycles through them."""

    def __init__(self) -> None:
        super().__init__()
        self.duel = Duel()
        self.started = self.duel.world.now

    @rule(who=people, name=names, wait=waits, priority=st.sampled_from((0, 0, 1)), intent=st.booleans())
    def acquire(self, who: Who, name: str, wait: int, priority: int, intent: bool) -> None:
        self.duel.acquire(who, Want(((name,),), ttl=300 * SECOND), wait=wait, priority=priority, intent=intent)

    @rule(who=people, name=parts, reentrant=st.booleans(), wait=waits)
    def ask_for_what_one_has(self, who: Who, name: str, reentrant: bool, wait: int) -> None:
        shown = frozenset(min(lease.tokens) for lease in self.duel.oracle.live() if lease.who == who and lease.tokens)
        self.duel.acquire(who, Want(((name,),), ttl=300 * SECOND), wait=wait, reentrant=reentrant, shown=shown)

    @rule(who=people, name=parts, ttl=st.sampled_from((5, 300)), ends=st.sampled_from(((3, False), (0, True))))
    def acquire_what_ends_badly(self, who: Who, name: str, ttl: int, ends: tuple[int, bool]) -> None:
        self.duel.acquire(who, Want(((name,),), ttl=ttl * SECOND, grace=ends[0] * SECOND, quarantine=ends[1]))

    @precondition(lambda self: self.duel.oracle.live())
    @rule(pick=picks, what=st.sampled_from(("release", "release", "force", "steal")), who=people)
    def end(self, pick: int, what: str, who: Who) -> None:
        live = self.duel.oracle.live()
        lease = live[pick % len(live)]
        if what == "release":
            self.duel.release(lease, min(lease.tokens))
        elif what == "force":
            self.duel.force_lease(lease)
        else:
            self.duel.steal(who, Want((lease.resources,)))

    @precondition(lambda self: self.duel.oracle.closed())
    @rule(pick=picks)
    def clear(self, pick: int) -> None:
        closed = self.duel.oracle.closed()
        self.duel.clear(closed[pick % len(closed)].resources[0])

    @precondition(lambda self: self.duel.oracle.queue())
    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        queue = self.duel.oracle.queue()
        self.duel.cancel_waiter(queue[pick % len(queue)])

    @rule(us=st.sampled_from((1, SECOND, 6 * SECOND)), noticed=st.booleans())
    def advance(self, us: int, noticed: bool) -> None:
        if self.duel.world.now + us < self.started + LONGEST:
            self.duel.advance(us)
            if noticed:
                self.duel.catch_up()

    def teardown(self) -> None:
        if self.duel.agree:
            self.duel.catch_up()
            self.duel.wind_up()


PoolMachine.TestCase.settings = settings(
    max_examples=10_000 if PROVE else 300,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=os.environ.get("CI") == "true",
)
TestPoolMachine = PoolMachine.TestCase
