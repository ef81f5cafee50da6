"""A free slot belongs to the first waiter, even if it still waits for other resources as well."""

from __future__ import annotations

from leasehold.domain.outcomes import Granted, Held, Queued
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.testing.asking import asking
from leasehold.testing.world import World


class Semaphores:
    """Two of them, `one` and `other`, with two slots each."""

    def __init__(self) -> None:
        self.world = World()

    def acquire(self, holder: str, *names: str, wait: int = 0) -> object:
        asked = asking(list(names), 60, holder, slots=2, wait=wait)
        return self.world.do(checks.acquire(asked, Settings(), holder, self.world.engine))


def test_the_last_slot_is_kept_for_who_waits_for_two_things() -> None:
    semaphores = Semaphores()
    for holder, name in (("a", "one"), ("b", "other"), ("c", "other")):
        assert isinstance(semaphores.acquire(holder, name), Granted)
    assert isinstance(semaphores.acquire("both", "one", "other", wait=10), Queued)
    assert isinstance(semaphores.acquire("late", "one"), Held)


def test_where_there_are_enough_slots_for_all_nobody_is_held_up() -> None:
    semaphores = Semaphores()
    for holder in ("b", "c"):
        assert isinstance(semaphores.acquire(holder, "other"), Granted)
    assert isinstance(semaphores.acquire("both", "one", "other", wait=10), Queued)
    assert isinstance(semaphores.acquire("late", "one"), Granted)
