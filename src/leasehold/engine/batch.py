"""Run one batch: many commands in one transaction. Load the records, let the rules decide, commit. It decides nothing.

No outcome is returned before it is durable. After a conflict with another process, all commands are decided again on
the records as they are now. A batch runs step by step, so that an event loop need not wait for a network.
"""

from __future__ import annotations

import os
from itertools import islice

from leasehold.domain.entries import Put, Receipt
from leasehold.domain.rules import NeedRecords, keys_of, step
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, LeaseholdError, OutcomeUnknown, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final, TypeAlias, TypeGuard

    from leasehold.domain.commands import Command
    from leasehold.domain.entries import Drop, Record
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Step
    from leasehold.steps import Steps
    from leasehold.stores.protocol import NetworkStore, NetworkTransaction, Store, Transaction

    Closing: TypeAlias = Callable[[Sequence[Outcome | Exception], Transaction], list[Command]]

ATTEMPTS: Final = 100
"""Attempts at a batch before its callers get `StoreError`: the store is too busy."""
LOOKS_AHEAD: Final = 8
"""How often an attempt also loads what its later commands will need, where each load is a round trip."""
RECEIPT: Final = "receipt"
RECEIPT_LIFE: Final = 3600 * SECOND


class BatchRecords:
    """The records of a batch: those that it has changed, on top of those that the store has loaded."""

    __slots__ = ("_transaction", "changed", "loaded")

    def __init__(self, transaction: Transaction, keys: Sequence[str]) -> None:
        self._transaction = transaction
        loaded = transaction.load(keys)
        self.loaded: dict[str, Record] = loaded if isinstance(loaded, dict) else dict(loaded)
        self.changed: dict[str, Record] = {}

    def get(self, key: str, /) -> Record | None:
        """Return the record if it is loaded."""
        found = self.changed.get(key)
        return found if found is not None else self.loaded.get(key)

    def fetch(self, keys: Sequence[str]) -> None:
        """Load more records."""
        more = self._transaction.load(keys)
        if more is not self.loaded:
            self.loaded = {**self.loaded, **more}


class Unresolved(OutcomeUnknown):
    """It is not known yet whether this batch was committed: `happened` tells once the store answers again."""

    def __init__(self, receipt: Put, why: object) -> None:
        super().__init__(f"the store did not confirm this commit, and it does not answer now: {why}; try again")
        self.receipt = receipt
        self.result: BatchResult | None = None


class BatchResult:
    """The outcomes of a batch. Its transaction stays open until `close`."""

    __slots__ = ("_transaction", "events", "now", "outcomes", "picked_up", "to_wake", "view")

    def __init__(self, outcomes: list[Outcome | Exception], attempt: _Attempt) -> None:
        self._transaction = attempt.transaction
        self.outcomes = outcomes
        """One for each command, in order; an exception where a rule failed."""
        self.picked_up = attempt.picked_up
        """Waiters of this engine that were granted their lease in this batch."""
        self.to_wake = attempt.to_wake
        """Other engines, waiters of which this batch served or removed."""
        self.events = attempt.events
        self.now = attempt.transaction.now
        self.view = attempt.view

    def close(self) -> None:
        """End the transaction: other processes may begin theirs."""
        self._transaction.close()


def is_networked(store: Store) -> TypeGuard[NetworkStore]:
    """Return True if each access waits for a network."""
    return store.capabilities.remote


def run(store: Store, commands: list[Command], engine: str, closing: Closing) -> Steps[BatchResult]:
    """Decide these commands in order and commit them together. The caller closes the result, soon.

    `closing` may add commands once these are decided: an engine's heartbeat, a sweep of expired records.
    """
    wanted: dict[str, None] = {}
    for command in commands:
        for key in keys_of(command):
            wanted[key] = None
    keys = list(wanted)
    if not is_networked(store) or not store.ready(keys):
        yield None
    why = ""
    for _ in range(ATTEMPTS):
        try:
            return (yield from _attempt(store, commands, engine, closing, keys))
        except Conflict as error:
            why = str(error)
        yield None
    raise StoreError(
        f"the store is too busy: another process was quicker {ATTEMPTS} times in a row; try again. If no other process "
        f"is at work there, this is why it failed: {why}"
    )


def _attempt(
    store: Store,
    commands: list[Command],
    engine: str,
    closing: Closing,
    keys: list[str],
) -> Steps[BatchResult]:
    """Run the commands in one transaction: decide them, let `closing` add housekeeping, and commit."""
    networked: NetworkTransaction | None = None
    if is_networked(store):
        transaction: Transaction = (networked := store.begin())
    else:
        transaction = store.begin()
    try:
        attempt = _Attempt(transaction, networked, keys, engine, commands)
        yield from _decide(attempt, commands)
        outcomes = list(attempt.outcomes)
        more = closing(outcomes, transaction)
        if more:
            yield from _decide(attempt, more)
        result = BatchResult(outcomes, attempt)
        try:
            yield from attempt.commit(store)
        except Unresolved as unresolved:
            unresolved.result = result
            raise
    except BaseException:
        transaction.close()
        raise
    return result


def _decide(attempt: _Attempt, commands: list[Command]) -> Steps[None]:
    """Decide all commands, and load what they need on the way."""
    decided = attempt.decide_all(commands, 0)
    while decided < len(commands):
        yield None
        attempt.fetch()
        decided = attempt.decide_all(commands, decided)


class _Attempt:
    """One attempt at a batch."""

    __slots__ = (
        "changes",
        "commands",
        "engine",
        "events",
        "fence",
        "keys",
        "looks_ahead",
        "needed",
        "networked",
        "opens_at",
        "outcomes",
        "picked_up",
        "to_wake",
        "transaction",
        "view",
    )

    def __init__(
        self,
        transaction: Transaction,
        networked: NetworkTransaction | None,
        keys: list[str],
        engine: str,
        commands: list[Command],
    ) -> None:
        self.commands = commands
        self.looks_ahead = 0 if networked is None else LOOKS_AHEAD
        self.transaction = transaction
        self.networked = networked
        """The transaction if it is one behind a network."""
        self.keys = keys
        self.engine = engine
        self.view = BatchRecords(transaction, keys)
        self.fence = transaction.fence
        self.opens_at = transaction.opens_at
        self.changes: dict[tuple[str, str], Put | Drop] = {}
        """By record and entry: each entry is written once."""
        self.events: list[Event] = []
        self.outcomes: list[Outcome | Exception] = []
        self.picked_up: dict[str, Lease] = {}
        self.to_wake: dict[str, None] = {}
        self.needed: tuple[str, ...] = ()
        """Keys to load before the next command can be decided."""

    def decide_all(self, commands: list[Command], decided: int) -> int:
        """Decide commands from this index on; return how many are decided. The next one needs records to be loaded."""
        while decided < len(commands) and not self.decide(commands[decided]):
            decided += 1
        return decided

    def decide(self, command: Command) -> bool:
        """Decide a command on top of those before it; return True if records have to be loaded first.

        If a rule fails, the other commands are not affected.
        """
        try:
            result = self._step(command)
        except (LeaseholdError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (it is the outcome of this command)
            self.outcomes.append(error)
            return False
        if isinstance(result, NeedRecords):
            self.needed = result.keys
            return True
        self.outcomes.append(result.outcome)
        self.events += result.events
        self.fence = result.fence
        self.view.changed.update(result.changed)
        self.changes.update(result.changes)
        if result.picked_up:
            self.picked_up.update(result.picked_up)
        if result.to_wake:
            self.to_wake.update(result.to_wake)
        return False

    def fetch(self) -> None:
        """Load what is needed now, and what later commands are known to need."""
        wanted = (*self.needed, *self._needed_later())
        self.keys.extend(wanted)  # if the store makes us start over, the first load includes them
        self.view.fetch(wanted)
        # A fence read before this record was ours may be smaller than one that the record contains.
        self.fence = max(self.fence, self.transaction.fence)

    def _step(self, command: Command) -> Step | NeedRecords:
        view = self.view
        return step(view.loaded, command, self.transaction.now, self.fence, self.engine, self.opens_at, view.changed)

    def _needed_later(self) -> list[str]:
        """Return what later commands need, where each load is a round trip."""
        wanted: dict[str, None] = {}
        if self.looks_ahead:
            self.looks_ahead -= 1
            for command in islice(self.commands, len(self.outcomes) + 1, None):
                try:
                    result = self._step(command)
                except Exception:  # noqa: BLE001, S112 (it fails again at its turn, as its outcome) # nosec B112
                    continue
                if isinstance(result, NeedRecords):
                    wanted.update(dict.fromkeys(result.keys))
        return list(wanted)

    def commit(self, store: Store) -> Steps[None]:
        """Make it durable. If the store does not confirm the commit, look for the receipt that it left."""
        networked = self.networked
        if not self.changes and not self.events:
            if networked is not None:
                yield from networked.confirming()
            return
        changes = list(self.changes.values())
        if not store.capabilities.receipts:
            self.transaction.commit(changes, self.events, self.fence, self.view.changed)
            return
        # To the minute: a store with an index of such times need not change it with each commit.
        until = self.transaction.now + RECEIPT_LIFE
        receipt = Put(self.engine, Receipt(RECEIPT, os.urandom(16).hex(), until - until % (60 * SECOND)))
        changes.append(receipt)
        lost: OutcomeUnknown | None = None
        try:
            if networked is None:
                self.transaction.commit(changes, self.events, self.fence, self.view.changed)
            else:
                yield from networked.committing(changes, self.events, self.fence, self.view.changed)
        except OutcomeUnknown as unknown:
            lost = unknown
        if lost is not None:
            yield None
            try:
                is_there = happened(store, receipt)
            except StoreError as error:
                raise Unresolved(receipt, error) from lost
            if not is_there:
                raise Conflict("the commit did not happen") from None


def happened(store: Store, receipt: Put) -> bool:
    """Return True if the batch that left this receipt was committed."""
    _, found = store.read((receipt.key,))
    return found[receipt.key].notes.get(RECEIPT) == receipt.entry
