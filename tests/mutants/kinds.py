"""What a mutant is: a small change of one file, and the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One bug."""

    name: str
    file: str
    """Below src/leasehold."""
    old: str
    """Found exactly once in the file, so that a mutant that went stale is noticed too."""
    new: str
    tests: tuple[str, ...]
    """What pytest is asked to run."""


def suite(words: str) -> tuple[str, ...]:
    """These tests of the conformance suite, in memory."""
    return ("tests/stores/test_conformance_memory.py", "-k", words)


def simulated(*seeds: int) -> tuple[str, ...]:
    """The simulation, with these seeds."""
    return tuple(f"tests/faults/test_simulation.py::test_no_promise_is_broken[{seed}]" for seed in seeds)


SOME_SEEDS = simulated(1, 2, 3, 4, 5, 6, 7, 8)
MACHINE = ("tests/domain/test_machine.py",)
PROMISES = ("tests/domain/test_promises.py",)
