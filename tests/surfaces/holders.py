"""What the tests of `lock()` share: ways to lose a lease, to break a store, and to wait for what follows."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from leasehold.embedded import AsyncEngineAnswers, EngineAnswers
from leasehold.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.async_locks import AsyncLocks
    from leasehold.locks import Locks
    from leasehold.model import Event
    from leasehold.stores import Store

PATIENCE = 60.0
"""Far longer than anything here takes, however busy the machine is."""


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


def unreachable() -> NoReturn:
    """A `begin` of a store that is gone."""
    raise Unreachable("nobody answers")
