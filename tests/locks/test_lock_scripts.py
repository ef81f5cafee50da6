"""Taking and leaving a lease, step by step, with answers that the test gives and a clock that it moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain.leases import Queue
from leasehold.domain.outcomes import Held, Lost, Refused, Released, Renewed
from leasehold.errors import Closed, LeaseLost, NotAcquired, Unreachable
from leasehold.locks.holding.held import HeldLease, leave, take
from leasehold.locks.holding.renewal import Tenure
from tests.kit.clockwork import ID, Clock, granted, lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leasehold.steps import Steps


@pytest.fixture
def clock() -> Clock:
    return Clock()


# ------------------------------------------------------------------------------------------------ taking


def answers(script: Steps[HeldLease], *given: object) -> tuple[list[Any], HeldLease]:
    """Send these answers (exceptions are thrown, numbers move the clock first); the steps, and what came of it."""
    steps = [next(script)]
    try:
        for answer in given:
            got = answer() if callable(answer) else answer
            steps.append(script.throw(got) if isinstance(got, Exception) else script.send(got))
    except StopIteration as done:
        held: HeldLease = done.value
        return steps, held
    raise AssertionError(f"it goes on: {steps}")


def after(clock: Clock, seconds: float, answer: object) -> Callable[[], object]:
    def give() -> object:
        clock.now += seconds
        return answer

    return give


def test_an_immediate_grant_counts_from_before_the_request(clock: Clock) -> None:
    steps, held = answers(take({"resources": "x"}, clock), after(clock, 2, granted(ttl=30)))
    assert steps == [("acquire", {"resources": "x"})]
    assert held.remaining() == pytest.approx(28, abs=0.1)
    assert (held.id, held.fence, held.token, held.resources) == (ID, 7, "secret", ("x",))
    assert "secret" not in repr(held)


def test_a_grant_that_waited_is_renewed_before_it_is_handed_out(clock: Clock) -> None:
    """The answer alone does not tell how long ago it was granted, so the time before the answer is no bound."""
    renewed = Renewed(lease(ttl=30, as_of=99_000_000))
    steps, held = answers(take({"resources": "x"}, clock), after(clock, 600, granted(ttl=30)), after(clock, 3, renewed))
    assert steps[1:] == [("renew", {"lease": ID, "token": "secret"})]
    assert held.remaining() == pytest.approx(27, abs=0.1), "from before the renewal was sent"
    assert held.lease.as_of_us == 99_000_000


def test_the_first_renewal_is_retried(clock: Clock) -> None:
    steps, held = answers(
        take({}, clock),
        after(clock, 600, granted(ttl=30)),
        Unreachable("nobody answers"),
        None,
        after(clock, 1, Renewed(lease(ttl=30))),
    )
    renew = ("renew", {"lease": ID, "token": "secret"})
    assert steps[1:] == [renew, 1.0, renew]
    assert held.lost is None


def test_a_first_renewal_that_never_gets_through_gives_the_lease_back(clock: Clock) -> None:
    script = take({}, clock)
    next(script)
    clock.now += 600
    script.send(granted(ttl=30))
    clock.now += 31  # by now it is gone, whenever it was granted
    error = Unreachable("nobody answers")
    verb, asked = script.throw(error)
    assert verb == "release"
    assert asked["status"] == "cancelled"
    with pytest.raises(Unreachable) as caught:
        script.throw(Unreachable("still nobody"))
    assert caught.value is error
    assert "still nobody" in caught.value.__notes__[0]


def test_a_lease_that_was_lost_on_the_way(clock: Clock) -> None:
    script = take({}, clock)
    next(script)
    clock.now += 600
    script.send(granted(ttl=30))
    verb, _ = script.send(Lost(ID, "forced by ops: too slow"))
    assert verb == "release"
    with pytest.raises(LeaseLost, match="too slow"):
        script.send(Released(ID, released=False, reason="forced by ops: too slow"))


def test_a_refusal_is_raised(clock: Clock) -> None:
    script = take({}, clock)
    next(script)
    refusal = Held(("x",), (), Queue(0, 1), 0)
    with pytest.raises(NotAcquired, match="x is held") as caught:
        script.send(refusal)
    assert caught.value.outcome == refusal


# ----------------------------------------------------------------------------------------------- leaving


def holding(clock: Clock, ttl: float = 30) -> HeldLease:
    return HeldLease(granted(ttl), Tenure(lease(ttl), clock.now, clock))


def left(script: Steps[None], answer: object) -> dict[str, Any]:
    """The arguments of the release that the script asks for, after it was answered."""
    verb, asked = next(script)
    assert verb == "release"
    with pytest.raises(StopIteration):
        script.throw(answer) if isinstance(answer, Exception) else script.send(answer)
    returned: dict[str, Any] = asked
    return returned


YES = Released(ID, released=True, reason="completed")


def test_a_store_that_confirms_the_release_knows_better_than_our_deadline(clock: Clock) -> None:
    held = holding(clock)
    clock.now += 60
    release = left(leave(held, None), YES)
    assert release["status"] == "completed"
    assert held.lost == "released"


def test_a_store_that_is_silent_does_not(clock: Clock) -> None:
    held = holding(clock)
    clock.now += 60
    script = leave(held, None)
    next(script)
    with pytest.raises(LeaseLost, match="not renewed in time") as caught:
        script.throw(Unreachable("nobody answers"))
    assert isinstance(caught.value.__cause__, Unreachable)


@pytest.mark.parametrize("failure", [Unreachable("nobody answers"), Closed("closed")])
def test_a_failed_release_is_raised_after_a_good_body(clock: Clock, failure: Exception) -> None:
    script = leave(holding(clock), None)
    next(script)
    with pytest.raises(type(failure)) as caught:
        script.throw(failure)
    assert caught.value is failure
    assert "will expire by itself" in caught.value.__notes__[0]


def test_a_failed_release_never_hides_what_the_body_raised(clock: Clock) -> None:
    error = ValueError("the body's own")
    left(leave(holding(clock), error), Unreachable("nobody answers"))
    assert "nobody answers" in error.__notes__[0]


def test_a_loss_never_hides_what_the_body_raised(clock: Clock) -> None:
    held, error = holding(clock), ValueError("the body's own")
    left(leave(held, error), Released(ID, released=False, reason="forced by ops: now"))
    assert "forced by ops: now" in error.__notes__[0]


def test_a_body_that_noticed_its_loss_is_not_told_again(clock: Clock) -> None:
    held = holding(clock)
    held.tenure.lose("forced by ops: now")
    error = LeaseLost(ID, "forced by ops: now")
    release = left(leave(held, error), Released(ID, released=False, reason="forced by ops: now"))
    assert release == {
        "lease": ID,
        "token": "secret",
        "status": "failed",
        "error": "the lease was lost: forced by ops: now",
    }
    assert not hasattr(error, "__notes__")


def test_a_release_that_is_refused_is_a_loss(clock: Clock) -> None:
    script = leave(holding(clock), None)
    next(script)
    with pytest.raises(LeaseLost, match="neither the token"):
        script.send(Refused("not_allowed", "token", "this is neither the token"))


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (None, "completed", None),
        (SystemExit(0), "completed", None),
        (SystemExit(3), "failed", "SystemExit: 3"),
        (ValueError("no such service"), "failed", "ValueError: no such service"),
        (KeyboardInterrupt(), "cancelled", "KeyboardInterrupt"),
        (Unprintable(), "failed", "Unprintable: <exception str() failed>"),
    ],
)
def test_what_history_is_told(clock: Clock, error: BaseException | None, status: str, text: str | None) -> None:
    told = left(leave(holding(clock), error), YES)
    assert told["status"] == status
    assert told["error"] == text or str(told["error"]).endswith(str(text))


def test_an_inner_block_of_the_same_lease_releases_nothing(clock: Clock) -> None:
    held = holding(clock)
    with pytest.raises(StopIteration):
        next(leave(held, None, release=False))
    assert held.lost == "released"
    lost = holding(clock)
    lost.tenure.lose("forced by ops: now")
    with pytest.raises(LeaseLost):
        next(leave(lost, None, release=False))
