"""Outcomes have a truth and an equality of their own; no `repr` of anything shows a secret."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from leasehold.domain import commands
from leasehold.domain.leases import Queue
from leasehold.domain.nouns import SECRETS, OutcomeNoun, Refusal, Success
from leasehold.domain.outcomes import Cleared, Done, Granted, Held, Lost, Released, TimedOut
from leasehold.locks.holding import held
from leasehold.requests import calls
from tests.kit.nouns import MODULES, NOUNS
from tests.typed import truth

OUTCOMES = [*truth.TRUE, *truth.FALSE]
SECRET = "5ecre7-never-shown"


def kinds() -> list[Any]:
    """Every noun that could carry a secret."""
    modules = (*MODULES, commands, calls, held)
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and hasattr(kind, "_fields")
    ]


def test_they_are_all_in_here() -> None:
    named = {kind for kind in NOUNS.values() if issubclass(kind, OutcomeNoun)}
    assert {type(each) for each in OUTCOMES} | {Done} == named


def test_what_they_are_can_be_asked() -> None:
    assert all(isinstance(each, OutcomeNoun) for each in OUTCOMES)
    assert isinstance(truth.TRUE[0], Success)
    assert isinstance(truth.FALSE[0], Refusal)
    assert not isinstance(truth.LEASE, OutcomeNoun)
    assert not isinstance((), OutcomeNoun)


def test_truth() -> None:
    truth.main()


@pytest.mark.parametrize("one", OUTCOMES, ids=repr)
def test_each_equals_itself_and_no_other(one: Any) -> None:  # noqa: ANN401 (any outcome)
    assert [each for each in OUTCOMES if each == one] == [one]
    assert [each for each in OUTCOMES if not each != one] == [one]  # noqa: SIM202 (`!=` is a method of its own)
    again = pickle.loads(pickle.dumps(one))
    assert again == one == copy.copy(one)
    assert hash(again) == hash(one)


def test_the_type_counts_on_both_sides() -> None:
    values: Any = (("r",), (), Queue(0, 1), 1)
    one: Any = Held(*values)
    assert one != TimedOut(*values)
    assert one != values
    assert values != one
    assert not values == one  # noqa: SIM201 (`==` is a method of its own)
    assert len({one, TimedOut(*values)}) == 2


def test_they_are_no_sequences() -> None:
    released: Any = Released("l1", released=True, reason="completed")
    with pytest.raises(TypeError):
        _id, _released, _reason, _resources = released
    with pytest.raises(TypeError):
        list(released)
    with pytest.raises(TypeError):
        "l1" in released  # noqa: B015 (it raises)


def test_they_are_frozen() -> None:
    lost: Any = Lost("l1", "expired")
    with pytest.raises(AttributeError):
        lost.reason = "released"
    with pytest.raises(AttributeError):
        lost.more = 1


def test_they_are_matched_by_their_fields() -> None:
    match Cleared(("r",), cleared=True):
        case Cleared(resources, True):
            assert resources == ("r",)
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_no_repr_shows_a_secret(kind: Any) -> None:  # noqa: ANN401 (any noun)
    """In a field of its own, among arguments, as a session's credential."""
    for value in (SECRET, (SECRET,), {"token": SECRET, "session": f"s1.{SECRET}"}):
        secret = {field for field in kind._fields if field in SECRETS or isinstance(value, dict)}
        shown = repr(kind(*(value if field in secret else None for field in kind._fields)))
        assert SECRET not in shown
        assert shown.startswith(kind.__name__)
    session = f"s1.{SECRET}"
    assert SECRET not in repr(kind(*(session if field == "session" else None for field in kind._fields)))


def test_a_repr_shows_everything_else() -> None:
    granted = truth.TRUE[0]
    assert isinstance(granted, Granted)
    assert "'l1-a'" in repr(granted)
    assert "token='…'" in repr(granted)
    assert repr(granted._replace(token="")).count("token=''") == 1
    assert repr(Lost("l1", "expired")) == "Lost(lease='l1', reason='expired')"
