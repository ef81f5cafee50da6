"""Work that says where it would wait, so that an event loop can do something else meanwhile. It never waits itself.

It is written as a generator, once. Between two steps it hands out what it waits for: an answer that is on its way, or
None, which says that what follows may wait for something else. Whoever has nothing else to do goes `through` it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TypeAlias, TypeVar

    from leasehold.stores import Answering

    T = TypeVar("T")

    Steps: TypeAlias = Generator[Answering | None, None, T]


def through(steps: Steps[T]) -> T:
    """What comes of it, waiting wherever it has to."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: T = end.value
        return found
