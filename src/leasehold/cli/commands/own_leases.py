"""renew, release, update: the commands of a lease's holder."""

from __future__ import annotations

import os

from leasehold.cli import output
from leasehold.cli.commands.acquire import told
from leasehold.cli.context import read_secret
from leasehold.domain import keys
from leasehold.domain.names import parse, shown
from leasehold.domain.outcomes import Refused, Released, Renewed, Updated
from leasehold.errors import InvalidInput
from leasehold.requests import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from leasehold.cli.context import Context
    from leasehold.domain.outcomes import Lost

    LeaseOutcome: TypeAlias = Renewed | Released | Updated | Lost | Refused


class OwnLease:
    """A lease that the caller claims, with its proof: a token or a session's secret."""

    __slots__ = ("lease", "shows")

    def __init__(self, lease: str, token: str | None, session: str | None) -> None:
        self.lease = lease
        self.shows = {"token": token, "session": None if token else session}


class TargetResult:
    """The outcome for one target of the command."""

    __slots__ = ("advice", "code", "holders", "outcome", "target")

    def __init__(
        self, target: str, outcome: LeaseOutcome, holders: Sequence[dict[str, Any]] = (), advice: str = ""
    ) -> None:
        self.target = target
        self.outcome = outcome
        self.holders = holders
        """The leases of other holders on it."""
        self.advice = advice
        self.code = output.exit_code(outcome)
        """The exit code of this target alone."""


# ------------------------------------------------------------------------------------ which lease is meant


def _given_token(context: Context) -> str | None:
    path = context.values.get("token_file")
    if context.values.get("token_stdin"):
        if path not in (None, "-"):
            raise InvalidInput("token_stdin", "--token-stdin and --token-file are two places for one token")
        path = "-"
    return None if path is None else read_secret(path, "token_file")


def _meant(context: Context, token: str | None, target: str) -> list[OwnLease] | TargetResult:
    """Find the caller's lease on a resource or with an id; several if only a try can tell which one it is."""
    is_id, session = keys.is_lease_id(target) or keys.is_plan_id(target), context.session
    if is_id and (token or (session and not context.is_of_run)):
        return [OwnLease(target, token, session)]
    name = target if is_id else checks.resource(target)
    known = context.tokens.recall(name) if token is None else None
    if known is not None:
        return [OwnLease(*known, session)]
    if not token and context.is_of_run:
        found = _lease_of_run(context, name)
    else:
        found = _by_looking(context, token, name) if token or session else []
    if found:
        return found
    from leasehold.cli.holders import not_mine  # noqa: PLC0415 (only for a refusal)

    return not_mine(context, target, name)


def _by_looking(context: Context, token: str | None, name: str) -> list[OwnLease]:
    """List leases that the token or the session's secret may belong to, those of this holder first."""
    seen = context.locks.list(space=context.space, resource=name)
    if isinstance(seen, Refused):
        return []
    session = checks.session_id(context.session) if context.session else ""
    fitting = [lease for lease in seen if token or lease.session == session]
    fitting.sort(key=lambda lease: lease.holder != context.holder)
    return [OwnLease(lease.id, token, context.session) for lease in fitting]


def _lease_of_run(context: Context, name: str) -> list[OwnLease]:
    """Return the lease of the run that this command is part of, to renew or update: the run alone releases it.

    All commands of a run share its session, so that its secret does not prove which of them took a lease.
    """
    own = os.environ.get("LEASEHOLD_LEASE")
    if own is None or context.verb == "release":
        return []
    listed = context.locks.list(space=context.space)
    is_named = not isinstance(listed, Refused) and any(
        lease.id == own and (name == own or name in lease.resources) for lease in listed
    )
    return [OwnLease(own, None, context.session)] if is_named else []


def _try(context: Context, found: list[OwnLease], act: Callable[[OwnLease], LeaseOutcome]) -> LeaseOutcome:
    """Act on the first lease that accepts the proof. Remove the saved token of a lease that has ended."""
    outcome: LeaseOutcome = Refused("not_found", "", "there is no such lease")
    for it in found:
        outcome = act(it)
        if not isinstance(outcome, Refused | Renewed | Updated):
            context.tokens.forget(it.lease)
        if not (isinstance(outcome, Refused) and outcome.code == "not_allowed"):
            break
    return outcome


# ----------------------------------------------------------------------------------------------- the verbs


def _each(context: Context, act: Callable[[OwnLease], LeaseOutcome], say: Callable[[Any, str], str]) -> int:
    """Act on every target. The exit code is that of the first failure."""
    token, targets = _given_token(context), context.values["targets"]
    meant = [_meant(context, token, target) for target in targets]  # before anything changes
    known: dict[str, LeaseOutcome] = {}
    results = []
    for target, found in zip(targets, meant, strict=True):
        if isinstance(found, TargetResult):
            results.append(found)
            continue
        # A lease on several of these resources is renewed or released once.
        key = " ".join(it.lease for it in found)
        if key not in known:
            known[key] = _try(context, found, act)
        results.append(TargetResult(target, known[key]))
    if len(results) > 1 and context.out.json:
        _give_all(context, results)
    else:
        for result in results:
            _tell(context, result, say)
    return next((result.code for result in results if result.code), output.DONE)


def _tell(context: Context, result: TargetResult, say: Callable[[Any, str], str]) -> None:
    if not result.code:
        context.end(result.outcome, say(result.outcome, result.target))
    elif not result.advice:
        context.end(result.outcome, "")
    elif context.out.json:
        context.end(result.outcome, "", {"holders": list(result.holders)})
    else:
        message = result.outcome.message if isinstance(result.outcome, Refused) else ""
        context.deny(f"leasehold {context.verb}: {shown(message)}\n{result.advice}")


def _give_all(context: Context, results: list[TargetResult]) -> None:
    """Print one object for all targets: the outcome of each, and the first failure as the error of the whole."""
    from leasehold.wire import shapes as wire  # noqa: PLC0415

    told = [_as_json(result) for result in results]
    failed = next((each["error"] for each in told if not each["ok"]), None)
    what = {"data": {"results": told}} if failed is None else {"error": {**failed, "results": told}}
    context.out.give({"schema_version": wire.SCHEMA_VERSION, "ok": failed is None, **what})


def _as_json(result: TargetResult) -> dict[str, Any]:
    from leasehold.wire import shapes as wire  # noqa: PLC0415

    answer = wire.answer(result.outcome)
    if result.holders:
        answer["holders"] = list(result.holders)
    return {"target": result.target, "ok": not result.code, "error" if result.code else "data": answer}


def _locally(context: Context, *, ttl: str | None = None, ends: bool = False) -> int | None:
    """Renew or release a local lease of a git remote and return the exit code; None if it is no local lease."""
    targets = context.values["targets"]
    if not context.choice.url.startswith("git") or len(targets) != 1:
        return None
    from leasehold.cli import git_remote as over_git  # noqa: PLC0415 (only for those whose locks are at a git remote)

    if not over_git.is_any(context):
        return None
    return over_git.renew_or_release(context, targets[0], ttl=ttl, ends=ends)


def renew(context: Context) -> int:
    """Reset the TTL of each lease."""
    ttl = context.values["ttl"]
    local = _locally(context, ttl=ttl)
    if local is not None:
        return local
    return _each(
        context,
        lambda it: context.locks.renew(it.lease, ttl=ttl, **it.shows),
        lambda outcome, _target: told(context, outcome.lease, "Renewed"),
    )


def release(context: Context) -> int:
    """Release each lease."""
    local = _locally(context, ends=True)
    if local is not None:
        return local
    status, error = context.values["status"], context.values["error"]

    def say(outcome: Released, target: str) -> str:
        if outcome.released:
            rest = _not_named(outcome, context.values["targets"])
            more = f", with the rest of its lease: {shown(' '.join(rest))}" if rest else ""
            return f"{context.out.paint('Released', 'green')} {shown(target)} ({outcome.reason}){more}"
        return f"{shown(target)} was not held any more ({shown(outcome.reason)})"

    return _each(context, lambda it: context.locks.release(it.lease, status=status, error=error, **it.shows), say)


def _not_named(released: Released, targets: Sequence[str]) -> list[str]:
    """Return what the lease covered beyond these names; empty if it was released by its id."""
    if any(keys.is_lease_id(target) or keys.is_plan_id(target) for target in targets):
        return []
    named = set(map(parse, targets))
    return [each for each in released.resources if each not in named]


def update(context: Context) -> int:
    """Replace the context of a lease, or merge into it."""
    if context.values["context"] is None:
        raise InvalidInput("context", "is missing: write --context '{\"step\": 3}'")
    new, merge, target = context.json_value("context"), context.values["merge"], context.values["target"]

    def act(it: OwnLease) -> LeaseOutcome:
        return context.locks.update(it.lease, context=new, merge=merge, **it.shows)

    found = _meant(context, _given_token(context), target)
    result = found if isinstance(found, TargetResult) else TargetResult(target, _try(context, found, act))
    _tell(context, result, lambda outcome, _: f"Updated {shown(' '.join(outcome.lease.resources))}")
    return result.code
