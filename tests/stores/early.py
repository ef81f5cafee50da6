"""What tests of turns that begin early share: who is kept out meanwhile, and a lease that goes from hand to hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.model import Granted
from leasehold.stores.sqlite import database
from leasehold.stores.sqlite.gate import Gate
from tests.engine.rig import begin_waiting, release, take

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from leasehold.engine import Engine


def is_open(path: Path) -> bool:
    """Whether anybody else could have a turn now."""
    gate = Gate(f"{path}.gate")
    try:
        return gate.try_to_take()
    finally:
        gate.close()


def begin_early_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a process need not have been alone for long, nor leave the gate open now and then."""
    for name, value in {"LASTING": 1, "ALONE": 0, "LONG_ALONE": 1, "OPEN_EVERY": 10_007}.items():
        monkeypatch.setattr(database, name, value)


def handed_on(engine: Engine, **asked: object) -> Granted:
    """What somebody has got who waited for it, and asked for it like this."""
    first = take(engine, "hot")
    waiting = begin_waiting(engine, "hot", "next", **asked)
    engine.submit(release(first))
    engine.turn()
    assert isinstance(waiting.outcome, Granted)
    return waiting.outcome
