"""How ids and times are spelled: exactly so, and no other way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from leasehold.domain import keys
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.wire import shapes as wire

HASH = "0123456789abcdef0123456789abcdef"
NEVER_A_HASH = {
    "capitals": HASH.upper(),
    "too short": HASH[:-1],
    "too long": HASH + "0",
    "with blanks": f"{HASH[:15]} {HASH[:16]}",
    "begins with a blank": f" {HASH[:-1]}",
    "with a line break": f"{HASH[:-1]}\n",
    "with an underscore": f"{HASH[:15]}_{HASH[:16]}",
    "no digit": f"{HASH[:-1]}g",
    "digits of another script": f"{HASH[:-1]}\N{ARABIC-INDIC DIGIT ONE}",
    "half a character": f"{HASH[:-1]}\ud800",
    "signed": f"-{HASH[:-1]}",
    "nothing": "",
}


class Word(str):
    """A string that claims to be another one."""

    __slots__ = ()

    def partition(self, _separator: str) -> tuple[str, str, str]:
        return "l1", "-", HASH


def test_an_id_is_a_letter_a_number_and_a_hash() -> None:
    assert keys.is_lease_id(f"l0-{HASH}")
    assert keys.is_lease_id(f"l{2**53 - 1}-{HASH}")
    assert keys.is_waiter_id(f"w42-{HASH}")
    assert not keys.is_waiter_id(f"l42-{HASH}")


@pytest.mark.parametrize("hashed", NEVER_A_HASH.values(), ids=NEVER_A_HASH)
def test_no_other_spelling_of_a_hash_is_taken(hashed: str) -> None:
    assert not keys.is_lease_id(f"l1-{hashed}")


@pytest.mark.parametrize("number", ["", "01", "-1", "+1", " 1", "1_0", str(2**53), "9" * 17, "\N{SUPERSCRIPT TWO}"])
def test_no_other_spelling_of_a_number_is_taken(number: str) -> None:
    assert not keys.is_lease_id(f"l{number}-{HASH}")


@pytest.mark.parametrize("value", [None, 1, b"l1-" + HASH.encode(), Word("nonsense")])
def test_nothing_else_is_an_id(value: object) -> None:
    assert not keys.is_lease_id(value)


@pytest.mark.parametrize("us", [0, 1, 999_999, SECOND, 1_794_850_235_405_084, 1_794_850_235_000_007])
def test_a_time_is_told_to_the_microsecond(us: int) -> None:
    told = wire.rfc3339(us)
    assert told is not None
    assert datetime.fromisoformat(told) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    assert len(told) == len("1970-01-01T00:00:00.000000Z")


def test_a_time_that_never_comes_is_not_told() -> None:
    assert wire.rfc3339(FOREVER) is None


def test_times_are_told_right_however_many_there_are() -> None:
    for second in range(3 * wire.SECONDS_KEPT):
        assert wire.rfc3339(second * SECOND + 5) == f"1970-01-01T00:{second // 60:02d}:{second % 60:02d}.000005Z"
