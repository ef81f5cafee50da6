"""Replay a simulation from its seed, or try many seeds."""

from __future__ import annotations

import argparse
import sys

from leasehold.testing.simulation import Failure, run


def main() -> int:
    """Run the seeds that were asked for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="leasehold.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--steps", type=int, default=20_000, help="steps a run")
    asked = parser.parse_args()
    for seed in range(asked.seed, asked.seed + asked.runs):
        try:
            report = run(seed, asked.steps)
        except Failure as failure:
            sys.stdout.write(f"{failure}\n")
            return 1
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(report.kinds.items()))
        sys.stdout.write(f"seed {seed}: {report.steps} steps, {report.seconds:.0f} s, {report.digest}: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
