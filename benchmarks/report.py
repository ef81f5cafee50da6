"""What a measurement says, and how it is printed."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """One ratio with the goal that it is held against."""

    what: str
    ours: str
    peer: str
    ratio: float
    goal: str
    is_met: bool


def at_least(what: str, ours: str, peer: str, ratio: float, goal: float) -> Figure:
    return Figure(what, ours, peer, ratio, f">= {goal:g}", ratio >= goal)


def at_most(what: str, ours: str, peer: str, ratio: float, goal: float) -> Figure:
    return Figure(what, ours, peer, ratio, f"<= {goal:g}", ratio <= goal)


def show(figures: list[Figure]) -> None:
    for figure in figures:
        verdict = "met" if figure.is_met else "NOT MET"
        print(f"  {figure.what}\n    ours {figure.ours}   peer {figure.peer}")
        print(f"    ratio {figure.ratio:.2f}   goal {figure.goal}   {verdict}", flush=True)
