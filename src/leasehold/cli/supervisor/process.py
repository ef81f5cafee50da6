"""One command, attended to until it has ended: signals passed on, the lease kept, the command ended in time."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from leasehold.cli.supervisor.final_release import FinalRelease
from leasehold.cli.supervisor.wakeups import WakeupPipe
from leasehold.cli.supervisor.watchdog import (
    KILL_ONLY,
    KILLED_AFTER,
    NOTHING,
    TERM_AND_KILL,
    Watchdog,
    end,
    is_alive,
    now,
)
from leasehold.cli.terminal.foreground import Foreground

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.cli.supervisor.lease import RunLease

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LOOK_EVERY = 0.5
"""The longest sleep: timers stand still while a machine sleeps, and then the lease may be gone when it wakes."""
SWEEP_EVERY = 0.02
TOO_LATE = "it could not be renewed in time"


class NotStarted(Exception):
    """The command could not be started; `exit_code` is what a shell would answer."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class SupervisedProcess:
    """A command in a process group of its own, and whoever looks after it."""

    def __init__(self, context: Context, tenure: RunLease) -> None:
        self._command: list[str] = context.values["command"]
        self._output = 2 if context.out.json else None
        self._tenure = tenure
        self._obituary = FinalRelease(context, tenure)
        self._watchdog = Watchdog(self._obituary.send, tenure.kill_after)
        self._bell = WakeupPipe((*PASSED_ON, signal.SIGCHLD))
        self._foreground = Foreground()
        self._group = 0
        self._is_told = False
        """Whether the command knows that the lease is lost."""

    def run(self) -> int:
        """Until it has ended, and all of its group; what it returned, negative if a signal ended it."""
        try:
            with self._bell, self._foreground:
                self._group = self._start()
                self._tenure.watch(self._bell)
                returncode = self._attend()
                self._sweep_up()
                return returncode
        except BaseException:
            if self._group:
                end(self._group, signal.SIGKILL)
            raise
        finally:
            self._watchdog.dismiss()

    # ------------------------------------------------------------------------------------------- starting

    def _start(self) -> int:
        # Until it has become the command, a signal must neither be lost in the child nor run our handlers there.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._bell.signals)
        try:
            child = subprocess.Popen(  # noqa: S603 (it is what the user wants to run)
                self._command,
                env=self._environment(),
                process_group=0,
                stdout=self._output,
                preexec_fn=lambda: self._become(mask),  # noqa: PLW1509 (no thread was started yet)
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            raise NotStarted(f"cannot run {self._command[0]}: {error.strerror}", code) from None
        except (subprocess.SubprocessError, ValueError) as error:
            raise NotStarted(f"cannot run {self._command[0]}: {error}", 126) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        child.returncode = 0  # we wait for it ourselves, to see it stop as well as end
        return child.pid

    def _become(self, mask: set[int | signal.Signals]) -> None:
        """In the child: before it is anybody's command, the watchdog knows of it and it has the terminal."""
        signal.set_wakeup_fd(-1)
        for each in self._bell.signals:
            signal.signal(each, signal.SIG_DFL)
        self._group = os.getpid()
        self._watchdog.tell(self._group, *self._until(), self._duty(TERM_AND_KILL))
        self._foreground.take()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _environment(self) -> dict[str, str]:
        lease = self._tenure.lease
        return {
            **os.environ,
            **self._tenure.session.exported(),
            "LEASEHOLD_LEASE": lease.id,
            "LEASEHOLD_FENCE": str(lease.fence),
            "LEASEHOLD_RESOURCE": " ".join(lease.resources),
        }

    def _until(self) -> tuple[float, float]:
        """When the watchdog acts: a little later than we do, if we are there."""
        term_at, kill_at = self._tenure.times.term_at, self._tenure.times.kill_at
        return term_at + (kill_at - term_at) / 8, kill_at

    def _duty(self, duty: int) -> int:
        return NOTHING if self._tenure.is_only_warned else duty

    # ------------------------------------------------------------------------------------------ attending

    def _attend(self) -> int:
        """Pass signals on, renew in time, end it if the lease is lost; until it has ended."""
        while (returncode := self._reap()) is None:
            if self._tenure.keep(self._bell):
                self._set_watchdog(TERM_AND_KILL)
            if self._watchdog.is_gone():
                self._set_watchdog(KILL_ONLY if self._is_told else TERM_AND_KILL)
            self._mind_the_lease()
            for number in self._bell.wait(min(LOOK_EVERY, self._next() - now())):
                if number != signal.SIGCHLD:
                    end(self._group, number)
        if returncode in (-signal.SIGTERM, -signal.SIGKILL) and now() >= self._tenure.times.term_at:
            self._tenure.lose(TOO_LATE)  # it was the watchdog who ended it
        return returncode

    def _next(self) -> float:
        times, lost = self._tenure.times, self._tenure.lost is not None
        if self._tenure.is_only_warned and lost:
            return now() + LOOK_EVERY
        # An answer rings the bell: while one is awaited, what counts is the end.
        return times.kill_at if lost else times.term_at if now() >= times.renew_at else times.renew_at

    def _set_watchdog(self, duty: int) -> None:
        """Tell it the times as they are now; one that somebody has ended is replaced."""
        message = (self._group, *self._until(), self._duty(duty))
        if self._watchdog.is_gone():
            self._watchdog.dismiss()
            self._watchdog = Watchdog(self._obituary.send, self._tenure.kill_after, *message)
            return
        try:
            self._watchdog.tell(*message)
        except BrokenPipeError:
            return  # it ended just now, which rings our bell

    def _mind_the_lease(self) -> None:
        tenure = self._tenure
        if tenure.lost is None and now() >= tenure.times.term_at:
            tenure.lose(TOO_LATE)
        if tenure.lost is None or tenure.is_only_warned:
            return
        if not self._is_told:
            self._is_told = True
            end(self._group, signal.SIGKILL if tenure.on_lost == "kill" else signal.SIGTERM)
            # It gets its time to end, but not longer than the lease might have lived.
            kill_at = min(tenure.times.kill_at, now() + tenure.kill_after)
            tenure.times = tenure.times._replace(kill_at=kill_at)
            self._set_watchdog(KILL_ONLY)
        elif now() >= tenure.times.kill_at:
            end(self._group, signal.SIGKILL)

    def _reap(self) -> int | None:
        pid, status = os.waitpid(self._group, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return None
        if os.WIFSTOPPED(status):
            self._foreground.stop_with(self._group)
            return None
        return os.waitstatus_to_exitcode(status)

    def _sweep_up(self) -> None:
        """What the command left running in its group must not go on without the lease."""
        tenure = self._tenure
        if not is_alive(self._group) or (tenure.lost is not None and tenure.is_only_warned):
            return
        end(self._group, signal.SIGTERM)
        last = min(tenure.times.kill_at, now() + tenure.kill_after)
        while is_alive(self._group) and now() < last:
            self._bell.wait(SWEEP_EVERY)
        end(self._group, signal.SIGKILL)
        last = min(tenure.times.gone_at, now() + KILLED_AFTER)
        while is_alive(self._group) and now() < last:
            self._bell.wait(SWEEP_EVERY)
