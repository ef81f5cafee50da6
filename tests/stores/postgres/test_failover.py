"""A standby that was promoted may have lost commits: the fences move up, and new grants pause."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Refused, Renewed
from leasehold.errors import StoreUnsuitable
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.failover import EPOCH
from leasehold.testing.conformance.asking import take, until
from leasehold.testing.postgres import QUICK, Postgres, bin_path
from tests.kit.postgres import schema, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A server and one that follows it."""
    with Postgres(*QUICK) as first:
        second = first.standby()
        with second:
            yield first, second


def _caught_up(first: Postgres, second: Postgres) -> bool:
    with psycopg.connect(first.url) as one, psycopg.connect(second.url) as two:
        written = one.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert written is not None
        replayed = two.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written).fetchone()
        return replayed == (True,)


def _fail_over(first: Postgres, second: Postgres) -> None:
    until(lambda: _caught_up(first, second), "the standby has everything")
    first.stop(signal.SIGQUIT)
    with psycopg.connect(second.url, autocommit=True) as connection:
        connection.execute("SELECT pg_promote()")


def _urls(first: Postgres, second: Postgres, more: str = "") -> str:
    return f"postgresql://postgres@127.0.0.1:{first.port},127.0.0.1:{second.port}/postgres{more}"


def test_a_promoted_standby_is_noticed(pair: tuple[Postgres, Postgres]) -> None:
    with leasehold.connect(_urls(*pair, "?pause=3s"), holder="ada") as locks:
        before = take(locks, "kept", ttl=3600)
        _fail_over(*pair)
        refused = locks.acquire("other", ttl=60)
        assert isinstance(refused, Refused)
        assert refused.code == "paused"
        assert isinstance(locks.renew(before.lease.id, before.token), Renewed)
        after = locks.acquire("other", ttl=60, wait=60)
        assert isinstance(after, Granted)
        assert after.lease.fence > before.lease.fence + EPOCH


def _move(url: str) -> None:
    """As a dump that is restored on another server."""
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"UPDATE {url.partition('schema=')[2]}.meta SET system = 'another machine'")


def test_a_database_that_was_restored_elsewhere_is_noticed() -> None:
    with schema() as url:
        with leasehold.connect(url, holder="ada") as locks:
            before = take(locks, "r")
            locks.release(before.lease.id, before.token)
        _move(url)
        with leasehold.connect(f"{url}&pause=0", holder="bob") as locks:
            after = locks.acquire("r", ttl=60)
            assert isinstance(after, Granted)
            assert after.lease.fence > before.lease.fence + EPOCH


def test_the_pause_is_the_longest_ttl_and_the_same_for_every_server() -> None:
    with schema() as url:
        with leasehold.connect(url, holder="ada") as locks:
            take(locks, "r", ttl=7200)
            take(locks, "s", ttl=60)
        _move(url)
        for holder in ("bob", "eve"):
            with leasehold.connect(url, holder=holder) as locks:
                refused = locks.acquire("other", ttl=60)
                assert isinstance(refused, Refused)
                left = int(refused.message.split(" another ")[1].split(" s")[0])
                assert 7000 < left <= 7200
        with psycopg.connect(server().url) as connection:
            epoch = connection.execute(f"SELECT epoch FROM {url.partition('schema=')[2]}.meta").fetchone()
        assert epoch == (2,)


def test_synchronous_is_refused_where_it_is_not_so() -> None:
    with schema() as url:
        store = PostgresStore(f"{url}&synchronous=yes")
        try:
            transaction = store.begin()
            with pytest.raises(StoreUnsuitable, match="synchronous_standby_names"):
                transaction.load(["n1"])
            transaction.close()
        finally:
            store.close()


@pytest.mark.skipif(not IS_PROOF, reason="three servers one after the other: only by make prove")
def test_with_synchronous_replication_there_is_no_pause(pair: tuple[Postgres, Postgres]) -> None:
    first, second = pair
    with psycopg.connect(first.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: _is_synchronous(connection), "commits wait for the standby")
    with leasehold.connect(_urls(first, second, "?synchronous=yes"), holder="ada") as locks:
        before = take(locks, "r")
    _fail_over(first, second)
    third = second.standby()
    with third, psycopg.connect(second.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: _is_synchronous(connection), "commits wait for the next standby")
        with leasehold.connect(_urls(first, second, "?synchronous=yes"), holder="bob") as locks:
            assert isinstance(locks.acquire("r", ttl=60), leasehold.Held)
            after = take(locks, "other")
            assert after.lease.fence > before.lease.fence + EPOCH


def _is_synchronous(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    rows = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall()
    return ("sync",) in rows


def _run(program: str, *words: str) -> None:
    subprocess.run([bin_path() / program, *words], check=True)


def test_a_dump_that_is_restored_on_the_same_server_is_noticed(tmp_path: Path) -> None:
    with Postgres(*QUICK) as server:
        url = f"{server.url.rpartition('/')[0]}/dumped"
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE DATABASE dumped")
            with leasehold.connect(url) as locks:
                take(locks, "kept", ttl=3600)
                _run("pg_dump", "--format=custom", f"--file={tmp_path / 'dump'}", f"--dbname={url}")
                lost = take(locks, "lost", ttl=3600).lease
            admin.execute("DROP DATABASE dumped")
            admin.execute("CREATE DATABASE dumped")
        _run("pg_restore", f"--dbname={url}", str(tmp_path / "dump"))
        with leasehold.connect(f"{url}?pause=0") as locks:
            assert take(locks, "lost").lease.fence > lost.fence
        with leasehold.connect(url) as locks:
            assert take(locks, "other").lease.fence < 2 * EPOCH, "that was noticed once"
