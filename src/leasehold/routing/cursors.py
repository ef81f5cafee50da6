"""Places in the history of a store: one number for each lane, as the lane numbers its events. Pure.

A stream that goes on from such a place misses nothing and repeats nothing, although no lane knows the times of another
one's events.
"""

from __future__ import annotations

from leasehold.domain.durations import is_digits
from leasehold.routing.lanes import place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Cursor: TypeAlias = tuple[int, ...]
    """The number of the last event that was seen, of each lane; the control lane is the first."""

DIGITS_MOST = 16


def text_of(cursor: Cursor) -> str:
    """Return the cursor as text: `1207`, or `12.0.47.3.8` with several lanes."""
    return ".".join(map(str, cursor))


def cursor_of(text: str, lanes: int) -> Cursor | None:
    """Return the cursor that this text stands for, with so many lanes besides the first; None if it is no cursor."""
    numbers = text.split(".")
    if len(numbers) != lanes + 1:
        return None
    if not all(is_digits(number) and len(number) <= DIGITS_MOST for number in numbers):
        return None
    return tuple(map(int, numbers))


def is_after(seq: int, cursor: Cursor) -> bool:
    """Return True if the event with this number comes after the cursor in its lane."""
    if len(cursor) == 1:
        return seq > cursor[0]
    lane, number = place_of(seq)
    return number > cursor[lane]


def moved(cursor: Cursor, seq: int) -> Cursor:
    """Return the cursor after the event with this number."""
    if len(cursor) == 1:
        return (seq,)
    lane, number = place_of(seq)
    return (*cursor[:lane], number, *cursor[lane + 1 :])
