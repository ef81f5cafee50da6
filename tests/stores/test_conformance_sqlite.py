"""The embedded store keeps every promise: with the callers in one process, and in several."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.batch import Prepared
from leasehold.engine import Engine
from leasehold.stores.sqlite import SqliteStore
from leasehold.testing.conformance import Conformance, Connections
from leasehold.testing.processes import in_a_process
from tests.stores.early import begin_early_always

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold.batch import Result
    from leasehold.stepwise import Steps


class TestInOneProcess(Conformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        opening = partial(leasehold.connect, f"sqlite://{tmp_path}/locks.db")
        with Connections(opening, SqliteStore.capabilities) as connect:
            yield connect


class TestInSeveralProcesses(Conformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        opening = partial(in_a_process, leasehold.connect, f"sqlite://{tmp_path}/locks.db")
        with Connections(opening, SqliteStore.capabilities) as connect:
            yield connect


class TestPreparedAhead(Conformance):
    """Before each turn, what is likely to be asked in it was done but for the commit (docs/adr/0040)."""

    @pytest.fixture
    def connect(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connections]:
        prepare(monkeypatch)
        opening = partial(leasehold.connect, f"sqlite://{tmp_path}/locks.db")
        with Connections(opening, SqliteStore.capabilities) as connect:
            yield connect


def prepare(monkeypatch: pytest.MonkeyPatch) -> list[Prepared]:
    """From now on engines rehearse before each turn, whoever else is there; what of that was carried out."""
    begin_early_always(monkeypatch)
    turn, commit = Engine.turn, Prepared.commit
    carried_out: list[Prepared] = []

    def prepared_turn(engine: Engine) -> int:
        engine.rehearse()
        try:
            return turn(engine)
        finally:
            engine.rest()

    def counted_commit(prepared: Prepared) -> Steps[Result]:
        carried_out.append(prepared)
        return (yield from commit(prepared))

    monkeypatch.setattr(Engine, "turn", prepared_turn)
    monkeypatch.setattr(Prepared, "commit", counted_commit)
    return carried_out


def test_what_is_prepared_is_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out = prepare(monkeypatch)
    with leasehold.connect(f"sqlite://{tmp_path}/locks.db") as locks, ThreadPoolExecutor(4) as threads:

        def work(number: int) -> list[int]:
            fences = []
            for _ in range(25):
                granted = locks.acquire("hot", ttl=60, wait=60, holder=f"h{number}")
                assert isinstance(granted, leasehold.Granted)
                fences.append(granted.lease.fence)
                assert locks.release(granted.lease.id, granted.token).released  # type: ignore[union-attr]
            return fences

        fences = [fence for found in threads.map(work, range(4)) for fence in found]
    assert len(set(fences)) == 100
    assert carried_out, "nothing was ever as expected"
