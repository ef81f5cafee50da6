"""What the kernel says of a process, also one that ends while it is being asked about."""

from __future__ import annotations

from pathlib import Path


def state(pid: int) -> str:
    """R, S, T (stopped), Z, or nothing if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or between that and reading
        return ""
    return stat.rpartition(")")[2].split()[0]


def is_there(pid: int) -> bool:
    """Whether this process lives (a zombie does not)."""
    return state(pid) not in ("", "Z", "X")
