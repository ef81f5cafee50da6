"""The command of `leasehold run`: start it, pass signals on, renew its lease, and end it before the lease expires."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

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
from leasehold.config.identity import RUN, SESSION

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.cli.supervisor.lease import RunLease


PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
POLL_EVERY = 0.5
"""The longest sleep in seconds: timers stand still while a machine sleeps, and the lease may be lost when it wakes."""
SWEEP_EVERY = 0.02
TOO_LATE = "it could not be renewed in time"


class NotStarted(Exception):
    """The command could not be started; `exit_code` is what a shell would answer."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class SupervisedProcess:
    """A command in a process group of its own, with its lease and its watchdog."""

    def __init__(self, context: Context, run_lease: RunLease) -> None:
        self._command: list[str] = context.values["command"]
        self._output = 2 if context.out.json else None
        self._run_lease = run_lease
        self._final_release = FinalRelease(context, run_lease)
        self._watchdog = Watchdog(self._final_release.send, run_lease.kill_after)
        self._wakeups = WakeupPipe((*PASSED_ON, signal.SIGCHLD))
        self._foreground = Foreground()
        self._group = 0
        self._is_signalled = False
        """True once the command was signalled because the lease is lost."""

    def run(self) -> int:
        """Run until the command and its process group have ended. Return its exit code, -n for signal n."""
        try:
            with self._wakeups, self._foreground:
                self._group = self._start()
                self._run_lease.watch(self._wakeups)
                returncode = self._supervise()
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
        """Start the command in a process group of its own, with the terminal if this command has it. Return its pid."""
        # Until the child has become the command, a signal must neither be lost there nor run our handlers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._wakeups.signals)
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
        child.returncode = 0  # `_reap` waits for it, to see it stop as well as end
        return child.pid

    def _become(self, mask: set[int | signal.Signals]) -> None:
        """Prepare the child, before it becomes the command: inform the watchdog, and take the terminal."""
        signal.set_wakeup_fd(-1)
        for each in self._wakeups.signals:
            signal.signal(each, signal.SIG_DFL)
        self._group = os.getpid()
        self._watchdog.set_deadlines(self._group, *self._until(), self._duty(TERM_AND_KILL))
        self._foreground.take()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _environment(self) -> dict[str, str]:
        lease = self._run_lease.lease
        return {
            **os.environ,
            **self._run_lease.session.exported(),
            "LEASEHOLD_LEASE": lease.id,
            "LEASEHOLD_FENCE": str(lease.fence),
            "LEASEHOLD_RESOURCE": " ".join(lease.resources),
            "LEASEHOLD_VALUE": lease.value or " ".join(lease.resources),
        }

    def _until(self) -> tuple[float, float]:
        """Return when the watchdog acts: a little later than this process does."""
        term_at, kill_at = self._run_lease.times.term_at, self._run_lease.times.kill_at
        return term_at + (kill_at - term_at) / 8, kill_at

    def _duty(self, duty: int) -> int:
        return NOTHING if self._run_lease.is_only_warned else duty

    # ------------------------------------------------------------------------------------------ attending

    def _supervise(self) -> int:
        """Pass signals on, renew in time and end the command if the lease is lost, until it has ended."""
        while (returncode := self._reap()) is None:
            if self._run_lease.keep(self._wakeups):
                self._set_watchdog(TERM_AND_KILL)
            if self._watchdog.is_gone():
                self._set_watchdog(KILL_ONLY if self._is_signalled else TERM_AND_KILL)
            self._end_if_lost()
            for number in self._wakeups.wait(min(POLL_EVERY, self._next() - now())):
                if number != signal.SIGCHLD:
                    end(self._group, number)
        if returncode in (-signal.SIGTERM, -signal.SIGKILL) and now() >= self._run_lease.times.term_at:
            self._run_lease.lose(TOO_LATE)  # the watchdog ended it
        return returncode

    def _next(self) -> float:
        times, lost = self._run_lease.times, self._run_lease.lost is not None
        if self._run_lease.is_only_warned and lost:
            return now() + POLL_EVERY
        # An answer wakes this process: while one is awaited, only the end of the lease matters.
        return times.kill_at if lost else times.term_at if now() >= times.renew_at else times.renew_at

    def _set_watchdog(self, duty: int) -> None:
        """Send the watchdog the current times. Replace it if it was killed."""
        message = (self._group, *self._until(), self._duty(duty))
        if self._watchdog.is_gone():
            self._watchdog.dismiss()
            self._watchdog = Watchdog(self._final_release.send, self._run_lease.kill_after, *message)
            return
        try:
            self._watchdog.set_deadlines(*message)
        except BrokenPipeError:
            return  # it ended just now, and SIGCHLD wakes this process

    def _end_if_lost(self) -> None:
        run_lease = self._run_lease
        if run_lease.lost is None and now() >= run_lease.times.term_at:
            run_lease.lose(TOO_LATE)
        if run_lease.lost is None or run_lease.is_only_warned:
            return
        if not self._is_signalled:
            self._is_signalled = True
            end(self._group, signal.SIGKILL if run_lease.on_lost == "kill" else signal.SIGTERM)
            # The command gets its time to end, but no longer than the lease might have lived.
            kill_at = min(run_lease.times.kill_at, now() + run_lease.kill_after)
            run_lease.times = run_lease.times._replace(kill_at=kill_at)
            self._set_watchdog(KILL_ONLY)
        elif now() >= run_lease.times.kill_at:
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
        """End what the command left running in its group: it must not go on without the lease."""
        run_lease = self._run_lease
        if not is_alive(self._group) or (run_lease.lost is not None and run_lease.is_only_warned):
            return
        end(self._group, signal.SIGTERM)
        last = min(run_lease.times.kill_at, now() + run_lease.kill_after)
        while is_alive(self._group) and now() < last:
            self._wakeups.wait(SWEEP_EVERY)
        end(self._group, signal.SIGKILL)
        last = min(run_lease.times.gone_at, now() + KILLED_AFTER)
        while is_alive(self._group) and now() < last:
            self._wakeups.wait(SWEEP_EVERY)


CAUSE = "leasehold run was killed"
_COMMAND = (sys.executable, "-m", "leasehold.cli")


class FinalRelease:
    """The lease and session to release after `leasehold run` was killed, prepared before the command starts.

    The watchdog starts a fresh process for it: the watchdog is a fork, and no database or connection survives a fork.
    """

    def __init__(self, context: Context, run_lease: RunLease) -> None:
        self._lease = run_lease.lease.id
        self._token = run_lease.token
        self._session = run_lease.session
        self._env = {
            **{name: value for name, value in os.environ.items() if name not in (SESSION, RUN)},
            "LEASEHOLD_URL": context.choice.url,
            "LEASEHOLD_SPACE": context.space,
        }
        if context.values["max_skew"] is not None:
            self._env["LEASEHOLD_MAX_SKEW"] = context.values["max_skew"]

    def send(self) -> None:
        """Try once each. If the store cannot be reached, the lease expires within the TTL of the run."""
        self._do("release", self._lease, "--token-stdin", "--status", "failed", "--error", CAUSE)
        if self._session.is_own:
            self._do("session", "end", env={SESSION: self._session.credential})

    def _do(self, *words: str, env: dict[str, str] | None = None) -> None:
        subprocess.run(  # noqa: S603 (our own command line)
            [*_COMMAND, *words],
            env=self._env | (env or {}),
            input=self._token,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
