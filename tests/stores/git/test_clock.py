"""Whose clock decides over git: each observer's own, by what it has seen unchanged and for how long."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import Granted, Held, Lost, Renewed
from leasehold.domain.timestamps import SECOND
from leasehold.engine.engine import Engine
from leasehold.locks.local import CallerDriver, EngineAnswers
from leasehold.locks.sync import Locks
from leasehold.requests.checks import Settings
from leasehold.stores.git import GitStore
from leasehold.stores.git import head as heads
from leasehold.stores.git.address import GitAddress
from tests.kit.remotes import bare
from tests.kit.samples import MINUTE, FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR = 60 * MINUTE
START = 1_800_000_000 * SECOND


class World:
    """One remote, and machines with clocks of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remote = bare(folder / "remote.git")
        self.clocks: dict[str, FakeClock] = {}
        self._open: list[Locks] = []

    def locks(self, machine: str, skew: int = 0, max_skew: int | None = None) -> Locks:
        """A new process on this machine, whose wall clock is so far off."""
        clock = self.clocks.setdefault(machine, FakeClock(START + skew))
        address = GitAddress(str(self.remote), str(self.folder / machine), max_skew=max_skew)
        engine = Engine(GitStore(address, clock))
        locks = Locks(EngineAnswers(engine, CallerDriver(engine), Settings()), holder=machine)
        self._open.append(locks)
        return locks

    def pass_time(self, us: int) -> None:
        for clock in self.clocks.values():
            clock.pass_time(us)

    def close(self) -> None:
        for locks in self._open:
            locks.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def granted(locks: Locks, resource: str = "r", ttl: float = 60) -> Granted | None:
    outcome = locks.acquire(resource, ttl=ttl)
    assert isinstance(outcome, Granted | Held), outcome
    return outcome if isinstance(outcome, Granted) else None


@pytest.mark.parametrize("skew", [-HOUR, -MINUTE, 0, MINUTE, HOUR, 24 * HOUR])
def test_a_skewed_clock_lets_nobody_in_early(world: World, skew: int) -> None:
    ada, bob = world.locks("ada"), world.locks("bob", skew)
    assert granted(ada)
    assert not granted(bob)
    world.pass_time(59 * SECOND)
    assert not granted(bob)
    world.pass_time(2 * SECOND)
    assert granted(bob)


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_clock_that_is_set_meanwhile_changes_nothing(world: World, step: int) -> None:
    ada, bob = world.locks("ada"), world.locks("bob")
    assert granted(ada)
    assert not granted(bob)
    world.clocks["bob"].step_wall(step)
    assert not granted(bob)
    assert not granted(world.locks("bob")), "nor for a new process"
    world.pass_time(61 * SECOND)
    assert granted(world.locks("bob"))


def test_what_was_never_seen_is_counted_from_the_first_sight(world: World) -> None:
    ada, bob = world.locks("ada"), world.locks("bob")
    assert granted(ada)
    world.pass_time(HOUR)
    assert not granted(bob), "how long has it been there? Nobody here can tell"
    world.pass_time(61 * SECOND)
    assert granted(bob)


def test_sights_of_separate_processes_add_up(world: World) -> None:
    assert granted(world.locks("ada"))
    assert not granted(world.locks("bob"))
    for _ in range(5):
        world.pass_time(10 * SECOND)
        looking = world.locks("bob")
        looking.inspect("r")
        looking.close()
    world.pass_time(11 * SECOND)
    assert granted(world.locks("bob"))


def test_sights_begin_anew_after_a_reboot(world: World) -> None:
    assert granted(world.locks("ada"))
    first = world.locks("bob")
    assert not granted(first)
    first.close()
    world.clocks["bob"].reboot(HOUR)
    again = world.locks("bob")
    assert not granted(again)
    world.pass_time(59 * SECOND)
    assert not granted(again)
    world.pass_time(2 * SECOND)
    assert granted(again)


def test_the_largest_fence_that_was_seen_is_remembered_over_a_reboot(world: World) -> None:
    assert granted(world.locks("ada"))
    world.clocks["ada"].reboot(HOUR)
    shutil.rmtree(world.remote)
    bare(world.remote)
    taken = world.locks("ada").acquire("r", ttl=60)
    assert isinstance(taken, Granted)
    assert taken.lease.fence > heads.SKIP


def test_a_renewal_is_seen_as_a_change(world: World) -> None:
    ada, bob = world.locks("ada"), world.locks("bob")
    held = granted(ada)
    assert held is not None
    for _ in range(4):
        assert not granted(bob)
        world.pass_time(40 * SECOND)
        assert isinstance(ada.renew(held.lease.id, held.token), Renewed)
    assert not granted(bob)


def test_a_renewal_that_nobody_saw_in_between_is_still_one(world: World) -> None:
    ada, bob = world.locks("ada"), world.locks("bob")
    held = granted(ada)
    assert held is not None
    assert not granted(bob)
    world.pass_time(50 * SECOND)
    ada.renew(held.lease.id, held.token)
    world.pass_time(50 * SECOND)
    assert not granted(bob)


def test_others_who_come_and_go_do_not_keep_a_dead_lease_alive(world: World) -> None:
    """The record is rewritten again and again; the entry of the dead is carried over as it stands."""
    ada, bob, carol = world.locks("ada", HOUR), world.locks("bob"), world.locks("carol", -HOUR)
    assert isinstance(ada.acquire("r", ttl=60, mode="shared"), Granted)
    assert not granted(bob)
    for _ in range(6):
        world.pass_time(10 * SECOND)
        read = carol.acquire("r", ttl=60, mode="shared")
        assert isinstance(read, Granted)
        carol.release(read.lease.id, read.token)
    world.pass_time(1 * SECOND)
    assert granted(bob)


def test_the_holder_itself_counts_from_before_its_push(world: World) -> None:
    ada = world.locks("ada")
    held = granted(ada)
    assert held is not None
    world.pass_time(60 * SECOND)
    assert isinstance(ada.renew(held.lease.id, held.token), Lost)


def test_nobody_is_sooner_than_the_holder(world: World) -> None:
    """Whatever the clocks show: when bob gets it, ada's own time is over, by its own clock."""
    ada, bob = world.locks("ada", HOUR), world.locks("bob", -HOUR)
    held = granted(ada)
    assert held is not None
    assert not granted(bob)
    for _ in range(13):
        world.pass_time(5 * SECOND)
        if granted(bob):
            break
    assert isinstance(ada.renew(held.lease.id, held.token), Lost)


def test_an_hour_of_clock_skew_shows_no_negative_times(world: World) -> None:
    ada, bob = world.locks("ada", HOUR), world.locks("bob")
    assert granted(ada)
    seen = bob.inspect("r")
    assert isinstance(seen, Inspection)
    (lease,) = seen.leases
    assert lease.acquired_us <= seen.now_us < lease.expires_us


# --------------------------------------------------------------------------------------------- max_skew


def test_max_skew_allows_the_quicker_rule(world: World) -> None:
    ada, bob = world.locks("ada"), world.locks("bob", max_skew=5 * SECOND)
    assert granted(ada)
    world.pass_time(64 * SECOND)
    assert not granted(bob), "expired by the wall clock, but within what clocks may differ"
    world.pass_time(2 * SECOND)
    assert granted(bob), "though it was never seen for a minute"


def test_max_skew_never_waits_longer_than_without(world: World) -> None:
    ada, bob = world.locks("ada", HOUR), world.locks("bob", max_skew=5 * SECOND)
    assert granted(ada)
    assert not granted(bob)
    world.pass_time(61 * SECOND)
    assert granted(bob)
