"""One transaction: begin from the replica, let the engine decide, and write if no other store has committed since.

Every commit writes the key `meta`, and compares its previous value. So a commit succeeds only if nothing at all has
changed: the replica was current, numbers are unique and in order, and deadlocks are seen exactly, with any number of
servers. A commit that fails reads what is new in the same exchange; the caller starts over.

Everything that may wait is written step by step (see ``leasehold.steps``); any thread may take the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.entries import EMPTY, Put, Receipt
from leasehold.domain.records import apply, pack
from leasehold.errors import Conflict, OutcomeUnknown, StoreError
from leasehold.steps import through
from leasehold.stores.etcd import messages, reading, rows
from leasehold.stores.etcd.checkpointing import Checkpoint
from leasehold.stores.etcd.due_index import reminders_in
from leasehold.stores.etcd.journal import MOST, NOTHING, JournalEntry, encode, mark_of
from leasehold.stores.etcd.rows import LargeValues, id_in, is_reference
from leasehold.stores.protocol import NetworkTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from leasehold.domain.entries import Drop, Record
    from leasehold.domain.events import Event
    from leasehold.steps import Steps
    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.etcd.due_index import Reminder
    from leasehold.stores.etcd.messages import TxnAnswer

REMINDERS = 100
"""Reminders that are read together."""
ASSUMED = 120
"""Records that a transaction may assume to be absent; each takes a compare of the commit."""


class EtcdTransaction(NetworkTransaction):
    """A `Transaction` of an `EtcdStore`."""

    opens_at = 0  # no fail-over of etcd loses a lease

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self._replica = store.replica
        self._assumed: dict[str, None] = {}
        self._assumes: bool | None = None
        """True if this transaction may assume anything; decided once, so that it does not repeat a wrong assumption."""
        self._is_over = False
        self._has_shown = False
        """True once the engine has seen something that must stay true until the commit."""
        self._is_checked = False
        """True once etcd has confirmed the replica since the transaction began."""
        self._now = 0

    @property
    def now(self) -> int:
        """The time of etcd; never earlier than any time that any store has used."""
        self._fix_time()
        return self._now

    @property
    def fence(self) -> int:
        """The next unused fence."""
        self._fix_time()
        return self._replica.meta.fence

    def _fix_time(self) -> None:
        """Fix the time; from here on nothing may change until the commit. It waits only while nothing is known."""
        if not self._has_shown:
            if self._replica.is_blank:
                self._bring_up_to_date(())
            self._now = self._store.tell_time()
            self._has_shown = True

    # ------------------------------------------------------------------------------------- reading

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """Return a mapping that contains these records. It does not wait if they are cached or assumed to be absent."""
        wanted = list(dict.fromkeys(keys))
        missing = self._replica.missing(wanted)
        if missing:
            self._find(wanted, missing)
        self._fix_time()
        return self._replica.records

    def _find(self, wanted: Sequence[str], missing: Sequence[str]) -> None:
        """Assume that records which are not cached do not exist, which is usually so; read the others."""
        replica, records = self._replica, self._replica.records
        assumed = self._assumable(missing)
        unsure = [key for key in missing if key not in assumed]
        if unsure:
            if self._has_shown:
                self._read(unsure)
            else:
                self._bring_up_to_date([key for key in wanted if key not in assumed])
            if any(records[key] is not EMPTY for key in unsure):
                self._store.doubt()
            still = replica.missing(assumed)
            if still:  # the changes may concern these
                self._find(wanted, still)
            return
        self._assumed.update(assumed)
        replica.assume(assumed)

    def _assumable(self, missing: Sequence[str]) -> dict[str, None]:
        """Return records that may be assumed: none in the journal, since the compare sees stored records only."""
        replica = self._replica
        if self._assumes is None:
            self._assumes = self._store.may_assume()
        if replica.is_blank or not self._assumes or self._store.is_doubtful:
            return {}
        lines = replica.overlay.lines
        free = [key for key in missing if key not in lines]
        return dict.fromkeys(free[: max(0, ASSUMED - len(self._assumed))])

    def _bring_up_to_date(self, wanted: Sequence[str]) -> None:
        reading.bring_up_to_date(self._store, self._replica, wanted)
        self._is_checked = True

    def _read(self, keys: Sequence[str]) -> None:
        """Read records as of what the engine has seen; raise `Conflict` if another store has committed."""
        last = self._replica.last
        for start in range(0, len(keys), reading.AT_ONCE):
            reading.ask(self._store, self._replica, keys[start : start + reading.AT_ONCE])
            if self._replica.last != last:
                self._lose()
            self._is_checked = True

    def _lose(self) -> None:
        self._store.losses += 1
        self.close()
        raise Conflict("another server committed meanwhile")

    def due(self, limit: int) -> Sequence[str]:
        """Return the keys of records that a sweep should check, the most urgent first."""
        now, replica = self.now, self._replica
        found = set(replica.overlay.due(now))
        needless = []
        for reminder in self._reminders(now):
            self._read(replica.missing(reminder.keys))
            marks = {key: mark_of(replica.records[key]) for key in reminder.keys}
            found.update((mark, key) for key, mark in marks.items() if 0 < mark <= now)
            if not reminder.is_needed(marks):
                needless.append(reminder.name)
            if len(found) >= limit:
                break
        for start in range(0, len(needless), REMINDERS):
            through(self._checked([messages.delete(name) for name in needless[start : start + REMINDERS]], []))
        return [key for _, key in sorted(found)[:limit]]

    def _reminders(self, until: int) -> Iterator[Reminder]:
        first, end = self._store.names.dues(until)
        while True:
            found = through(self._checked([messages.get(first, end, limit=REMINDERS)], [])).responses[0]
            yield from reminders_in(found, self._store.names)
            if not found.more:
                return
            first = found.pairs[-1][0] + "\0"

    # ------------------------------------------------------------------------------------- writing

    def confirming(self) -> Steps[None]:
        """Confirm, step by step, that what the engine saw is true, although nothing is written."""
        if self._replica.is_blank:
            yield None
        self._fix_time()
        if self._assumed or not self._is_checked:
            yield from self._checked([], [])
            self._assumed.clear()
        yield from self._store.precedence.dropping()

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> None:
        """Write all of this, or nothing."""
        through(self.committing(changes, events, fence, after))

    def committing(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> Steps[None]:
        """Write step by step. If the caller abandons the steps, the commit's outcome is unknown."""
        if self._is_over:
            raise StoreError("this transaction is over; begin another")
        try:
            if self._replica.is_blank:
                yield None
            self._fix_time()
            if changes or events or fence != self._replica.meta.fence:
                yield from self._write(changes, events, fence, after or {})
            else:
                yield from self.confirming()
        finally:
            self.close()

    def _write(
        self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int, decided: Mapping[str, Record]
    ) -> Steps[None]:
        """Write the changes as an entry of the journal, the events and the counters, and a checkpoint if one is due."""
        store, replica = self._store, self._replica
        known = replica.records
        unknown = [change.key for change in changes if change.key not in known]
        if unknown:
            yield None
            self.load(unknown)
        after = self._after(changes, decided)
        while replica.overlay.is_long(MOST):
            yield from self._checkpoint()
        spilled = LargeValues(store, self._now)
        entry, value = self._entry(changes, after, spilled)
        checkpoint = yield from self._planned(spilled, after)
        meta = self._meta(checkpoint, fence=fence, seq=replica.meta.seq + len(events), at=entry.number)
        operations = [messages.put(store.names.journal(entry.number), value)]
        if events:
            name = store.names.events(meta.seq)
            operations.append(messages.put(name, spilled.value(name, rows.events_data(events))))
        yield from spilled.writing()
        yield from self._put(meta, operations, spilled, checkpoint)
        replica.committed(rows.meta_data(meta), meta, entry, after)
        self._assumed.clear()
        if checkpoint is not None:
            checkpoint.done(meta.at)
        store.losses = 0

    def _after(self, changes: Sequence[Put | Drop], decided: Mapping[str, Record]) -> dict[str, Record]:
        """Return each changed record as it will be; `decided` has them without receipts."""
        known = self._replica.records
        after: dict[str, Record] = {}
        for change in changes:
            key = change.key
            if key not in after and key in decided:
                after[key] = decided[key]
            if key not in decided or (isinstance(change, Put) and isinstance(change.entry, Receipt)):
                after[key] = apply(after.get(key, known[key]), change)
        return after

    def _entry(
        self, changes: Sequence[Put | Drop], after: Mapping[str, Record], spilled: LargeValues
    ) -> tuple[JournalEntry, bytes]:
        """Return the journal entry of the changes, and its value."""
        replica = self._replica
        known, lines = replica.records, replica.overlay.lines
        groups: dict[str, list[Any]] = {}
        for key, record in after.items():
            mark = NOTHING if record is EMPTY else mark_of(record)
            if key in lines:
                groups[key] = [key, None, mark]
            else:
                groups[key] = [key, NOTHING if known[key] is EMPTY else mark_of(known[key]), mark]
        for change in changes:
            groups[change.key].append(pack(change.entry) if isinstance(change, Put) else change.id)
        number = replica.meta.at + 1
        changed = list(groups.values())
        data = encode(changed)
        value = spilled.value(self._store.names.journal(number), data)
        if is_reference(value):
            return JournalEntry(number, changed, len(data), id_in(value)), value
        return JournalEntry(number, changed, len(value)), value

    def _planned(self, spilled: LargeValues, after: Mapping[str, Record]) -> Steps[Checkpoint | None]:
        """Plan a checkpoint if the journal is too long."""
        if not self._replica.overlay.is_long():
            return None
        checkpoint = Checkpoint(self._store, self._replica, spilled, after)
        if not checkpoint.unknown:
            return checkpoint
        yield None
        self._read(checkpoint.unknown)
        return Checkpoint(self._store, self._replica, spilled, after)

    def _checkpoint(self) -> Steps[None]:
        """Write a checkpoint in a transaction of its own."""
        spilled = LargeValues(self._store, self._now)
        checkpoint = yield from self._planned(spilled, {})
        meta = self._meta(checkpoint)
        yield from spilled.writing()
        yield from self._put(meta, [], spilled, checkpoint)
        self._replica.committed(rows.meta_data(meta), meta, None, {})
        if checkpoint is not None:
            checkpoint.done(meta.at)

    def _meta(self, checkpoint: Checkpoint | None, **more: int) -> rows.Meta:
        store, meta = self._store, self._replica.meta
        folded, part = (meta.folded, meta.part) if checkpoint is None else (checkpoint.folded, checkpoint.part)
        return meta._replace(now=self._now, cluster=store.cluster, folded=folded, part=part, by=store.id, **more)

    def _put(
        self, meta: rows.Meta, operations: list[bytes], spilled: LargeValues, checkpoint: Checkpoint | None
    ) -> Steps[None]:
        """Commit these operations if no other store has committed. Note a doubt if the answer is lost."""
        names = self._store.names
        operations = [messages.put(names.meta, rows.meta_data(meta)), *operations, *spilled.marks]
        operations += checkpoint.operations if checkpoint is not None else []
        precedence = self._store.precedence
        operations += precedence.removal
        try:
            yield from self._checked(operations, [precedence.compare, *spilled.compares], changes=True)
        except Conflict:
            raise
        except BaseException as error:
            # The outcome is unknown, or the caller has abandoned the steps. Any other `StoreError` is a refusal:
            # nothing was written, and readers need not wait until etcd accepts writes again.
            if not isinstance(error, StoreError) or isinstance(error, OutcomeUnknown):
                self._store.note_doubt()
            self._replica.forget()
            raise
        precedence.note_commit()

    def _checked(self, operations: list[bytes], compares: list[bytes], *, changes: bool = False) -> Steps[TxnAnswer]:
        """Run a transaction if the replica is current; otherwise update the replica and raise `Conflict`."""
        store, replica = self._store, self._replica
        assumed = [messages.absent(store.names.record(key)) for key in self._assumed]
        compares = [replica.unchanged(store.names), *assumed, *compares]
        if changes:
            answer = yield from store.committing(compares, operations, self._news)
        else:
            answer = yield from store.asking(compares, operations, self._news())
        if not answer.succeeded:
            if reading.waits(answer):
                yield None
            self._unassume()
            before = replica.last
            reading.learn(store, replica, answer)
            is_second = store.precedence.learn(answer.responses[-1])
            if assumed and replica.last == before and not is_second:
                store.doubt()
            self._lose()
        self._is_checked = True
        return answer

    def _news(self) -> list[bytes]:
        """Return the operations of a transaction that fails.

        Never none: a member answers a transaction without operations alone, without a majority.
        """
        return [*self._replica.news(self._store.names), self._store.precedence.question]

    def _unassume(self) -> None:
        """Remove records that were assumed to be absent and not verified."""
        for key in self._assumed:
            self._replica.records.pop(key, None)
        self._assumed.clear()

    def close(self) -> None:
        """End the transaction; discard what was not committed."""
        if not self._is_over:
            self._is_over = True
            self._unassume()
            self._store.leave()
