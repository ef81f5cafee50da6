"""The figures of a measurement, and how they are printed."""

from __future__ import annotations

import platform
from typing import NamedTuple

import leasehold
from benchmarks import interpreter
from leasehold.domain import rules


class Figure(NamedTuple):
    """One ratio with the goal that it is held against."""

    what: str
    ours: str
    peer: str
    ratio: float
    goal: str
    is_met: bool


def subject() -> str:
    """Say which package is measured: the compiled one, or the sources."""
    how = "not compiled" if rules.__file__.endswith(".py") else "compiled"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    found = interpreter.ask(interpreter.base())
    plainly = " (built without optimisation)" if found is not None and found.is_plain else ""
    return f"Leasehold {leasehold.__version__}, {how}, on {python}{plainly}"


def at_least(what: str, ours: str, peer: str, ratio: float, goal: float) -> Figure:
    return Figure(what, ours, peer, ratio, f">= {goal:g}", ratio >= goal)


def at_most(what: str, ours: str, peer: str, ratio: float, goal: float) -> Figure:
    return Figure(what, ours, peer, ratio, f"<= {goal:g}", ratio <= goal)


def show(figures: list[Figure]) -> None:
    for figure in figures:
        verdict = "met" if figure.is_met else "NOT MET"
        print(f"  {figure.what}\n    ours {figure.ours}   peer {figure.peer}")
        print(f"    ratio {figure.ratio:.2f}   goal {figure.goal}   {verdict}", flush=True)
