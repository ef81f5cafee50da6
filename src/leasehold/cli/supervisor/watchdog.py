"""A second process that ends the command's process group in time, even if `leasehold run` is stopped or killed.

A process that is stopped (SIGSTOP, Ctrl-Z, a debugger) neither renews its lease nor ends its child. So `leasehold run`
sends this process deadlines over a pipe. If no later deadline comes, or the pipe closes, the watchdog sends TERM and
then KILL to the group, before the lease can expire.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MESSAGE = struct.Struct("!qddq")  # process group, time of TERM, time of KILL, and one of the duties below
NOTHING, TERM_AND_KILL, KILL_ONLY = range(3)
KILLED_AFTER = 5.0
"""Seconds to wait for a killed process to be gone. Only one that hangs in the kernel takes longer."""
POLL_EVERY = 0.5
"""The longest sleep in seconds: timers stand still while a machine sleeps, the clock below does not."""


def now() -> float:
    """Read a clock that is the same for all processes, cannot be set, and goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC)


class Watchdog:
    """The watchdog as `leasehold run` sees it: a forked process and the pipe to it."""

    def __init__(
        self,
        at_end: Callable[[], None],
        kill_after: float,
        group: int = 0,
        term_at: float = 0.0,
        kill_at: float = 0.0,
        duty: int = NOTHING,
    ) -> None:
        """Fork the watchdog. If this process dies, the watchdog ends the group and then calls `at_end`.

        The group then has `kill_after` seconds between TERM and KILL.
        """
        reading, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._pipe)
                _Watch(reading, group, term_at, kill_at, duty).run(at_end, kill_after)
            finally:
                os._exit(0)
        os.close(reading)

    def set_deadlines(self, group: int, term_at: float, kill_at: float, duty: int) -> None:
        """Set the deadlines of this group. The child calls it too, before it becomes the command."""
        os.write(self._pipe, _MESSAGE.pack(group, term_at, kill_at, duty))

    def is_gone(self) -> bool:
        """True if the watchdog process has ended. Only its parent may ask."""
        return self._pid == 0 or self._is_reaped(os.WNOHANG)

    def _is_reaped(self, flags: int) -> bool:
        if os.waitpid(self._pid, flags)[0] == 0:
            return False
        self._pid = 0
        return True

    def dismiss(self) -> None:
        """End the watchdog: the command is over."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._is_reaped(0)
        os.close(self._pipe)


class _Watch:
    """The loop of the watchdog process."""

    def __init__(self, pipe: int, group: int, term_at: float, kill_at: float, duty: int) -> None:
        self._pipe = pipe
        self._learn(group, term_at, kill_at, duty)

    def _at(self) -> float:
        return self._term_at if self._next == signal.SIGTERM else self._kill_at

    def _learn(self, group: int, term_at: float, kill_at: float, duty: int) -> None:
        self._group, self._term_at, self._kill_at, self._is_armed = group, term_at, kill_at, duty != NOTHING
        self._next = signal.SIGKILL if duty == KILL_ONLY else signal.SIGTERM

    def run(self, at_end: Callable[[], None], kill_after: float) -> None:
        """Keep the deadlines until the pipe closes."""
        signal.set_wakeup_fd(-1)
        os.setsid()  # signals to the terminal or process group of `leasehold run` are not for the watchdog
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(each, signal.SIG_IGN)
        while True:
            pause = max(0.0, min(POLL_EVERY, self._at() - now())) if self._is_armed else POLL_EVERY
            if select.select([self._pipe], [], [], pause)[0]:
                message = os.read(self._pipe, _MESSAGE.size)
                if len(message) < _MESSAGE.size:
                    break
                self._learn(*_MESSAGE.unpack(message))
            elif self._is_armed and now() >= self._at():
                end(self._group, self._next)
                self._is_armed = self._next == signal.SIGTERM  # after the KILL there is nothing left to do
                self._next = signal.SIGKILL
        if self._is_armed:
            _finish(self._group, min(self._kill_at, now() + kill_after))
        if self._group == 0 or not is_alive(self._group):
            at_end()


def _finish(group: int, kill_at: float) -> None:
    """End the group of a `leasehold run` that died: the command must not run on without a lease."""
    end(group, signal.SIGTERM)
    _await_end(group, kill_at)
    end(group, signal.SIGKILL)
    _await_end(group, now() + KILLED_AFTER)


def _await_end(group: int, until: float) -> None:
    while now() < until and is_alive(group):
        time.sleep(max(0.0, min(0.02, until - now())))


def end(group: int, how: signal.Signals) -> bool:
    """Send a signal to a whole group and wake it if it is stopped. Return False if that is not permitted."""
    try:
        os.killpg(group, how)
        if how != signal.SIGKILL:
            os.killpg(group, signal.SIGCONT)
    except ProcessLookupError:
        return True  # it has ended already
    except PermissionError:
        return False  # it has become another user
    return True


def is_alive(group: int) -> bool:
    """True if the group has a process that is no zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return any(_is_living_member(int(name), group) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    except OSError:
        return True  # unknown outside of Linux


def _is_living_member(pid: int, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            state, _, its_group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # it has ended meanwhile
    return int(its_group) == group and state not in b"ZX"
