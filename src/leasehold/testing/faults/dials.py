"""Clocks and disks of running processes, turned from outside through a small file that they map into memory.

The processes are started by `leasehold.testing.faults.armed`; each reads the dials whenever it asks for the time or
writes to a file of SQLite's. No library is preloaded, so this works for Python processes only, and on every system.

A step moves the wall clock. A rate changes all clocks, from the moment at which it is set, without a step.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000
_LAYOUT = struct.Struct("=qqqdqq")
"""A mark, nanoseconds of the step, when the rate was set, the rate, what the clock was ahead by then, the disk."""
_SIZE = _LAYOUT.size + 8
"""The same mark stands at the end: a reader that sees two different ones reads again."""
DISK_WELL, DISK_FULL, DISK_FAILS_SYNCS = range(3)


class Setting(NamedTuple):
    """Where the dials stand."""

    step: int = 0
    since: int = 0
    rate: float = 1.0
    ahead: int = 0
    disk: int = DISK_WELL

    def skew(self, at: int) -> int:
        """Return the nanoseconds by which a clock that nobody can set is ahead, at this true time since boot."""
        return self.ahead + round((at - self.since) * (self.rate - 1))


class Dials:
    """The dials of the processes of one machine; make the file with `create`."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _SIZE)
        self._mark = 0

    @classmethod
    def create(cls, path: Path) -> Dials:
        """Make the file, with true clocks and a disk that works."""
        path.write_bytes(bytes(_SIZE))
        dials = cls(path)
        dials._write(Setting())
        return dials

    def read(self) -> Setting:
        """Return where the dials stand."""
        while True:
            data = self._shared[:_SIZE]
            mark, *fields = _LAYOUT.unpack_from(data)
            if data[_LAYOUT.size :] == data[:8] and mark:
                return Setting(*fields)

    def _write(self, setting: Setting) -> None:
        self._mark += 1
        self._shared[_LAYOUT.size : _SIZE] = struct.pack("=q", -self._mark)  # readers wait from here on
        self._shared[: _LAYOUT.size] = _LAYOUT.pack(self._mark, *setting)
        self._shared[_LAYOUT.size : _SIZE] = struct.pack("=q", self._mark)

    def step(self, seconds: float) -> None:
        """Set the wall clock so far ahead of the true one; negative: behind."""
        self._write(self.read()._replace(step=round(seconds * SECOND)))

    def run_at(self, rate: float) -> None:
        """Let all clocks run so many times as fast as they should."""
        setting, now = self.read(), time.clock_gettime_ns(_CLOCK)
        self._write(setting._replace(ahead=setting.skew(now), since=now, rate=rate))

    def set_disk(self, disk: int) -> None:
        """Let SQLite's writes fail from now on, or its syncs, or nothing."""
        self._write(self.read()._replace(disk=disk))


_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
