"""The figures of a measurement, and how they are printed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from html import escape
from pathlib import Path
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


def is_quick() -> bool:
    """Return True if `QUICK` asks for a run of three minutes."""
    return os.environ.get("QUICK", "") not in ("", "0")


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


def write_json(path: Path, found: dict[str, list[Figure]]) -> None:
    """Write all figures of a run."""
    told = {name: [figure._asdict() for figure in figures] for name, figures in found.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    run = {"on": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit(), "subject": subject()}
    path.write_text(json.dumps({**run, "machine": machine(), "benchmarks": told}, indent=2) + "\n")


def commit() -> str:
    """Return the commit that is measured, with a `+` if files differ from it; empty outside a clone."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=8", "--exclude=*"]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    return told.stdout.strip()


def machine() -> str:
    return f"{os.cpu_count()} processors, {platform.system()} {platform.release()}, {platform.machine()}"


ROW, LEFT, WIDTH, BAR = 26, 560, 920, 120
"""Pixels of a row, of the words before its bar, of the chart, and of the part of a bar that is the goal."""


def write_svg(path: Path, found: dict[str, list[Figure]]) -> None:
    """Draw a bar for each figure: how it compares with its goal, which is at the same place in all rows."""
    figures = [figure for each in found.values() for figure in each]
    height = ROW * (len(figures) + 2)
    rows = "".join(_row(figure, ROW * (place + 1)) for place, figure in enumerate(figures))
    goal = LEFT + BAR
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>{rows}'
        f'<line x1="{goal}" y1="{ROW / 2}" x2="{goal}" y2="{height - ROW}" stroke="black" stroke-dasharray="4 3"/>'
        f'<text x="{goal + 4}" y="{height - ROW / 2}">goal</text></svg>\n'
    )


def _row(figure: Figure, top: int) -> str:
    sign, _, goal = figure.goal.partition(" ")
    of_goal = figure.ratio / float(goal) if float(goal) else float(figure.ratio > 0)
    length = min(of_goal, 2.8) * BAR
    colour = "#2a7f62" if figure.is_met else "#b3402a"
    return (
        f'<text x="{LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(figure.what)}</text>'
        f'<rect x="{LEFT}" y="{top + 4}" width="{length:.0f}" height="14" fill="{colour}"/>'
        f'<text x="{LEFT + 2.8 * BAR + 6:.0f}" y="{top + 14}" text-anchor="end">'
        f"{figure.ratio:.2f} ({escape(sign)} {goal})</text>"
    )
