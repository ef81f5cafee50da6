"""The report of a simulation: its counts, or how to repeat what went wrong. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun

if TYPE_CHECKING:
    from collections import Counter

    from leasehold.domain.events import Event


class Report(Noun):
    """Describe a run that broke no promise."""

    seed: int
    steps: int
    kinds: Counter[str]
    """How often each kind of event happened, and each mishap."""
    seconds: float
    """How much virtual time went by."""
    digest: str
    """Of the whole history: the same for the same seed."""


class Failure(AssertionError):
    """A promise was broken; says how to see it again."""

    def __init__(self, seed: int, steps: int, at: int, why: object, last: list[Event]) -> None:
        told = ""
        for event in last:
            about = {key: value for key, value in event.detail.items() if value not in (None, 0, False, [])}
            told += f"  {event.at_us} {event.kind} {event.holder} {list(event.resources)} {event.lease or ''} {about}\n"
        again = f"python -m leasehold.testing.simulation --seed {seed} --steps {steps}"
        super().__init__(f"{why}\nlast events:\n{told}seed {seed}, step {at}; again: {again}")
