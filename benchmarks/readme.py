"""``python -m benchmarks.readme [build/benchmarks.json]``: put the figures of one run into the README.

It replaces what stands between the marks of the README, the sentence that names the run and its table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.__main__ import WRITTEN

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
SHOWN = ("http", "many-connections", "alone", "hand-off", "postgres", "etcd", "processes", "startup", "hooks")
"""Benchmarks whose figures the README has, in this order; the others are in the files of the run."""


def with_figures(page: str, run: dict[str, Any]) -> str:
    """Return the page with the figures of this run between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{_told(run)}\n\n{END}{after}"


def _told(run: dict[str, Any]) -> str:
    """Name the run, and list its figures."""
    lines = [
        f"One such run, {run['on']}, commit `{run['commit']}`: {run['subject']};",
        f"{run['machine']}, everything on loopback.",
        "",
        "| load | Leasehold | beside it | ratio |",
        "| --- | --- | --- | --- |",
    ]
    names = [name for name in SHOWN if name in run["benchmarks"]]
    figures = [figure for name in names for figure in run["benchmarks"][name]]
    lines += [f"| {each['what']} | {each['ours']} | {each['peer']} | {each['ratio']:.2f} |" for each in figures]
    return "\n".join(lines)


def main(words: list[str]) -> None:
    """Rewrite the README."""
    found = Path(words[0]) if words else WRITTEN.with_suffix(".json")
    readme = ROOT / "README.md"
    readme.write_text(with_figures(readme.read_text(encoding="utf-8"), json.loads(found.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
