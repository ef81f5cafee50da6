"""Run clients under faults, and judge what they saw; or write the page about it. See `leasehold.testing.faults`."""

from __future__ import annotations

import argparse
import json
import math
import platform
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError
from leasehold.testing.faults import page
from leasehold.testing.faults.drills import DRILLS, TIMES
from leasehold.testing.faults.mixed import Course, MixedRun
from leasehold.testing.faults.sites import SITES

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path("build", "faults")
SHOWN_RESULTS = Path("tests", "faults", "results")
"""Where the results are that the page shows."""
SHOWN = 20
"""Violations that are shown; the file has all."""


def main() -> int:
    """Do what the command line asks for; 1 if a promise was broken."""
    asked = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that everything started here ends
    if asked.what == "page":
        page.write(asked.results or SHOWN_RESULTS, Path("docs"))
        return 0
    asked.results = asked.results or RESULTS
    stores = asked.store or [*SITES]
    if asked.what == "mixed":
        results = [_mixed(asked, store) for store in stores]
    else:
        results = [
            each
            for name in asked.only or [*DRILLS]
            for store in stores
            if (each := _drilled(asked, name, store)) is not None
        ]
    return int(any(result["violations"] for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m leasehold.testing.faults", description=__doc__)
    parser.add_argument("--results", type=Path, default=None, help="where results are written, as JSON")
    commands = parser.add_subparsers(dest="what", required=True)
    mixed = commands.add_parser("mixed", help="many clients, and one fault after the other")
    mixed.add_argument("--seconds", type=float, default=60.0)
    mixed.add_argument("--clients", type=int, default=64, help="clients of each store; over git, an eighth of them")
    mixed.add_argument("--seed", type=int, default=time.time_ns() % 100_000, help="which faults, in which order")
    drills = commands.add_parser("drills", help="one fault many times")
    drills.add_argument("--share", type=float, default=1.0, help="the part of the volume that must hold")
    drills.add_argument("--lasting", type=float, default=60.0, help="seconds of each partition")
    drills.add_argument("--longest", type=float, default=math.inf, help="seconds after which `restarts` ends anyway")
    drills.add_argument("--slack", type=float, default=0.0, help="seconds that a busy machine may add to a recovery")
    commands.add_parser("page", help="write the tables and charts of docs/explanation/reliability.md")
    for command, only in ((mixed, "a fault"), (drills, "a drill")):
        command.add_argument("--store", action="append", choices=[*SITES], help="again for more; all by default")
        command.add_argument("--only", action="append", help=f"{only} by its name; again for more; all by default")
    return parser


def _mixed(asked: argparse.Namespace, store: str) -> dict[str, Any]:
    clients = max(8, asked.clients // 8) if store == "git" else asked.clients
    course = Course(seconds=asked.seconds, clients=clients, seed=asked.seed, only=asked.only or ())
    return _noted("mixed", asked.results, lambda: MixedRun(store, course).run())


def _drilled(asked: argparse.Namespace, name: str, store: str) -> dict[str, Any] | None:
    times = max(1, round(TIMES[name] * asked.share * (0.1 if store == "git" else 1)))
    cuts = {"slack": asked.slack, "seconds": asked.lasting}
    longest = {"longest": asked.longest}
    options = {"restarts": longest, "queues": {"slack": asked.slack}, "partitions": cuts, "wires": cuts}
    try:
        return _noted(name, asked.results, partial(DRILLS[name], store, times, **options.get(name, {})))
    except LeaseholdError as error:
        sys.stdout.write(f"{name} on {store}: not run: {error}\n")
        return None


def _noted(name: str, folder: Path, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run it, write the result down, and say what came of it."""
    result = {"run": name, "on": time.strftime("%Y-%m-%d", time.gmtime()), "machine": platform.machine(), **run()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{result['store']}.json").write_text(json.dumps(result, indent=1) + "\n")
    struck = sum(fault["times"] for fault in result["faults"].values())
    sys.stdout.write(
        f"{name} on {result['store']}: {result['seconds']} s, {result['operations']:,} operations, {struck} faults, "
        f"{len(result['violations'])} violations\n"
    )
    for violation in result["violations"][:SHOWN]:
        sys.stdout.write(f"  {violation[:500]}\n")
    if "kept_in" in result:
        sys.stdout.write(f"  the histories are in {result['kept_in']}\n")
    sys.stdout.flush()
    return result


if __name__ == "__main__":
    sys.exit(main())
