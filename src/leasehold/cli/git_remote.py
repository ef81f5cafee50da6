"""Locks at a git remote: leases that are local until the remote can be reached, and `--max-skew`.

A local lease lives in an embedded store beside this user's tokens. It only keeps out other commands on this machine
that use `--local` too. Each command that reaches the remote first acquires the local leases there: each is confirmed or
reported as lost, and none is dropped silently.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH110

from __future__ import annotations

import os

from leasehold.cli.output import complain, quoted, step
from leasehold.cli.tokens import Tokens
from leasehold.config import paths as places
from leasehold.config.urls import with_skew
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Granted, Held, Lost, Refused, Released, TimedOut
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput, Unreachable
from leasehold.locks.connect import connect
from leasehold.requests.verbs import TOKENS_MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from leasehold.cli.context import Context
    from leasehold.cli.tokens import SavedToken
    from leasehold.config.settings import Choice
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Acquired
    from leasehold.locks.sync import Locks

BY = "the next sync"
"""The name under which a local lease is ended that another holder has at the remote."""


def opened(context: Context, progress: Callable[[], None]) -> Locks:
    """Open the locks at a git remote and confirm the local leases there."""
    locks = connect(_chosen(context), holder=context.holder, space=context.space, threaded=False, progress=progress)
    try:
        if is_any(context):
            _sync(context, locks)
    except BaseException:
        locks.close()
        raise
    return locks


def _chosen(context: Context) -> Choice:
    """Return the choice with the `--max-skew` of the command line."""
    choice, given = context.choice, context.values.get("max_skew")
    if given is None:
        return choice
    try:
        durations.parse(given)
    except durations.BadDuration as error:
        raise InvalidInput("max_skew", str(error)) from None
    return choice._replace(url=with_skew(choice.url, given))


# ------------------------------------------------------------------------------------------ the local store


def _path(url: str) -> str:
    return places.state_home(os.environ, "local", f"{places.digest(url)}.db")


def is_any(context: Context) -> bool:
    """True if a lease was ever taken locally for this remote."""
    return context.choice.url.startswith("git") and os.path.exists(_path(context.choice.url))


class Local:
    """The local store, opened for one command."""

    def __init__(self, context: Context) -> None:
        self._url = f"sqlite://{_path(context.choice.url)}"
        self._space = context.space
        self.tokens = Tokens(self._url, context.space, context.identity)
        self.locks: Locks = connect(f"{self._url}?create=1", holder=context.holder, space=context.space, threaded=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.locks.close()

    def kept(self) -> dict[str, SavedToken]:
        """Return the tokens of leases that were acquired and not released, by lease id."""
        return {kept.lease: kept for kept in self.tokens.all()}

    def live(self) -> dict[str, Lease]:
        """Return the leases that have not expired, by id."""
        found = self.locks.list(space=self._space)
        return {} if isinstance(found, Refused) else {lease.id: lease for lease in found}


# ----------------------------------------------------------------------------------------------- the verbs


def acquire(context: Context, ask: Callable[[], Acquired], terms: dict[str, Any]) -> tuple[Acquired, bool]:
    """Acquire at the remote or, if it cannot be reached, locally. Return the outcome, and whether it is local."""
    if not context.choice.url.startswith("git"):
        raise InvalidInput("local", "is for locks at a git remote (git:., git+ssh://…): these are local anyway")
    try:
        return ask(), False
    except Unreachable as error:
        complain(f"Careful: {shown(str(error))}")
    context.abandon()
    with Local(context) as local:
        known = [kept.token for kept in local.kept().values()][-TOKENS_MOST:]
        outcome = local.locks.acquire(
            context.values["resources"], reentrant=True, **{**terms, "wait": 0, "session": None, "token": known}
        )
        if isinstance(outcome, Granted):
            local.tokens.remember(outcome.lease.resources, outcome.lease.id, outcome.token)
        return outcome, True


def renew_or_release(context: Context, target: str, *, ttl: str | None = None, ends: bool = False) -> int | None:
    """Renew or release a local lease on this resource and return the exit code; None if there is no such lease."""
    with Local(context) as local:
        known = local.tokens.recall(target)
        if known is None:
            return None
        outcome = local.locks.release(*known) if ends else local.locks.renew(*known, ttl=ttl)
        if ends or isinstance(outcome, Lost):
            local.tokens.forget(known[0])
        if isinstance(outcome, Released) and outcome.reason.startswith("forced"):
            outcome = Lost(known[0], outcome.reason)
        return context.end(outcome, f"{'Released' if ends else 'Renewed'} {shown(target)} (local only)")


# ------------------------------------------------------------------------------------------------ the sync


def _sync(context: Context, locks: Locks) -> None:
    """Confirm each local lease at the remote, or report it as lost."""
    with Local(context) as local:
        live = local.live()
        for id_, kept in local.kept().items():
            if id_ in live:
                _confirm(context, local, locks, live[id_], kept)
            else:
                _report(local, kept)


def _confirm(context: Context, local: Local, locks: Locks, lease: Lease, kept: SavedToken) -> None:
    outcome = locks.acquire(list(lease.resources), **_terms(lease))
    names = shown(" ".join(lease.resources))
    if isinstance(outcome, Granted):
        context.tokens.remember(outcome.lease.resources, outcome.lease.id, outcome.token)
        local.locks.release(lease.id, kept.token)
        local.tokens.forget(lease.id)
        complain(f"Confirmed: {names}, which was local only, is yours at the remote (fence {outcome.lease.fence})")
        return
    who = outcome.blockers[0].holder if isinstance(outcome, Held | TimedOut) and outcome.blockers else "another holder"
    local.locks.force_release(lease.id, by=BY, reason=f"{who} holds it at the remote")
    _report(local, kept)


def _terms(lease: Lease) -> dict[str, Any]:
    """Return the arguments that acquire the same lease at another store."""
    import json  # noqa: PLC0415

    return {
        "holder": lease.holder,
        "ttl": lease.ttl_us / SECOND,
        "mode": lease.mode,
        "slots": lease.slots,
        "name": lease.name,
        "reason": lease.reason,
        "context": None if lease.context is None else json.loads(lease.context),
    }


def _report(local: Local, kept: SavedToken) -> None:
    """Report a lost lease. Every command repeats it until the holder renews or releases the lease."""
    outcome = local.locks.renew(kept.lease, kept.token)
    why = outcome.reason if isinstance(outcome, Lost) else "it has ended"
    name = shown(kept.resource)
    command = f"leasehold release {quoted((kept.resource,))}"
    complain(f"Lost: {name}, which was local only ({shown(why)})\n{step('stop working on it, then', command)}")
