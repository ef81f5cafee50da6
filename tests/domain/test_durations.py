"""Durations as people write them, to whole microseconds and back."""

from __future__ import annotations

import decimal
import fractions
import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leasehold.domain import durations
from leasehold.domain.timestamps import SECOND

untimed = settings(deadline=None)

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def rule_of(raw: object) -> str:
    with pytest.raises(durations.BadDuration) as caught:
        durations.parse(raw)
    text = str(caught.value)
    assert f"({caught.value.rule})" not in text, "codes are for programs"
    assert "write 30s, 15m, 1h, 2h30m" in text
    return caught.value.rule


def parsed_or_refusal(raw: object) -> int | durations.BadDuration:
    try:
        return durations.parse(raw)
    except durations.BadDuration as refusal:
        return refusal


# ------------------------------------------------------------------------------------- what is accepted


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("30s", 30 * SECOND),
        ("15m", 15 * MINUTE),
        ("1h", HOUR),
        ("2h30m", 150 * MINUTE),
        ("1d", DAY),
        ("1d2h3m4s5ms", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5_000),
        ("500ms", 500_000),
        ("1m1ms", MINUTE + 1_000),
        ("1.5h", 90 * MINUTE),
        ("1h1.5m", HOUR + 90 * SECOND),
        ("90", 90 * SECOND),
        ("0.25", 250_000),
        ("0", 0),
        ("0s", 0),
        ("00.0", 0),
        ("007s", 7 * SECOND),
        ("2H30M", 150 * MINUTE),
        ("500MS", 500_000),
        ("  5s\n", 5 * SECOND),
        ("0.1s", 100_000),
        ("0.29", 290_000),
        ("0.000001", 1),
        ("0.001ms", 1),
        ("0.0000019", 1),
        ("1000000d", 1_000_000 * DAY),
    ],
)
def test_texts_are_read(raw: str, expected: int) -> None:
    assert durations.parse(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (0, 0),
        (60, MINUTE),
        (0.0, 0),
        (-0.0, 0),
        (0.1, 100_000),
        (0.29, 290_000),
        (1.5, 1_500_000),
        (5e-05, 50),
        (1e-06, 1),
        (1.9e-06, 1),
        (1e6, 1_000_000 * SECOND),
        (10_000_000.1, 10_000_000_100_000),
        (86_400_000_000, 1_000_000 * DAY),
        (86_400_000_000.0, 1_000_000 * DAY),
    ],
)
def test_numbers_are_seconds(raw: float, expected: int) -> None:
    assert durations.parse(raw) == expected


@untimed
@given(st.integers(0, 10**6), st.integers(0, 10**6 - 1))
def test_decimals_are_exact(whole: int, part: int) -> None:
    expected = whole * SECOND + part
    assert durations.parse(f"{whole}.{part:06}") == expected
    assert durations.parse(f"{whole}.{part:06}s") == expected
    assert durations.parse(expected / SECOND) == expected


# -------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("raw", [-1, -0.5, -1e-12, "-1", "-5s", " -0.1h", "-2h30m"])
def test_refuses_negatives(raw: object) -> None:
    assert rule_of(raw) == "negative"
    with pytest.raises(durations.BadDuration, match="must not be negative"):
        durations.parse(raw)


@pytest.mark.parametrize("raw", [float("nan"), float("inf"), -float("inf")])
def test_refuses_numbers_that_are_not_finite(raw: float) -> None:
    assert rule_of(raw) == "not_finite"


@pytest.mark.parametrize(
    "raw", [86_400_000_001, 86_400_000_001.0, 1e12, 1e300, "1000001d", "1000000d1ms", "9" * 40, "9" * 39 + "d"]
)
def test_refuses_what_is_too_large(raw: object) -> None:
    assert rule_of(raw) == "too_large"


def test_refuses_integers_too_long_to_be_told() -> None:
    assert rule_of(10**5_000) == "too_large"
    assert rule_of(-(10**5_000)) == "negative"


@pytest.mark.parametrize("raw", ["0.0000001", "0.0000009s", "0.0009ms", 1e-7, 1e-12, 5e-324])
def test_refuses_what_would_become_nothing(raw: object) -> None:
    assert rule_of(raw) == "too_small"


@pytest.mark.parametrize(
    "raw", [None, True, False, b"30s", [30], {}, object(), decimal.Decimal(1), fractions.Fraction(1)]
)
def test_refuses_other_types(raw: object) -> None:
    assert rule_of(raw) == "not_a_duration"


@pytest.mark.parametrize("raw", ["", " ", "\n"])
def test_refuses_nothing(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", ["abc", "forever", "nan", "inf", "s", "m", "ms", "hm", "h30m"])
def test_refuses_texts_without_a_number(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", ["1e12", "1e3s", "1E-3", "1e"])
def test_refuses_exponents(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", ["1x", "5min", "1hm", "2 weeks", "1us", "5sec"])
def test_refuses_other_units(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", ["1h1h", "1m1m", "30m2h", "1ms1s", "1s1d"])
def test_refuses_units_twice_or_out_of_order(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", ["2h30", "1 h", "2h 30m", "+5s", "5,5s", "1_000", "0x10", "1:30", "1h-5m"])
def test_refuses_what_stands_between(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", [".5", "5.", ".", "1..5s", "1.5.2h", ".s", "5.s"])
def test_refuses_half_decimals(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", ["\u00b2", "\u0663s", "\uff11h", "5\u017f", "\u06635", "\u00b25"])
def test_refuses_digits_and_letters_of_other_scripts(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


@pytest.mark.parametrize("raw", ["9" * 41, "1" * 10_000, "0" * 41 + "s", "1s" * 1_000])
def test_refuses_texts_that_are_too_long(raw: str) -> None:
    assert rule_of(raw) == "bad_form"


def test_a_refusal_names_what_was_given_inert_and_short() -> None:
    with pytest.raises(durations.BadDuration) as caught:
        durations.parse("\x1b[31m" + "x" * 1_000)
    text = str(caught.value)
    assert "'\\x1b[31mxxx" in text
    assert len(text) < 200
    assert isinstance(caught.value, ValueError)


def test_a_refusal_names_numbers() -> None:
    for raw, told in ((-5, "-5 "), (float("nan"), "nan "), (1e12, "1000000000000.0 "), (10**30, "100 bits")):
        with pytest.raises(durations.BadDuration, match=told):
            durations.parse(raw)


def test_a_refusal_survives_pickling() -> None:
    with pytest.raises(durations.BadDuration) as caught:
        durations.parse("abc")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.rule, str(copy)) == ("bad_form", str(caught.value))


@settings(untimed, max_examples=500)
@given(
    st.one_of(
        st.text(st.characters(codec=None)),
        st.text("0123456789.dhms -e", max_size=12),
        st.binary(),
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.lists(st.integers()),
    )
)
@example("1" * 5_000)
@example(10**5_000)
def test_parsing_raises_nothing_but_bad_duration(raw: object) -> None:
    answer = parsed_or_refusal(raw)
    if isinstance(answer, durations.BadDuration):
        assert str(answer).isascii()
        assert str(answer).isprintable()
    else:
        assert type(answer) is int
        assert 0 <= answer <= durations.LONGEST


# ---------------------------------------------------------------------------------------------- and back


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (0, "0s"),
        (1, "0.001ms"),
        (1_500, "1.5ms"),
        (250_000, "250ms"),
        (100_000, "100ms"),
        (SECOND, "1s"),
        (1_500_000, "1.5s"),
        (10 * SECOND, "10s"),
        (45 * SECOND, "45s"),
        (90 * SECOND, "1m30s"),
        (MINUTE, "1m"),
        (61_250_000, "1m1.25s"),
        (150 * MINUTE, "2h30m"),
        (HOUR + 1, "1h0.000001s"),
        (DAY, "1d"),
        (10 * DAY + 5 * SECOND, "10d5s"),
        (-150 * MINUTE, "-2h30m"),
        (-250_000, "-250ms"),
    ],
)
def test_durations_are_written(us: int, expected: str) -> None:
    assert durations.format(us) == expected


@settings(untimed, max_examples=500)
@given(st.one_of(st.integers(0, durations.LONGEST), st.integers(0, 3 * DAY), st.integers(0, 3 * SECOND)))
def test_what_is_written_is_read_back_to_the_microsecond(us: int) -> None:
    assert durations.parse(durations.format(us)) == us


@pytest.mark.parametrize(("us", "text"), [(90_999_999, "1m30s"), (999_999, "0s"), (-5 * SECOND, "0s"), (0, "0s")])
def test_as_people_look_at_it(us: int, text: str) -> None:
    assert durations.in_seconds(us) == text
