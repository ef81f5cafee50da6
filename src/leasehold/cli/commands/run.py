"""run: run a command while holding a lease; the command never outlives the lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.cli import output
from leasehold.cli.command_line import settle_down
from leasehold.cli.commands.acquire import asked_for, trace
from leasehold.cli.context import accepted
from leasehold.cli.supervisor.lease import RunLease
from leasehold.cli.supervisor.process import NotStarted, SupervisedProcess
from leasehold.cli.supervisor.session import open_session, ttl_of
from leasehold.cli.supervisor.watchdog import now
from leasehold.cli.terminal.interrupts import Interrupts
from leasehold.cli.terminal.live_line import wait_for
from leasehold.domain.outcomes import Granted, Lost, Refused, Released, TimedOut
from leasehold.errors import InvalidInput
from leasehold.locks.sync import LEADER
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.cli.supervisor.session import RunSession
    from leasehold.domain.outcomes import Acquired


LEAD_TTL = "15s"
"""The default TTL of a leader: as long does a new one wait after a crash."""
FOR_EVER = "24h"
"""The longest wait of one request. A candidate asks again after it."""


def run(context: Context) -> int:
    """Acquire a lease, run the command, renew meanwhile, and release. A leader that was deposed campaigns again."""
    settle_down()
    leads = context.values["lead"]
    _name(context)
    if leads:
        _campaign(context)
    context.seconds("kill_after")
    context.hint_at_paths(context.values["resources"])
    around = context.session
    with Interrupts() as interrupts:
        while True:
            code = _run_once(context, interrupts)
            if code is not None or not leads:
                return output.LOST if code is None else code
            context.out.warn("leasehold: deposed; waiting to be elected again")
            context.act_in(around)


def _name(context: Context) -> None:
    """Put the name of the pool in place of the names. Raises `InvalidInput` if there are both, or neither."""
    names, pool = context.values["resources"], context.values["pool"]
    if not names and pool is None:
        raise InvalidInput("resources", "name what to hold while the command runs, or a --pool")
    if names and pool is not None:
        raise InvalidInput("pool", "a pool stands alone in its lease: leave --pool out, or the names")
    if pool is not None:
        context.values = {**context.values, "resources": [pool if "://" in pool else f"pool://{pool}"]}


def _campaign(context: Context) -> None:
    """Change the options to those of a candidate, which waits for ever."""
    values = context.values
    if values["wait"] != "0":
        raise InvalidInput("wait", "a candidate waits until it is elected: leave --wait out, or leave --lead out")
    if values["on_lost"] == "warn":
        raise InvalidInput("on_lost", "a deposed leader must end: give --on-lost term or kill, or leave --lead out")
    context.values = {**values, "wait": FOR_EVER, "ttl": values["ttl"] or LEAD_TTL, "name": values["name"] or LEADER}


def _run_once(context: Context, interrupts: Interrupts) -> int | None:
    """Return the exit code; None if the lease was lost."""
    wanted = asked_for(context) | {"ttl": ttl_of(context)}
    session = accepted(open_session(context))
    asked_at = now()
    outcome = _acquire(context, session, wanted, interrupts)
    while context.values["lead"] and isinstance(outcome, TimedOut):
        asked_at = now()
        outcome = _acquire(context, session, wanted, interrupts)
    if not isinstance(outcome, Granted):
        session.end()
        return context.end(outcome, "")
    context.caution()
    run_lease = RunLease(context, session, outcome, asked_at, context.seconds("kill_after"))
    return RunCommand(context, run_lease, interrupts).run()


def _acquire(context: Context, session: RunSession, wanted: dict[str, Any], interrupts: Interrupts) -> Acquired:
    names = context.values["resources"]
    # With the tokens of the caller's own leases: a wait that only they stand in the way of is refused.
    wanted.update(trace=trace(), session=session.credential, token=context.proofs(names))
    context.act_in(session.credential)
    try:
        return wait_for(
            context, lambda: context.locks.acquire(names, **wanted), interrupts, events=True, meanwhile=session.keep
        )
    except (InvalidInput, KeyboardInterrupt):
        session.end()
        raise


class RunCommand:
    """One command under one lease, from the grant to the release."""

    def __init__(self, context: Context, run_lease: RunLease, interrupts: Interrupts) -> None:
        self._context = context
        self._run_lease = run_lease
        self._interrupts = interrupts

    def run(self) -> int | None:
        """Run the command and return its exit code; None if the lease was lost."""
        run_lease = self._run_lease
        run_lease.report("acquired", lease=wire.lease(run_lease.lease))
        try:
            # After a wait, the grant may be older than its answer: renew once, so that the deadlines are known.
            if self._context.values["wait"] != "0":
                run_lease.renew()
            self._interrupts.check()
            returncode = None if run_lease.lost is not None else SupervisedProcess(self._context, run_lease).run()
        except NotStarted as error:
            self._run_lease.release("failed", str(error))
            self._context.end(Refused("not_started", "command", str(error)), "")
            return error.exit_code
        except BaseException:
            run_lease.release("cancelled", None)
            raise
        return self._finish(returncode)

    def _finish(self, returncode: int | None) -> int | None:
        """Release the lease with the outcome of the command. Return the exit code, or None if the lease was lost."""
        code = None if returncode is None else 128 - returncode if returncode < 0 else returncode
        status, error = ("completed", None) if code == 0 else ("failed", f"exit code {code}")
        run_lease = self._run_lease
        if run_lease.lost is not None and (code is None or not run_lease.is_only_warned):
            run_lease.release("failed", f"the lease was lost: {run_lease.lost}")
            self._tell_loss(code)
            return None
        released = run_lease.release(status, error)
        if isinstance(released, Released) and not released.released and not run_lease.is_only_warned:
            run_lease.lose(released.reason)
            self._tell_loss(code)
            return None
        data = {
            "lease": wire.lease(run_lease.lease),
            "exit_code": code,
            "status": status,
            "released": isinstance(released, Released) and released.released,
        }
        if self._context.out.json:
            self._context.end(None, "", data)
        return code or 0

    def _tell_loss(self, exit_code: int | None) -> None:
        if self._context.out.json and not self._context.values["lead"]:
            lost = Lost(self._run_lease.lease.id, self._run_lease.lost or "")
            self._context.end(lost, "", {"exit_code": exit_code})
