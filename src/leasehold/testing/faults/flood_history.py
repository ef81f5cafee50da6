"""Checks of the answers to floods, alone and beside the events that the store recorded. O(n log n), in packed arrays.

The names of floods meet no other names, and each is taken by one task. So their events need no search for overlaps:
`FloodEvents` judges them as they pass and keeps one lease for each name, however many there are.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING

from leasehold.testing.faults.checkers import PATIENCE, SECOND
from leasehold.testing.faults.flood import PREFIX
from leasehold.testing.invariants.wants import Violation, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from leasehold.domain.events import Event

ENDS = frozenset({"released", "expired", "cancelled", "forced"})


class FloodHistory:
    """The answers of all floods of a run."""

    def __init__(self) -> None:
        self.calls = self.unknown = 0
        self.asked = array("q")
        self.told = array("q")
        self.fences = array("q")
        """When each grant was asked for and answered, and its fence."""
        self.leases: list[str] = []
        self.wrong: list[Violation] = []
        """Answers that no order of calls explains."""

    @classmethod
    def read(cls, paths: Iterable[Path]) -> FloodHistory:
        """Return what is in these files. A last line that a kill cut short is no answer."""
        history = cls()
        for path in sorted(paths):
            with path.open() as lines:
                for line in lines:
                    if line.endswith("\n"):
                        history._take(*line.split(maxsplit=6))
        return history

    def _take(self, verb: str, asked: str, told: str, kind: str, number: str, lease: str, name: str) -> None:
        self.calls += 1
        shown = f"{verb} of {name.strip()} was answered {kind} ({lease})"
        if int(told) - int(asked) > PATIENCE * SECOND:
            self.wrong.append(Violation("wait", f"{shown} after {(int(told) - int(asked)) / SECOND:.1f} s"))
        if kind == "granted":
            self.asked.append(int(asked))
            self.told.append(int(told))
            self.fences.append(int(number))
            self.leases.append(lease)
        elif kind == "gone":
            if int(told) < int(number):
                self.wrong.append(Violation("kept", f"an acknowledged lease was lost early: {shown}"))
        elif kind == "unknown":
            self.unknown += 1
        elif kind != "released":
            self.wrong.append(Violation("broken", shown))  # nobody else asks for these names

    def violations(self) -> list[Violation]:
        """Return everything that must not be, whatever the store recorded."""
        return [*self.wrong, *self._repeated(), *self._inverted()]

    def _repeated(self) -> Iterator[Violation]:
        for before, fence in pairwise(sorted(self.fences)):
            if before == fence:
                yield Violation("fence", f"fence {fence} was granted twice")
        if len(set(self.leases)) < len(self.leases):
            yield Violation("identity", f"{len(self.leases) - len(set(self.leases))} leases were granted twice")

    def _inverted(self) -> Iterator[Violation]:
        """Sweep over all grants, whatever their names, with the largest fence that was answered before each."""
        answered, at, newest = sorted(zip(self.told, self.fences, strict=True)), 0, 0
        for asked, fence in sorted(zip(self.asked, self.fences, strict=True)):
            while at < len(answered) and answered[at][0] < asked:
                newest = max(newest, answered[at][1])
                at += 1
            if newest >= fence:
                yield Violation("fence", f"fence {newest} was answered before fence {fence} was asked for")

    def by_fence(self) -> Iterator[tuple[int, str]]:
        """Yield the fence and the lease of each grant, in the order of fences."""
        for at in sorted(range(len(self.fences)), key=self.fences.__getitem__):
            yield self.fences[at], self.leases[at]


class FloodEvents:
    """Judges the events on the names of floods as they pass, in order, and hands on the others."""

    def __init__(self, history: FloodHistory) -> None:
        self.found: list[Violation] = []
        self._acknowledged = history.by_fence()
        self._next = next(self._acknowledged, None)
        self._held: dict[str, tuple[str, int]] = {}
        """By name, the lease that holds it, and its expiry."""
        self._seq = self._fence = 0

    def others(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events on other names."""
        for event in events:
            if event.seq <= self._seq:
                self._report("clock", event, f"came after event {self._seq}")
            self._seq = event.seq
            if event.kind == "granted":
                self._granted(event)
            if not event.resources or not event.resources[0].startswith(PREFIX):
                yield event
            else:
                self._judge(event, event.resources[0])
        while self._next is not None:
            self._lost()

    def _granted(self, event: Event) -> None:
        """Compare a grant with the answers to the floods: each of these must be recorded, with the same fence."""
        if event.fence <= self._fence:
            self._report("fence", event, f"has fence {event.fence}, after {self._fence}")
        self._fence = event.fence
        while self._next is not None and self._next[0] < event.fence:
            self._lost()
        if self._next is not None and self._next[0] == event.fence:
            if self._next[1] != event.lease:
                self._report("fence", event, f"has fence {event.fence}, with which {self._next[1]} was acknowledged")
            self._next = next(self._acknowledged, None)

    def _lost(self) -> None:
        fence, lease = self._next or (0, "")
        self.found.append(Violation("kept", f"{lease} was acknowledged with fence {fence}, and was never recorded"))
        self._next = next(self._acknowledged, None)

    def _judge(self, event: Event, name: str) -> None:
        lease, expires_at = self._held.get(name, ("", 0))
        if event.kind == "granted":
            if event.at_us < expires_at:
                self._report("overlap", event, f"took {name} from {lease}")
            self._held[name] = event.lease or "", number(event, "expires_at")
        elif event.kind in ENDS and event.lease == lease:
            if event.kind == "expired" and event.at_us < expires_at:
                self._report("life", event, f"came before {expires_at}")
            del self._held[name]
        elif event.lease is not None:
            self._report("life", event, f"is not of {lease or 'a lease'} that holds {name}")

    def _report(self, kind: str, event: Event, what: str) -> None:
        self.found.append(Violation(kind, f"event {event.seq} ({event.kind} of {event.lease}) {what}", (event,)))
