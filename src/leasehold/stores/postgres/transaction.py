"""One transaction: lock and load, then write and commit, each in one round trip. It decides nothing about leases.

Records are locked by advisory locks that end with the transaction, on a hash of the key: in the order of the hashes
where it waits, without waiting where it comes later in that order. Whoever loses out twice in a row, or needs very
many records, locks all others out instead and needs no lock on any record; so there is always somebody who gets on.
"""

from __future__ import annotations

import psycopg

from leasehold.errors import Conflict, OutcomeUnknown, StoreError, StoreUnsuitable
from leasehold.keys import home
from leasehold.model import EMPTY, Hold, Put
from leasehold.stores.postgres.connections import ask
from leasehold.stores.postgres.rows import gathered, longest_ttl, numbers_in, written
from leasehold.stores.postgres.texts import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from leasehold.model import Drop, Event, Record
    from leasehold.stores.postgres import PostgresStore
    from leasehold.stores.postgres.connections import Connection, Rows

SCHEMA_VERSION = 1
"""The number of the newest migration."""
PATIENCE = "5s"
"""So long is another server waited for that has a lock, and so long may this one be silent in a transaction."""
LOCKS_MOST = 800
"""More records than this are not locked one by one: PostgreSQL has room for some thousand locks in all."""
BLOCK = 1024
"""So many numbers a transaction gets each time it locks something; as the sequence's increment."""
MANY = 2**20
"""So many it gets, alone, after it has run out of them."""
PAYLOAD_MOST = 200
"""Servers named in one notification; it has room for 8,000 bytes."""


class PostgresTransaction:
    """One turn; others with other records may have theirs at the same time."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queries = store.connections.queries
        self._values: dict[str, Any] = {"salt": store.address.salt, "patience": PATIENCE, "store": store.id}
        self._records: dict[str, Record] = {}
        self._connection: Connection | None = None
        self._alone = False
        self._is_over = False
        self._blocks: list[range] = []
        self._now = 0
        self._longest = 0
        self._opens_at = 0

    @property
    def now(self) -> int:
        """The database's clock, read after the last lock was taken."""
        self._begin_if_needed()
        return self._now

    @property
    def fence(self) -> int:
        """The next unused number: of a block that was taken after the last lock."""
        self._begin_if_needed()
        return self._blocks[-1].start

    @property
    def opens_at(self) -> int:
        """Nothing new may be granted before this time."""
        self._begin_if_needed()
        return self._opens_at

    # ----------------------------------------------------------------------------------------- loading

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """The records of these keys and of all loads before, locked."""
        self._check_under_way()
        wanted = [key for key in dict.fromkeys(keys) if key not in self._records]
        if self._connection is None:
            self._begin(self._store.company.with_others(wanted))
        elif wanted:
            self._load_more(wanted)
        return self._records

    def _begin_if_needed(self) -> None:
        if self._connection is None:
            self._check_under_way()
            self._begin([])

    def _begin(self, wanted: list[str]) -> None:
        store = self._store
        self._connection = store.writer()
        self._alone = store.must_be_alone or len(wanted) > LOCKS_MOST
        names = ["begin", "lock_alone" if self._alone else "lock_shared", "state"]
        if store.needs_many_numbers and self._alone:
            names.append("more_fences")
        answers = self._ask(*names, "load", keys=array(wanted), more=MANY)
        row = answers[-2] if names[-1] == "state" else answers[-3]
        self._take(row, answers[-1], wanted)
        if names[-1] == "more_fences":
            self._blocks[-1] = range(self._blocks[-1].start, int(answers[-2][0][0]) + BLOCK)

    def _load_more(self, wanted: list[str]) -> None:
        if self._alone:
            answers = self._ask("state", "load", keys=array(wanted))
        elif len(self._records) + len(wanted) > LOCKS_MOST:
            self._store.be_alone()
            raise self._conflict("more records are needed than are locked one by one")
        else:
            answers = self._ask("try_lock", "state", "load", keys=array(wanted))
            if not answers[0][0][0]:
                raise self._conflict("another server has a record that is needed as well")
        self._take(answers[-2], answers[-1], wanted)

    def _take(self, state: Rows, rows: Rows, wanted: list[str]) -> None:
        now, fence, version, timeline, opens_at, longest, here, is_synchronous = state[0]
        if version != SCHEMA_VERSION:
            raise StoreUnsuitable(
                f"{self._store.address.place} has schema {version}, this Leasehold has {SCHEMA_VERSION}: update it"
            )
        if timeline != here:
            self._store.was_promoted()
            raise self._conflict("the database was promoted from a standby")
        if self._store.address.synchronous and not is_synchronous:
            raise StoreUnsuitable(
                f"{self._store.address.place}: the URL says synchronous=yes, but synchronous_standby_names or "
                "synchronous_commit there says otherwise; nothing was changed"
            )
        self._now = self._store.not_before(now)
        self._opens_at, self._longest = opens_at, longest
        self._blocks.append(range(fence, fence + BLOCK))
        self._records.update(gathered(wanted, rows))

    def due(self, limit: int) -> Sequence[str]:
        """Keys of records that a sweep should look at; those that another server has just now are left to it."""
        now = self.now
        return [key for (key,) in self._ask("due", now=now, limit=limit)[-1]]

    # ----------------------------------------------------------------------------------------- writing

    def commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:  # noqa: ARG002 (the sequence knows)
        """Make all of this durable, or nothing of it."""
        self._check_under_way()
        self._begin_if_needed()
        if not changes and not events:
            self.close()
            return
        self._check_numbers(changes, events)
        names, values = written(changes, events)
        longest = longest_ttl(changes)
        if longest > self._longest:
            names.append("note_longest")
        payloads = self._promoted(changes)
        if payloads:
            names.append("notify")
        values |= {"longest": longest, "channel": self._store.address.channel, "payloads": array(payloads)}
        self._store.note_engines(changes)
        self._commit(self._queries.together(*names, "commit"), values, changes)

    def _commit(self, text: str, values: dict[str, Any], changes: Sequence[Put | Drop]) -> None:
        connection = self._connection
        if connection is None:
            raise StoreError("a commit without a connection")
        try:
            ask(connection, text, {**self._values, **values})
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
        self._store.company.follow(changes)
        self._store.got_through()

    def _check_numbers(self, changes: Sequence[Put | Drop], events: Sequence[Event]) -> None:
        """Start over, alone and with more of them, if numbers were used that another transaction may have as well."""
        first = self._blocks[0].start
        used = {*numbers_in(changes), *(event.fence for event in events)}
        if max(used, default=0) < self._blocks[0].stop:
            return
        if any(number >= first and not any(number in block for block in self._blocks) for number in used):
            self._store.needs_many_numbers = True
            self._store.be_alone()
            raise self._conflict("more fences are needed than were reserved")

    def _promoted(self, changes: Sequence[Put | Drop]) -> list[str]:
        """Whom to notify: the engines of waiters elsewhere that were promised a lease."""
        engines: dict[str, None] = {}
        for change in changes:
            if isinstance(change, Put) and isinstance(change.entry, Hold) and change.entry.ticket is not None:
                ticket = change.entry.ticket
                queue = self._records.get(home(ticket), EMPTY).waiters
                engines.update((waiter.engine, None) for waiter in queue if waiter.id == ticket)
        named = [engine for engine in engines if engine not in self._store.engines]
        return [",".join(named[at : at + PAYLOAD_MOST]) for at in range(0, len(named), PAYLOAD_MOST)]

    # ------------------------------------------------------------------------------------------ the end

    def close(self) -> None:
        """Give the records up; what was not committed never happened."""
        if self._is_over:
            return
        self._is_over = True
        self._store.leave()
        connection = self._connection
        if connection is None or connection.closed:
            return
        try:
            ask(connection, "ROLLBACK")
        except psycopg.Error:
            self._store.connections.drop_writer()  # which undoes it as well

    def _ask(self, *names: str, **values: Any) -> list[Rows]:
        connection = self._connection
        self._check_under_way()
        if connection is None:
            raise StoreError("a question without a connection")
        try:
            return ask(connection, self._queries.together(*names), {**self._values, **values})
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                self._store.connections.drop_writer()
                # Nothing was written: once more, on a new connection; if there is none to be had, that will tell.
                raise self._conflict("the connection was lost") from error
            raise self._explained(error) from error

    def _explained(self, error: psycopg.Error) -> StoreError:
        if isinstance(error, psycopg.errors.OutOfMemory) and not self._alone:
            self._store.be_alone()
            return self._conflict("there is no room for so many locks")
        told = self._store.connections.explain(error)
        return self._conflict(str(told)) if isinstance(told, Conflict) else told

    def _conflict(self, why: str) -> Conflict:
        self._store.lost_out()
        return Conflict(why)

    def _check_under_way(self) -> None:
        if self._is_over:
            raise StoreError("this transaction is over; begin another")
