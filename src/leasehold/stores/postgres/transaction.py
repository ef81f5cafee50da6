"""One turn: wait for it and load, then write and commit, each in one round trip. It decides nothing about leases.

All transactions take the same lock, which ends with them: so they happen one after the other, whichever server they are
of, and a cycle has one victim. The database's clock and the numbers are read once the lock is held. And while the last
turn is one that we know, so are the records that we remember; a later one says what it has changed.

Who remembers all records, and has seen nobody else for a while, assumes that this is still so: everything is decided
before the turn is taken, and left in the journal, in one trip. PostgreSQL refuses it if anything was otherwise (see
docs/adr).
"""

from __future__ import annotations

import time

import psycopg

from leasehold.errors import Conflict, OutcomeUnknown, StoreError, StoreUnsuitable
from leasehold.keys import home
from leasehold.model import EMPTY, LOSS_KINDS
from leasehold.stepwise import through
from leasehold.stores.postgres.certain import Certain
from leasehold.stores.postgres.exchange import Exchange, exchange, is_midway, send
from leasehold.stores.postgres.failures import other_schema
from leasehold.stores.postgres.rows import Writing, each_row, gathered, gathered_all, told
from leasehold.stores.postgres.texts import LOSS, items_of, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.model import Drop, Event, Put, Record
    from leasehold.stepwise import Steps
    from leasehold.stores.postgres import PostgresStore
    from leasehold.stores.postgres.connections import Connection
    from leasehold.stores.postgres.exchange import Call, Values

SCHEMA_VERSION = 6
"""The schema in `schema.sql`. A database with another one is refused."""
PATIENCE = "5s"
"""So long is a turn waited for."""
SILENCE = "2s"
"""So long may a server be silent in its turn: then PostgreSQL ends it, and the others go on."""
_PATIENCE, _SILENCE = PATIENCE.encode(), SILENCE.encode()
ALL_MOST = 5_000
"""Up to so many entries, all of them are loaded."""
OUR_CLOCK = 999_000
"""So many microseconds of the database's pass in a second of ours, at least: clocks are far better than that."""
LAG = 50_000
"""So many microseconds may pass from the time that was decided by until the turn is ours, if it was only assumed."""
PART = 26
"""After so many commands what was decided is handed on, to be written meanwhile: less is not worth a statement."""
PAYLOAD_MOST = 200
"""Servers named in one notification; it has room for 8,000 bytes."""


class PostgresTransaction:
    """One turn."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queries = store.connections.queries
        self._connection: Connection | None = None
        """Since the turn is ours."""
        self._assumed: Certain | None = None
        """What is taken for true until then, if anything."""
        self._is_over = False
        self._sent: Exchange | None = None
        """The end of the turn, once it is on its way;"""
        self._ending: tuple[int, bytes, int | None, int, int] | None = None
        """with its number and id, where the journal begins, the next fence, the longest TTL: if there is a change."""
        self._foreseen: Mapping[str, Record] | None = None
        self._kept: tuple[list[Put | Drop], list[Event]] = ([], [])
        """What is to be written with the rest,"""
        self._ahead: list[Put | Drop] = []
        """what was written already,"""
        self._engines: list[Put | Drop] = []
        """of that what is engines' own,"""
        self._places: set[tuple[str, str]] = set()
        """and where."""
        self._tickets: list[str] = []
        self._takes_away = False
        """Whether it ends leases that others hold."""
        self._now = 0
        self._fence = 0
        self._number = 0
        self._longest = 0
        self._longest_here = 0
        self._opens_at = 0
        self._timeline = b""

    @property
    def part(self) -> int:
        """After so many commands what was decided should be handed on; 0: it is not worth while."""
        return PART if self._assumed is None else 0

    @property
    def now(self) -> int:
        """The database's clock, read after the lock was taken; or shortly before, if nobody else had it since then."""
        if self._connection is None and self._assumed is None:
            self._enter()
        return self._now

    @property
    def fence(self) -> int:
        """The next unused number."""
        if self._connection is None and self._assumed is None:
            self._enter()
        return self._fence

    @property
    def opens_at(self) -> int:
        """Nothing new may be granted before this time."""
        if self._connection is None and self._assumed is None:
            self._enter()
        return self._opens_at

    # ----------------------------------------------------------------------------------------- loading

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """The records of these keys, among others that we know to be true."""
        wanted = list(keys)
        cache = self._store.cache
        is_all_here = self._enter(wanted)
        missing = [] if is_all_here else cache.missing(wanted)
        if missing:
            self._settle()
            (row,) = self._ask((self._queries.called("load"), [listed(missing)]))
            self._keep(missing, row[0])
        return cache.records

    def _enter(self, wanted: Sequence[str] = ()) -> bool:
        """Have our turn, or assume that we could. Whether all that is wanted is here."""
        self._check_under_way()
        if self._connection is not None:
            return False
        store = self._store
        is_all_here = store.cache.is_whole and not store.cache.missing(wanted)
        if self._assumed is None:
            self._assumed = store.assumed() if is_all_here else None
            if self._assumed is None:
                return self._begin(list(wanted))
            self._now = store.not_before(_by_now(self._assumed))
            _, _, self._fence, self._timeline, self._opens_at, self._longest = self._assumed
            self._number = store.known[0]
        return is_all_here

    def _keep(self, keys: list[str], entries: bytes | None) -> None:
        self._store.cache.records.update(gathered(keys, each_row(entries)))

    def _begin(self, wanted: list[str]) -> bool:
        """Wait for our turn. Whether that has brought all that is wanted: not if somebody has come between."""
        self._check_under_way()
        store = self._store
        self._connection = store.writer()
        number, id_ = store.known
        missing = store.cache.missing(wanted)
        values: Values = [store.salt, _PATIENCE, _SILENCE, b"%d" % number, id_, listed(missing)]
        # What is known already is named only where others change it often: to be loaded at once, if they have.
        values.append(listed(wanted) if store.has_company and missing != wanted else values[-1])
        begin, begin_turn = self._queries.called("begin"), self._queries.called("begin_turn")
        _, row = self._ask((begin, []), (begin_turn, values))
        now, fence, last, last_id, changed, entries, *state = row
        self._check(state)
        self._now, self._fence = store.not_before(_int(now)), _int(fence)
        self._number = _int(last)
        if changed == b"":
            self._keep(missing, entries)
            if store.wants_all():
                self._load_all()
                return False
            return True
        store.learn(self._number, last_id, None if changed is None else items_of(changed.decode()))
        self._keep(store.cache.missing(wanted) if values[-1] is not values[-2] else missing, entries)
        return False

    def _load_all(self) -> None:
        """Every record, if there are not too many."""
        (row,) = self._ask((self._queries.called("load_all"), [b"%d" % (ALL_MOST + 1)]))
        if _int(row[0]) <= ALL_MOST:
            self._store.cache.know_all(gathered_all(each_row(row[1])))
        else:
            self._store.there_are_too_many()

    def _check(self, state: Values) -> None:
        version, timeline, opens_at, longest, here, is_synchronous = state
        store = self._store
        if version is None or _int(version) != SCHEMA_VERSION:
            raise other_schema(store.address, _int(version), SCHEMA_VERSION)
        if timeline != here:
            store.was_promoted()
            raise Conflict("the database was promoted from a standby")
        if store.address.synchronous and is_synchronous != b"t":
            raise StoreUnsuitable(
                f"{store.address.place}: the URL says synchronous=yes, but synchronous_standby_names or "
                "synchronous_commit there says otherwise; nothing was changed"
            )
        self._opens_at, self._longest, self._timeline = _int(opens_at), _int(longest), timeline or b""

    def due(self, limit: int) -> Sequence[str]:
        """Keys of records that a sweep should look at, the most urgent first."""
        self._settle()
        (row,) = self._ask((self._queries.called("due"), [b"%d" % self.now, b"%d" % limit]))
        return list(dict.fromkeys(items_of(_text(row[0]))))

    # ------------------------------------------------------------------------------------ assumed turns

    def _settle(self) -> None:
        """What was assumed must be so: wait for our turn, and see."""
        assumed, self._assumed = self._assumed, None
        if assumed is not None and (not self._begin([]) or self._fence != assumed.fence):
            raise Conflict("what was assumed is not true any more")

    def confirming(self) -> Steps[None]:
        """The same, where there is nothing to write; for whoever has something else to do until it is answered."""
        if self._assumed is not None:
            yield self._send(*self._taking(), (self._queries.called("rollback"), []))
            self.finish_commit()

    def _taking(self) -> list[Call]:
        """What takes our turn, if it was only assumed until now."""
        if self._assumed is None:
            return []
        salt, *known = self._believed()
        take_turn = self._queries.called("take_turn")
        return [(self._queries.called("begin"), []), (take_turn, [salt, _PATIENCE, _SILENCE, *known])]

    def _believed(self) -> Values:
        """What must be so for a turn to be taken that was only assumed until now: which it is no more."""
        self._assumed = None
        store = self._store
        self._connection = store.writer()
        number, id_ = store.known
        return [
            store.salt,
            b"%d" % self._now,
            b"%d" % LAG,
            b"%d" % number,
            id_,
            b"%d" % self._fence,
            b"%d" % SCHEMA_VERSION,
            self._timeline,
            b"%d" % self._opens_at,
            b"t" if store.address.synchronous else b"f",
        ]

    # ----------------------------------------------------------------------------------------- writing

    def foresee(self, records: Mapping[str, Record]) -> None:
        """What the changed records will be after `commit`, if the caller knows; but for engines' own."""
        self._foreseen = records

    def write_ahead(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> None:
        """Have PostgreSQL write these while the rest is still being decided. `commit` makes them durable, with it."""
        self._check_under_way()
        self._keep_back(changes, events)
        if self._assumed is not None:
            return  # there is little to write
        connection = self._connection
        if connection is None:
            raise StoreError("something to write before anything was loaded")
        changes, events = self._all_kept()
        writing = self._note(changes)
        values = writing.as_rows(self._store.cache.records, self._places)
        self._places.update(writing.places)
        try:
            send(connection, (self._queries.called("write_part"), [*values, *told(events)]))
        except psycopg.Error as error:
            raise self._lost(connection, error) from error

    def _keep_back(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> None:
        self._kept[0].extend(changes)
        self._kept[1].extend(events)
        if not LOSS_KINDS.isdisjoint([event.kind for event in events]):
            self._takes_away = True

    def _all_kept(self) -> tuple[list[Put | Drop], list[Event]]:
        kept, self._kept = self._kept, ([], [])
        return kept

    def _note(self, changes: Sequence[Put | Drop]) -> Writing:
        """What there is to write, on top of what was written already."""
        writing = Writing(changes)
        self._store.note_engines(writing.engines)
        self._engines += writing.engines
        self._ahead += changes
        self._tickets += writing.tickets
        self._longest_here = max(self._longest_here, writing.longest)
        return writing

    def commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        """Make all of this durable, or nothing of it."""
        through(self.committing(changes, events, fence))

    def committing(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> Steps[None]:
        """The same, for whoever has something else to do until it is answered."""
        yield self.send_commit(changes, events, fence)
        self.finish_commit()

    def send_commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> Exchange:
        """Do what there is to do before anybody has to wait for it; hands back what to wait for."""
        self._check_under_way()
        self._keep_back(changes, events)
        changes, events = self._all_kept()
        if not changes and not events and fence == self.fence and not self._ahead:
            return self._send(*self._taking(), (self._queries.called("rollback"), []))
        try:
            return self._send(*self._end(changes, events, fence))
        except BaseException:
            self._store.doubt()  # what it remembers of the journal is ahead
            raise

    def _end(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> list[Call]:
        """Who assumes that it is alone writes a journal, until it is full, and all that in one statement.

        In a turn that was waited for there is no journal any more.
        """
        store = self._store
        number, id_ = self._number + 1, store.new_id()
        writing = self._note(changes)
        fence = max(fence, self.fence)
        longest = max(self._longest, self._longest_here)
        is_alone = self._assumed is not None
        since = store.journal.add(number, changes, writing, store.cache.records) if is_alone else None
        self._ending = (number, id_, since, fence, longest)
        this: Values = [
            id_,
            store.told_to_others(self._ahead),
            b"%d" % fence,
            b"%d" % (longest if longest > self._longest else 0),
        ]
        whom: Values = [store.channel, listed(told_whom) if (told_whom := self._whom()) else b""]
        if since is not None:
            values = [*self._believed(), *this, b"%d" % since, store.journal.newest, *told(events), *whom]
            whole_turn = (self._queries.called("whole_turn"), values)
            return self._told_how(whole_turn) if store.must_be_told else [whole_turn]
        rows = store.journal.folded() if is_alone else writing.as_rows(store.cache.records, self._places)
        values = [b"%d" % number, *this, *rows, *told(events), *whom]
        end_turn = self._queries.called("end_turn")
        return [*self._taking(), (end_turn, values), (self._queries.called("commit"), [])]

    def _told_how(self, call: Call) -> list[Call]:
        """The same as a transaction that says how it is to be carried out, for those where it is not usual."""
        return [(self._queries.called("begin"), []), call, (self._queries.called("commit"), [])]

    def finish_commit(self) -> None:
        """Wait for what became of it, and do what is left to do."""
        sent, ending = self._sent, self._ending
        if sent is None:
            raise StoreError("nothing was sent that could be waited for")
        try:
            answers = sent.answers()
        except psycopg.Error as error:
            raise self._unfinished(error) from error
        except BaseException:  # an interrupt: nobody has heard what became of it
            self._is_over = True
            self._store.in_doubt()
            raise
        self._is_over = True
        if ending is None:
            self._store.leave()
            return
        number, id_, since, fence, longest = ending
        now = _int((answers[-1] or answers[-2])[0])  # what commits has no answer of its own
        self._follow()
        certain = Certain(now, time.monotonic(), fence, self._timeline, self._opens_at, longest)
        self._store.got_through(number, id_, since, certain)

    def _send(self, *calls: Call) -> Exchange:
        connection = self._connection
        if connection is None:
            raise StoreError("a commit without a connection")
        try:
            self._sent = Exchange(connection, *calls)
        except psycopg.Error as error:
            raise self._unfinished(error) from error
        except BaseException:  # as below
            self._is_over = True
            self._store.in_doubt()
            raise
        return self._sent

    def _unfinished(self, error: psycopg.Error) -> StoreError:
        """What a failure at the end of a turn means."""
        self._sent = None
        self._store.doubt()  # see above
        connection = self._connection
        if connection is None or not (connection.closed or connection.broken):
            return self._explained(error)
        if self._ending is None:
            return self._lost(connection, error)
        self._is_over = True
        self._store.in_doubt()
        return OutcomeUnknown(f"{self._store.address.place}: the connection was lost during a commit")

    def _follow(self) -> None:
        cache = self._store.cache
        if self._foreseen is None:
            cache.follow(self._ahead)
        else:
            cache.renew(self._foreseen)
            cache.follow(self._engines)

    def _whom(self) -> list[str]:
        """Everybody to notify: a payload each."""
        promoted = self._promoted(self._tickets) if self._tickets else []
        return [*promoted, LOSS] if self._takes_away else promoted

    def _promoted(self, tickets: Iterable[str]) -> list[str]:
        """Whom to notify: the engines of waiters elsewhere that were promised a lease."""
        engines: dict[str, None] = {}
        for ticket in tickets:
            queue = self._store.cache.records.get(home(ticket), EMPTY).waiters
            engines.update((waiter.engine, None) for waiter in queue if waiter.id == ticket)
        named = [engine for engine in engines if engine not in self._store.engines]
        return [",".join(named[at : at + PAYLOAD_MOST]) for at in range(0, len(named), PAYLOAD_MOST)]

    # ------------------------------------------------------------------------------------------ the end

    def close(self) -> None:
        """Give the records up; what was not committed never happened."""
        if self._is_over:
            return
        self._is_over = True
        if self._sent is not None:  # nobody has waited for what became of it
            self._store.in_doubt()
            return
        connection = self._connection
        try:
            if connection is not None and is_midway(connection):
                exchange(connection, (self._queries.called("rollback"), []))
        except psycopg.Error:
            self._store.connections.drop_writer()  # which undoes it as well
        finally:
            self._store.leave()

    def _ask(self, *calls: Call) -> list[Values]:
        connection = self._connection
        self._check_under_way()
        if connection is None:
            raise StoreError("a question without a connection")
        try:
            return exchange(connection, *calls)
        except psycopg.Error as error:
            raise self._lost(connection, error) from error

    def _lost(self, connection: Connection, error: psycopg.Error) -> StoreError:
        """What a failure before the commit means."""
        if connection.closed or connection.broken:
            self._store.connections.drop_writer()
            # Nothing was committed: once more, on a new connection; if there is none to be had, that will tell.
            return Conflict("the connection was lost")
        return self._explained(error)

    def _explained(self, error: psycopg.Error) -> StoreError:
        if isinstance(error, psycopg.errors.SerializationFailure):
            self._store.doubt()
        if isinstance(error, psycopg.errors.FeatureNotSupported):
            self._store.must_be_told = True
            return Conflict("transactions are not as usual there")
        if isinstance(error, psycopg.errors.UniqueViolation):
            self._store.forget()
            return Conflict("what was remembered was not true any more")
        return self._store.connections.explain(error)

    def _check_under_way(self) -> None:
        if self._is_over:
            raise StoreError("this transaction is over; begin another")


def _by_now(certain: Certain) -> int:
    """How late it is, or a little less: our clock may be the faster one."""
    return certain.now + int((time.monotonic() - certain.at) * OUR_CLOCK)


def _int(value: bytes | None) -> int:
    return int(value or b"0")


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
