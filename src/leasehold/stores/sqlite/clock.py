"""The clock of the SQLite store. It keeps nothing: the offset and the ratchet are in the database.

The store's time is the time since boot plus an offset that is fixed when the database is first opened in a
boot. Setting the wall clock after that changes nothing: no lease ends early, none lives on. Where there is
no clock that counts from boot (outside of Linux), it is the wall clock, held only by the ratchet: it never runs
backwards, but a step forwards ends leases early.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """Three readings, in microseconds where they are times. Tests bring their own."""

        def boot(self) -> str:
            """Which boot of the machine this is."""

        def elapsed(self) -> int:
            """Time since that boot, sleep included; nobody can set it."""

        def wall(self) -> int:
            """The wall clock, which anybody may set."""


_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class BootClock:
    """Linux: a clock that no step of the wall clock touches."""

    __slots__ = ("_boot",)

    def __init__(self, boot: str) -> None:
        self._boot = boot

    def boot(self) -> str:
        """The kernel's own id of this boot."""
        return self._boot

    def elapsed(self) -> int:
        """CLOCK_BOOTTIME, which goes on while the machine sleeps."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000

    def wall(self) -> int:
        """Seconds since 1970."""
        return time.time_ns() // 1_000


class WallClock:
    """Elsewhere: the wall clock, of which it cannot be told when the machine was down."""

    __slots__ = ()

    def boot(self) -> str:
        """Always the same: survivors of a reboot go on with the time they have left."""
        return "wall"

    def elapsed(self) -> int:
        """The same as `wall`, so that the offset is none."""
        return self.wall()

    def wall(self) -> int:
        """Seconds since 1970."""
        return time.time_ns() // 1_000


def system_clock() -> Clock:
    """The best clock that this machine has."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return WallClock()
    try:
        with open(_BOOT_ID, "rb") as file:  # noqa: PTH123 (pathlib is slow to import, and so are codecs)
            return BootClock(file.read().strip().decode())
    except OSError:  # a container without /proc
        return WallClock()
