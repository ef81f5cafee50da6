"""PostgreSQL restarted, crashed, cut off or full during load: no overlap, no lost grant, and everybody gets on."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from leasehold.domain.outcomes import Renewed
from leasehold.stores.postgres import PostgresStore
from leasehold.testing.conformance.asking import take, until
from leasehold.testing.postgres import QUICK, Postgres
from tests.acceptance.servers import servers_on, wandering
from tests.faults.crowd import Load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import leasehold

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
BEFORE, AFTER = 5, 5
"""So many turns each worker has before the fault, and after it."""
MIB = 1024 * 1024
FAULTS = 5 if IS_PROOF else 1


@contextmanager
def _loaded(server: Postgres) -> Iterator[tuple[Postgres, Load, leasehold.Locks]]:
    with (
        server,
        servers_on(server.url, PostgresStore, 2) as servers,
        wandering(servers.url, "keeper") as locks,
        Load(servers.url) as load,
    ):
        yield server, load, locks


def _survives(fault: Callable[[Postgres], None]) -> None:
    with _loaded(Postgres(*QUICK)) as (server, load, locks):
        kept = take(locks, "kept")
        for _ in range(FAULTS):
            load.goes_on(BEFORE)
            fault(server)
            load.goes_on(AFTER)
        assert isinstance(locks.renew(kept.lease.id, kept.token), Renewed)
    load.was_safe()
    load.was_told()


def _crash(server: Postgres) -> None:
    server.stop(signal.SIGQUIT)
    server.start()


def _restart(server: Postgres) -> None:
    server.stop(signal.SIGINT)
    server.start()


def _cut(server: Postgres) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for _ in range(20):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leasehold'"
            )


@pytest.mark.parametrize("fault", [_crash, _cut, _restart] if IS_PROOF else [_crash, _cut])
def test_a_fault_during_load(fault: Callable[[Postgres], None]) -> None:
    _survives(fault)


def test_no_room_left_during_load() -> None:
    """No file may grow beyond a limit: to PostgreSQL that is like a full disk, and needs no disk of one's own."""
    with _loaded(Postgres(*QUICK, largest_file=2 * MIB)) as (server, load, locks):
        kept = take(locks, "kept")
        load.goes_on(BEFORE)
        _fill(server)
        until(lambda: any("disk is full" in str(error) for error in load.errors), "somebody is told")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("DELETE FROM leasehold.history WHERE at = 1")
            # Again and again: what a transaction that is still under way may see is not cleared away yet.
            load.goes_on(AFTER, lambda: connection.execute("VACUUM leasehold.history"))
        assert isinstance(locks.renew(kept.lease.id, kept.token), Renewed)
    load.was_safe()


def _fill(server: Postgres) -> None:
    """Old events, as many as there is room for."""
    number = "coalesce((SELECT min(seq) FROM leasehold.history WHERE at = 1), 0) - number"
    old = f"INSERT INTO leasehold.history (seq, at, told, kinds, events) SELECT {number}, 1, 1, '', repeat('x', 1000)"
    endless = f"DO $$ BEGIN LOOP {old} FROM generate_series(1, 7) AS number; COMMIT; END LOOP; END $$"
    with (
        psycopg.connect(server.url, autocommit=True) as connection,
        pytest.raises(psycopg.Error, match="could not extend file"),
    ):
        connection.execute(endless)
