"""Where names lie, and an index of what is there: who might overlap is found without comparing all with all. Pure.

Told from the texts of the names, on purpose without `names.claims`: the rules stand on those. A name's own place
comes first, then the places above it; all of `repo:` is one place, above every `path:` and `issue:`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REPOSITORY = "repo:"


class Ordered(Protocol):
    """An indexed item: its place in an order is unique."""

    @property
    def order(self) -> tuple[int, int]:
        """Smaller comes first."""


T = TypeVar("T", bound=Ordered)


def place(name: str, hierarchical: frozenset[str]) -> str:
    """The one place of this (parsed) name."""
    return lineage(name, hierarchical)[0]


def widest(names: tuple[str, ...], hierarchical: frozenset[str]) -> tuple[str, ...]:
    """These names without those that lie below others of them."""
    if len(names) == 1:
        return names
    tops = {place(name, hierarchical) for name in names}
    return tuple(name for name in names if tops.isdisjoint(lineage(name, hierarchical)[1:]))


@lru_cache(maxsize=65536)
def lineage(name: str, hierarchical: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The place of this (parsed) name, then all places above it, nearest first."""
    kind, colon, rest = name.partition(":")
    if not colon:
        return (name,)
    if kind == "repo":
        return (REPOSITORY,)
    if kind == "issue":
        return (name, REPOSITORY)
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

    def add(self, space: str, names: Iterable[str], thing: T) -> None:
        """Put a thing where these names lie."""
        at, below = self._places(names)
        for where, index in ((at, self._at), (below, self._below)):
            for each in where:
                insort(index.setdefault((space, each), []), thing, key=_order_of)

    def remove(self, space: str, names: Iterable[str], thing: T) -> None:
        """Take a thing away from where `add` put it."""
        at, below = self._places(names)
        for where, index in ((at, self._at), (below, self._below)):
            for each in where:
                things = index[space, each]
                del things[bisect_left(things, thing.order, key=_order_of)]
                if not things:
                    del index[space, each]

    def near(self, space: str, names: Iterable[str], before: tuple[int, int] | None = None) -> list[T]:
        """Everything that lies at, above or below one of these names, each once; only what is `before` in order."""
        found: dict[int, T] = {}
        for name in names:
            above = lineage(name, self._hierarchical)
            for things in self._lists(space, above):
                end = len(things) if before is None else bisect_left(things, before, key=_order_of)
                found.update((id(thing), thing) for thing in things[:end])
        return list(found.values())

    def at(self, space: str, where: str) -> list[T]:
        """Everything that lies exactly here."""
        return self._at.get((space, where), [])

    def places_of(self, names: Iterable[str]) -> set[str]:
        """The places of these names, without those above."""
        return {place(name, self._hierarchical) for name in names}

    def _lists(self, space: str, above: tuple[str, ...]) -> Iterator[list[T]]:
        for each in above:
            if (space, each) in self._at:
                yield self._at[space, each]
        if (space, above[0]) in self._below:
            yield self._below[space, above[0]]

    def _places(self, names: Iterable[str]) -> tuple[set[str], set[str]]:
        lineages = [lineage(name, self._hierarchical) for name in names]
        return {each[0] for each in lineages}, {above for each in lineages for above in each[1:]}


def _order_of(thing: Ordered) -> tuple[int, int]:
    return thing.order
