"""Where names lie, and an index of what is there: who might overlap is found without comparing all with all. Pure.

Told from the texts of the names, on purpose without `names.claims`: the rules stand on those. A name's own place
comes first, then the places above it; all of `repo:` is one place, above every `path:` and `issue:`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from leasehold.domain.names import is_pattern, overlaps
from leasehold.domain.patterns import folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REPOSITORY = "repo:"


class Ordered(Protocol):
    """An indexed item: its place in an order is unique."""

    @property
    def order(self) -> tuple[int, int]:
        """Smaller comes first."""

    @property
    def names(self) -> tuple[str, ...]:
        """Where it lies."""


T = TypeVar("T", bound=Ordered)


def place(name: str, hierarchical: frozenset[str]) -> str:
    """Return the one place of this parsed name."""
    return lineage(name, hierarchical)[0]


def widest(names: tuple[str, ...], hierarchical: frozenset[str]) -> tuple[str, ...]:
    """Return these names without those that lie below others of them."""
    if len(names) == 1:
        return names
    tops = {place(name, hierarchical) for name in names}
    return tuple(name for name in names if tops.isdisjoint(lineage(name, hierarchical)[1:]))


@lru_cache(maxsize=65536)
def lineage(name: str, hierarchical: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the place of this parsed name, then all places above it, nearest first."""
    kind, colon, rest = name.partition(":")
    if not colon:
        return (name,)
    if kind == "repo":
        return (REPOSITORY,)
    if kind == "issue":
        return (name, REPOSITORY)
    if is_pattern(name):
        return (name, *lineage(f"path:{folder(rest) or '.'}"))
    if kind == "path":
        return ("path:.", REPOSITORY) if rest == "." else (*_tree("path:", rest), "path:.", REPOSITORY)
    if kind not in hierarchical:
        return (name,)
    return _tree(f"{kind}://", rest[2:]) if rest.startswith("//") else _tree(f"{kind}:", rest)


def _tree(root: str, rest: str) -> tuple[str, ...]:
    first, *below = rest.split("/")
    steps = [first, *filter(None, below)]  # slashes at the end, and doubled ones, lead nowhere else
    return tuple(root + "/".join(steps[:length]) for length in range(len(steps), 0, -1))


class Index(Generic[T]):
    """Things at places, each list in the order of service."""

    def __init__(self, hierarchical: frozenset[str]) -> None:
        self._hierarchical = hierarchical
        self._at: dict[tuple[str, str], list[T]] = {}
        self._below: dict[tuple[str, str], list[T]] = {}
        self._patterns: dict[tuple[str, str], list[T]] = {}
        """By the directory in which all matches of a pattern lie."""

    def add(self, space: str, names: Iterable[str], thing: T) -> None:
        """Put a thing where these names lie."""
        for where, index in self._places(names):
            for each in where:
                insort(index.setdefault((space, each), []), thing, key=_order_of)

    def remove(self, space: str, names: Iterable[str], thing: T) -> None:
        """Take a thing away from where `add` put it."""
        for where, index in self._places(names):
            for each in where:
                things = index[space, each]
                del things[bisect_left(things, thing.order, key=_order_of)]
                if not things:
                    del index[space, each]

    def near(self, space: str, names: Iterable[str], before: tuple[int, int] | None = None) -> list[T]:
        """Yield what lies at, above or below one of these names, each once, and only what is `before` in order."""
        found: dict[int, T] = {}
        for name in names:
            above = lineage(name, self._hierarchical)
            for things in self._lists(space, above):
                end = len(things) if before is None else bisect_left(things, before, key=_order_of)
                found.update((id(thing), thing) for thing in things[:end])
            for things in self._by_name(space, above):
                end = len(things) if before is None else bisect_left(things, before, key=_order_of)
                found.update(
                    (id(thing), thing)
                    for thing in things[:end]
                    if any(overlaps(name, other, self._hierarchical) for other in thing.names)
                )
        return list(found.values())

    def _by_name(self, space: str, above: tuple[str, ...]) -> Iterator[list[T]]:
        """Yield what may overlap with a name because one of the two is a pattern; the names decide."""
        for each in above:
            if (space, each) in self._patterns:
                yield self._patterns[space, each]
        if is_pattern(above[0]) and (space, above[1]) in self._below:
            yield self._below[space, above[1]]

    def at(self, space: str, where: str) -> list[T]:
        """Return everything that lies exactly here."""
        return self._at.get((space, where), [])

    def places_of(self, names: Iterable[str]) -> set[str]:
        """Return the places of these names, without those above."""
        return {place(name, self._hierarchical) for name in names}

    def _lists(self, space: str, above: tuple[str, ...]) -> Iterator[list[T]]:
        for each in above:
            if (space, each) in self._at:
                yield self._at[space, each]
        if (space, above[0]) in self._below:
            yield self._below[space, above[0]]

    def _places(self, names: Iterable[str]) -> tuple[tuple[set[str], dict[tuple[str, str], list[T]]], ...]:
        lineages = [lineage(name, self._hierarchical) for name in names]
        at, below = {each[0] for each in lineages}, {above for each in lineages for above in each[1:]}
        folders = {each[1] for each in lineages if is_pattern(each[0])}
        return (at, self._at), (below, self._below), (folders, self._patterns)


def _order_of(thing: Ordered) -> tuple[int, int]:
    return thing.order
