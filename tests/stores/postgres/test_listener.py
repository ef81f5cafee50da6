"""Notifications: sent only when somebody elsewhere was promoted, heard again after every cut, never relied upon."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold.domain.outcomes import Granted
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.address import parse
from leasehold.testing.conformance import Conformance, Connections
from leasehold.testing.conformance.asking import PATIENCE, release, take, until, wait_for
from leasehold.testing.conformance.fences import Fences
from leasehold.testing.lending import free_port
from tests.kit.listening import listening
from tests.kit.postgres import server
from tests.kit.wires import Pooler

if TYPE_CHECKING:
    from collections.abc import Iterator

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))


@contextmanager
def _overheard(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(server().url, autocommit=True) as ear:
        ear.execute(f"LISTEN {parse(url).channel}")
        yield ear


def _heard(ear: psycopg.Connection[tuple[object, ...]], url: str) -> list[str]:
    """All that was told so far: they come in the order in which they were sent, so this waits for one of our own."""
    ear.execute(f"NOTIFY {parse(url).channel}, 'now'")
    heard: list[str] = []
    for told in ear.notifies(timeout=PATIENCE):
        if told.payload == "now":
            return heard
        heard.append(told.payload)
    raise AssertionError(f"it does not hear itself: {heard}")


def test_no_notification_without_a_waiter_elsewhere(url: str) -> None:
    with _overheard(url) as ear, leasehold.connect(url, holder="ada") as locks:
        held = take(locks, "r")
        asking = wait_for(locks, "r", holder="bob")
        release(locks, held)
        assert isinstance(asking.answer(), Granted)
        release(locks, take(locks, "other"))
        assert _heard(ear, url) == []


def test_the_server_of_a_promoted_waiter_is_notified(url: str) -> None:
    with (
        _overheard(url) as ear,
        leasehold.connect(url, holder="ada") as one,
        leasehold.connect(url, holder="bob") as two,
    ):
        held = take(one, "r")
        asking = wait_for(two, "r")
        release(one, held)
        assert isinstance(asking.answer(), Granted)
        told = _heard(ear, url)
        assert len(told) == 1
        assert told[0].startswith("e")


def test_it_listens_again_after_it_was_cut(url: str) -> None:
    store = PostgresStore(url)
    try:
        store.hint()
        listener = store._listener
        assert listener is not None
        until(listener.listening.is_set, "it listens")
        until(store.hint, "what was told before it listened counts as told")
        listening = f"query = 'LISTEN {parse(url).channel}'"
        with psycopg.connect(server().url, autocommit=True) as admin:
            admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listening}")
        until(store.hint, "it listens again, and what it may have missed counts as told")
        store.engines.add("e1")
        with psycopg.connect(server().url, autocommit=True) as admin:
            admin.execute(f"NOTIFY {parse(url).channel}, 'e2,e1'")
        until(store.hint, "it was told")
    finally:
        store.close()


def test_with_all_notifications_lost_a_waiter_is_still_served(url: str) -> None:
    deaf = f"{url}&listen=postgresql://nobody@127.0.0.1:{free_port()}/nowhere"
    with leasehold.connect(url, holder="ada") as one, leasehold.connect(deaf, holder="bob") as two:
        held = take(one, "r")
        asking = wait_for(two, "r")
        release(one, held)
        assert isinstance(asking.answer(), Granted)


@contextmanager
def _pooled(url: str, size: int) -> Iterator[str]:
    """The database behind a proxy that gives each transaction another connection, with a direct one to listen on."""
    pooler = Pooler(server().port, size)
    with listening(pooler.answer) as port:
        yield url.replace(f":{server().port}/", f":{port}/") + f"&listen={server().url}"
    assert pooler.transactions > 0
    assert pooler.prepared == 0
    pooler.close()


def test_behind_a_pooler_a_waiter_elsewhere_is_served(url: str) -> None:
    with (
        _pooled(url, 3) as pooled,
        leasehold.connect(pooled, holder="ada") as one,
        leasehold.connect(pooled, holder="bob") as two,
    ):
        for _ in range(5):
            held = take(one, "r")
            asking = wait_for(two, "r")
            release(one, held)
            served = asking.answer()
            assert isinstance(served, Granted)
            release(two, served)


class TestBehindAPooler(Conformance if IS_PROOF else Fences):  # type: ignore[misc] # one or the other
    """Every promise; in CI those about fences, which are the ones that a wrong connection would break first."""

    @pytest.fixture
    def connect(self, url: str) -> Iterator[Connections]:
        with (
            _pooled(url, 12) as pooled,
            Connections(partial(leasehold.connect, pooled), PostgresStore.capabilities) as connect,
        ):
            yield connect
