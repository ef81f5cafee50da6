"""From what Python code may write as an argument to what a call carries: seconds, ids and tokens.

It converts; what is out of bounds is for ``checks`` to say. It is imported when it is used, since most calls need none
of it.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from leasehold.domain.leases import Lease
from leasehold.domain.nouns import OutcomeNoun
from leasehold.domain.outcomes import Granted, Planned
from leasehold.domain.plans import Plan
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.locks.holding.held import HeldLease
from leasehold.locks.sync import OF_A_LEASE, SPANS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Required, TypeAlias, TypedDict

    Names: TypeAlias = str | Sequence[str]
    Duration: TypeAlias = float | str | timedelta | datetime
    """Seconds, text such as `"5m"`, a `timedelta`, or a `datetime`: until then."""
    Wait: TypeAlias = Duration | bool
    """True waits for ever."""
    Leased: TypeAlias = str | Granted | HeldLease | Lease | Planned | Plan
    """A lease's id, or what has it: `Granted`, `HeldLease` and `Planned` bring the token along."""

    class Defaults(TypedDict, total=False):
        """The arguments that a caller sets once, for all calls (`CallDefaults`)."""

        holder: Required[str]
        space: str
        ttl: float | str
        host: str | None


WAIT_AT_ONCE = 24 * 3600
"""Seconds: the longest wait of one request. `wait=True` asks again after it."""


def convert(verb: str, given: dict[str, Any]) -> None:
    """Replace durations by seconds, times by microseconds since 1970, and a lease by its id and token."""
    if given.get("wait") is True and given.get("request_id") is not None:
        # A request is remembered for a day, so one that waits for ever cannot be repeated safely.
        raise InvalidInput("wait", "True and a request_id do not go together: give a wait of at most 24h")
    for field in SPANS:
        if field in given:
            given[field] = moment(given[field], field) if field == "since" else duration(given[field], field)
    if verb in OF_A_LEASE:
        _prove(given)


def duration(value: object, field: str) -> object:
    """Return seconds for a `timedelta`, for a `datetime` (until then), and for a `wait` of True or False."""
    if isinstance(value, timedelta):
        return _seconds(value)
    if isinstance(value, datetime):
        left = _seconds(timedelta(seconds=_posix(value, field) - time.time()))
        if left <= 0 and field != "wait":
            raise InvalidInput(field, f"{value.isoformat()} is over: give a later time, or a duration such as 30s")
        return max(0, left)
    if field == "wait" and isinstance(value, bool):
        return WAIT_AT_ONCE if value else 0
    return value


def moment(value: object, field: str) -> object:
    """Return whole microseconds since 1970 for a `datetime`."""
    return round(_posix(value, field) * SECOND) if isinstance(value, datetime) else value


def _prove(given: dict[str, Any]) -> None:
    """Replace a lease among these arguments by its id, and add its token where no other proof is given."""
    lease = given["lease"]
    if isinstance(lease, str):
        return
    if isinstance(lease, Granted | HeldLease | Planned):
        if given["token"] is None and given["session"] is None and given["admin"] is None:
            given["token"] = lease.token
        lease = lease.plan if isinstance(lease, Planned) else lease.lease
    if not isinstance(lease, Lease | Plan):
        hint = ": test it first, as in `if granted:`" if isinstance(lease, OutcomeNoun) else ""
        name = "nothing" if lease is None else type(lease).__name__
        raise InvalidInput("lease", f"must be what `acquire` granted, or a lease's id, not {name}{hint}")
    given["lease"] = lease.id


def _seconds(span: timedelta) -> float:
    return span.total_seconds() if span.microseconds else span.days * 86_400 + span.seconds


def _posix(value: datetime, field: str) -> float:
    if value.tzinfo is None:
        raise InvalidInput(field, f"{value.isoformat()} has no time zone: write datetime.now(UTC) + …, for example")
    return value.timestamp()
