"""What a merge changes by itself. Pure: it compares names of files, and asks nobody.

What one side alone has changed, and the merge has as that side has it, was looked at when that side was committed:
whoever merges has only taken it over. All else is the merge's own doing: where both sides have changed a file, where
it drops what a side has done, and what neither side has.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


def changed_by_itself(
    unlike_one: AbstractSet[str], unlike_other: AbstractSet[str], by_one: AbstractSet[str], by_other: AbstractSet[str]
) -> set[str]:
    """From what the merge has otherwise than each side, and what each side has changed since they parted."""
    in_neither = unlike_one & unlike_other
    undone = (unlike_one & by_one) | (unlike_other & by_other)
    return set(in_neither | undone)
