"""The vocabulary of the topics: connections, callers in threads, waiting for a condition. It promises nothing."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import pytest

from leasehold.domain.leases import Blocker, Inspection, Lease
from leasehold.domain.outcomes import Granted, Held, Refused, Released
from leasehold.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any, Self

    from leasehold.locks.sync import Locks
    from leasehold.stores import Capabilities

S = TypeVar("S")
T = TypeVar("T")
Told = TypeVar("Told", Lease, Blocker)

PATIENCE = 60.0
"""So long is a condition waited for before it counts as never coming true; a loaded machine is slow."""
LONG = 600
"""A TTL, or a wait, that does not end during a test."""
SHORT = 0.05
"""A TTL that ends while a test waits for it."""
APART = 0.01
"""Seconds by which servers may differ about their store's clock, at most."""


class Connect(Protocol):
    """The one fixture: gives a fresh connection to the store under test."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the store."""

    def __call__(self, **options: Any) -> Locks:
        """Open another connection. The options are those of `leasehold.connect`."""


class Connections:
    """A `connect` that remembers what it opened and closes it in the end."""

    def __init__(self, connect: Callable[..., Locks], capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self._connect = connect
        self._opened: list[Locks] = []

    def __call__(self, **options: Any) -> Locks:
        """Open another connection."""
        locks = self._connect(**options)
        self._opened.append(locks)
        return locks

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._opened:
            self._opened.pop().close()


class Asking(Generic[T]):
    """A call under way in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._answers: list[T] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="asking", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answers.append(self._call())
        except BaseException as error:  # noqa: BLE001 (raised where the answer is read)
            self._errors.append(error)

    @property
    def is_over(self) -> bool:
        """True once the answer has arrived."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait for the answer, but not longer than this."""
        self._thread.join(seconds)

    def answer(self) -> T:
        """Wait for the answer; raises what the call raised."""
        self.wait(PATIENCE)
        assert not self._thread.is_alive(), f"no answer after {PATIENCE:.0f} s"
        if self._errors:
            raise self._errors[0]
        return self._answers[0]


def at_once(work: Callable[[S], T], on: Iterable[S]) -> list[T]:
    """Do this work on each of these at the same moment, each in its own thread. Return the answers in order."""
    asked = [Asking(partial(work, each)) for each in on]
    return [asking.answer() for asking in asked]


def expect(kind: type[T], outcome: object) -> T:
    """Return the outcome, which must be of this kind."""
    assert isinstance(outcome, kind), f"expected {kind.__name__}, got {outcome!r}"
    return outcome


def wrong(field: str, call: Callable[[], object]) -> InvalidInput:
    """Return the error of a call with a wrong argument. It must name this field."""
    with pytest.raises(InvalidInput) as caught:
        call()
    assert caught.value.field == field, caught.value
    return caught.value


def refused(outcome: object, code: str, field: str) -> Refused:
    """Return the refusal, which must have this code and name this field."""
    refusal = expect(Refused, outcome)
    assert (refusal.code, refusal.field) == (code, field), refusal
    assert refusal.message
    return refusal


def until(condition: Callable[[], T], what: str) -> T:
    """Wait until the condition holds, and hand back what it gave."""
    end = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"after {PATIENCE:.0f} s still not so: {what}"
        time.sleep(0.002)


def until_time_has_passed(condition: Callable[[], T], what: str) -> T:
    """Wait until this is true by the passing of time, also for a server that is asked next."""
    value = until(condition, what)
    time.sleep(APART)
    return value


def timeless(told: Told) -> Told:
    """Return the lease or blocker without the moment at which it was seen, to compare the rest."""
    return told._replace(as_of_us=0)


def take(locks: Locks, resources: str | list[str], **options: Any) -> Granted:
    """Acquire a free resource, for long unless the options say otherwise."""
    granted = expect(Granted, locks.acquire(resources, **{"ttl": LONG, **options}))
    return granted._replace(lease=timeless(granted.lease))


def take_once_free(locks: Locks, resource: str, **options: Any) -> Granted:
    """Acquire a resource that becomes free by itself, by trying again and again."""

    def attempt() -> Granted | None:
        outcome = locks.acquire(resource, **{"ttl": LONG, **options})
        return outcome if isinstance(outcome, Granted) else None

    granted = until(attempt, f"{resource} can be taken")
    assert granted is not None
    return granted


def release(locks: Locks, granted: Granted) -> None:
    """Release a lease that is held."""
    released = locks.release(granted.lease.id, granted.token)
    assert isinstance(released, Released), released
    assert released.released, released


def wait_for(locks: Locks, resources: str | list[str], *, at: str | None = None, **options: Any) -> Asking[object]:
    """Begin to wait for something, in a thread; comes back once the caller is seen in the queue (of `at`)."""
    holder = options.get("holder") or locks.holder
    resource = at or (resources if isinstance(resources, str) else resources[0])
    before = queue_of(locks, resource).count(holder)
    asked = {"ttl": LONG, "wait": LONG, **options}
    asking: Asking[object] = Asking(lambda: locks.acquire(resources, **asked))
    until(lambda: asking.is_over or queue_of(locks, resource).count(holder) > before, f"{holder} is in the queue")
    assert not asking.is_over, f"{holder} should wait, but got {asking.answer()!r}"
    return asking


def inspection(locks: Locks, resource: str) -> Inspection:
    """Return the state of the resource."""
    seen = expect(Inspection, locks.inspect(resource))
    leases, closed = tuple(map(timeless, seen.leases)), tuple(map(timeless, seen.closed))
    return seen._replace(leases=leases, closed=closed)


def queue_of(locks: Locks, resource: str) -> list[str]:
    """Return the holders of the requests that wait for the resource, in order."""
    return [waiting.holder for waiting in inspection(locks, resource).waiting]


def holders_of(locks: Locks, resource: str) -> list[str]:
    """Return the holders of the resource, in alphabetical order."""
    return sorted(lease.holder for lease in inspection(locks, resource).leases)


def refuse_each_other(connect: Connect, pairs: Iterable[tuple[str, str]]) -> None:
    """Hold each name of a pair in turn: a second caller is refused the other one, and learns what is in the way."""
    alice, bob = connect(holder="alice"), connect(holder="bob")
    for one, other in pairs:
        for first, second in ((one, other), (other, one)):
            granted = take(alice, first)
            held = expect(Held, bob.acquire(second, ttl=LONG))
            assert [(each.holder, each.resource) for each in held.blockers] == [("alice", first)]
            assert holders_of(bob, second) == ["alice"]
            release(alice, granted)
            release(bob, take(bob, second))


def leases_of(locks: Locks, **query: Any) -> tuple[Lease, ...]:
    """Return the leases that are held."""
    leases = locks.list(**query)
    assert not isinstance(leases, Refused), leases
    return tuple(map(timeless, leases))


def until_free(locks: Locks, resource: str) -> None:
    """Wait until nobody holds the resource and nothing keeps it closed."""

    def is_free() -> bool:
        seen = inspection(locks, resource)
        return not seen.leases and not seen.closed

    until_time_has_passed(is_free, f"{resource} is free")


def needs_fifo(connect: Connect) -> None:
    """Skip where the store says that it serves waiters in no strict order."""
    if not connect.capabilities.fifo:
        pytest.skip(f"{connect.capabilities.name} declares that it is not first come first served")


def needs_history(connect: Connect) -> None:
    """Skip where the store says that it keeps no history."""
    if not connect.capabilities.history:
        pytest.skip(f"{connect.capabilities.name} declares that it keeps no history")
