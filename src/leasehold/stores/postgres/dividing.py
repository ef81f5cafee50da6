"""Change the number of lanes of a store, in one transaction. It decides nothing about leases.

Servers may run meanwhile: the change holds each lane's lock, and every later turn finds another number and is refused.
All fences rise above the highest of all lanes, so that a name's next fence is larger wherever the name is now.
"""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING

import psycopg

from leasehold.errors import StoreUnsuitable
from leasehold.stores.layout import CONTROL, LANES_MOST, Layout, with_spaces
from leasehold.stores.postgres.connections import ask
from leasehold.stores.postgres.opening import create_lane, layout_of
from leasehold.stores.postgres.queries import Queries
from leasehold.stores.postgres.transaction import PATIENCE

if TYPE_CHECKING:
    from leasehold.stores.postgres import PostgresStore
    from leasehold.stores.postgres.connections import Connection


def change_lanes(store: PostgresStore, lanes: int) -> None:
    """Divide a store into so many lanes, all or nothing. Raises StoreError if a server has its turn for too long."""
    connection = store.connections.writer()
    try:
        with connection.transaction():
            _LaneChange(store, connection, lanes).run()
    except psycopg.Error as error:
        raise store.connections.explain(error) from error
    finally:
        store.connections.drop_writer()


class _LaneChange:
    """One change under way."""

    def __init__(self, store: PostgresStore, connection: Connection, lanes: int) -> None:
        self._address = store.address
        self._connection = connection
        self._layout = store.layout
        self._lanes = lanes
        self._queries = {lane: Queries(store.address.of_lane(lane).schema) for lane in range(LANES_MOST + 1)}
        self._before = with_spaces(store.layout.lanes)
        self._after = with_spaces(lanes)

    def run(self) -> None:
        """Take the locks of all lanes, create missing ones, move records and history, and write the new number."""
        before = sorted({CONTROL, *self._before})
        ask(self._connection, self._queries[CONTROL]["patience"], {"patience": PATIENCE})
        for lane in before:
            ask(self._connection, self._queries[CONTROL]["turn"], {"salt": self._address.of_lane(lane).salt})
        found = layout_of(self._address, self._queries[CONTROL], self._connection)
        if found != self._layout:
            raise StoreUnsuitable(f"{self._address.shown}: another process has changed the number of lanes; look again")
        for lane in before:
            ask(self._connection, self._queries[lane]["fold_all"], {"id": os.urandom(16).hex()})
        for lane in self._after:
            if lane not in before:
                create_lane(self._address.of_lane(lane), self._connection, Layout(lane, self._lanes))
        for source, target in product(self._before, self._after):
            if source != target:
                schema = f'"{self._address.of_lane(target).schema}"'
                text = self._queries[source]["move_records"].replace("{target}", schema)
                ask(self._connection, text, {"lanes": self._lanes, "lane": max(target, 1)})
        self._join_histories()
        self._number(sorted({*before, *self._after}))
        for lane in self._before:
            if lane not in (CONTROL, *self._after):
                ask(self._connection, self._queries[lane].in_schema("DROP SCHEMA {schema} CASCADE"))

    def _join_histories(self) -> None:
        """Append the history of all lanes to that of the control lane, by time, where each space finds its own."""
        lanes = [lane for lane in self._before if lane != CONTROL]
        if not lanes:
            return
        told = " UNION ALL ".join(self._queries[lane]["told"].rstrip(";") for lane in (CONTROL, *lanes))
        ((last,),) = ask(self._connection, self._queries[CONTROL]["last_event"])[-1]
        ask(self._connection, self._queries[CONTROL]["join_histories"].replace("/* told */", told), {"last": last})
        for lane in lanes:
            ask(self._connection, self._queries[lane]["forget_history"])

    def _number(self, lanes: list[int]) -> None:
        """Write the new number into every lane, with counters that are not below those of any."""
        counters = [ask(self._connection, self._queries[lane]["counters"])[-1][0] for lane in lanes]
        names = ("fence", "latest", "opens_at", "longest")
        highest = {name: max(column) for name, column in zip(names, zip(*counters, strict=True), strict=True)}
        for lane in lanes:
            ask(self._connection, self._queries[lane]["set_counters"], {**highest, "lanes": self._lanes})
