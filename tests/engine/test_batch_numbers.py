"""A store whose numbers move up with every load: what is granted then has a number from after that load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted
from leasehold.engine.engine import Engine
from leasehold.stores.memory import MemoryStore, MemoryTransaction
from tests.engine.rig import acquire, release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasehold.domain.entries import Record

STEP = 1_000


class Leaping(MemoryTransaction):
    """Others take numbers while this one waits for records."""

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        self.fence += STEP
        return super().load(keys)


class LeapingStore(MemoryStore):
    def begin(self) -> Leaping:
        self.memory.enter()
        return Leaping(self)


def test_a_number_from_before_the_last_load_is_not_used() -> None:
    engine = Engine(LeapingStore())
    first = engine.submit(acquire(engine, "r"), "token")
    waiting = engine.submit(acquire(engine, "r", holder="b", wait=10), "token")
    engine.turn()
    granted, unused = first.result(), engine.store.memory.fence  # type: ignore[attr-defined] # it is ours
    assert isinstance(granted, Granted)
    engine.submit(release(granted))  # its record tells who held it: that one is loaded next
    engine.turn()
    served = waiting.result()
    assert isinstance(served, Granted)
    assert served.lease.fence >= unused + 2 * STEP
