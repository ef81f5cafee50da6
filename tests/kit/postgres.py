"""One PostgreSQL for a whole run of the tests, with a schema of its own for each test. No tests in here."""

from __future__ import annotations

import atexit
import itertools
import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import psycopg

from leasehold.domain.timestamps import SECOND
from leasehold.stores.layout import LANES_MOST
from leasehold.stores.postgres import transaction
from leasehold.testing.postgres import QUICK, Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

_numbers = itertools.count()


def take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is assumed to be ours may take as long as it likes: only engines begin those anew that are late."""
    monkeypatch.setattr(transaction, "LAG", 3_600 * SECOND)


@cache
def server() -> Postgres:
    """The one that all tests share; it ends with the run, by its id."""
    started = Postgres(*QUICK)
    atexit.register(started.remove)
    return started.__enter__()


@contextmanager
def schema(lanes: int | None = 1) -> Iterator[str]:
    """The URL of an empty place in the shared server, for a store with so many lanes; None: it does not say."""
    name = f"t{os.getpid()}_{next(_numbers)}"
    yield f"{server().url}?{'' if lanes is None else f'lanes={lanes}&'}schema={name}"
    with psycopg.connect(server().url, autocommit=True) as connection:
        for each in (name, *(f"{name}_{lane}" for lane in range(1, LANES_MOST + 1) if lanes != 1)):
            connection.execute(f"DROP SCHEMA IF EXISTS {each} CASCADE")
