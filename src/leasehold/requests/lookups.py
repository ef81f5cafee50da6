"""The arguments of verbs that only read, checked. Pure."""

from __future__ import annotations

from leasehold.domain.timestamps import FOREVER
from leasehold.errors import InvalidInput
from leasehold.requests import checks, verbs
from leasehold.stores import HistoryQuery

KINDS_MOST = 64
EVENT_KINDS = (
    *("granted", "queued", "renewed", "updated", "released", "expired", "forced", "refused", "deadlock", "cancelled"),
    *("lost", "timeout", "quarantined", "cleared", "trespass", "extended", "noted", "planned", "plan_ended"),
    *("session_started", "session_ended", "key_created", "key_revoked"),
)


def history_query(asked: dict[str, object]) -> HistoryQuery:
    """Check the arguments of `history` and return them as a query."""
    space, resource, holder, lease = (asked[field] for field in ("space", "resource", "holder", "lease"))
    kinds = asked["kinds"]
    if not isinstance(kinds, list | tuple) or len(kinds) > KINDS_MOST:
        raise InvalidInput("kinds", f"must be a list of at most {KINDS_MOST} kinds of events, such as granted")
    return HistoryQuery(
        None if space is None else checks.space(space),
        None if resource is None else checks.resource(resource),
        None if holder is None else checks.text(holder, "holder", 256),
        None if lease is None else checks.lease_id(lease),
        tuple(map(_kind, kinds)),
        None if asked["since"] is None else checks.number(asked["since"], "since", 0, FOREVER),
        None if asked["before"] is None else checks.number(asked["before"], "before", 0, FOREVER),
        checks.number(asked["limit"], "limit", 1, verbs.EVENTS_MOST),
    )


def _kind(kind: object) -> str:
    known = checks.text(kind, "kinds", 64)
    if known not in EVENT_KINDS:
        raise InvalidInput("kinds", f"there is no kind of event {known!r}; there are {', '.join(EVENT_KINDS)}")
    return known
