"""``python -m leasehold.testing.faults.armed DIALS MODULE …``: run a module with clocks and a disk that obey `Dials`.

Must be the first that runs in its process: what binds a function of `time` before keeps the true one. Timers of the
operating system, and so of event loops, stay true; only what reads a clock is misled.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from leasehold.testing.faults import recording
from leasehold.testing.faults.dials import DISK_FAILS_SYNCS, DISK_FULL, SECOND, Dials

if TYPE_CHECKING:
    from collections.abc import Callable

_TRUE = {
    name: getattr(time, name)
    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "clock_gettime", "clock_gettime_ns")
}


class MisledClocks:
    """The clocks that the functions of `time` read in this process."""

    def __init__(self, dials: Dials) -> None:
        self._dials = dials
        self._gettime: Callable[[int], int] = _TRUE["clock_gettime_ns"]
        self._steady = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC

    def clock_gettime_ns(self, clock: int) -> int:
        """Return this clock: `CLOCK_REALTIME` with its step, those that count from boot at their rate."""
        setting = self._dials.read()
        told = self._gettime(clock)
        if clock not in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, self._steady):
            return told  # such as the time that a processor was used
        skew = setting.skew(self._gettime(self._steady))
        return told + skew + (setting.step if clock == time.CLOCK_REALTIME else 0)

    def install(self) -> None:
        """Replace the functions of `time`."""
        time.clock_gettime_ns = self.clock_gettime_ns
        time.clock_gettime = lambda clock: self.clock_gettime_ns(clock) / SECOND
        time.time_ns = lambda: self.clock_gettime_ns(time.CLOCK_REALTIME)
        time.time = lambda: self.clock_gettime_ns(time.CLOCK_REALTIME) / SECOND
        time.monotonic_ns = lambda: self.clock_gettime_ns(time.CLOCK_MONOTONIC)
        time.monotonic = lambda: self.clock_gettime_ns(time.CLOCK_MONOTONIC) / SECOND


class FailingFile(apsw.VFSFile):
    """A file of SQLite's on a disk that may be full or fail its syncs."""

    dials: Dials

    def __init__(self, name: apsw.URIFilename | str | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 (SQLite's name)
        """Write, or say that the disk is full."""
        if self.dials.read().disk == DISK_FULL:
            raise apsw.FullError("injected: the disk is full")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 (SQLite's name)
        """Sync, or fail."""
        if self.dials.read().disk == DISK_FAILS_SYNCS:
            raise apsw.IOError("injected: the disk fails to sync")
        super().xSync(flags)


class FailingDisk(apsw.VFS):
    """All files of SQLite's in this process."""

    def __init__(self) -> None:
        super().__init__("failing", "unix", makedefault=True)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> FailingFile:  # noqa: N802
        """Open a file that may fail."""
        return FailingFile(name, flags)


def main() -> None:
    """Arm this process, and run the module in it."""
    dials = Dials(Path(sys.argv[1]))
    FailingFile.dials = dials
    disk = FailingDisk()  # in force as long as it is referred to
    MisledClocks(dials).install()
    assert recording.true_clock is _TRUE["monotonic_ns"], "histories need the true clock"
    assert "leasehold.engine" not in sys.modules, "it would keep the true clock"
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    del disk


if __name__ == "__main__":
    main()
