"""While leases may have been lost that still count, nothing new is granted; what is there goes on."""

from __future__ import annotations

from leasehold.domain import commands as c
from leasehold.domain.entries import EMPTY, Record
from leasehold.domain.outcomes import Granted, Queued, Refused, Released, Renewed
from leasehold.domain.records import apply
from leasehold.domain.rules import NeedRecords, Step, step
from leasehold.domain.timestamps import SECOND
from leasehold.requests.checks import Settings
from leasehold.requests.to_command import Order, order

ENGINE = "e" + "0" * 32


class World:
    """Records, a clock, and a time before which nothing new is granted."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.now = 1_000 * SECOND
        self.opens_at = 0
        self.fence = 1

    def ask(self, verb: str, **arguments: object) -> object:
        made = order(verb, arguments, Settings(), ENGINE)
        assert isinstance(made, Order), made
        outcome = self.run(made.command)
        return outcome._replace(token=made.secret) if isinstance(outcome, Granted) else outcome

    def run(self, command: c.Command) -> object:
        while True:
            done = step(self.records, command, self.now, self.fence, ENGINE, self.opens_at)
            if isinstance(done, Step):
                break
            assert isinstance(done, NeedRecords)
            self.records.update({key: self.records.get(key, EMPTY) for key in done.keys})
        for change in done.changes.values():
            self.records[change.key] = apply(self.records[change.key], change)
        self.fence = done.fence
        return done.outcome


def _acquire(world: World, holder: str, **more: object) -> object:
    return world.ask("acquire", resources="r", ttl=600, holder=holder, **more)


def test_a_try_is_told_how_long_the_pause_lasts() -> None:
    world = World()
    world.opens_at = world.now + 90 * SECOND
    refused = _acquire(world, "ada")
    assert isinstance(refused, Refused)
    assert (refused.code, refused.field) == ("paused", "resources")
    assert "another 90 s" in refused.message


def test_who_waits_is_served_when_the_pause_is_over() -> None:
    world = World()
    world.opens_at = world.now + 90 * SECOND
    assert isinstance(_acquire(world, "ada", wait=600), Queued)
    node = next(key for key, record in world.records.items() if record.waiters)
    world.now = world.opens_at - 1
    world.run(c.Sweep((node,)))
    assert world.records[node].waiters
    world.now = world.opens_at
    world.run(c.Sweep((node,)))
    assert [hold.holder for hold in world.records[node].holds.values()] == ["ada"]


def test_what_is_held_goes_on() -> None:
    world = World()
    mine = _acquire(world, "ada")
    assert isinstance(mine, Granted)
    world.opens_at = world.now + 90 * SECOND
    assert isinstance(world.ask("renew", lease=mine.lease.id, token=mine.token, ttl=None), Renewed)
    again = _acquire(world, "ada", reentrant=True, token=mine.token)
    assert isinstance(again, Granted)
    assert again.lease.fence == mine.lease.fence
    assert isinstance(_acquire(world, "bob", wait=600), Queued)
    done = world.ask("release", lease=mine.lease.id, token=mine.token, status="completed", error=None)
    assert isinstance(done, Released)
    assert not any(record.holds for record in world.records.values())


def test_nothing_is_stolen_either() -> None:
    world = World()
    mine = _acquire(world, "ada")
    world.opens_at = world.now + 90 * SECOND
    stolen = world.ask("steal", resources="r", ttl=600, holder="ops", by="ops", reason="stuck")
    assert isinstance(stolen, Refused)
    assert stolen.code == "paused"
    assert isinstance(mine, Granted)
    assert any(mine.lease.id in record.holds for record in world.records.values())
