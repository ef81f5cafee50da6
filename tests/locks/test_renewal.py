"""When a lease is renewed, and until when it is counted on: on a clock that the test moves."""

from __future__ import annotations

import pytest

from leasehold.domain.outcomes import Lost, Refused, Renewed
from leasehold.errors import Unreachable
from leasehold.locks.holding.renewal import DRIFT, LONGEST_RETRY, SHORTEST_RETRY, Tenure, steady, term
from tests.kit.clockwork import ID, Clock, lease


@pytest.fixture
def clock() -> Clock:
    return Clock()


# ------------------------------------------------------------------------------------------------- terms


def test_a_term_is_counted_from_before_the_request() -> None:
    counted = term(lease(ttl=30), sent=100.0)
    assert counted.deadline == pytest.approx(130, abs=60 * DRIFT)
    assert counted.deadline < 130, "two clocks never run at quite the same rate"
    assert counted.renew_at == pytest.approx(110, abs=30 * DRIFT)


def test_only_what_is_left_counts() -> None:
    counted = term(lease(ttl=30, life=6), sent=100.0)
    assert counted.deadline <= 106
    assert counted.renew_at == pytest.approx(102, abs=0.1)


def test_a_life_cut_short_by_a_session_is_not_renewed_ever_faster() -> None:
    assert term(lease(ttl=30, life=2.4), sent=100.0).renew_at == pytest.approx(101, abs=0.01)  # not at a third
    gone = term(lease(ttl=30, life=-5), sent=100.0)
    assert gone.renew_at == gone.deadline == 100.0


@pytest.mark.parametrize("life", [0.1, 0.9, 6])
def test_a_life_cut_short_is_renewed_before_it_is_over(life: float) -> None:
    """However short it is: while the session gets its heartbeats, so does the lease, and only a renewal tells of it."""
    counted = term(lease(ttl=1800, life=life), sent=100.0)
    assert counted.renew_at - 100 == pytest.approx(life / 2, rel=0.01)
    assert counted.renew_at < counted.deadline


def test_retries_are_quick_but_bounded() -> None:
    assert term(lease(ttl=0.01), sent=0).retry == SHORTEST_RETRY
    assert term(lease(ttl=0.3), sent=0).retry == pytest.approx(0.01)
    assert term(lease(ttl=24 * 3600), sent=0).retry == LONGEST_RETRY


def test_the_clock_never_runs_backwards() -> None:
    readings = [steady() for _ in range(100)]
    assert readings == sorted(readings)


# ------------------------------------------------------------------------------------------------ tenure


def test_a_renewal_counts_from_before_it_was_sent(clock: Clock) -> None:
    tenure = Tenure(lease(ttl=30), clock.now, clock)
    clock.now += 10
    assert tenure.pause() <= 0
    sent = clock.now
    clock.now += 5  # so long was the answer under way
    tenure.learn(Renewed(lease(ttl=30, as_of=20_000_000)), sent)
    assert tenure.remaining() == pytest.approx(25, abs=0.1)
    assert tenure.pause() == pytest.approx(5, abs=0.1)
    assert tenure.lease.as_of_us == 20_000_000
    assert tenure.reason is None


def test_the_deadline_ends_it_for_good(clock: Clock) -> None:
    tenure = Tenure(lease(ttl=30), clock.now, clock)
    clock.now += 29.9
    assert tenure.reason is None
    clock.now += 0.1
    assert not tenure.is_known_lost, "nobody has looked"
    assert tenure.reason == "not renewed in time"
    assert tenure.is_known_lost
    tenure.learn(Renewed(lease()), clock.now)  # too late: somebody may have been told
    assert tenure.reason == "not renewed in time"
    assert tenure.remaining() == 0


def test_an_answer_that_comes_late_still_counts_if_nobody_looked(clock: Clock) -> None:
    tenure = Tenure(lease(ttl=30), clock.now, clock)
    clock.now += 20
    sent = clock.now
    clock.now += 15
    tenure.learn(Renewed(lease(ttl=30)), sent)
    assert tenure.reason is None
    assert tenure.remaining() == pytest.approx(15, abs=0.1)


def test_a_failed_renewal_is_tried_again_until_the_deadline(clock: Clock) -> None:
    tenure = Tenure(lease(ttl=30), clock.now, clock)
    clock.now += 11
    error = Unreachable("nobody answers")
    tenure.fail(error)
    tenure.fail(Unreachable("the last try was cut short by the deadline"))
    assert 0 < tenure.pause() <= 1
    assert tenure.reason is None
    clock.now += 30
    assert tenure.reason == "not renewed in time: nobody answers"
    assert tenure.cause is error


def test_trouble_that_passed_is_forgotten(clock: Clock) -> None:
    tenure = Tenure(lease(ttl=30), clock.now, clock)
    tenure.fail(Unreachable("nobody answers"))
    tenure.learn(Renewed(lease(ttl=30)), clock.now)
    clock.now += 31
    assert tenure.reason == "not renewed in time"
    assert tenure.cause is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Lost(ID, "forced by ops: deploy"), "forced by ops: deploy"), (Refused("not_allowed", "token", "no"), "no")],
)
def test_the_store_says_that_it_is_lost(clock: Clock, answer: Lost | Refused, reason: str) -> None:
    tenure = Tenure(lease(), clock.now, clock)
    tenure.learn(answer, clock.now)
    assert tenure.reason == reason
    tenure.lose("something else")
    assert tenure.reason == reason, "the first reason counts"
