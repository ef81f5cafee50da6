"""A process that takes values of a pool again and again, and proves by locks of the kernel that it alone has them."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import leasehold


def main() -> None:
    """Take a value, hold the file of its name, and release it; print each value that another process had as well."""
    url, pool, folder, rounds = sys.argv[1:]
    with leasehold.connect(url) as locks:
        for _ in range(int(rounds)):
            granted = locks.acquire(pool, ttl=10, wait=True)
            assert granted
            with Path(folder, granted.lease.value or "").open("w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    print("twice", granted.lease.value, flush=True)
                print("took", granted.lease.value, granted.lease.fence, flush=True)
            locks.release(granted)


if __name__ == "__main__":
    main()
