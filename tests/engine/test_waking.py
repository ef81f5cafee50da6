"""Who is woken when a lease changes hands between processes: the next one, and no other. No poll helps here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted
from leasehold.engine.engine import Engine
from leasehold.engine.waiters import CROWD
from leasehold.stores.memory import Memory, MemoryStore
from tests.engine.rig import BEAT_EVERY, START, Rig, begin_waiting, release, take
from tests.engine.rig import begun as rig_begun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.stores.memory import MemoryTransaction

HOURS = 3_600 * 1_000_000


class Bells:
    """Engines on one memory, under a clock that the test moves. None of them has a heartbeat within hours."""

    def __init__(self, poll: int = 10 * HOURS) -> None:
        self.poll = poll
        self.now = 0.0
        self.memory = Memory(clock=lambda: START + round(self.now * 1_000_000))
        self.listeners: dict[str, Callable[[], None]] = {}
        self.woken: list[str] = []

    def engine(self) -> Engine:
        return Engine(RingingStore(self), clock=lambda: self.now)

    def take_woken(self) -> list[str]:
        woken, self.woken = self.woken, []
        return woken


class RingingStore(MemoryStore):
    def __init__(self, bells: Bells) -> None:
        super().__init__(bells.memory)
        self.capabilities = MemoryStore.capabilities._replace(poll=bells.poll, beat=10 * HOURS)
        self._bells = bells
        self.begun = 0
        self.reads = 0

    def begin(self) -> MemoryTransaction:
        self.begun += 1
        return super().begin()

    def listen(self, engine: str, told: Callable[[], None]) -> bool:
        self._bells.listeners[engine] = told
        return True

    def wake(self, engines: Sequence[str]) -> None:
        self._bells.woken += engines
        for engine in engines:
            self._bells.listeners[engine]()


def begun(engine: Engine) -> int:
    assert isinstance(engine.store, RingingStore)
    return engine.store.begun


def test_a_release_wakes_the_next_waiter_and_no_other() -> None:
    bells = Bells()
    engines = [bells.engine() for _ in range(5)]
    held = take(engines[0], "hot")
    waits = [begin_waiting(engine, "hot", f"w{place}") for place, engine in enumerate(engines[1:])]
    for engine in engines[1:]:
        engine.turn()
    token = "alice"
    for place, engine in enumerate(engines[1:]):
        before = [begun(each) for each in engines]
        owner = engines[place]
        owner.submit(release(held, token))
        owner.turn()
        assert bells.take_woken() == [engine.key]
        for other in engines:
            next_time = other.next_time()
            if next_time is not None and next_time <= bells.now:
                other.turn()
        served = waits[place].result()
        assert isinstance(served, Granted)
        held, token = served, f"w{place}"
        turns = [now - then for now, then in zip([begun(each) for each in engines], before, strict=True)]
        assert turns[place] <= 1, "the one that released"
        assert turns[place + 1] == 1, "the one that is served"
        assert sum(turns) == turns[place] + 1, "and nobody else"


def test_only_the_first_in_the_queue_has_the_timer_of_a_hold() -> None:
    bells = Bells()
    holder, first, second = (bells.engine() for _ in range(3))
    take(holder, "hot", ttl=60)
    one = begin_waiting(first, "hot", "one")
    begin_waiting(second, "hot", "two")
    first.turn()
    second.turn()
    at, later = first.next_time(), second.next_time()
    assert at is not None
    assert later is not None
    assert at == 60.0 < later
    bells.now = at
    first.turn()
    assert isinstance(one.result(), Granted)


def test_if_the_first_is_dead_the_others_serve_the_queue_at_the_next_poll() -> None:
    bells = Bells(poll=5_000_000)
    holder, dead, second = (bells.engine() for _ in range(3))
    take(holder, "hot", ttl=60)
    begin_waiting(dead, "hot", "dead", wait=30)
    two = begin_waiting(second, "hot", "two")
    while not two.is_done:
        second.turn()
        at = second.next_time()
        bells.now = max(bells.now, at or 0.0)
    assert isinstance(two.result(), Granted)
    assert bells.now <= 60 + 2 * 5 + 1


def test_a_backup_that_finds_the_queue_served_takes_no_turn() -> None:
    bells = Bells(poll=20_000_000)
    holder, first, second = (bells.engine() for _ in range(3))
    take(holder, "hot", ttl=60)
    one = begin_waiting(first, "hot", "one")
    begin_waiting(second, "hot", "two")
    bells.now = 60.0
    first.turn()
    assert isinstance(one.result(), Granted)
    second.turn()
    before = begun(second)
    backup = second.next_time()
    assert backup is not None
    assert backup > 60.0
    bells.now = backup
    second.turn()
    assert begun(second) == before


def test_many_engines_in_a_queue_have_their_heartbeats_less_often() -> None:
    """All together must not keep the store busy: 50 processes would commit 100 heartbeats a second."""
    rig = Rig(poll=60_000_000)
    holder = rig.engine()
    take(holder, "hot", ttl=3_600)
    engines = [rig.engine() for _ in range(40)]
    for place, engine in enumerate(engines):
        begin_waiting(engine, "hot", f"w{place}", wait=3_600)
    beats = _turns_within(rig, engines, 4 * BEAT_EVERY)
    assert beats > 0
    beats = _turns_within(rig, engines, 40 * BEAT_EVERY)
    assert beats <= 40 * CROWD + len(engines)
    for engine in engines:
        assert not any(pending.is_done for _, pending in engine._ready_waiters().everybody())


def _turns_within(rig: Rig, engines: list[Engine], seconds: float) -> int:
    """Move the clock by so many seconds, and return how many transactions these engines began."""
    before, end = sum(map(rig_begun, engines)), rig.now + seconds
    while True:
        at = min(at for at in (engine.next_time() for engine in engines) if at is not None)
        if at > end:
            break
        rig.now = max(rig.now, at)
        for engine in engines:
            next_time = engine.next_time()
            if next_time is not None and next_time <= rig.now:
                engine.turn()
    rig.now = end
    return sum(map(rig_begun, engines)) - before
