"""One transaction: begin from what is remembered, decide elsewhere, write if nobody else has committed since.

Every commit writes one key, and names the value that this key must still have. So a commit goes through only if nothing
at all was changed meanwhile: what is remembered was true, numbers are unique and in order, and deadlocks are seen
exactly, with any number of servers. Whoever loses is told what is new, and starts over.

What may wait is written step by step (see `stepwise`), and none of it minds which thread takes the next step.
"""

from __future__ import annotations

from leasehold.errors import Conflict, OutcomeUnknown, StoreError
from leasehold.model import EMPTY, Put, Receipt
from leasehold.records import apply
from leasehold.stepwise import through
from leasehold.stores.codec import pack
from leasehold.stores.etcd import messages, reading, rows
from leasehold.stores.etcd.checkpointing import Checkpoint
from leasehold.stores.etcd.journal import MOST, NOTHING, JournalEntry, encode, mark_of
from leasehold.stores.etcd.parts import LargeValues, id_in, is_reference
from leasehold.stores.etcd.reminders import reminders_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from leasehold.model import Drop, Event, Record
    from leasehold.stepwise import Steps
    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.etcd.messages import TxnAnswer
    from leasehold.stores.etcd.reminders import Reminder

REMINDERS = 100
"""So many reminders are looked at together."""
ASSUMED = 120
"""At most so many records are assumed not to be there, and compared with that by the commit."""


class EtcdTransaction:
    """One turn."""

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self._replica = store.replica
        self._assumed: dict[str, None] = {}
        self._assumes: bool | None = None
        """Whether anything may be, once that was asked: the same for all of it, or what was wrong could be so again."""
        self._foreseen: Mapping[str, Record] = {}
        self._is_over = False
        self._has_told = False
        """Whether something was told that must stay true until the end."""
        self._is_checked = False
        """Whether etcd has said since the beginning that what is remembered is true."""
        self._now = 0

    @property
    def now(self) -> int:
        """The time of etcd; never earlier than any that was told before by anybody."""
        self._tell()
        return self._now

    @property
    def fence(self) -> int:
        """The next unused number."""
        self._tell()
        return self._replica.meta.fence

    def _tell(self) -> None:
        """From here on nothing may change any more."""
        if not self._has_told:
            through(self._telling())

    def _telling(self) -> Steps[None]:
        if not self._has_told:
            if self._replica.is_blank:
                yield None
                self._look(())
            self._now = self._store.tell_time()
            self._has_told = True

    # ------------------------------------------------------------------------------------- reading

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """These records, and whatever else is known."""
        return through(self.loading(keys))

    def loading(self, keys: Iterable[str]) -> Steps[Mapping[str, Record]]:
        """The same, step by step: there is nothing to wait for if all is known, or assumed not to be there."""
        wanted = list(dict.fromkeys(keys))
        missing = self._replica.missing(wanted)
        if missing:
            yield from self._find(wanted, missing)
        yield from self._telling()
        return self._replica.cache.records

    def _find(self, wanted: Sequence[str], missing: Sequence[str]) -> Steps[None]:
        """Most of what is asked for and not known is not there: then there is no need to ask etcd before the commit."""
        replica, records = self._replica, self._replica.cache.records
        assumed = self._assumable(missing)
        unsure = [key for key in missing if key not in assumed]
        if unsure:
            yield None
            self._ask_for([key for key in wanted if key not in assumed], unsure)
            self._store.note_presence(records, unsure)
            still = replica.missing(assumed)
            if still:  # what is new may be about these
                yield from self._find(wanted, still)
            return
        self._assumed.update(assumed)
        replica.assume(assumed)

    def _assumable(self, missing: Sequence[str]) -> dict[str, None]:
        """Not what the journal has changed: the compare of the commit sees only what is kept below it."""
        replica = self._replica
        if self._assumes is None:
            self._assumes = self._store.may_assume()
        if replica.is_blank or not self._assumes or self._store.is_doubtful:
            return {}
        lines = replica.overlay.lines
        free = [key for key in missing if key not in lines]
        return dict.fromkeys(free[: max(0, ASSUMED - len(self._assumed))])

    def _ask_for(self, wanted: Sequence[str], unsure: Sequence[str]) -> None:
        if self._has_told:
            for start in range(0, len(unsure), reading.AT_ONCE):
                self._read(unsure[start : start + reading.AT_ONCE])
        else:
            self._look(wanted)

    def _look(self, wanted: Sequence[str]) -> None:
        reading.look(self._store, self._replica, wanted)
        self._is_checked = True

    def _read(self, keys: Sequence[str]) -> None:
        """Records as of what was told already."""
        last = self._replica.last
        reading.ask(self._store, self._replica, keys)
        if self._replica.last != last:
            self._lose()
        self._is_checked = True

    def _lose(self) -> None:
        self._store.lost_out()
        self.close()
        raise Conflict("somebody else changed something meanwhile")

    def due(self, limit: int) -> Sequence[str]:
        """Keys of records that a sweep should look at, the most urgent first."""
        now = self.now
        found = set(self._replica.overlay.due(now))
        needless = []
        for reminder in self._reminders(now):
            marks = self._marks(reminder.keys)
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

    def _marks(self, keys: Sequence[str]) -> dict[str, int]:
        """When each of these records is due."""
        replica = self._replica
        missing = replica.missing(keys)
        for start in range(0, len(missing), reading.AT_ONCE):
            self._read(missing[start : start + reading.AT_ONCE])
        return {key: mark_of(replica.cache.records[key]) for key in keys}

    # ------------------------------------------------------------------------------------- writing

    def foresee(self, records: Mapping[str, Record]) -> None:
        """What the changes of the commit to come make of these records, apart from a receipt."""
        self._foreseen = records

    def confirming(self) -> Steps[None]:
        """Nothing is written: then it must be true what was told, and not only remembered or assumed."""
        yield from self._telling()
        if self._assumed or not self._is_checked:
            yield from self._checked([], [])
            self._assumed.clear()
        yield from self._store.precedence.dropping()

    def commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        """All of this, or nothing of it."""
        through(self.committing(changes, events, fence))

    def committing(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> Steps[None]:
        """The same, step by step. Whoever gives it up in between leaves a commit of which nobody knows."""
        if self._is_over:
            raise StoreError("this transaction is over; begin another")
        try:
            yield from self._telling()
            if changes or events or fence != self.fence:
                yield from self._write(changes, events, fence)
            else:
                yield from self.confirming()
        finally:
            self.close()

    def _write(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> Steps[None]:
        store, replica = self._store, self._replica
        known = replica.cache.records
        unknown = [change.key for change in changes if change.key not in known]
        if unknown:
            yield from self.loading(unknown)
        after = self._after(changes)
        while replica.overlay.is_long(MOST):
            yield from self._fold()
        spilled = LargeValues(store, self._now)
        entry, value = self._entry(changes, after, spilled)
        piece = yield from self._piece(spilled, after)
        meta = self._meta(piece, fence=fence, seq=replica.meta.seq + len(events), at=entry.number)
        operations = [messages.put(store.names.journal(entry.number), value)]
        if events:
            name = store.names.events(meta.seq)
            operations.append(messages.put(name, spilled.value(name, rows.events_data(events))))
        yield from spilled.writing()
        yield from self._put(meta, operations, spilled, piece)
        replica.committed(rows.meta_data(meta), meta, entry, after)
        self._assumed.clear()
        if piece is not None:
            piece.done(meta.at)
        store.won()

    def _after(self, changes: Sequence[Put | Drop]) -> dict[str, Record]:
        known, foreseen = self._replica.cache.records, self._foreseen
        after: dict[str, Record] = {}
        for change in changes:
            key = change.key
            if key not in after and key in foreseen:
                after[key] = foreseen[key]
            if key not in foreseen or (isinstance(change, Put) and isinstance(change.entry, Receipt)):
                after[key] = apply(after.get(key, known[key]), change)
        return after

    def _entry(
        self, changes: Sequence[Put | Drop], after: Mapping[str, Record], spilled: LargeValues
    ) -> tuple[JournalEntry, bytes]:
        """What goes into the journal."""
        replica = self._replica
        known, lines = replica.cache.records, replica.overlay.lines
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
        told = list(groups.values())
        data = encode(told)
        value = spilled.value(self._store.names.journal(number), data)
        if is_reference(value):
            return JournalEntry(number, told, len(data), id_in(value)), value
        return JournalEntry(number, told, len(value)), value

    def _piece(self, spilled: LargeValues, after: Mapping[str, Record]) -> Steps[Checkpoint | None]:
        """If the journal is long: what of it goes into the records now."""
        if not self._replica.overlay.is_long():
            return None
        piece = Checkpoint(self._store, self._replica, spilled, after)
        if not piece.unknown:
            return piece
        yield None
        self._read(piece.unknown)
        return Checkpoint(self._store, self._replica, spilled, after)

    def _fold(self) -> Steps[None]:
        """Shorten the journal, and nothing else."""
        spilled = LargeValues(self._store, self._now)
        piece = yield from self._piece(spilled, {})
        meta = self._meta(piece)
        yield from spilled.writing()
        yield from self._put(meta, [], spilled, piece)
        self._replica.committed(rows.meta_data(meta), meta, None, {})
        if piece is not None:
            piece.done(meta.at)

    def _meta(self, piece: Checkpoint | None, **more: int) -> rows.Meta:
        store, meta = self._store, self._replica.meta
        folded, part = (meta.folded, meta.part) if piece is None else (piece.folded, piece.part)
        return meta._replace(now=self._now, cluster=store.cluster, folded=folded, part=part, by=store.id, **more)

    def _put(
        self, meta: rows.Meta, operations: list[bytes], spilled: LargeValues, piece: Checkpoint | None
    ) -> Steps[None]:
        names = self._store.names
        operations = [messages.put(names.meta, rows.meta_data(meta)), *operations, *spilled.marks]
        operations += piece.operations if piece is not None else []
        precedence = self._store.precedence
        operations += precedence.removal
        try:
            yield from self._checked(operations, [precedence.compare, *spilled.compares], changes=True)
        except Conflict:
            raise
        except BaseException as error:
            # Nobody tells us any more, or nobody wants to know: it may have been written. What was refused was not, and
            # whoever only looks must not have to wait until something can be written again.
            if not isinstance(error, StoreError) or isinstance(error, OutcomeUnknown):
                self._store.note_doubt()
            self._replica.forget()
            raise
        precedence.has_gone()

    def _checked(self, operations: list[bytes], compares: list[bytes], *, changes: bool = False) -> Steps[TxnAnswer]:
        """The answer, if what we know is true; otherwise what is new is learned, and everything starts over."""
        store, replica = self._store, self._replica
        assumed = [messages.absent(store.names.record(key)) for key in self._assumed]
        compares = [replica.unchanged(store.names), *assumed, *compares]
        # Always asked for: a transaction without any question is answered by a member from what it knows by itself.
        news = [*replica.news(store.names), store.precedence.question]
        answer = yield from store.asking(compares, operations, news, changes=changes)
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

    def _unassume(self) -> None:
        self._replica.unassume(self._assumed)
        self._assumed.clear()

    def close(self) -> None:
        """Give the records up; what was not committed never happened."""
        if not self._is_over:
            self._is_over = True
            self._unassume()
            self._store.leave()
