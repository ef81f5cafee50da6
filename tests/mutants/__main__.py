"""Plant all classic bugs, one at a time; say which test caught each. `make mutants`."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.mutants import MUTANTS
from tests.mutants.planting import CAUGHT, try_out, without_a_bug


def main() -> int:
    """1 if a bug was not noticed, or could no longer be planted."""
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at the same time")
    asked = parser.parse_args()
    chosen = [each for each in MUTANTS if not asked.words or any(word in each.name for word in asked.words)]
    complaint = without_a_bug(mutant.tests for mutant in chosen)
    if complaint:
        print(f"Without any mutant the tests fail already:\n{complaint}")
        return 1
    missed = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for mutant, state, told in pool.map(try_out, chosen):
            missed += state != CAUGHT
            print(f"{state:9} {mutant.name:65} {told}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutants caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
