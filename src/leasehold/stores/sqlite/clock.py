"""The clock of the SQLite store. It stores nothing: the offset and the latest time are in the database.

The store's time is the time since boot plus an offset that is fixed when the database is first opened in a
boot. Setting the wall clock after that changes nothing: no lease ends early or late. Where no clock counts from boot
(outside of Linux), it is the wall clock: the latest time in the database keeps it from running backwards, but a step
forwards ends leases early.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """Three readings; times are in microseconds. Tests replace it."""

        def boot(self) -> str:
            """Return the id of this boot of the machine."""

        def elapsed(self) -> int:
            """Return the time since boot, sleep included; it cannot be set."""

        def wall(self) -> int:
            """Return the time of the wall clock, which can be set."""


_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_OFFSETS = "/proc/self/timens_offsets"
_NAMES = (b"boottime", b"7")
"""Names of CLOCK_BOOTTIME in that file; Linux before 5.7 writes its number."""


class BootClock:
    """The clock on Linux, which steps of the wall clock do not affect."""

    __slots__ = ("_ahead", "_boot")

    def __init__(self, boot: str, ahead: int = 0) -> None:
        self._boot = boot
        self._ahead = ahead
        """Nanoseconds by which our time namespace is ahead of the machine's, in which other containers may be."""

    def boot(self) -> str:
        """Return the kernel's id of this boot."""
        return self._boot

    def elapsed(self) -> int:
        """Return CLOCK_BOOTTIME, which includes sleep."""
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._ahead) // 1_000

    def wall(self) -> int:
        """Return microseconds since 1970."""
        return time.time_ns() // 1_000


class WallClock:
    """The wall clock, for other systems. It does not show when the machine was down."""

    __slots__ = ()

    def boot(self) -> str:
        """Return a constant: leases keep their remaining time over a reboot."""
        return "wall"

    def elapsed(self) -> int:
        """Return `wall`, so that the offset is 0."""
        return self.wall()

    def wall(self) -> int:
        """Return microseconds since 1970."""
        return time.time_ns() // 1_000


def system_clock() -> Clock:
    """Return the best clock of this machine."""
    if sys.platform != "linux":
        return WallClock()
    try:
        with open(_BOOT_ID, "rb") as file:  # noqa: PTH123 (pathlib is slow to import, and so are codecs)
            boot = file.read().strip().decode()
    except OSError:  # a container without /proc
        return WallClock()
    return BootClock(boot, _ahead())


def _ahead() -> int:
    """Return the offset of CLOCK_BOOTTIME in our time namespace, in nanoseconds."""
    try:
        with open(_OFFSETS, "rb") as file:  # noqa: PTH123 (see above)
            lines = file.read().splitlines()
    except OSError:  # Linux before 5.6 has no time namespaces
        return 0
    found = next((line.split() for line in lines if line.startswith(_NAMES)), None)
    return int(found[1]) * 1_000_000_000 + int(found[2]) if found is not None else 0
