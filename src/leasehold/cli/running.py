"""run: a command that lives no longer than the lease it runs under."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold import wire
from leasehold.cli import outcomes, settle_down
from leasehold.cli.attending import Attendance, NotStarted
from leasehold.cli.interrupts import Interrupts
from leasehold.cli.taking import asked_for
from leasehold.cli.tenure import Tenure
from leasehold.cli.waiting import wait_for
from leasehold.cli.watchdog import now
from leasehold.model import Granted, Lost, Refused, Released

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.model import Acquired


def run(context: Context) -> int:
    """Acquire, run, renew meanwhile, release."""
    settle_down()
    kill_after = context.seconds("kill_after")
    context.hint_at_paths(context.values["resources"])
    with Interrupts() as interrupts:
        asked_at = now()
        outcome = wait_for(context, lambda: _ask(context), interrupts, events=True)
        if not isinstance(outcome, Granted):
            return context.end(outcome, "")
        context.caution()
        return Run(context, Tenure(context, outcome, asked_at, kill_after), interrupts).run()


def _ask(context: Context) -> Acquired:
    """Ask with the tokens of the caller's own leases, so that a wait which only they stand in the way of is refused."""
    names = context.values["resources"]
    return context.locks.acquire(names, token=context.tokens.proofs(names), **asked_for(context))


class Run:
    """One command under one lease, from the grant to the release."""

    def __init__(self, context: Context, tenure: Tenure, interrupts: Interrupts) -> None:
        self._context = context
        self._tenure = tenure
        self._interrupts = interrupts

    def run(self) -> int:
        """Run it; the exit code is the command's own, unless the lease was lost."""
        tenure = self._tenure
        tenure.tell("acquired", lease=wire.lease(tenure.lease))
        try:
            # The grant may be older than its answer, if we waited for it: what counts then is a renewal of our own.
            if self._context.values["wait"] != "0":
                tenure.renew()
            self._interrupts.check()
            returncode = None if tenure.lost is not None else Attendance(self._context, tenure).run()
        except NotStarted as error:
            return self._not_started(error)
        except BaseException:
            tenure.release("cancelled", None)
            raise
        return self._finish(returncode)

    def _finish(self, returncode: int | None) -> int:
        code = None if returncode is None else 128 - returncode if returncode < 0 else returncode
        status, error = ("completed", None) if code == 0 else ("failed", f"exit code {code}")
        tenure = self._tenure
        if tenure.lost is not None and (code is None or not tenure.is_only_warned):
            tenure.release("failed", f"the lease was lost: {tenure.lost}")
            return self._lose(code)
        released = tenure.release(status, error)
        if isinstance(released, Released) and not released.released and not tenure.is_only_warned:
            tenure.lose(released.reason)
            return self._lose(code)
        data = {
            "lease": wire.lease(tenure.lease),
            "exit_code": code,
            "status": status,
            "released": isinstance(released, Released) and released.released,
        }
        if self._context.out.json:
            self._context.end(None, "", data)
        return code or 0

    def _lose(self, exit_code: int | None) -> int:
        if self._context.out.json:
            lost = Lost(self._tenure.lease.id, self._tenure.lost or "")
            self._context.end(lost, "", {"exit_code": exit_code})
        return outcomes.LOST

    def _not_started(self, error: NotStarted) -> int:
        self._tenure.release("failed", str(error))
        self._context.end(Refused("not_started", "command", str(error)), "")
        return error.exit_code
