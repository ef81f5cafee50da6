"""One of a fleet of workers: start as many as you like, on one machine or at one server (`LEASEHOLD_URL`).

    python worker.py ISSUES DONE NAME

Each line of the file ISSUES is the number of an issue. The worker takes the lease of an issue before it works on it,
and skips an issue that another worker holds. The file DONE gets a line for each issue that was worked on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import leasehold


def work(issues: Path, done: Path, name: str) -> None:
    """Work on every issue that is neither done nor held by another worker."""
    with leasehold.connect(holder=name) as locks:
        for issue in issues.read_text().split():
            outcome = locks.acquire(f"issue:{issue}", ttl="5m", name=f"work on issue {issue}")
            if not outcome:
                print(f"{name} skips issue {issue}: {outcome}")
                continue
            try:
                if issue not in finished(done):  # checked under the lease: another worker may have been here before
                    with done.open("a") as file:
                        file.write(f"{issue} {name}\n")
            finally:
                locks.release(outcome)


def finished(done: Path) -> set[str]:
    """Return the issues that are done."""
    return {line.split()[0] for line in done.read_text().splitlines()} if done.exists() else set()


if __name__ == "__main__":
    work(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
