"""A server on PostgreSQL answers everybody else while one transaction has to wait."""

from __future__ import annotations

from urllib.request import urlopen

import psycopg

import leasehold
from leasehold.domain.outcomes import Granted
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.address import parse
from leasehold.testing.conformance.asking import Asking, until
from tests.acceptance.servers import servers_on
from tests.kit.postgres import schema, server


def _waiting(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()
    return row != (0,)


def test_the_event_loop_never_waits_for_the_database() -> None:
    with (
        schema() as url,
        servers_on(url, PostgresStore, 1) as servers,
        leasehold.connect(servers.url, holder="ada") as locks,
        psycopg.connect(server().url) as other,
    ):
        other.execute("SELECT count(pg_advisory_xact_lock(%s))", (parse(url).salt,))  # as a transaction that is alone
        asking = Asking(lambda: locks.acquire("r", ttl=60))
        until(lambda: _waiting(other), "the server's transaction waits")
        with urlopen(f"{servers.urls[0]}/healthz") as answer:
            assert answer.status == 200
        assert _waiting(other), "it waits still, and was not given up meanwhile"
        assert not asking.is_over
        other.rollback()
        assert isinstance(asking.answer(), Granted)
