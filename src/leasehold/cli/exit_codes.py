"""From an outcome to an exit code: the one table of the command line; ``explaining`` has the words."""

from __future__ import annotations

from leasehold.domain import model as m

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.errors import LeaseholdError

DONE, FAILURE, USAGE, NOT_FOUND, HELD, TIMED_OUT, DEADLOCK, LOST, NOT_ALLOWED, UNREACHABLE = range(10)
INTERRUPTED = 130

MEANINGS = {
    DONE: "done",
    FAILURE: "failure",
    USAGE: "usage",
    NOT_FOUND: "not found",
    HELD: "held",
    TIMED_OUT: "wait timed out",
    DEADLOCK: "deadlock",
    LOST: "lost",
    NOT_ALLOWED: "not allowed",
    UNREACHABLE: "unreachable",
}

_BY_TYPE = {m.Held: HELD, m.TimedOut: TIMED_OUT, m.Deadlock: DEADLOCK, m.Lost: LOST}
_BY_CODE = {
    "invalid": USAGE,
    "not_found": NOT_FOUND,
    "not_allowed": NOT_ALLOWED,
    "unauthenticated": NOT_ALLOWED,
    "slots_mismatch": HELD,
    "session_over": LOST,
    # errors
    "unreachable": UNREACHABLE,
    "store": UNREACHABLE,
    "outcome_unknown": UNREACHABLE,
}


def exit_code(outcome: object) -> int:
    """How the process should end after this answer."""
    if isinstance(outcome, m.Refused):
        return _BY_CODE.get(outcome.code, FAILURE)
    return _BY_TYPE.get(type(outcome), DONE)


def exit_code_of_error(error: LeaseholdError) -> int:
    """How the process should end after this breakage."""
    return _BY_CODE.get(error.code, FAILURE)
