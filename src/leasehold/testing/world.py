"""A world in memory to try the rules in: records, a clock that only you move, and nothing else. No store, no threads.

    world = World()
    outcome = world.do(command)
    world.advance(30 * SECOND)
    world.sweep()

It loads no more than a step asks for, as an engine does, and distrusts every step: one that changes what it was
given, or whose changes do not lead to the records that it promises, fails with an `AssertionError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain import keys, records
from leasehold.domain.commands import Sweep
from leasehold.domain.entries import EMPTY
from leasehold.domain.records import due
from leasehold.domain.rules import Step, keys_of, step
from leasehold.domain.timestamps import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.domain.commands import Command
    from leasehold.domain.entries import Entry, Record
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Outcome

START = 1_000_000 * SECOND
"""The time at which a new world begins."""
ROUNDS = 8
"""How often a sweep may find something new to do before that counts as a rule that never ends."""


class World:
    """All records there are, the time, the next fence, and what has happened so far."""

    def __init__(self, now: int = START, fence: int = 1, engine: str = "world") -> None:
        self.now = now
        self.fence = fence
        self.engine = keys.engine(engine)
        """Key of the engine that asks, unless another one is named."""
        self.records: dict[str, Record] = {}
        """Only those that are not empty."""
        self.events: list[Event] = []
        self.picked_up: list[tuple[str, Lease]] = []
        """The waiters that were granted a lease, in order: (id of the waiter, lease)."""

    def do(self, command: Command, engine: str | None = None) -> Outcome:
        """Let the rules decide this command, now, and make it so. `engine` is the key of the engine that asks."""
        done = self._decide(command, self.engine if engine is None else engine)
        for key, record in done.changed.items():
            if record == EMPTY:
                self.records.pop(key, None)
            else:
                self.records[key] = record
        self.fence = done.fence
        self.events.extend(done.events)
        self.picked_up.extend(done.picked_up)
        return done.outcome

    def advance(self, us: int) -> None:
        """Let that much time go by; nobody notices before the next command."""
        if us < 0:
            raise ValueError("time does not go back")
        self.now += us

    def due(self) -> list[str]:
        """Keys of the records that a sweep should look at by now."""
        return sorted(
            key
            for key in self.records
            if any((moment := due(entry)) is not None and moment <= self.now for entry in self.entries(key))
        )

    def sweep(self, engine: str | None = None) -> None:
        """Do what an engine does when a moment has come: look at everything that is due."""
        for _ in range(ROUNDS):
            due = self.due()
            if not due:
                return
            self.do(Sweep(tuple(due)), engine)
        raise AssertionError(f"sweeping does not end: {self.due()} are due again and again")

    def entries(self, key: str) -> Iterator[Entry]:
        """Return everything under this key."""
        record = self.records.get(key, EMPTY)
        yield from record.holds.values()
        yield from record.waiters
        yield from record.notes.values()

    def _decide(self, command: Command, engine: str) -> Step:
        loaded = {key: self.records.get(key, EMPTY) for key in keys_of(command)}
        while True:
            before = {
                key: record._replace(holds=dict(record.holds), notes=dict(record.notes))
                for key, record in loaded.items()
            }
            done = step(loaded, command, self.now, self.fence, engine)
            assert loaded == before, f"{command} changed the records that it was given"
            if isinstance(done, Step):
                self._check(done, loaded)
                return done
            assert done.keys, "a step needs something, and does not say what"
            assert not loaded.keys() & set(done.keys), f"a step asks again for what it has: {done.keys}"
            loaded.update((key, self.records.get(key, EMPTY)) for key in done.keys)

    def _check(self, done: Step, loaded: dict[str, Record]) -> None:
        after = dict(loaded)
        for change in done.changes.values():
            after[change.key] = records.apply(after[change.key], change)
        changed = {key for key, _ in done.changes}
        assert changed == done.changed.keys(), "the changed records are not those that the changes are about"
        for key in changed:
            assert after[key] == done.changed[key], f"the changes of {key} do not lead to the record that is promised"
            entries = [*after[key].holds.values(), *after[key].waiters, *after[key].notes.values()]
            assert records.build(entries) == after[key], f"{key} is not what a store would read back"
        assert done.fence >= self.fence, "the next number must never go back"
