"""A lease in the hands of a `with` block, and the script of taking and leaving it. It does no I/O.

Each script is a generator that yields the verb to call, or the seconds to pause (see ``leasehold.steps``). ``sync``
drives it for plain code and ``aio`` for coroutines, so that the two cannot drift apart.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted, Lost, Renewed
from leasehold.domain.timestamps import SECOND
from leasehold.errors import LeaseholdError, LeaseLost, NotAcquired, StoreError
from leasehold.locks.holding.renewal import Tenure, steady
from leasehold.requests import to_command as orders
from leasehold.wire.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar

    from leasehold.domain.leases import Lease
    from leasehold.locks.arguments import Duration
    from leasehold.locks.sync import CallDefaults
    from leasehold.steps import Steps

    P = ParamSpec("P")
    R = TypeVar("R")
    Clock: TypeAlias = Callable[[], float]
    OnLost: TypeAlias = Callable[[str], None]

    class AcquireOptions(TypedDict, total=False):
        """The options of an acquire that `lock` hands on as they are."""

        mode: str | None
        slots: int
        any_of: bool
        holder: str | None
        session: str | None
        space: str | None
        name: str | None
        context: object
        reason: str | None
        priority: int
        reentrant: bool
        grace: Duration
        on_expiry: str
        request_id: str | None
        intent: bool
        token: str | Sequence[str] | None
        trace: str | None
        host: str | None

    class LockTerms(AcquireOptions, total=False):
        """The options that `guarded` passes to `lock`."""

        on_lost: OnLost | None


FORKED = "this process was forked from the one that holds it; acquire a lease of its own here"
STOPPED: tuple[type[BaseException], ...] = (KeyboardInterrupt, GeneratorExit)
"""Exceptions that end a body which has not failed."""


def check_on_lost(on_lost: OnLost | None) -> None:
    """Refuse what cannot be called, and a coroutine function, which would be called and never awaited."""
    if on_lost is not None and not callable(on_lost):
        raise TypeError(f"on_lost must be a function, not a value of type {type(on_lost).__name__}")
    if on_lost is not None and is_coroutine_function(on_lost):
        raise TypeError(
            "on_lost is a coroutine function, and is called as a plain one: have it set an event, for example"
        )


def check_asked(locks: CallDefaults, asked: Mapping[str, Any]) -> None:
    """Raise where the lock is written, not where it is first entered: `InvalidInput`, or `TypeError` for an option."""
    given = {"holder": None, "space": None, **asked}
    orders.check("acquire", locks._call("acquire", {"self": locks, **given}).arguments)


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Return True if calling it returns a coroutine; also for a callable object."""
    from inspect import iscoroutinefunction  # noqa: PLC0415 (not for those who do without)

    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


class HeldLease:
    """A lease that is renewed in the background for as long as a `with` block runs.

    It does **not** stop a holder that has lost its lease. A process that is paused (stopped, swapped out, asleep with
    its machine) for longer than the TTL goes on as if nothing had happened, and another holder has the resource by
    then. `ensure` before a step that cannot be undone makes that window small; only a resource that compares the
    `fence` closes it (see `leasehold.fencing`).
    """

    def __init__(self, granted: Granted, tenure: Tenure) -> None:
        self.token = granted.token
        """The secret that renews and releases it."""
        self.tenure = tenure
        """For the thread or task that renews it."""
        self._pid = os.getpid()

    @property
    def lease(self) -> Lease:
        """The lease, as the store showed it last."""
        return self.tenure.lease

    @property
    def id(self) -> str:
        """The lease's id."""
        return self.lease.id

    @property
    def fence(self) -> int:
        """Larger than the fence of every earlier grant: send it along with whatever is written under this lease."""
        return self.lease.fence

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources it holds; with `any_of`, the one that was free."""
        return self.lease.resources

    @property
    def value(self) -> str | None:
        """The member of a pool that it has; None if it is on no pool."""
        return self.lease.value

    @property
    def is_forked(self) -> bool:
        """True if this process inherited it: a lease belongs to the process that acquired it."""
        return os.getpid() != self._pid

    @property
    def lost(self) -> str | None:
        """Why it can no longer be counted on; None while it can."""
        return FORKED if self.is_forked else self.tenure.reason

    def ensure(self) -> None:
        """Raise `LeaseLost` once it is lost, or could be: its own deadline has passed, or this is a forked child."""
        reason = self.lost
        if reason is not None:
            raise LeaseLost(self.id, reason) from (None if self.is_forked else self.tenure.cause)

    def remaining(self) -> float:
        """Seconds for which it can be counted on if it is not renewed again; 0 once it is lost."""
        return 0.0 if self.is_forked else self.tenure.remaining()

    def __repr__(self) -> str:
        return f"<HeldLease {self.id} on {', '.join(self.resources)}, fence {self.fence}>"


# ----------------------------------------------------------------------------------------------- scripts


def take(asked: Mapping[str, Any], clock: Clock = steady) -> Steps[HeldLease]:
    """Acquire, and count from before the request: raises `NotAcquired` if the answer is no."""
    sent = clock()
    outcome = yield ("acquire", asked)
    if not isinstance(outcome, Granted):
        raise NotAcquired(outcome, sentence(outcome))
    try:
        tenure = yield from _sound(outcome, sent, clock)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from release_unused(outcome.lease.id, outcome.token, error)
        raise
    return HeldLease(outcome, tenure)


def _sound(granted: Granted, sent: float, clock: Clock) -> Steps[Tenure]:
    """Return the tenure of a new lease. Renew it first if much of its TTL had passed when the answer came."""
    lease = granted.lease
    tenure = Tenure(lease, sent, clock)
    if tenure.pause() > 0:
        return tenure
    gone_at = clock() + (lease.expires_us - lease.as_of_us) / SECOND
    while True:
        sent = clock()
        try:
            answer = yield ("renew", {"lease": lease.id, "token": granted.token})
        except StoreError:
            if clock() >= gone_at:
                raise
            yield tenure.retry
            continue
        if isinstance(answer, Renewed):
            return Tenure(answer.lease, sent, clock)
        raise LeaseLost(lease.id, answer.reason if isinstance(answer, Lost) else answer.message)


def release_unused(lease: str, token: str, error: BaseException, why: str = "never handed out: ") -> Steps[None]:
    """Release a lease that was granted but not handed out, because of `error`, or that may not be released yet."""
    told = {"status": "cancelled", "error": why + described(error)}
    try:
        yield ("release", {"lease": lease, "token": token, **told})
    except LeaseholdError as failure:
        error.add_note(_unreleased(lease, failure))


def leave(
    held: HeldLease,
    error: BaseException | None,
    *,
    release: bool = True,
    stopped: tuple[type[BaseException], ...] = STOPPED,
) -> Steps[None]:
    """Give it back after the body; `error` is what the body raised. Nothing is raised on top of that."""
    tenure, failure = held.tenure, None
    if release:
        told = _ending(tenure.reason if tenure.is_known_lost else None, error, stopped)
        try:
            answer = yield ("release", {"lease": held.id, "token": held.token, **told})
        except LeaseholdError as caught:
            failure = caught
        else:
            tenure.learn_release(answer)
    # A store that confirms the release knows better than our own, earlier deadline; one that is silent does not.
    reason = tenure.reason if failure is not None or tenure.is_known_lost else None
    tenure.lose("released")
    if reason is not None or failure is not None:
        _tell(held, error, reason, failure)


def _tell(held: HeldLease, error: BaseException | None, reason: str | None, failure: LeaseholdError | None) -> None:
    if failure is not None and error is not None:
        error.add_note(_unreleased(held.id, failure))
    if reason is not None:
        lost = LeaseLost(held.id, reason)
        if error is None:
            raise lost from (held.tenure.cause or failure)
        if not isinstance(error, LeaseLost):
            error.add_note(str(lost))
    elif failure is not None and error is None:
        failure.add_note(f"the work is done, but the lease {held.id} was not released: it will expire by itself")
        raise failure


def _ending(
    lost: str | None, error: BaseException | None, stopped: tuple[type[BaseException], ...]
) -> dict[str, str | None]:
    """Return how the work ended, for the history."""
    if lost is not None:
        return {"status": "failed", "error": f"the lease was lost: {lost}"}
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return {"status": "completed", "error": None}
    return {"status": "cancelled" if isinstance(error, stopped) else "failed", "error": described(error)}


def described(error: BaseException) -> str:
    """Return the exception's type and message, even of one that cannot be printed."""
    from traceback import format_exception_only  # noqa: PLC0415 (only when something went wrong)

    return "".join(format_exception_only(error)).strip()


def _unreleased(lease: str, failure: LeaseholdError) -> str:
    return f"the lease {lease} could not be released and will expire by itself: {failure}"
