"""session start, heartbeat, end, list."""

from __future__ import annotations

from leasehold.cli.commands.acquire import write_secret
from leasehold.cli.context import accepted
from leasehold.cli.output import clock, moment
from leasehold.cli.terminal.columns import counted, table, width_of_terminal
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.domain.sessions import SessionEnded, SessionRenewed, SessionStarted
from leasehold.errors import InvalidInput
from leasehold.requests import checks
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def start(context: Context) -> int:
    """Start a session and print a line to paste, or JSON."""
    where = context.values["session_file"]
    outcome = context.locks.start_session(ttl=context.ttl, name=context.values["name"])
    if not isinstance(outcome, SessionStarted):
        return context.end(outcome, "")
    if where is None:
        return context.end(outcome, f"export LEASEHOLD_SESSION={outcome.secret}")
    try:
        write_secret(where, outcome.secret, "session_file")
    except InvalidInput:
        context.locks.end_session(outcome.secret)
        raise
    return context.end(outcome, f"Session {shown(outcome.session.session)} until {moment(outcome.session.expires_us)}")


def _credential(context: Context) -> str:
    if context.session is None:
        raise InvalidInput(
            "session",
            "is missing: export LEASEHOLD_SESSION=ID.SECRET, or give the file that has it with --session-file",
        )
    return context.session


def heartbeat(context: Context) -> int:
    """Reset the TTL of the session and its leases."""
    outcome = context.locks.renew_session(_credential(context))
    text = ""
    if isinstance(outcome, SessionRenewed):
        until = clock(outcome.session.expires_us, outcome.session.expires_us - outcome.session.ttl_us)
        leases = counted(len(outcome.leases), "lease")
        text = f"Session {shown(outcome.session.session)} lives until {until}, with {leases}"
    return context.end(outcome, text)


def end(context: Context) -> int:
    """End a session: the caller's own by its secret, another's as an admin, which releases what that holds by force."""
    if context.values["by"] is not None:
        from leasehold.cli.commands.admin import refuse_agents  # noqa: PLC0415 (only for people)

        refuse_agents(context, "force-release", "to end another's session")
    elif context.is_of_run:
        why = "the session is that of the `leasehold run` that this command is part of, which ends it"
        return context.end(Refused("not_allowed", "", why), "")
    outcome = context.locks.end_session(_ending(context), admin=context.values["by"])
    text = ""
    if isinstance(outcome, SessionEnded):
        released = ", ".join(map(shown, outcome.released)) or "nothing was held"
        text = f"Session ended; released: {released}" if outcome.ended else "That session had ended before."
    return context.end(outcome, text)


def _ending(context: Context) -> str:
    given, by = context.values["id"], context.values["by"]
    if given is not None and "." in given:
        raise InvalidInput("id", "is not ID.SECRET: a secret does not belong on the command line, see --session-file")
    if by is not None and given is None:
        raise InvalidInput("id", "is missing: name the session that is to end")
    if given is None or by is not None:
        return given or _credential(context)
    own = context.session
    if own is None or checks.session_id(own) != given:
        raise InvalidInput("id", f"{shown(given)} is not your session, and to end another's is for people")
    return own


def list_sessions(context: Context) -> int:
    """Print every live session."""
    found = accepted(context.locks.sessions(space=context.space))
    rows: list[tuple[str, ...]] = [
        (each.session, each.holder, moment(each.expires_us), each.name or "") for each in found
    ]
    heads = ("SESSION", "HOLDER", "UNTIL", "WORK")
    text = table(rows, heads, width_of_terminal()) if rows else "No live sessions."
    return context.end(found, text, {"sessions": wire.encoded("ListedSession[]", found)})
