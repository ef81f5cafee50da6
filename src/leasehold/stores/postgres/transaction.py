"""One transaction, called a turn: wait for it and load, then write and commit, each in one round trip.

It decides nothing about leases. All transactions take the same lock until they end, so they happen one after the other,
whichever server runs them, and a deadlock has one victim. The database's clock and the numbers are read while the lock
is held. While the last turn is the one that this server knows, its cached records are true; a later turn names the
records that it changed.

A server that caches all records, and was alone for a while, assumes that it still is: it decides everything before it
takes the turn, and leaves the changes in the journal, in one round trip. PostgreSQL refuses the turn if an assumption
was wrong (docs/adr/0031, 0033, 0036).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

from leasehold.errors import Conflict, OutcomeUnknown, StoreError
from leasehold.steps import through
from leasehold.stores.layout import Layout, other_layout
from leasehold.stores.postgres.failures import not_synchronous, other_schema
from leasehold.stores.postgres.last_turn import LastTurn
from leasehold.stores.postgres.queries import SCHEMA_VERSION
from leasehold.stores.postgres.round_trip import RoundTrip, is_midway, round_trip
from leasehold.stores.postgres.rows import (
    TurnChanges,
    each_row,
    gathered,
    gathered_all,
    items_of,
    listed,
    number_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.steps import Steps
    from leasehold.stores.postgres import PostgresStore
    from leasehold.stores.postgres.connections import Connection
    from leasehold.stores.postgres.round_trip import Call, Values

PATIENCE = "5s"
"""How long to wait for a turn."""
SILENCE = "2s"
"""After this silence of a server in its turn, PostgreSQL ends it, so that other servers can continue."""
_PATIENCE, _SILENCE = PATIENCE.encode(), SILENCE.encode()
ALL_MOST = 5_000
"""The most entries that are all loaded."""
NOTHING_MORE = 12
"""Number of the arguments of `whole_turn` that say what to write."""
LAG = 50_000
"""Microseconds that may pass between the time by which an assumed turn was decided and its commit."""


class PostgresTransaction:
    """One turn, taken or assumed."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queries = store.connections.queries
        self._connection: Connection | None = None
        """The connection, once the turn is taken."""
        self._assumed: LastTurn | None = None
        """The facts that are assumed until then; None: the turn is not assumed."""
        self._is_over = False
        self._sent: RoundTrip | None = None
        """The statements that end the turn, once they are sent."""
        self._ending: tuple[int, bytes, int | None, int, int] | None = None
        """Number and id of the turn, where the journal begins, next fence, longest TTL; None if nothing changes."""
        self._changes: TurnChanges | None = None
        self._now = 0
        self._fence = 0
        self._number = 0
        self._longest = 0
        self._opens_at = 0
        self._timeline = b""

    @property
    def now(self) -> int:
        """The database's clock, read while the lock is held; or shortly before, if no other server had it since."""
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
        """Time before which nothing new is granted."""
        if self._connection is None and self._assumed is None:
            self._enter()
        return self._opens_at

    # ----------------------------------------------------------------------------------------- loading

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """Return the cached records, among them these."""
        wanted = list(keys)
        cache = self._store.cache
        is_all_here = self._enter(wanted)
        missing = [] if is_all_here else cache.missing(wanted)
        if missing:
            self._settle()
            (row,) = self._ask((self._queries.called["load"], [listed(missing)]))
            self._keep(missing, row[0])
        return cache.records

    def _enter(self, wanted: Sequence[str] = ()) -> bool:
        """Take the turn, or assume it. Return True if all wanted records are cached."""
        self._check_under_way()
        if self._connection is not None:
            return False
        store = self._store
        is_all_here = store.cache.is_whole and not store.cache.missing(wanted)
        if self._assumed is None:
            self._assumed = store.assumed() if is_all_here else None
            if self._assumed is None:
                return self._begin(list(wanted))
            self._now = store.not_before(self._assumed.by_now())
            _, _, self._fence, self._timeline, self._opens_at, self._longest = self._assumed
            self._number = store.known[0]
        return is_all_here

    def _keep(self, keys: list[str], entries: bytes | None) -> None:
        self._store.cache.records.update(gathered(keys, each_row(entries)))

    def _begin(self, wanted: list[str]) -> bool:
        """Wait for the turn. Return True if all wanted records are cached, and no other server had a turn since."""
        store = self._store
        self._connection = store.writer()
        number, id_ = store.known
        missing = store.cache.missing(wanted)
        values: Values = [store.salt, _PATIENCE, _SILENCE, b"%d" % number, id_, listed(missing)]
        # Cached records are named only if other servers change them often: those that were changed are loaded at once.
        values.append(listed(wanted) if store.has_company and missing != wanted else values[-1])
        _, row = self._ask((self._queries.called["begin"], []), (self._queries.called["begin_turn"], values))
        now, fence, last, last_id, changed, entries, *state = row
        self._check(state)
        self._now, self._fence = store.not_before(number_of(now)), number_of(fence)
        self._number = number_of(last)
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
        """Load every record if there are not too many."""
        (row,) = self._ask((self._queries.called["load_all"], [b"%d" % (ALL_MOST + 1)]))
        if number_of(row[0]) <= ALL_MOST:
            self._store.cache.know_all(gathered_all(each_row(row[1])))
        else:
            self._store.there_are_too_many()

    def _check(self, state: Values) -> None:
        version, timeline, opens_at, longest, here, is_synchronous, lane, lanes = state
        store = self._store
        if number_of(version) != SCHEMA_VERSION:
            raise other_schema(store.address, number_of(version), SCHEMA_VERSION)
        found = Layout(number_of(lane), number_of(lanes))
        if found != store.layout:
            raise other_layout(store.address.shown, found, store.layout)
        if timeline != here:
            store.was_promoted()
            raise Conflict("the database was promoted from a standby")
        if store.address.synchronous and is_synchronous != b"t":
            raise not_synchronous(store.address)
        self._opens_at, self._longest, self._timeline = number_of(opens_at), number_of(longest), timeline or b""

    def due(self, limit: int) -> Sequence[str]:
        """Return keys of records with an entry that is due, the most urgent first."""
        self._settle()
        (row,) = self._ask((self._queries.called["due"], [b"%d" % self.now, b"%d" % limit]))
        return list(dict.fromkeys(items_of(text_of(row[0]))))

    # ------------------------------------------------------------------------------------ assumed turns

    def _settle(self) -> None:
        """Take an assumed turn. Raise Conflict if an assumption was wrong."""
        assumed, self._assumed = self._assumed, None
        if assumed is not None and (not self._begin([]) or self._fence != assumed.fence):
            raise Conflict("what was assumed is not true any more")

    def confirming(self) -> Steps[None]:
        """Confirm step by step that what was assumed is true, where there is nothing to write."""
        if self._assumed is not None:
            yield self._send(*self._taking(), (self._queries.called["rollback"], []))
            self.finish_commit()

    def _taking(self) -> list[Call]:
        """Return the statements that take the turn if it is only assumed so far."""
        if self._assumed is None:
            return []
        nothing: Values = [None] * NOTHING_MORE
        return [
            (self._queries.called["begin"], []),
            (self._queries.called["whole_turn"], [*self._believed(), *nothing]),
        ]

    def _believed(self) -> Values:
        """Return what must be true for an assumed turn to be taken, and stop assuming."""
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
            b"%d" % store.layout.lane,
            b"%d" % store.layout.lanes,
        ]

    # ----------------------------------------------------------------------------------------- writing

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> None:
        """Make all of this durable, or none of it."""
        through(self.committing(changes, events, fence, after))

    def committing(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> Steps[None]:
        """Commit step by step: an event loop can do something else until PostgreSQL answers."""
        yield self.send_commit(changes, events, fence)
        self.finish_commit(after)

    def send_commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> RoundTrip:
        """Send everything, and return the round trip whose answers are on their way."""
        self._check_under_way()
        if not changes and not events and fence == self.fence:
            return self._send(*self._taking(), (self._queries.called["rollback"], []))
        try:
            return self._send(*self._end(TurnChanges(changes, events), fence))
        except BaseException:
            self._store.doubt()  # the journal in memory may be ahead of the table
            raise

    def _end(self, turn: TurnChanges, fence: int) -> list[Call]:
        """Return the statements that end this turn.

        An assumed turn is one statement, which leaves the changes in the journal until that is full. A turn that was
        waited for has folded the journal.
        """
        store, cached = self._store, self._store.cache.records
        number, id_ = self._number + 1, store.new_id()
        self._changes = turn
        store.engines |= turn.new_engines()
        fence = max(fence, self.fence)
        longest = max(self._longest, turn.longest)
        is_alone = self._assumed is not None
        since = store.journal.add(number, turn, cached) if is_alone else None
        self._ending = (number, id_, since, fence, longest)
        longer = longest if longest > self._longest else 0
        this: Values = [id_, store.told_to_others(turn.changes), b"%d" % fence, b"%d" % longer]
        history: Values = [*turn.as_history(), store.channel, turn.notifications(cached, store.engines)]
        commit: Call = (self._queries.called["commit"], [])
        if since is not None:
            values = [*self._believed(), *this, b"%d" % since, store.journal.newest, *history]
            whole_turn = (self._queries.called["whole_turn"], values)
            return [(self._queries.called["begin"], []), whole_turn, commit] if store.must_be_told else [whole_turn]
        rows = store.journal.folded() if is_alone else turn.as_rows(cached)
        end_turn = (self._queries.called["end_turn"], [b"%d" % number, *this, *rows, *history])
        return [*self._taking(), end_turn, commit]

    def finish_commit(self, after: Mapping[str, Record] | None = None) -> None:
        """Wait for the answer, and apply the committed changes to the cache; `after` has no receipts."""
        sent, ending = self._sent, self._ending
        if sent is None:
            raise StoreError("nothing was sent that could be waited for")
        try:
            answers = sent.answers()
        except psycopg.Error as error:
            raise self._unfinished(error) from error
        except BaseException:  # an interrupt: the outcome is unknown
            self._is_over = True
            self._store.in_doubt()
            raise
        self._is_over = True
        if ending is None or self._changes is None:
            self._store.leave()
            return
        number, id_, since, fence, longest = ending
        now = number_of((answers[-1] or answers[-2])[0])  # COMMIT returns no row
        if after is None:
            self._store.cache.follow(self._changes.changes)
        else:
            self._store.cache.records.update(after)  # they keep their age: to evict one only costs a load
            self._store.cache.follow(self._changes.engines)
        certain = LastTurn(now, time.monotonic(), fence, self._timeline, self._opens_at, longest)
        self._store.got_through(number, id_, since, certain)

    def _send(self, *calls: Call) -> RoundTrip:
        connection = self._connection
        if connection is None:
            raise StoreError("a commit without a connection")
        try:
            self._sent = RoundTrip(connection, *calls)
        except psycopg.Error as error:
            raise self._unfinished(error) from error
        except BaseException:  # as below
            self._is_over = True
            self._store.in_doubt()
            raise
        return self._sent

    def _unfinished(self, error: psycopg.Error) -> StoreError:
        """Return the error for a failure at the end of a turn."""
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

    # ------------------------------------------------------------------------------------------ the end

    def close(self) -> None:
        """End the turn; roll back what was not committed."""
        if self._is_over:
            return
        self._is_over = True
        if self._sent is not None:  # the answer was not read: the outcome is unknown
            self._store.in_doubt()
            return
        connection = self._connection
        try:
            if connection is not None and is_midway(connection):
                round_trip(connection, (self._queries.called["rollback"], []))
        except psycopg.Error:
            self._store.connections.drop_writer()  # which rolls back, too
        finally:
            self._store.leave()

    def _ask(self, *calls: Call) -> list[Values]:
        connection = self._connection
        self._check_under_way()
        if connection is None:
            raise StoreError("a question without a connection")
        try:
            return round_trip(connection, *calls)
        except psycopg.Error as error:
            raise self._lost(connection, error) from error

    def _lost(self, connection: Connection, error: psycopg.Error) -> StoreError:
        """Return the error for a failure before the commit: after a lost connection, the engine tries on a new one."""
        if connection.closed or connection.broken:
            self._store.connections.drop_writer()
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
