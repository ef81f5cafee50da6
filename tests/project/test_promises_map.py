"""Each promise has an id, and a test claims it."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.kit.shell import ROOT

MAP = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))
OPEN = MAP.pop("open")
PROMISES = {number: promise for section in MAP.values() for number, promise in section.items()}
SUITE = "src/leasehold/testing/conformance"
SECTIONS = range(2, 11)
"""Of the specification; the first only says what words mean."""


def test_no_promise_is_there_twice() -> None:
    assert sum(len(section) for section in MAP.values()) == len(PROMISES)
    assert set(PROMISES) & set(OPEN) == set(), "it is claimed: it is not open any more"


def test_every_section_has_promises() -> None:
    assert {int(number.partition(".")[0]) for number in (*PROMISES, *OPEN)} == set(SECTIONS)


@pytest.mark.parametrize("number", PROMISES)
def test_a_promise_is_claimed_by_tests_that_exist(number: str) -> None:
    promise = PROMISES[number]
    assert promise["says"].endswith(".")
    assert promise["tests"], "nothing would fail if it were broken"
    for claim in promise["tests"]:
        file, _, name = claim.partition("::")
        path = ROOT / file.replace("conformance/", f"{SUITE}/", 1) if file.startswith("conformance/") else ROOT / file
        assert path.exists(), claim
        assert re.search(rf"def {name}\(", path.read_text(encoding="utf-8")), claim


def test_what_is_open_says_why() -> None:
    assert [number for number, why in OPEN.items() if not why.endswith(".")] == []
