"""One batch: many commands, one transaction. It loads, lets the rules decide, and commits; it decides nothing.

Nothing is handed back before it is durable. A conflict means that somebody else was quicker: everything is
decided again from what is true now. It goes step by step (see ``stepwise``).
"""

from __future__ import annotations

import os
from itertools import islice

from leasehold.domain.entries import Put, Receipt
from leasehold.domain.rules import Need, keys_of, step
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, LeaseholdError, OutcomeUnknown, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final, TypeAlias

    from leasehold.domain.commands import Command
    from leasehold.domain.entries import Drop, Record
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Step
    from leasehold.steps import Steps
    from leasehold.stores import Store, Transaction

    Closing: TypeAlias = Callable[[Sequence[Outcome | Exception], Transaction], list[Command]]

ATTEMPTS: Final = 100
"""How often a batch is decided again before its callers are told that the store is too busy."""
LOOKS_AHEAD: Final = 8
"""So often a batch is looked through for what the commands to come will need, where each load is a trip."""
RECEIPT: Final = "receipt"
RECEIPT_LIFE: Final = 3600 * SECOND


class View:
    """Records as the batch sees them: what it has changed itself, on top of what the store has loaded."""

    __slots__ = ("_transaction", "changed", "loaded")

    def __init__(self, transaction: Transaction, keys: Sequence[str]) -> None:
        self._transaction = transaction
        loaded = transaction.load(keys)
        self.loaded: dict[str, Record] = loaded if isinstance(loaded, dict) else dict(loaded)
        self.changed: dict[str, Record] = {}

    def get(self, key: str, /) -> Record | None:
        """The record, if it is here."""
        found = self.changed.get(key)
        return found if found is not None else self.loaded.get(key)

    def fetch(self, keys: Sequence[str]) -> None:
        """Load these as well."""
        more = self._transaction.load(keys)
        if more is not self.loaded:
            self.loaded = {**self.loaded, **more}


class Unresolved(OutcomeUnknown):
    """Nobody can tell yet whether this batch was committed: `happened` will, as soon as the store answers again."""

    def __init__(self, receipt: Put, why: object) -> None:
        super().__init__(f"nobody said whether this was committed, and the store does not answer now: {why}; try again")
        self.receipt = receipt
        self.result: Result | None = None


class Result:
    """What became of a batch."""

    __slots__ = ("_transaction", "events", "now", "outcomes", "picked_up", "view")

    def __init__(self, outcomes: list[Outcome | Exception], deciding: _Deciding) -> None:
        self._transaction = deciding.transaction
        self.outcomes = outcomes
        """One a command, in order; an exception where the rules themselves broke."""
        self.picked_up = deciding.picked_up
        """Waiters of this engine that were granted their lease on the way."""
        self.events = deciding.events
        self.now = deciding.transaction.now
        self.view = deciding.view

    def close(self) -> None:
        """Let others have their turn."""
        self._transaction.close()


def run(store: Store, commands: list[Command], engine: str, closing: Closing) -> Steps[Result]:
    """Decide these commands in order and commit them together. Whoever gets the result closes it, soon.

    `closing` may add commands once the others are decided: an engine's heartbeat, a sweep of what is due.
    """
    wanted: dict[str, None] = {}
    for command in commands:
        for key in keys_of(command):
            wanted[key] = None
    keys = list(wanted)
    # `hasattr` first, here and below: compiled, a `getattr` that finds nothing takes a microsecond to say so.
    if not hasattr(store, "ready") or not store.ready(keys):
        yield None
    why = ""
    for _ in range(ATTEMPTS):
        try:
            return (yield from _attempt(store, commands, engine, closing, keys))
        except Conflict as error:
            why = str(error)
        yield None
    raise StoreError(
        f"the store is too busy: somebody else was quicker {ATTEMPTS} times in a row; try again. If nobody else is at "
        f"work there, this is why it failed: {why}"
    )


def _attempt(
    store: Store,
    commands: list[Command],
    engine: str,
    closing: Closing,
    keys: list[str],
) -> Steps[Result]:
    transaction = store.begin()
    try:
        deciding = _Deciding(transaction, keys, engine, commands, LOOKS_AHEAD if store.capabilities.remote else 0)
        part = transaction.part if hasattr(transaction, "part") else 0
        decided = deciding.decide_all(commands, 0, part)
        if decided < len(commands):
            yield from _with_more(deciding, commands, decided, part)
        outcomes = list(deciding.outcomes)
        more = closing(outcomes, transaction)
        if more:
            decided = deciding.decide_all(more, 0)
            if decided < len(more):
                yield from _with_more(deciding, more, decided, 0)
        result = Result(outcomes, deciding)
        try:
            yield from deciding.commit(store)
        except Unresolved as unresolved:
            unresolved.result = result
            raise
    except BaseException:
        transaction.close()
        raise
    return result


def _with_more(deciding: _Deciding, commands: list[Command], decided: int, part: int) -> Steps[None]:
    """The rest of these, from the first that needs records which are not here."""
    while decided < len(commands):
        yield None
        deciding.fetch()
        decided = deciding.decide_all(commands, decided, part)


class _Deciding:
    """The state of one attempt."""

    __slots__ = (
        "changes",
        "commands",
        "engine",
        "events",
        "fence",
        "keys",
        "looks_ahead",
        "needed",
        "opens_at",
        "outcomes",
        "picked_up",
        "told",
        "transaction",
        "view",
        "wrote_ahead",
    )

    def __init__(
        self, transaction: Transaction, keys: list[str], engine: str, commands: list[Command], looks_ahead: int
    ) -> None:
        self.commands = commands
        self.looks_ahead = looks_ahead
        self.transaction = transaction
        self.keys = keys
        self.engine = engine
        self.view = View(transaction, keys)
        self.fence = transaction.fence
        self.opens_at: int = transaction.opens_at if hasattr(transaction, "opens_at") else 0
        self.changes: dict[tuple[str, str], Put | Drop] = {}
        """By record and entry: each entry is written once."""
        self.events: list[Event] = []
        self.told = 0
        """So many of them were handed on already,"""
        self.wrote_ahead = False
        """and changes with them, or without any."""
        self.outcomes: list[Outcome | Exception] = []
        self.picked_up: dict[str, Lease] = {}
        self.needed: tuple[str, ...] = ()
        """What has to be fetched before the next command can be decided."""

    def decide_all(self, commands: list[Command], decided: int, part: int = 0) -> int:
        """These, one on top of the other, from this place on. How many are decided: then something has to be fetched.

        Before each such `part` of them, but not shortly before the end, a store that can write ahead is given what was
        decided.
        """
        last = len(commands) - part // 4
        while decided < len(commands):
            if part and decided and decided % part == 0 and decided < last:
                self.hand_on()
            if self.decide(commands[decided]):
                break
            decided += 1
        return decided

    def decide(self, command: Command) -> bool:
        """Run one command on top of those before it; a breakage of one leaves the others untouched.

        Whether something has to be fetched first.
        """
        try:
            result = self._step(command)
        except (LeaseholdError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (told to the caller whose command it was)
            self.outcomes.append(error)
            return False
        if isinstance(result, Need):
            self.needed = result.keys
            return True
        self.outcomes.append(result.outcome)
        self.events += result.events
        self.fence = result.fence
        self.view.changed.update(result.changed)
        self.changes.update(result.changes)
        if result.picked_up:
            self.picked_up.update(result.picked_up)
        return False

    def fetch(self) -> None:
        """Load what is needed now, and what the commands to come are known to need."""
        wanted = (*self.needed, *self._wanted_later())
        # What is asked for now comes first the next time, should the store make us start over.
        self.keys.extend(wanted)
        self.view.fetch(wanted)
        # A number from before this record was ours may be smaller than one that it has seen meanwhile.
        self.fence = max(self.fence, self.transaction.fence)

    def _step(self, command: Command) -> Step | Need:
        view = self.view
        return step(view.loaded, command, self.transaction.now, self.fence, self.engine, self.opens_at, view.changed)

    def _wanted_later(self) -> list[str]:
        """Where each load is a trip over a network: what the commands that are still to come need now."""
        wanted: dict[str, None] = {}
        if self.looks_ahead:
            self.looks_ahead -= 1
            for command in islice(self.commands, len(self.outcomes) + 1, None):
                wanted.update(dict.fromkeys(self._needs(command)))
        return list(wanted)

    def _needs(self, command: Command) -> tuple[str, ...]:
        try:
            result = self._step(command)
        except Exception:  # noqa: BLE001 (it breaks again when it is its turn, and is told then)
            return ()
        return result.keys if isinstance(result, Need) else ()

    def commit(self, store: Store) -> Steps[None]:
        """Make it durable; where the outcome can stay unknown, find out by the receipt that was left."""
        if not self.changes and not self.events and not self.wrote_ahead:
            if hasattr(self.transaction, "confirming"):  # a store that goes on from what it saw last:
                yield from self.transaction.confirming()  # no answer may rest on that alone
            return
        changes = list(self.changes.values())
        if hasattr(self.transaction, "foresee"):  # a store that remembers records need not
            self.transaction.foresee(self.view.changed)  # work out what the rules have worked out
        events = self.events[self.told :] if self.told else self.events
        if not store.capabilities.receipts:
            self.transaction.commit(changes, events, self.fence)
            return
        receipt = self._receipt()
        changes.append(receipt)
        lost: OutcomeUnknown | None = None
        try:
            if hasattr(self.transaction, "committing"):  # a store that can leave us alone until it answers
                yield from self.transaction.committing(changes, events, self.fence)
            else:
                self.transaction.commit(changes, events, self.fence)
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

    def hand_on(self) -> None:
        """A store that can write while we go on deciding is given what was decided since the last time."""
        if hasattr(self.transaction, "write_ahead") and (self.changes or len(self.events) > self.told):
            self.transaction.write_ahead(list(self.changes.values()), self.events[self.told :])
            self.changes, self.told, self.wrote_ahead = {}, len(self.events), True

    def _receipt(self) -> Put:
        # To the minute: a store with an index of such times need not change it with each commit.
        until = self.transaction.now + RECEIPT_LIFE
        return Put(self.engine, Receipt(RECEIPT, os.urandom(16).hex(), until - until % (60 * SECOND)))


def happened(store: Store, receipt: Put) -> bool:
    """Whether the batch that left this receipt was committed."""
    _, found = store.read((receipt.key,))
    return found[receipt.key].notes.get(RECEIPT) == receipt.entry
