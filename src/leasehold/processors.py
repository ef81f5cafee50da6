"""How many processors this process may use: what the machine has, less what it is bound to or allowed."""

from __future__ import annotations

import os
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def count() -> float:
    """Those that it may run on, or as much of them as its control group is allowed; a container may get half of one."""
    affinity = getattr(os, "sched_getaffinity", None)  # not everywhere
    has = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min(has, _allowed())


def _allowed() -> float:
    """What the control group allows; without one, or without a limit, any number."""
    try:
        name = next(line[3:] for line in OWN.read_text().splitlines() if line.startswith("0::"))
        quota, period = (GROUPS / name.strip("/") / "cpu.max").read_text().split()
        return float("inf") if quota == "max" else int(quota) / int(period)
    except (OSError, StopIteration, ValueError):
        return float("inf")
