"""guard: check whether the caller may change these paths. Exit code 0, or 4 with the holders. For hooks and scripts."""

from __future__ import annotations

import os

from leasehold.cli import output
from leasehold.cli.output import clock
from leasehold.compat.steps import ask
from leasehold.config import paths as places
from leasehold.config import settings as config
from leasehold.config.identity import CommandIdentity
from leasehold.domain import keys
from leasehold.domain.names import shown
from leasehold.errors import InvalidInput
from leasehold.guard import checking, policy
from leasehold.guard import git_changes as asking
from leasehold.requests import checks
from leasehold.wire.sentences import KEPT_ALIVE
from leasehold.wire.shapes import SCHEMA_VERSION, lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.guard.checking import Resource, Verdict


def guard(context: Context) -> int:
    """Check each path; report leases of others, and forbid the change if the policy says so."""
    here = config.working_directory()
    chosen, origin = policy.find(context.choice, context.values["policy"])
    if chosen == checking.OFF:
        return _end(context, chosen, {}, ())
    paths = context.values["paths"]
    if bool(paths) == bool(context.values["staged"]):
        raise InvalidInput("paths", "name some files, or write --staged for what is staged: one of them, not both")
    copy = places.working_copy(here, os.environ)
    if copy is None and not paths:
        raise InvalidInput("staged", f"{here} is in no working copy of git: nothing is staged here")
    beside = os.path.dirname(context.choice.path) if context.choice.path else here  # noqa: PTH120
    root = copy.root if copy is not None else beside
    named = checking.resources_of(paths, root, here) if paths else checking.resources_of(asking.staged(), root, root)
    found = ask(context.locks, checking.judged(list(named.values()), owner_of(context), chosen))
    return _end(context, f"{chosen} (from {origin})", named, found)


def owner_of(context: Context) -> checking.LeaseOwner:
    """Return the caller as an owner of leases: its name, its session, and the fences of its tokens."""
    session = checks.session_id(context.session) if context.session else None
    others = {keys.number(line.lease) for line in context.tokens.of_namesakes()}
    run = context.identity.run if isinstance(context.identity, CommandIdentity) else None
    hooks = None if run is None else checking.hook_session(*run)
    own = {keys.number(lease) for lease in context.own}
    return checking.LeaseOwner(context.holder, session, own, others=others, hooks=hooks)


def _end(context: Context, chosen: str, named: dict[str, Resource], found: tuple[Verdict, ...]) -> int:
    is_allowed = checking.is_allowed(found)
    told = [verdict for verdict in found if verdict.message and verdict.allowed == is_allowed]
    if context.out.json:
        context.out.give(_envelope(chosen, named, found, told, is_allowed=is_allowed))
    elif told:
        head = "Careful" if is_allowed else "Not allowed"
        lines = []
        for verdict in told:
            lines += [f"  {shown(verdict.message)}", *checking.ways_out(verdict)]
            for it in verdict.leases[:3]:
                until = KEPT_ALIVE if it.session is not None else f"until {clock(it.expires_us, it.as_of_us)}"
                lines.append(f"    {until}  lease {it.id}")
        context.deny("\n".join([f"{head}: {len(told)} of {len(found)} paths, by policy {chosen}", *lines]))
    return output.DONE if is_allowed else output.HELD


def _envelope(
    chosen: str, named: dict[str, Resource], found: tuple[Verdict, ...], told: list[Verdict], *, is_allowed: bool
) -> dict[str, Any]:
    by_name = dict(zip(dict.fromkeys(named.values()), map(_plain, found), strict=True))
    answer = {
        "policy": chosen.partition(" ")[0],
        "paths": [{"path": path, **by_name[resource]} for path, resource in named.items()],
    }
    if is_allowed:
        return {"schema_version": SCHEMA_VERSION, "ok": True, "data": answer}
    message = "; ".join(verdict.message for verdict in told[:3])
    return {"schema_version": SCHEMA_VERSION, "ok": False, "error": {"code": "held", "message": message, **answer}}


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {
        "resource": verdict.resource,
        "state": verdict.state,
        "allowed": verdict.allowed,
        "message": verdict.message,
        "holders": [lease(each) for each in verdict.leases],
    }
