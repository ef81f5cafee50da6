"""A lease that one engine grants to another engine's waiter is a promise until that engine comes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.outcomes import Done, Granted, Queued, Refused, Renewed
from leasehold.domain.rules.granting import PICK_UP
from leasehold.domain.sessions import SessionRenewed
from leasehold.domain.timestamps import SECOND
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.testing.asking import asking
from leasehold.testing.world import World

if TYPE_CHECKING:
    from leasehold.domain.entries import Hold, LeaseRequest

HERE, THERE, ELSEWHERE = (keys.engine(name) for name in ("here", "there", "elsewhere"))
TTL = 30 * SECOND
SECRET = "secret"


class Promise:
    """`holder` has `thing` by way of `here`; `waiter` waits for it `there`, until it is released `here`."""

    def __init__(self, **wanted: object) -> None:
        self.world = World()
        for engine in (HERE, THERE, ELSEWHERE):
            self.beat(engine)
        self.wanted = wanted
        held = self.acquire("holder", HERE, "holder-token")
        assert isinstance(held, Granted)
        if "session" in wanted:
            start = c.StartSession(self.actor, "default", "s", "waiter", keys.secret_hash(SECRET), 60 * SECOND)
            self.world.do(start, THERE)
        queued = self.acquire("waiter", THERE, "first", wait=20, **wanted)
        assert isinstance(queued, Queued)
        self.place = queued.waiter
        self.world.do(c.Release(held.lease.id, c.Proof(token=keys.secret_hash("holder-token"))), HERE)

    @property
    def actor(self) -> str:
        return keys.actor("default", "waiter", "s" if "session" in self.wanted else None)

    def beat(self, engine: str) -> None:
        self.world.do(c.Beat(engine, 3 * SECOND), engine)

    def acquire(self, holder: str, engine: str, token: str, **asked: object) -> object:
        return self.world.do(self.asking(holder, engine, token, **asked), engine)

    def asking(self, holder: str, engine: str, token: str, **asked: object) -> c.Acquire:
        return checks.acquire(asking("thing", 30, holder) | asked, Settings(), token, engine)

    def ask(self, token: str = "first") -> LeaseRequest:
        return self.asking("waiter", THERE, token, wait=20, **self.wanted).ask

    def check(self) -> object:
        return self.world.do(c.Check(self.place, self.ask()), THERE)

    @property
    def holds(self) -> list[Hold]:
        return [hold for record in self.world.records.values() for hold in record.holds.values()]

    @property
    def hold(self) -> Hold:
        (hold,) = self.holds
        return hold


def test_it_lives_for_a_short_time_only() -> None:
    promise = Promise()
    assert promise.hold.ticket == promise.place
    assert promise.hold.expires_at == promise.world.now + PICK_UP


def test_picked_up_it_is_a_lease_with_a_full_ttl() -> None:
    promise = Promise()
    promise.world.advance(SECOND)
    answer = promise.check()
    assert isinstance(answer, Granted)
    assert answer.lease.expires_us == promise.world.now + TTL == promise.hold.expires_at
    assert promise.hold.ticket is None


def test_not_picked_up_it_lapses_and_the_waiter_may_ask_anew() -> None:
    promise = Promise(request_id="r")
    promise.world.advance(PICK_UP)
    promise.world.sweep()
    assert promise.holds == []
    assert isinstance(promise.check(), Done)
    assert isinstance(promise.acquire("waiter", THERE, "second", request_id="r"), Granted)


def test_it_is_made_to_nobody_whose_engine_was_not_heard_of() -> None:
    promise = Promise()
    answer = promise.check()
    assert isinstance(answer, Granted)
    assert isinstance(promise.acquire("late", ELSEWHERE, "late", wait=20), Queued)
    promise.world.advance(3 * SECOND)  # elsewhere says nothing any more
    promise.beat(THERE)
    promise.world.do(c.Release(answer.lease.id, c.Proof(token=keys.secret_hash("first"))), THERE)
    assert promise.holds == []


def test_a_heartbeat_of_its_session_does_not_pick_it_up() -> None:
    promise = Promise(session=f"s.{SECRET}")
    proof = c.Proof(secret=keys.secret_hash(SECRET))
    renewed = promise.world.do(c.RenewSession(promise.actor, proof), ELSEWHERE)
    assert isinstance(renewed, SessionRenewed)
    assert renewed.leases == ()
    assert promise.hold.ticket == promise.place
    assert isinstance(promise.check(), Granted)


@pytest.mark.parametrize("grace", [0, 10])
def test_forced_it_is_not_picked_up(grace: int) -> None:
    promise = Promise(grace=grace)
    promise.world.do(c.Force("ops", "test", lease=promise.hold.id), ELSEWHERE)
    assert isinstance(promise.check(), Done)
    assert all(hold.closed for hold in promise.holds)


def test_a_retry_elsewhere_picks_it_up_with_a_full_ttl() -> None:
    promise = Promise(request_id="r")
    promise.world.advance(SECOND)
    answer = promise.acquire("waiter", ELSEWHERE, "second", wait=20, request_id="r")
    assert isinstance(answer, Granted)
    assert answer.lease.expires_us == promise.world.now + TTL == promise.hold.expires_at


def test_who_goes_away_leaves_it_to_its_own_retry() -> None:
    promise = Promise(request_id="r")
    answer = promise.acquire("waiter", ELSEWHERE, "second", wait=20, request_id="r")
    assert isinstance(answer, Granted)
    promise.world.do(c.GiveUp(promise.place, keys.secret_hash("first"), promise.ask().request), THERE)
    assert promise.hold.id == answer.lease.id
    promise.world.do(c.GiveUp(answer.lease.id, keys.secret_hash("second")), ELSEWHERE)
    assert promise.holds == []


def test_a_lease_that_was_renewed_since_is_not_given_up() -> None:
    promise = Promise(request_id="r")
    granted = promise.check()
    assert isinstance(granted, Granted)
    token, told = keys.secret_hash("first"), granted.lease.expires_us
    promise.world.advance(SECOND)
    assert isinstance(promise.world.do(c.Renew(granted.lease.id, c.Proof(token))), Renewed)
    promise.world.do(c.GiveUp(granted.lease.id, token, None, told), THERE)
    assert promise.hold.id == granted.lease.id
    promise.world.do(c.GiveUp(granted.lease.id, token, None, promise.hold.expires_at), THERE)
    assert promise.holds == []


def test_who_goes_away_leaves_the_queue_to_its_own_retry() -> None:
    world = Promise(request_id="r")
    assert isinstance(world.check(), Granted)
    first = world.acquire("next", THERE, "one", wait=20, request_id="q")
    again = world.acquire("next", ELSEWHERE, "two", wait=20, request_id="q")
    assert isinstance(first, Queued)
    assert isinstance(again, Queued)
    assert first.waiter == again.waiter
    world.world.do(c.GiveUp(first.waiter, keys.secret_hash("one")), THERE)
    (waiter,) = (each for record in world.world.records.values() for each in record.waiters)
    assert waiter.engine == ELSEWHERE
    world.world.do(c.GiveUp(first.waiter, keys.secret_hash("two")), ELSEWHERE)
    assert not any(record.waiters for record in world.world.records.values())


def test_who_went_away_may_come_back_with_the_same_request() -> None:
    promise = Promise(request_id="r")
    granted = promise.check()
    assert isinstance(granted, Granted)
    promise.world.do(c.GiveUp(granted.lease.id, keys.secret_hash("first")), THERE)
    answer = promise.acquire("waiter", ELSEWHERE, "second", request_id="r")
    assert isinstance(answer, Granted)
    assert answer.lease.fence > granted.lease.fence


def test_a_request_that_was_cancelled_stays_cancelled() -> None:
    promise = Promise(request_id="r")
    request = promise.ask().request
    promise.world.do(c.Cancel(request), ELSEWHERE)
    assert promise.holds == []
    answer = promise.acquire("waiter", THERE, "second", request_id="r")
    assert isinstance(answer, Refused)
    assert answer.code == "cancelled"


def test_an_admin_who_ends_its_session_closes_nothing() -> None:
    promise = Promise(session=f"s.{SECRET}", on_expiry="quarantine")
    promise.world.do(c.EndSession(promise.actor, "s", c.Proof(admin="ops"), "it hangs"), ELSEWHERE)
    assert promise.holds == []  # nobody ever worked under it
