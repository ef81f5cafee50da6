"""Where a shell may be by now: behind a `cd` that may not have run, it may be in several places. Looks at no file."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os

from leasehold.domain.nouns import Noun
from leasehold.guard.checking import LONGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from leasehold.guard.editors.shell_words import ShellWord

    Spots: TypeAlias = "tuple[Spot, ...]"

HOME = "~"
MOVING = frozenset(("cd", "pushd", "popd"))
PIPES = frozenset(("|", "|&"))
_JOINS = frozenset(("&&", "||", *PIPES))
_MOST = 8
"""So many places are told apart: each command is looked at in all of them."""
_DEEPEST = 32
"""Of `pushd`."""


class Spot(Noun):
    """One place where a shell may be, and where it can go back to."""

    place: str = ""
    left: str = ""
    """Where `cd -` leads."""
    stack: tuple[str, ...] = ()
    """Where `popd` leads, the last one first."""
    is_over: bool = False
    """It is not there any more: `exit` was run."""


START: Spots = (Spot(),)


def either(some: Spots, others: Spots) -> Spots:
    """It is in one of these or of those; one that has ended counts only if all have."""
    if some is others or not others:
        return some
    all_ = tuple(dict.fromkeys(some + others))
    return (tuple(spot for spot in all_ if not spot.is_over) or all_)[:_MOST]


def moved(spot: Spot, name: str, rest: list[ShellWord]) -> Spot:
    """Where this `cd`, `pushd` or `popd` leads."""
    stack = spot.stack
    if name == "popd":
        return spot._replace(place=stack[0], left=spot.place, stack=stack[1:]) if stack else spot
    target = next((word for word in rest if word.text == "-" or not word.text.startswith("-")), None)
    if name == "pushd":
        if target is None:  # it swaps the two
            return spot._replace(place=stack[0], left=spot.place, stack=(spot.place, *stack[1:])) if stack else spot
        stack = (spot.place, *stack)[:_DEEPEST]
    return spot._replace(place=_entered(target, spot), left=spot.place, stack=stack)


def _entered(target: ShellWord | None, spot: Spot) -> str:
    """Where a `cd` leads; one that cannot be told is taken for none, so that what comes next is looked at."""
    if target is None or (target.is_bare and target.text.startswith("~")):
        return HOME
    if target.text == "-":
        return spot.left
    if not target.is_plain or len(target.text) > LONGEST:
        return spot.place
    place = _joined(spot.place, os.path.normpath(target.text))
    return spot.place if len(place) > LONGEST else place


def _joined(place: str, target: str) -> str:
    """As a shell does it, by the names alone. Both are normal, so only the start of the second matters."""
    while place not in ("", "/", HOME) and (target == ".." or target.startswith("../")):
        above, _, name = place.rpartition("/")
        if name == "..":
            break
        place, target = above or place[: place.startswith("/")], target[3:]
    if place in ("/", HOME):  # nothing is above the one; of the other, it cannot be told
        while target == ".." or target.startswith("../"):
            target = target[3:]
    return os.path.join(place, target) if target not in ("", ".") else place


class Chain:
    """Commands behind one another, `a && b | c || d`: what is run next is run where the last one led, if it did."""

    def __init__(self, start: Spots) -> None:
        self.is_open = False
        """It cannot end here: an operator came last."""
        self._start = self._well = start
        self._ill: Spots = ()
        """Where it is if the last one has failed."""
        self._rest: Spots = ()
        """The same, of all that can fail. Without this a plain `cd` never does."""
        self._is_or = self._is_piped = False

    @property
    def here(self) -> Spots:
        """Where the next command is run."""
        return (self._ill if self._is_or else self._well) or self._start

    def add(self, goes: Spots, *, is_move: bool, after: str) -> None:
        """One more command, which ends there, and the operator behind it."""
        here = self.here
        if after in PIPES or self._is_piped:  # that is a shell of its own
            goes, is_move = here, False
        self._is_piped = after in PIPES
        self.is_open = after in _JOINS
        if self._is_piped:
            return
        failed = here if is_move else goes
        self._well = either(self._well, goes) if self._is_or else goes
        self._ill = failed if self._is_or else either(failed, self._ill)
        self._rest = self._rest if is_move else either(failed, self._rest)
        self._is_or = after == "||"

    def end(self, after: str) -> Spots:
        """Where it may be behind all of them; `&` is a shell of its own."""
        return self._start if after == "&" else either(self._well, self._rest)


class Frame:
    """A group, a branch, a loop or the body of a function that is open."""

    def __init__(self, kind: str, outside: Chain, *, may_not_run: bool = False) -> None:
        self.kind = kind
        self.outside = outside
        self.is_pattern = kind == "esac"
        """Here come words that choose a branch of `case`."""
        self._otherwise = outside.here
        """Where it is if no branch is run, and where the next branch begins."""
        self._ends: Spots = outside.here if may_not_run else ()

    def begin(self, word: str, here: Spots) -> Spots:
        """The next branch; gives where it begins."""
        if word in ("then", "do"):
            self._otherwise = here
            return here
        self._ends = either(here, self._ends)
        return either(self._otherwise, here) if word in (";&", ";;&") else self._otherwise

    def end(self, here: Spots) -> Spots:
        """Where it may be behind all of it."""
        if self.kind == "(":
            return self.outside.here
        return either(either(here, self._ends), () if self.kind == "}" else self._otherwise)
