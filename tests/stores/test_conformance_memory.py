"""The store in memory keeps every promise, too: it is what the engine's own tests and simulations stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.engine.engine import Engine
from leasehold.locks.local import EngineAnswers, ThreadDriver
from leasehold.locks.sync import Locks
from leasehold.requests.checks import Settings
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.testing.conformance import Conformance, Connections

if TYPE_CHECKING:
    from collections.abc import Iterator


def _opening(memory: Memory) -> Connections:
    def connect(holder: str = "somebody", space: str = "default", settings: Settings | None = None) -> Locks:
        engine = Engine(MemoryStore(memory))
        answers = EngineAnswers(engine, ThreadDriver(engine), settings or Settings())
        return Locks(answers, holder=holder, space=space)

    return Connections(connect, MemoryStore.capabilities)


class TestInMemory(Conformance):
    @pytest.fixture
    def connect(self) -> Iterator[Connections]:
        with _opening(Memory()) as connect:
            yield connect
