"""A candidate of `locks.lead()`: it writes when each of its terms begins and ends, until it is killed."""

from __future__ import annotations

import os
import sys
import time

import leasehold


def main() -> None:
    """Campaign under the name, and write to the file, that the command line gives."""
    url, name, path, ttl = sys.argv[1:]
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with leasehold.connect(url, holder=name) as locks:
        for term in locks.lead("scheduler", ttl=float(ttl)):
            os.write(log, f"begin {term.fence} {name} {os.getpid()} {time.monotonic()}\n".encode())
            while term.lost is None:
                time.sleep(0.01)
            os.write(log, f"end {term.fence} {name} {os.getpid()} {time.monotonic()}\n".encode())


if __name__ == "__main__":
    main()
