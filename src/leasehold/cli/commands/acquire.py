"""acquire: take a lease, save its token for `release`, and print what was acquired."""

# ruff: noqa: PTH123 (pathlib costs a one-shot process more than all of this)

from __future__ import annotations

import os
import sys

from leasehold.cli import output
from leasehold.cli.command_line import settle_down
from leasehold.cli.output import clock, forget, write
from leasehold.config.paths import strange_link
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Granted, Held
from leasehold.errors import InvalidInput, LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Acquired


LOCAL_FENCE = "Its fence counts on this machine only: show it to nothing that compares fences"


def asked_for(context: Context) -> dict[str, Any]:
    """Return the arguments of an acquire from the options that `acquire` and `run` share."""
    values = context.values
    return {
        "ttl": context.ttl,
        "wait": values["wait"],
        "mode": _mode(context),
        "slots": context.number("slots"),
        "any_of": values["any_of"],
        "session": context.session,
        "name": values["name"],
        "context": context.json_value("context"),
        "reason": values["reason"],
        "priority": context.number("priority"),
        "grace": values["grace"],
        "on_expiry": values["on_expiry"],
    }


def _mode(context: Context) -> str | None:
    """Return the mode, as --mode or --shared give it. Raises InvalidInput if they differ."""
    mode: str | None = context.values["mode"]
    if context.values["shared"]:
        if mode not in (None, "shared"):
            raise InvalidInput("mode", f"--mode {mode} and --shared are two different things: give one of them")
        return "shared"
    return mode


def acquire(context: Context) -> int:
    """Acquire a lease and save its token, so that `release` needs only the name."""
    _check_token_file(context.values["token_file"])
    is_taken = context.out.json or context.values["token_file"] == "-"  # noqa: S105 (no secret)
    if is_taken and context.values["print"]:
        raise InvalidInput("print", "does not go with --json or --token-file -: standard output is for one of them")
    context.hint_at_paths(context.values["resources"])
    if context.values["local"]:
        return _take_locally(context)
    if context.values["wait"] == "0":
        return _told(context, _ask(context))
    from leasehold.cli.terminal.interrupts import Interrupts  # noqa: PLC0415 (only for a command that waits)
    from leasehold.cli.terminal.live_line import wait_for  # noqa: PLC0415

    settle_down()
    with Interrupts() as interrupts:
        return _told(context, wait_for(context, lambda: _ask(context), interrupts, events=False))


def _take_locally(context: Context) -> int:
    """Acquire at the git remote if it can be reached; otherwise locally, and say so."""
    from leasehold.cli import git_remote as over_git  # noqa: PLC0415 (only for a git remote)

    if context.values["token_file"] is not None:
        raise InvalidInput(
            "token_file", "does not go with --local: once it is confirmed, such a lease has another token"
        )
    outcome, is_local = over_git.acquire(context, lambda: _ask(context), asked_for(context))
    if not is_local or not isinstance(outcome, Granted):
        return _told(context, outcome)
    from leasehold.wire import shapes as wire  # noqa: PLC0415

    text = told(context, outcome.lease, "Acquired, LOCAL ONLY (the remote does not know of it):")
    return context.end(outcome, f"{text}\n{LOCAL_FENCE}", {**wire.answer(outcome), "local": True})


def trace() -> str | None:
    """Return the trace that the environment names, which the lease keeps."""
    if "TRACEPARENT" not in os.environ:
        return None
    from leasehold.tracing import traceparent  # noqa: PLC0415 (most commands have none)

    return traceparent()


def _ask(context: Context) -> Acquired:
    """Acquire. In a `leasehold run`, --reentrant never returns a neighbour's lease, although all share the session."""
    if not (context.values["reentrant"] and context.is_of_run):
        return _ask_once(context, reentrant=context.values["reentrant"])
    outcome = _ask_once(context, reentrant=False)
    if isinstance(outcome, Held) and all(_may_extend(context, each.lease) for each in outcome.blockers if each.yours):
        again = _ask_once(context, reentrant=True)
        if not isinstance(again, Granted) or again.fresh or _may_extend(context, again.lease.id):
            return again
    return outcome


def _may_extend(context: Context, lease: str | None) -> bool:
    """True for the lease of the run itself, and for one that a neighbour of this command does not hold."""
    if lease is None or _is_of_the_run(lease):
        return lease is not None
    return bool(context.tokens.seen(lease)) and not context.is_anothers(lease)


def _is_of_the_run(lease: str) -> bool:
    return lease == os.environ.get("LEASEHOLD_LEASE")


def _ask_once(context: Context, *, reentrant: bool) -> Acquired:
    values = context.values
    return context.locks.acquire(
        values["resources"],
        token=context.proofs(values["resources"]),
        request_id=values["request_id"],
        reentrant=reentrant,
        intent=True,
        trace=trace(),
        **asked_for(context),
    )


def _told(context: Context, outcome: Acquired) -> int:
    if not isinstance(outcome, Granted):
        return context.end(outcome, "")
    context.caution()
    again = "Extended" if context.values["reentrant"] else "Acquired before, with this request id:"
    return keep_and_tell(context, outcome, "Acquired" if outcome.fresh else again)


def keep_and_tell(context: Context, outcome: Granted, headline: str) -> int:
    """Save the token, in the private state or in --token-file, and print what was acquired."""
    lease = outcome.lease
    try:
        is_said = _keep(context, outcome)
    except LeaseholdError:
        # Without its token, a new lease could never be released. A lease held before still has its older token.
        if outcome.fresh:
            context.locks.release(lease.id, outcome.token, status="cancelled")
        raise
    wanted = context.values.get("print")
    text = told(context, lease, headline) if wanted is None else _only(lease, wanted)
    if is_said:
        context.out.warn(text)
        return output.DONE
    return context.end(outcome, text)


def _keep(context: Context, outcome: Granted) -> bool:
    """Save the token. Return True if it was printed on standard output."""
    where = context.values.get("token_file")
    if where is None and not outcome.fresh and _is_of_the_run(outcome.lease.id):
        return False  # the run alone releases it
    if where is None:
        context.tokens.remember(outcome.lease.resources, outcome.lease.id, outcome.token)
    elif where != "-":
        write_secret(where, outcome.token, "token_file")
    elif not context.out.json:  # the JSON object has the token in it
        _print_token(outcome.token)
        return True
    return False


def _print_token(token: str) -> None:
    try:
        is_read = sys.stdout is not None and write(sys.stdout, token + "\n")
    except OSError as error:
        forget(sys.stdout)
        raise InvalidInput("token_file", f"standard output cannot be written: {error.strerror}") from None
    if not is_read:
        raise InvalidInput("token_file", "nobody reads standard output, so the token would be lost")


def _only(lease: Lease, wanted: str) -> str:
    """Return what --print asks for."""
    told = {"value": lease.value or " ".join(lease.resources), "fence": str(lease.fence), "lease": lease.id}
    return shown(told[wanted])


def _check_token_file(path: str | None) -> None:
    """Refuse a --token-file that cannot be written, before a lease is acquired for nothing."""
    if path is None or path == "-":
        return
    place = os.path.realpath(path)  # a link may lead to a file that does not exist yet
    if not os.access(place if os.path.exists(place) else os.path.dirname(place), os.W_OK) or os.path.isdir(place):  # noqa: PTH110, PTH112, PTH120
        raise InvalidInput("token_file", f"{shown(path)} cannot be written")


def write_secret(path: str, secret: str, field: str) -> None:
    """Write a secret into a file that only its owner can read, and never through another user's link."""
    link = strange_link(os.path.abspath(path))  # noqa: PTH100
    if link:
        raise InvalidInput(field, f"{shown(link)} is a link that another user made or may replace: name another file")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            if os.path.isfile(path):  # noqa: PTH113
                os.fchmod(descriptor, 0o600)
                os.ftruncate(descriptor, 0)
            file.write(secret + "\n")
    except (OSError, ValueError) as error:
        raise InvalidInput(field, f"{shown(path)} cannot be written: {error}") from None


def told(context: Context, lease: Lease, headline: str) -> str:
    """Describe a lease that the caller holds, in a few lines."""
    out = context.out
    return "\n".join(
        (
            f"{out.paint(headline, 'green')} {shown(' '.join(lease.resources))}",
            f"  holder  {shown(lease.holder)}",
            f"  until   {clock(lease.expires_us, lease.as_of_us)}",
            f"  fence   {lease.fence}",
            f"  lease   {lease.id}",
            *(
                ()
                if _is_of_the_run(lease.id)
                else (out.paint(f"Release it with:\n  {_how_back(context, lease)}", "dim"),)
            ),
        )
    )


def _how_back(context: Context, lease: Lease) -> str:
    where = context.values.get("token_file")
    if where is None:
        return context.suggest("release", *lease.resources)
    return context.suggest("release", *lease.resources, more=f" --token-file {'FILE' if where == '-' else where}")
