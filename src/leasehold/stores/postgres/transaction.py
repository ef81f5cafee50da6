"""One turn: wait for it and load, then write and commit, each in one round trip. It decides nothing about leases.

All transactions take the same lock, which ends with them: so they happen one after the other, whichever server they are
of, and a cycle has one victim. The database's clock and the numbers are read once the lock is held. And while the last
turn is one that we know, so are the records that we remember; a later one says what it has changed.
"""

from __future__ import annotations

import psycopg

from leasehold.errors import Conflict, OutcomeUnknown, StoreError, StoreUnsuitable
from leasehold.keys import home
from leasehold.model import EMPTY
from leasehold.stores.postgres.exchange import exchange, send
from leasehold.stores.postgres.rows import Writing, each_row, gathered, told
from leasehold.stores.postgres.texts import items_of, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.model import Drop, Event, Put, Record
    from leasehold.stores.postgres import PostgresStore
    from leasehold.stores.postgres.connections import Connection
    from leasehold.stores.postgres.exchange import Call, Values

SCHEMA_VERSION = 3
"""The number of the newest migration."""
PATIENCE = "5s"
"""So long is a turn waited for."""
SILENCE = "2s"
"""So long may a server be silent in its turn: then PostgreSQL ends it, and the others go on."""
_PATIENCE, _SILENCE = PATIENCE.encode(), SILENCE.encode()
PART = 40
"""After so many commands what was decided is handed on, to be written meanwhile: less is not worth a statement."""
PAYLOAD_MOST = 200
"""Servers named in one notification; it has room for 8,000 bytes."""
ENGINE = "e"
"""With this begin the keys of engines' own records."""


class PostgresTransaction:
    """One turn."""

    part = PART

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queries = store.connections.queries
        self._connection: Connection | None = None
        self._is_over = False
        self._foreseen: Mapping[str, Record] | None = None
        self._ahead: list[Put | Drop] = []
        """What was written already,"""
        self._places: set[tuple[str, str]] = set()
        """and where."""
        self._tickets: list[str] = []
        self._now = 0
        self._fence = 0
        self._number = 0
        self._longest = 0
        self._longest_here = 0
        self._opens_at = 0

    @property
    def now(self) -> int:
        """The database's clock, read after the lock was taken."""
        if self._connection is None:
            self._begin([])
        return self._now

    @property
    def fence(self) -> int:
        """The next unused number."""
        if self._connection is None:
            self._begin([])
        return self._fence

    @property
    def opens_at(self) -> int:
        """Nothing new may be granted before this time."""
        if self._connection is None:
            self._begin([])
        return self._opens_at

    # ----------------------------------------------------------------------------------------- loading

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """The records of these keys, among others that we know to be true."""
        wanted = list(keys)
        cache = self._store.cache
        if self._connection is None:
            if self._begin(wanted):
                return cache.records
        else:
            self._check_under_way()
        missing = cache.missing(wanted)
        if missing:
            (row,) = self._ask((self._queries.called("load"), [listed(missing)]))
            self._keep(missing, row[0])
        return cache.records

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
            return True
        store.learn(self._number, last_id, None if changed is None else items_of(changed.decode()))
        self._keep(store.cache.missing(wanted) if values[-1] is not values[-2] else missing, entries)
        return False

    def _check(self, state: Values) -> None:
        version, timeline, opens_at, longest, here, is_synchronous = state
        store = self._store
        if version is None or _int(version) != SCHEMA_VERSION:
            raise StoreUnsuitable(
                f"{store.address.place} has schema {_text(version)}, this Leasehold has {SCHEMA_VERSION}: update it"
            )
        if timeline != here:
            store.was_promoted()
            raise Conflict("the database was promoted from a standby")
        if store.address.synchronous and is_synchronous != b"t":
            raise StoreUnsuitable(
                f"{store.address.place}: the URL says synchronous=yes, but synchronous_standby_names or "
                "synchronous_commit there says otherwise; nothing was changed"
            )
        self._opens_at, self._longest = _int(opens_at), _int(longest)

    def due(self, limit: int) -> Sequence[str]:
        """Keys of records that a sweep should look at, the most urgent first."""
        (row,) = self._ask((self._queries.called("due"), [b"%d" % self.now, b"%d" % limit]))
        return list(dict.fromkeys(items_of(_text(row[0]))))

    # ----------------------------------------------------------------------------------------- writing

    def foresee(self, records: Mapping[str, Record]) -> None:
        """What the changed records will be after `commit`, if the caller knows; but for engines' own."""
        self._foreseen = records

    def write_ahead(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> None:
        """Have PostgreSQL write these while the rest is still being decided. `commit` makes them durable, with it."""
        self._check_under_way()
        connection = self._connection
        if connection is None:
            raise StoreError("something to write before anything was loaded")
        values = self._written(changes, events)
        try:
            send(connection, (self._queries.called("write_part"), values))
        except psycopg.Error as error:
            raise self._lost(connection, error) from error

    def _written(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> Values:
        """What there is to write, on top of what was written already."""
        writing = Writing(changes, self._store.cache.records, self._places)
        self._store.note_engines(changes)
        self._ahead += changes
        self._places.update(writing.places)
        self._tickets += writing.tickets
        self._longest_here = max(self._longest_here, writing.longest)
        return [*writing.values, *told(events)]

    def commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        """Make all of this durable, or nothing of it."""
        self._check_under_way()
        if not changes and not events and fence == self.fence and not self._ahead:
            self.close()
            return
        store = self._store
        number, id_ = self._number + 1, store.new_id()
        written = self._written(changes, events)
        values: Values = [
            b"%d" % number,
            id_,
            store.told_to_others(self._ahead),
            b"%d" % max(fence, self.fence),
            b"%d" % (self._longest_here if self._longest_here > self._longest else 0),
            *written,
            store.address.channel.encode(),
            listed(self._promoted(self._tickets)) if self._tickets else b"",
        ]
        self._commit(values)
        self._follow(self._ahead)
        store.got_through(number, id_)

    def _commit(self, values: Values) -> None:
        connection = self._connection
        if connection is None:
            raise StoreError("a commit without a connection")
        try:
            exchange(connection, (self._queries.called("end_turn"), values), (self._queries.called("commit"), []))
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                self._is_over = True
                self._store.in_doubt()
                raise OutcomeUnknown(f"{self._store.address.place}: the connection was lost during a commit") from error
            raise self._explained(error) from error
        except BaseException:  # an interrupt: nobody has heard what became of it
            self._is_over = True
            self._store.in_doubt()
            raise
        self._is_over = True

    def _follow(self, changes: Sequence[Put | Drop]) -> None:
        cache = self._store.cache
        if self._foreseen is None:
            cache.follow(changes)
        else:
            cache.renew(self._foreseen)
            cache.follow([change for change in changes if change.key[0] == ENGINE])

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
        connection = self._connection
        try:
            if connection is not None and not connection.closed:
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
        if isinstance(error, psycopg.errors.UniqueViolation):
            self._store.forget()
            return Conflict("what was remembered was not true any more")
        return self._store.connections.explain(error)

    def _check_under_way(self) -> None:
        if self._is_over:
            raise StoreError("this transaction is over; begin another")


def _int(value: bytes | None) -> int:
    return int(value or b"0")


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
