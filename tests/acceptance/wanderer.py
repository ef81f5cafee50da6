"""One of the processes that compete over several servers: as ``worker``, but every request goes to another server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.acceptance.servers import wandering
from tests.acceptance.worker import work


def main(url: str, place: str, kind: str, rounds: str, number: str) -> None:
    """Get ready, wait for the start, work, and tell."""
    with wandering(url, holder=f"worker {number}") as locks:
        print("ready", flush=True)
        sys.stdin.readline()
        seen = work(locks, Path(place), kind, int(rounds), int(number))
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
