"""Durations as people write them ("2h30m") to whole microseconds, and back. Pure; must not know a clock.

The caller checks the bounds of a TTL or a wait: here `0` is a duration like any other.
"""

from __future__ import annotations

from leasehold.domain.timestamps import SECOND

_UNITS = {
    "d": 86_400 * SECOND,
    "h": 3_600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": SECOND // 1_000,
}
"""From the longest to the shortest, as they must follow one another."""

LONGEST = 1_000_000 * _UNITS["d"]
"""A longer duration is taken for a mistake."""

_DIGITS = "0123456789"
FORMS = "write 30s, 15m, 1h, 2h30m, 1d, 500ms, 1.5h, or a number of seconds"
"""The accepted spellings, for error messages."""
_LONGEST_TEXT = 40
"""A longer text is no duration, and Python refuses to read thousands of digits."""

_QUOTED_LENGTH = 40
_INFINITY = float("inf")


class BadDuration(ValueError):
    """This cannot be a duration: `rule` is the stable slug of the rule it breaks, `str()` says what is accepted."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(rule, message)
        self.rule = rule
        self.message = message

    def __str__(self) -> str:
        return self.message


def parse(raw: object) -> int:
    """Whole microseconds of "2h30m", "500ms", "1.5h", "90" or a number of seconds. Raises `BadDuration`."""
    if isinstance(raw, str):
        us, is_zero = _of_text(raw)
    elif isinstance(raw, (int, float)) and not isinstance(raw, bool):
        us, is_zero = _of_number(raw), raw == 0
    else:
        raise _bad("not_a_duration", raw, "is not a duration")
    if us > LONGEST:
        raise _bad("too_large", raw, "is more than a million days")
    if us == 0 and not is_zero:
        raise _bad("too_small", raw, "is more than nothing but less than a microsecond")
    return us


def format(us: int) -> str:  # noqa: A001 (read as durations.format, the counterpart of durations.parse)
    """Return the duration as `parse` reads it: "2h30m", "1.5s", "250ms", "0s"; a negative one has a minus in front."""
    if us < 0:
        return f"-{format(-us)}"
    if 0 < us < SECOND:
        return f"{_decimal(us, 'ms')}ms"
    parts = []
    for unit in ("d", "h", "m"):
        count, us = divmod(us, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if us or not parts:
        parts.append(f"{_decimal(us, 's')}s")
    return "".join(parts)


def in_seconds(us: int) -> str:
    """Return a duration for people, in whole seconds and not below zero."""
    return format(max(0, us) // SECOND * SECOND)


def _decimal(us: int, unit: str) -> str:
    whole, part = divmod(us, _UNITS[unit])
    places = len(str(_UNITS[unit])) - 1
    return f"{whole}.{part:0{places}}".rstrip("0").rstrip(".") if part else str(whole)


def _of_number(seconds: float) -> int:
    if not -_INFINITY < seconds < _INFINITY:  # nan is on no side of anything
        raise _bad("not_finite", seconds, "is not a finite number")
    if seconds < 0:
        raise _bad("negative", seconds, "must not be negative")
    if isinstance(seconds, int):
        return int(seconds) * SECOND
    # By way of its shortest spelling: 0.29 means 290000 microseconds, though the float is a little less than that.
    text = float.__repr__(abs(seconds))
    return _count(f"{seconds:.9f}" if "e" in text else text, SECOND, seconds)


def _of_text(raw: str) -> tuple[int, bool]:
    """Return the microseconds, rounded down, and True if the text has no digit but zeros."""
    text = str.__str__(raw).strip().lower()
    if text.startswith("-"):
        raise _bad("negative", raw, "must not be negative")
    if not text or len(text) > _LONGEST_TEXT:
        raise _bad("bad_form", raw, "is not a duration")
    us = _count(text, SECOND, raw) if text[-1] in _DIGITS else _sum(text, raw)
    return us, not any(digit in text for digit in _DIGITS[1:])


def _sum(text: str, raw: str) -> int:
    total, units = 0, list(_UNITS)
    while text:
        number, unit, text = _next_part(text)
        if unit not in units:
            raise _bad("bad_form", raw, "is not a duration")
        total += _count(number, _UNITS[unit], raw)
        del units[: units.index(unit) + 1]
    return total


def _next_part(text: str) -> tuple[str, str, str]:
    """Split off the first number and its unit: "2h30m" is "2", "h" and the rest, "30m"."""
    without_number = text.lstrip(_DIGITS + ".")
    number = text[: len(text) - len(without_number)]
    rest = without_number.lstrip("dhms")
    return number, without_number[: len(without_number) - len(rest)], rest


def _count(number: str, unit: int, raw: object) -> int:
    # In integers, since a float would make 99999 of "0.1s"; what is finer than a microsecond is rounded down.
    whole, point, part = number.partition(".")
    if not is_digits(whole) or (point and not is_digits(part)):
        raise _bad("bad_form", raw, "is not a duration")
    scale: int = 10 ** len(part)
    return int(whole + part) * unit // scale


def is_digits(text: str) -> bool:
    """Return True if this is a whole number in ASCII digits."""
    return text.isascii() and text.isdigit()  # isdigit alone would let "²" through


def _bad(rule: str, raw: object, why: str) -> BadDuration:
    return BadDuration(rule, f"{_quoted(raw)} {why}: {FORMS}")


def _quoted(raw: object) -> str:
    if isinstance(raw, str):
        return ascii(str.__str__(raw)[:_QUOTED_LENGTH]) + ("..." if len(raw) > _QUOTED_LENGTH else "")
    if isinstance(raw, float):
        return float.__repr__(raw)
    if not isinstance(raw, int) or isinstance(raw, bool):
        return f"a value of type {type(raw).__name__[:_QUOTED_LENGTH]!a}"
    # Python refuses to tell thousands of digits.
    return int.__repr__(raw) if abs(raw) <= LONGEST else f"an integer of {raw.bit_length()} bits"
