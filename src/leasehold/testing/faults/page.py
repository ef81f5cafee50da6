"""Tables and charts about runs, from their results, for docs/explanation/reliability.md. Must judge nothing."""

from __future__ import annotations

import json
import math
from html import escape
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PAGE = "explanation/reliability.md"
CHART = "images/recovery-under-faults.svg"
STORES = ("sqlite", "postgres", "etcd", "git")
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "etcd": "etcd", "git": "git"}
COLOURS = {"sqlite": "#2a78d6", "postgres": "#eb6834", "etcd": "#1baf7a", "git": "#eda100"}
LEFT, RIGHT, ROW, TOP, PLOT = 190, 40, 22, 66, 560
DECADES = (10, 100, 1_000, 10_000, 100_000)
"""Milliseconds: the lines of the chart."""


def write(results: Path, docs: Path) -> None:
    """Put the tables between the marks of the page, and the chart beside the other pictures."""
    found = load(results)
    page = docs / PAGE
    page.write_text(with_tables(page.read_text(), found))
    (docs / CHART).write_text(chart(found))


def load(results: Path) -> list[dict[str, Any]]:
    """Return the results of runs in this folder, mixed ones first."""
    found = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    return sorted(found, key=lambda each: (each["run"] != "mixed", each["run"], STORES.index(each["store"])))


def with_tables(page: str, found: Sequence[dict[str, Any]]) -> str:
    """Return the page with what stands between its marks made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(found)}\n{END}{after}"


def tables(found: Sequence[dict[str, Any]]) -> str:
    """Return the runs, and then each fault with its recovery."""
    lines = [
        "| run | store | on | length | clients | operations | grants | faults | longest recovery | violations |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_run_row(each) for each in found]
    lines += [
        "",
        "Faults of the mixed runs: how often, and milliseconds until every process of clients had a lease again",
        "(median / longest).",
        "",
        f"| fault | {' | '.join(NAMES[store] for store in STORES)} |",
        "| --- | --- | --- | --- | --- |",
    ]
    mixed = {each["store"]: each["faults"] for each in found if each["run"] == "mixed"}
    for fault in sorted({fault for faults in mixed.values() for fault in faults}):
        cells = [_fault_cell(mixed.get(store, {}).get(fault)) for store in STORES]
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _run_row(result: dict[str, Any]) -> str:
    struck = sum(fault["times"] for fault in result["faults"].values())
    cells = [
        result["run"],
        NAMES[result["store"]],
        result["on"],
        f"{result['seconds']:,} s",
        str(result.get("clients", "")),
        f"{result['operations']:,}",
        f"{result['grants']:,}" if "grants" in result else "",
        f"{struck:,}",
        _longest(result),
        str(len(result["violations"])),
    ]
    return f"| {' | '.join(cells)} |"


def _longest(result: dict[str, Any]) -> str:
    """Return the longest recovery of a run, or for queues the longest time until the next grant."""
    recoveries = [took for fault in result["faults"].values() for took in fault["recovery_ms"]]
    longest = result.get("longest_gap_ms", max(recoveries, default=None))
    return "" if longest is None else f"{longest:,} ms"


def _fault_cell(fault: dict[str, Any] | None) -> str:
    if fault is None:
        return "-"
    took, late = fault["recovery_ms"], fault.get("overtaken", 0)
    measured = f"{round(median(took)):,} / {max(took):,}" if took else "not measured"
    often = "once" if fault["times"] == 1 else f"{fault['times']} times"
    return f"{often}: {measured}" + (f" ({late} not before the next fault)" if late and took else "")


# ------------------------------------------------------------------------------------------------------ the chart


def chart(found: Iterable[dict[str, Any]]) -> str:
    """Return a picture of all recoveries: a dot each, by fault and store, on a logarithmic scale."""
    mixed = {each["store"]: each["faults"] for each in found if each["run"] == "mixed"}
    rows = sorted({fault for faults in mixed.values() for fault in faults})
    width, height = LEFT + PLOT + RIGHT, TOP + ROW * len(rows) + 34
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'font-family="system-ui, sans-serif" font-size="12">'
        ),
        "<title>Recovery after each fault, by store</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        (
            '<text x="12" y="20" font-size="14" font-weight="600" fill="#1a1a19">'
            "From the end of a fault until every process of clients has a lease again</text>"
        ),
        *_legend(mixed),
        *_scale(len(rows)),
    ]
    for number, fault in enumerate(rows):
        middle = TOP + ROW * number + ROW / 2
        parts.append(f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end" fill="#1a1a19">{escape(fault)}</text>')
        parts += _dots(mixed, fault, middle)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(mixed: dict[str, Any]) -> list[str]:
    parts = []
    for number, store in enumerate(store for store in STORES if store in mixed):
        x = LEFT + number * 110
        parts.append(f'<circle cx="{x}" cy="40" r="4" fill="{COLOURS[store]}"/>')
        parts.append(f'<text x="{x + 9}" y="44" fill="#52514e">{NAMES[store]}</text>')
    return parts


def _scale(rows: int) -> list[str]:
    bottom, parts = TOP + ROW * rows, []
    for value in DECADES:
        x = _across(value)
        label = f"{value} ms" if value < 1_000 else f"{value // 1_000} s"
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#e4e3df"/>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="#52514e">{label}</text>')
    return parts


def _dots(mixed: dict[str, Any], fault: str, middle: float) -> list[str]:
    parts = []
    for number, store in enumerate(STORES):
        y = middle + (number - 1.5) * 4
        for took in mixed.get(store, {}).get(fault, {}).get("recovery_ms", ()):
            dot = f'<circle cx="{_across(took)}" cy="{y}" r="3" fill="{COLOURS[store]}" fill-opacity="0.75">'
            parts.append(f"{dot}<title>{NAMES[store]}, {escape(fault)}: {took:,} ms</title></circle>")
    return parts


def _across(milliseconds: float) -> float:
    """Return the place on the logarithmic scale; smaller values stand at its first line."""
    digits = math.log10(max(milliseconds, DECADES[0]) / DECADES[0])
    return round(LEFT + PLOT * min(1.0, digits / (len(DECADES) - 1)), 1)
