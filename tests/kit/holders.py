"""What the tests of `lock()` share: ways to lose a lease, to break a store, and to wait for what follows."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from leasehold.domain.leases import Inspection
from leasehold.errors import Unreachable
from leasehold.locks.holding import renewal
from leasehold.locks.local import AsyncEngineAnswers, EngineAnswers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    import pytest

    from leasehold.domain.events import Event
    from leasehold.domain.outcomes import Granted
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks
    from leasehold.stores.protocol import Store

    Run: TypeAlias = Callable[[Callable[[AsyncLocks], Awaitable[None]]], None]
    """What the fixture `run` gives."""

PATIENCE = 60.0
"""Far longer than anything here takes, however busy the machine is."""
TTL = 6
"""Of leases that are renewed meanwhile: they outlive a machine that does nothing at all for some seconds."""
ENDS = 2
"""A TTL whose end is waited for, after a renewal has failed."""


def renew_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew ten times as often as usual: a test of renewals needs no short TTL then."""
    monkeypatch.setattr(renewal, "RENEWALS", renewal.SHORTEST_PART)


def until(condition: Callable[[], object]) -> None:
    """Wait for this instead of sleeping for a fixed time."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it never came true"
        time.sleep(0.002)


async def async_until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it never came true"
        await asyncio.sleep(0.002)


class Losses(list[str]):
    """An `on_lost` that remembers what it was told, and by which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def __call__(self, reason: str) -> None:
        self.threads.append(threading.current_thread())
        self.append(reason)


def events(locks: Locks, kind: str) -> tuple[Event, ...]:
    """The newest first."""
    found = locks.history(kinds=[kind])
    assert not hasattr(found, "code"), found
    return tuple(found)


def last_end(locks: Locks) -> tuple[object, object]:
    """How the last release says that the work ended."""
    detail = events(locks, "released")[0].detail
    return detail["status"], detail["error"]


def store_of(locks: Locks | AsyncLocks) -> Store:
    answers = locks._answers
    assert isinstance(answers, EngineAnswers | AsyncEngineAnswers)
    return answers.engine.store


def give_back_later(locks: Locks, granted: Granted) -> threading.Thread:
    """Once somebody has waited for it so long that much of a life of `TTL` would have passed."""

    def work() -> None:
        until(lambda: _is_wanted(locks, granted.lease.resources[0]))
        end = renewal.steady() + TTL / renewal.SHORTEST_PART
        until(lambda: renewal.steady() > end)
        locks.release(granted.lease.id, granted.token)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def _is_wanted(locks: Locks, resource: str) -> bool:
    seen = locks.inspect(resource)
    assert isinstance(seen, Inspection)
    return bool(seen.waiting)


def unreachable() -> NoReturn:
    """A `begin` of a store that is gone."""
    raise Unreachable("nobody answers")
