"""The mutants are fit: each can still be planted, and some are caught from end to end. All of them: `make mutants`."""

from __future__ import annotations

import pytest

from tests.mutants.kinds import PROMISES, Mutant
from tests.mutants.mutants import MUTANTS
from tests.mutants.planting import (
    BROKEN,
    CAUGHT,
    STALE,
    SURVIVED,
    is_fresh,
    missing_tests,
    planted,
    try_out,
    without_a_bug,
)

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
NO_BUG = Mutant("no bug", "domain/rules/waiting.py", "def beat(", "def beat(", PROMISES)


def test_there_are_enough_of_them() -> None:
    assert len(BY_NAME) == len(MUTANTS) >= 40


def test_each_can_still_be_planted() -> None:
    stale = [
        f"{mutant.file} does not have this text exactly once:\n{mutant.old}"
        for mutant in MUTANTS
        if not is_fresh(mutant)
    ]
    assert not stale, "\n".join(stale)
    for mutant in MUTANTS:
        assert mutant.new != mutant.old
        assert missing_tests(mutant) == [], mutant.name
        planted(mutant)  # what is not even Python is noticed by every test, and proves nothing of any


@pytest.mark.parametrize(
    "name", ["grant to a dead waiter", "one slot too many", "another process's writes are not noticed"]
)
def test_it_is_caught(name: str) -> None:
    assert try_out(BY_NAME[name]).state == CAUGHT


def test_a_change_that_is_no_bug_is_not_caught() -> None:
    assert try_out(NO_BUG).state == SURVIVED
    assert not without_a_bug([PROMISES])


def test_a_mutant_that_cannot_be_planted_or_run_is_reported() -> None:
    assert try_out(NO_BUG._replace(old="not in there")).state == STALE
    assert try_out(NO_BUG._replace(new="def beat((")).state == BROKEN
    assert try_out(NO_BUG._replace(tests=("tests/domain/test_nothing.py",))).state == BROKEN
