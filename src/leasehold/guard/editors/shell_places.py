"""The possible working directories of a shell: after a `cd` that may not have run, there are several. Reads no file."""

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
"""The most places that are tracked; each command is checked in all of them."""
_DEEPEST = 32
"""The deepest stack of `pushd`."""


class Spot(Noun):
    """One possible working directory, with the directories that `cd -` and `popd` return to."""

    place: str = ""
    left: str = ""
    """The target of `cd -`."""
    stack: tuple[str, ...] = ()
    """The targets of `popd`, the last one first."""
    is_over: bool = False
    """True after `exit`."""


START: Spots = (Spot(),)


def either(some: Spots, others: Spots) -> Spots:
    """Combine the possible places; those of shells that have ended count only if all have ended."""
    if some is others or not others:
        return some
    all_ = tuple(dict.fromkeys(some + others))
    return (tuple(spot for spot in all_ if not spot.is_over) or all_)[:_MOST]


def moved(spot: Spot, name: str, rest: list[ShellWord]) -> Spot:
    """Return the place after this `cd`, `pushd` or `popd`."""
    stack = spot.stack
    if name == "popd":
        return spot._replace(place=stack[0], left=spot.place, stack=stack[1:]) if stack else spot
    target = next((word for word in rest if word.text == "-" or not word.text.startswith("-")), None)
    if name == "pushd":
        if target is None:  # it swaps the top two
            return spot._replace(place=stack[0], left=spot.place, stack=(spot.place, *stack[1:])) if stack else spot
        stack = (spot.place, *stack)[:_DEEPEST]
    return spot._replace(place=_entered(target, spot), left=spot.place, stack=stack)


def _entered(target: ShellWord | None, spot: Spot) -> str:
    """Return the target of a `cd`. An unknown target counts as no move, so that the next commands are still checked."""
    if target is None or (target.is_bare and target.text.startswith("~")):
        return HOME
    if target.text == "-":
        return spot.left
    if not target.is_plain or len(target.text) > LONGEST:
        return spot.place
    place = _joined(spot.place, os.path.normpath(target.text))
    return spot.place if len(place) > LONGEST else place


def _joined(place: str, target: str) -> str:
    """Join as a shell does, by the names alone. Both are normalised, so only the start of the second matters."""
    while place not in ("", "/", HOME) and (target == ".." or target.startswith("../")):
        above, _, name = place.rpartition("/")
        if name == "..":
            break
        place, target = above or place[: place.startswith("/")], target[3:]
    if place in ("/", HOME):  # nothing is above the root, and above HOME is unknown
        while target == ".." or target.startswith("../"):
            target = target[3:]
    return os.path.join(place, target) if target not in ("", ".") else place


class Chain:
    """A list of commands, `a && b | c || d`: the next command runs where the last one may have led."""

    def __init__(self, start: Spots) -> None:
        self.is_open = False
        """True after an operator: another command must follow."""
        self._start = self._well = start
        self._ill: Spots = ()
        """The places if the last command failed."""
        self._rest: Spots = ()
        """The places of all commands that can fail; a plain `cd` counts as never failing."""
        self._is_or = self._is_piped = False

    @property
    def here(self) -> Spots:
        """The places where the next command runs."""
        return (self._ill if self._is_or else self._well) or self._start

    def add(self, goes: Spots, *, is_move: bool, after: str) -> None:
        """Add a command, the places where it ends, and the operator after it."""
        here = self.here
        if after in PIPES or self._is_piped:  # a part of a pipe runs in a subshell
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
        """Return the places after the whole list; with `&`, the list ran in a subshell."""
        return self._start if after == "&" else either(self._well, self._rest)


class Frame:
    """An open group, branch, loop or function body."""

    def __init__(self, kind: str, outside: Chain, *, may_not_run: bool = False) -> None:
        self.kind = kind
        self.outside = outside
        self.is_pattern = kind == "esac"
        """True where the patterns of a `case` branch are expected."""
        self._otherwise = outside.here
        """The places if no branch runs, and where the next branch begins."""
        self._ends: Spots = outside.here if may_not_run else ()

    def begin(self, word: str, here: Spots) -> Spots:
        """Begin the next branch and return its places."""
        if word in ("then", "do"):
            self._otherwise = here
            return here
        self._ends = either(here, self._ends)
        return either(self._otherwise, here) if word in (";&", ";;&") else self._otherwise

    def end(self, here: Spots) -> Spots:
        """Return the places after the whole construct."""
        if self.kind == "(":
            return self.outside.here
        return either(either(here, self._ends), () if self.kind == "}" else self._otherwise)
