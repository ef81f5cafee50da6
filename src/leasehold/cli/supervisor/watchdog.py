"""A process that ends a process group in time, even if the one that should do it is stopped or killed.

`leasehold run` renews its lease; but a process that is stopped (SIGSTOP, Ctrl-Z, a debugger) renews nothing and
cannot end its child either. So it tells this second process, over a pipe, until when the child may live. When no
later word comes, or the pipe closes, the group is asked to end (TERM) and then ended (KILL), before the lease can
expire.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MESSAGE = struct.Struct("!qddq")  # the group, when to ask it to end, when to end it, and one of these
NOTHING, TERM_AND_KILL, KILL_ONLY = range(3)
KILLED_AFTER = 5.0
"""So long we wait for what was killed to be gone; only what hangs in the kernel takes longer, and it does nothing."""
LOOK_EVERY = 0.5
"""The longest sleep: timers stand still while a machine sleeps, the clock below does not."""


def now() -> float:
    """A clock that nobody can set and that goes on while the machine sleeps, the same for all processes."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Watchdog:
    """The near end: what the running command tells it."""

    def __init__(
        self,
        at_end: Callable[[], None],
        kill_after: float,
        group: int = 0,
        term_at: float = 0.0,
        kill_at: float = 0.0,
        duty: int = NOTHING,
    ) -> None:
        """Fork the watchdog. It calls `at_end` once the group has ended although the process that attended to it died.

        Then the group has `kill_after` seconds between TERM and KILL.
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

    def tell(self, group: int, term_at: float, kill_at: float, duty: int) -> None:
        """This group may live until then; also called by the child itself, before it becomes the command."""
        os.write(self._pipe, _MESSAGE.pack(group, term_at, kill_at, duty))

    def is_gone(self) -> bool:
        """Whether somebody has ended it; asked by its parent only."""
        return self._pid == 0 or self._is_reaped(os.WNOHANG)

    def _is_reaped(self, flags: int) -> bool:
        if os.waitpid(self._pid, flags)[0] == 0:
            return False
        self._pid = 0
        return True

    def dismiss(self) -> None:
        """The command is over: there is nothing left to watch."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._is_reaped(0)
        os.close(self._pipe)


class _Watch:
    """The far end."""

    def __init__(self, pipe: int, group: int, term_at: float, kill_at: float, duty: int) -> None:
        self._pipe = pipe
        self._learn(group, term_at, kill_at, duty)

    def run(self, at_end: Callable[[], None], kill_after: float) -> None:
        """Until nobody is left who could tell us anything."""
        signal.set_wakeup_fd(-1)
        os.setsid()  # a signal to our terminal or process group is not for us
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(each, signal.SIG_IGN)
        while True:
            if select.select([self._pipe], [], [], self._pause())[0]:
                message = os.read(self._pipe, _MESSAGE.size)
                if len(message) < _MESSAGE.size:
                    break
                self._learn(*_MESSAGE.unpack(message))
            elif self._is_armed and now() >= self._at():
                self._act()
        if self._is_armed:
            _finish(self._group, min(self._kill_at, now() + kill_after))
        if self._group == 0 or not is_alive(self._group):
            at_end()

    def _at(self) -> float:
        return self._term_at if self._next == signal.SIGTERM else self._kill_at

    def _pause(self) -> float:
        return max(0.0, min(LOOK_EVERY, self._at() - now())) if self._is_armed else LOOK_EVERY

    def _learn(self, group: int, term_at: float, kill_at: float, duty: int) -> None:
        self._group, self._term_at, self._kill_at, self._is_armed = group, term_at, kill_at, duty != NOTHING
        self._next = signal.SIGKILL if duty == KILL_ONLY else signal.SIGTERM

    def _act(self) -> None:
        end(self._group, self._next)
        self._is_armed = self._next == signal.SIGTERM  # after the KILL there is nothing left to do
        self._next = signal.SIGKILL


def _finish(group: int, kill_at: float) -> None:
    """Whoever told us is gone while the command still ran: it must not run on without a lease."""
    end(group, signal.SIGTERM)
    _await_end(group, kill_at)
    end(group, signal.SIGKILL)
    _await_end(group, now() + KILLED_AFTER)


def _await_end(group: int, until: float) -> None:
    while now() < until and is_alive(group):
        time.sleep(max(0.0, min(0.02, until - now())))


def end(group: int, how: signal.Signals) -> bool:
    """Send a signal to a whole group, a stopped one woken up so that it can end; whether that is allowed."""
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
    """Whether anything of this group is left that could still do something: the dead who wait for a burial cannot."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return any(_is_living_member(int(name), group) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    except OSError:
        return True  # outside of Linux nobody tells


def _is_living_member(pid: int, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            state, _, its_group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # it has ended meanwhile
    return int(its_group) == group and state not in b"ZX"
