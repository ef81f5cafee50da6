"""Random commands on a moving clock, to the rules and to the oracle: both must see the same, after each of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from leasehold.domain import commands as c
from leasehold.domain.timestamps import SECOND
from tests.domain.duel import Duel
from tests.domain.oracle_nouns import Lease, Want, Who

if TYPE_CHECKING:
    from tests.domain.oracle_nouns import Waiter

PATTERNS = ("path:src/*.py", "path:**/a", "path:src/a.py", "path:s*/**")
RESOURCES = ("path:src", "path:src/a", "path:lib", "repo:x", "issue:1", "alpha", "beta", *PATTERNS)
POOLS = ("pool://p/1-3", "pool://p/1-2", "pool://p/3,2", "pool://p/1", "pool://p/2", "pool://p/3", "pool://p?label=b")
POOL_MEMBERS = ("1 a", "2 a b", "3 b")
PEOPLE = (Who("ann"), Who("bob"), Who("cat"))
SESSION_HOLDERS = ("ann", "dan")
"""One of the sessions belongs to a holder who also works without one: they are still two."""
REQUESTS = ("r1", "r2")
PLANS = 6
"""So many at a time: each is compared with all others."""
LONGEST = 550 * SECOND
"""A run is shorter than the time for which a request_id is remembered."""

PROVE = os.environ.get("LEASEHOLD_PROVE") == "1"

resources = st.sampled_from((*RESOURCES, "path:src", "alpha", "beta"))
together = st.lists(resources, min_size=1, max_size=3, unique=True).map(lambda names: (tuple(names),))
one_of = st.lists(resources, min_size=2, max_size=3, unique=True).map(lambda names: tuple((name,) for name in names))
pools = st.sampled_from(("pool://p", *POOLS))
anything = st.one_of(resources, pools)
modes = st.sampled_from(
    (*3 * [("exclusive", 1)], *2 * [("shared", 1)], *2 * [("slots", 2)], ("slots", 3), ("slots", 1)),
)
ttls = st.sampled_from((5 * SECOND, 10 * SECOND, 30 * SECOND, 50 * SECOND))
waits = st.sampled_from((0, 7 * SECOND, 20 * SECOND, 100 * SECOND))
actors = st.integers(0, 4)
picks = st.integers(0, 9)
priorities = st.sampled_from((0, 0, 0, 1, -1))
proofs = st.sampled_from(("wrong", "session", "other session", "admin"))
ends = st.sampled_from((*5 * [(0, False)], (3 * SECOND, False), (0, True)))


@st.composite
def wants(draw: st.DrawFn) -> Want:
    mode, slots = draw(modes)
    grace, quarantine = draw(ends)
    options = draw(st.one_of(together, together, one_of, pools))
    if isinstance(options, str):
        return Want(((options,),), ttl=draw(ttls), grace=grace, quarantine=quarantine)
    return Want(options, mode, slots, draw(ttls), grace, quarantine)


class Machine(RuleBasedStateMachine):
    """Hypothesis plays everybody at once."""

    def __init__(self) -> None:
        super().__init__()
        self.duel = Duel()
        self.started = self.duel.world.now
        self.sessions: list[Who] = []

    @property
    def now(self) -> int:
        return self.duel.world.now

    def _who(self, pick: int) -> Who:
        everybody = [*PEOPLE, *(session.who for session in self.duel.oracle.sessions.values())]
        return everybody[pick % len(everybody)]

    def _lease(self, pick: int) -> Lease:
        """One that is live or ended a short while ago."""
        lately = [*self.duel.oracle.leases[-3:], *self.duel.oracle.live()]
        return lately[pick % len(lately)]

    def _waiter(self, pick: int) -> Waiter:
        queue = self.duel.oracle.queue()
        return queue[pick % len(queue)]

    def _wait(self, pick: int) -> Waiter:
        """Somebody who waits, or has something waiting for it."""
        promised = [lease.ticket for lease in self.duel.oracle.live() if lease.ticket is not None]
        some = [*self.duel.oracle.queue(), *promised]
        return some[pick % len(some)]

    def _has_lease(self) -> bool:
        return bool(self.duel.oracle.leases)

    def _tokens(self, count: int) -> frozenset[str]:
        """One of each of so many leases: a token is valid for every bearer, also under another name."""
        live = [lease for lease in self.duel.oracle.live() if lease.ticket is None]
        plans = self.duel.oracle.plans.all[-count:] if count else []
        return frozenset(
            (*(min(lease.tokens) for lease in live[:count] if lease.tokens), *(plan.token for plan in plans))
        )

    def _has_waiter(self) -> bool:
        return bool(self.duel.oracle.queue())

    # --------------------------------------------------------------------------------------------------- acquire

    @rule(
        pick=actors,
        want=wants(),
        wait=waits,
        priority=priorities,
        reentrant=st.booleans(),
        intent=st.booleans(),
        request=st.sampled_from((None, None, *REQUESTS)),
        shows=st.sampled_from((0, 0, 1, 3)),
    )
    def acquire(
        self,
        *,
        pick: int,
        want: Want,
        wait: int,
        priority: int,
        reentrant: bool,
        intent: bool,
        request: str | None,
        shows: int,
    ) -> None:
        self.duel.acquire(
            self._who(pick),
            want,
            wait=wait,
            priority=priority,
            reentrant=reentrant,
            intent=intent,
            request=request,
            shown=self._tokens(shows),
        )

    @rule(pick=actors, resource=resources, wait=waits, ttl=ttls)
    def acquire_one(self, pick: int, resource: str, wait: int, ttl: int) -> None:
        self.duel.acquire(self._who(pick), Want(((resource,),), ttl=ttl), wait=wait)

    @rule(
        pick=actors,
        resource=st.sampled_from(("alpha", "beta", "path:src")),
        wait=waits,
        slots=st.sampled_from((2, 2, 3)),
    )
    def acquire_slot(self, pick: int, resource: str, wait: int, slots: int) -> None:
        self.duel.acquire(self._who(pick), Want(((resource,),), "slots", slots), wait=wait)

    @rule(pick=actors, options=st.one_of(together, one_of), wait=waits, priority=priorities)
    def acquire_several(self, pick: int, options: tuple[tuple[str, ...], ...], wait: int, priority: int) -> None:
        self.duel.acquire(self._who(pick), Want(options), wait=wait, priority=priority)

    @rule(pick=actors, pool=pools, wait=waits, priority=priorities, ttl=ttls, intent=st.booleans())
    def acquire_a_member(self, pick: int, pool: str, wait: int, priority: int, ttl: int, intent: bool) -> None:
        self.duel.acquire(self._who(pick), Want(((pool,),), ttl=ttl), wait=wait, priority=priority, intent=intent)

    @rule(pick=actors, pool=pools, wait=waits, reentrant=st.booleans())
    def ask_for_another_member(self, pick: int, pool: str, wait: int, reentrant: bool) -> None:
        shown = self._tokens(1 + pick)
        self.duel.acquire(self._who(pick), Want(((pool,),)), wait=wait, reentrant=reentrant, shown=shown)

    @rule(members=st.lists(st.sampled_from(POOL_MEMBERS), max_size=3, unique=True))
    def declare_a_pool(self, members: list[str]) -> None:
        self.duel.declare_pool("pool://p", members)

    @rule(pick=actors, resource=resources, mode=st.sampled_from(("exclusive", "exclusive", "shared")))
    def poll(self, pick: int, resource: str, mode: str) -> None:
        shown = self._tokens(pick % 3)
        self.duel.acquire(self._who(pick), Want(((resource,),), mode), reentrant=True, intent=True, shown=shown)

    @rule(
        pick=actors,
        resource=resources,
        mode=st.sampled_from(("exclusive", "shared")),
        wait=waits,
        reentrant=st.booleans(),
    )
    def ask_for_what_one_has(self, pick: int, resource: str, mode: str, wait: int, reentrant: bool) -> None:
        shown = self._tokens(1 + pick)
        self.duel.acquire(self._who(pick), Want(((resource,),), mode), wait=wait, reentrant=reentrant, shown=shown)

    @precondition(lambda self: self.duel.oracle.requests)
    @rule(pick=picks, wait=waits, request=st.sampled_from(REQUESTS))
    def acquire_once_more(self, pick: int, wait: int, request: str) -> None:
        """A retry, of the same thing or (what must be refused) of another."""
        known = list(self.duel.oracle.requests.items())
        (actor, name), before = known[pick % len(known)]
        who = next((one for one in map(self._who, range(5)) if one.actor == actor), None)
        if who is not None and before.want.options:
            self.duel.acquire(who, before.want, wait=wait, request=request if pick == 0 else name)

    # ------------------------------------------------------------------------------------ renew, release, update

    @precondition(_has_lease)
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        lease = self._lease(pick)
        self.duel.release(lease, min(lease.tokens))

    @precondition(_has_lease)
    @rule(pick=picks, what=st.sampled_from(("renew", "renew", "update", "merge")), ttl=st.one_of(st.none(), ttls))
    def renew_or_update(self, pick: int, what: str, ttl: int | None) -> None:
        lease = self._lease(pick)
        if lease.ticket is not None:
            return
        if what == "renew":
            self.duel.renew(lease, max(lease.tokens), ttl=ttl)
        else:
            self.duel.update(lease, max(lease.tokens), {"ab"[pick % 2]: pick}, what == "merge")

    @precondition(_has_lease)
    @rule(pick=picks, what=st.sampled_from(("renew", "release", "update")), proof=proofs)
    def show_other_proof(self, pick: int, what: str, proof: str) -> None:
        """An admin and the lease's session may, others may not."""
        lease = self._lease(pick)
        if lease.ticket is not None:
            return
        token = "made up" if proof == "wrong" else None
        secret_of = {"session": lease.who.session, "other session": "s0"}.get(proof)
        if what == "renew":
            self.duel.renew(lease, token, secret_of, proof == "admin")
        elif what == "release":
            self.duel.release(lease, token, secret_of, proof == "admin")
        else:
            self.duel.update(lease, "made up", {}, False)

    @rule(kind=st.sampled_from((c.Renew, c.Release)))
    def use_a_lease_that_never_was(self, kind: type[c.Renew | c.Release]) -> None:
        self.duel.unknown_lease(kind)

    # ----------------------------------------------------------------------------------------------------- waits

    @rule(pick=actors, request=st.sampled_from(REQUESTS), how=st.sampled_from(("guess", "token", "session", "admin")))
    def cancel(self, pick: int, request: str, how: str) -> None:
        who = self._who(pick)
        known = self.duel.oracle.requests.get((who.actor, request))
        lease = known.became if known is not None and isinstance(known.became, Lease) else None
        token = min(lease.tokens) if lease is not None and lease.tokens and how == "token" else "made up"
        secret_of = who.session if how == "session" else None
        self.duel.cancel(who, request, token, secret_of, admin=how == "admin")

    @precondition(_has_waiter)
    @rule(pick=picks, give_up=st.booleans())
    def look_or_give_up(self, pick: int, give_up: bool) -> None:
        if give_up:
            self.duel.cancel_waiter(self._waiter(pick))
        else:
            self.duel.check(self._wait(pick))

    @precondition(_has_lease)
    @rule(pick=picks, waits=st.booleans())
    def vanish(self, pick: int, waits: bool) -> None:
        """A caller dies without a word."""
        thing = self._waiter(pick) if waits and self._has_waiter() else self._lease(pick)
        tokens = [*sorted(thing.tokens), "made up"]
        self.duel.give_up(thing, tokens[pick % len(tokens)])

    @rule()
    def switch_engine(self) -> None:
        self.duel.switch()

    @precondition(lambda self: any(lease.ticket for lease in self.duel.oracle.live()))
    @rule(pick=picks)
    def pick_up(self, pick: int) -> None:
        promised = [lease.ticket for lease in self.duel.oracle.live() if lease.ticket is not None]
        self.duel.check(promised[pick % len(promised)])

    # -------------------------------------------------------------------------------------------------- sessions

    @precondition(lambda self: len(self.duel.oracle.sessions) < len(SESSION_HOLDERS))
    @rule(ttl=st.sampled_from((15 * SECOND, 60 * SECOND, 200 * SECOND)))
    def start_session(self, ttl: int) -> None:
        taken = {session.who.holder for session in self.duel.oracle.sessions.values()}
        holder = next(name for name in SESSION_HOLDERS if name not in taken)
        self.sessions.append(Who(holder, f"s{len(self.sessions) + 1}"))
        self.duel.start_session(self.sessions[-1], ttl)

    @precondition(lambda self: self.sessions)
    @rule(
        pick=picks,
        what=st.sampled_from(("renew", "renew", "renew", "end", "start", "acquire")),
        entitled=st.sampled_from((True, True, True, False)),
        other=st.sampled_from(("secret", "holder")),
    )
    def use_session(self, pick: int, what: str, entitled: bool, other: str) -> None:
        """One of the latest, which may be over."""
        who = self.sessions[-1 - pick % min(3, len(self.sessions))]
        if what == "renew":
            self.duel.renew_session(who, entitled)
        elif what == "end":
            self.duel.end_session(who, entitled)
        elif what == "acquire":
            self.duel.acquire(who, Want((("alpha",),)), wait=20 * SECOND)
        elif who.session in self.duel.oracle.sessions:
            wrong = {} if entitled else {"secret_of": "other"} if other == "secret" else {"by": "mallory"}
            self.duel.start_session(who, SECOND, **wrong)

    # ----------------------------------------------------------------------------------------------------- plans

    @rule(
        pick=actors, names=st.lists(resources, min_size=1, max_size=3, unique=True), ttl=ttls, shows=st.integers(0, 2)
    )
    def plan(self, pick: int, names: list[str], ttl: int, shows: int) -> None:
        plans = self.duel.oracle.plans.all
        if len(plans) < PLANS:
            self.duel.plans.announce(self._who(pick), names, ttl, self._tokens(shows))

    @precondition(lambda self: self.duel.oracle.plans.all)
    @rule(pick=picks, wait=waits)
    def acquire_what_is_planned(self, pick: int, wait: int) -> None:
        plans = self.duel.oracle.plans.all
        plan = plans[pick % len(plans)]
        shown = frozenset({plan.token} if pick % 3 else ())
        self.duel.acquire(plan.who, Want((tuple(plan.resources[: 1 + pick % 2]),)), wait=wait, shown=shown)

    @precondition(lambda self: self.duel.plans.ids)
    @rule(pick=picks, proof=proofs)
    def end_plan(self, pick: int, proof: str) -> None:
        """With a token of its own for every other proof; one that is over, perhaps."""
        plan = list(self.duel.plans.ids)[-1 - pick % min(4, len(self.duel.plans.ids))]
        token = "made up" if proof == "wrong" else plan.token if proof == "other session" else None
        secret_of = plan.who.session if proof == "session" else None
        self.duel.plans.release(plan, token, secret_of, proof == "admin")

    # -------------------------------------------------------------------------------------------------- by force

    @rule(
        pick=picks,
        resource=st.one_of(resources, st.sampled_from(POOLS)),
        want=wants(),
        what=st.sampled_from(("lease", "resource", "steal", "clear")),
    )
    def use_force(self, pick: int, resource: str, want: Want, what: str) -> None:
        if what == "lease" and self._has_lease():
            self.duel.force_lease(self._lease(pick))
        elif what == "steal":
            self.duel.steal(self._who(pick), want)
        elif what == "clear":
            self.duel.clear(resource)
        else:
            self.duel.force_resource(resource)

    @precondition(lambda self: self.duel.oracle.closed())
    @rule(pick=picks)
    def clear(self, pick: int) -> None:
        closed = [resource for lease in self.duel.oracle.closed() for resource in lease.resources]
        self.duel.clear(closed[pick % len(closed)])

    # ----------------------------------------------------------------------------------------------------- time

    def _advance(self, us: int, unnoticed: bool) -> None:
        if us > 0 and self.now + us < self.started + LONGEST:
            self.duel.advance(us)
            if not unnoticed or self._somebody_died_unnoticed():
                self.duel.catch_up()

    def _somebody_died_unnoticed(self) -> bool:
        return any(session.expires_at <= self.now for session in self.duel.oracle.sessions.values())

    @rule(us=st.sampled_from((1, SECOND, 4 * SECOND, 10 * SECOND, 61 * SECOND)), unnoticed=st.booleans())
    def advance(self, us: int, unnoticed: bool) -> None:
        self._advance(us, unnoticed)

    @precondition(lambda self: self.duel.oracle.moments())
    @rule(pick=st.integers(0, 9), off=st.sampled_from((-1, 0, 0, 1)), unnoticed=st.booleans())
    def jump_to_a_moment(self, pick: int, off: int, unnoticed: bool) -> None:
        moments = self.duel.oracle.moments()
        self._advance(moments[min(pick, pick % len(moments))] + off - self.now, unnoticed)

    def teardown(self) -> None:
        if self.duel.agree:
            self.duel.catch_up()
            self.duel.wind_up()


Machine.TestCase.settings = settings(
    max_examples=10_000 if PROVE else 200,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=os.environ.get("CI") == "true",
)
TestMachine = Machine.TestCase
