"""Turn events into the lives of leases, from grant to end, as far as the history knows them."""

from __future__ import annotations

from leasehold.domain.entries import MODE_NAMES
from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasehold.domain.events import Event

ENDS = ("released", "expired", "forced", "cancelled")
KINDS = ("granted", "updated", *ENDS)
"""The kinds of events that make up a lease's life."""
OUTCOMES = ("held", "completed", "failed", "cancelled", "expired", "forced")


class LeaseRun(Noun):
    """The life of one lease."""

    lease: str
    space: str
    resources: tuple[str, ...]
    holder: str
    session: str | None
    fence: int
    mode: str | None
    name: str | None
    reason: str | None
    context: str | None
    """JSON text."""
    began: int
    ended: int | None
    """None: it is still held, as far as these events show."""
    waited: int
    """How long its request waited."""
    outcome: str
    """One of `OUTCOMES`."""
    error: str | None
    """The error of the work, or the admin who ended it and why."""


def runs_of(events: Iterable[Event]) -> list[LeaseRun]:
    """Return the lives of the leases in these events (newest first), the latest first."""
    found: dict[str, LeaseRun] = {}
    for event in reversed(list(events)):
        if event.lease is None or event.kind not in KINDS:
            continue
        known = found.get(event.lease)
        if event.kind == "granted":
            found[event.lease] = _begun(event)
        elif event.kind == "updated":
            if known is not None:
                found[event.lease] = known._replace(context=_text(event, "context"))
        else:
            found[event.lease] = _ended(event, known)
    return sorted(found.values(), key=lambda run: (run.began, run.fence), reverse=True)


def _text(event: Event, field: str) -> str | None:
    value = event.detail.get(field)
    return value if isinstance(value, str) else None


def _number(event: Event, field: str) -> int | None:
    value = event.detail.get(field)
    return value if isinstance(value, int) else None


def _begun(event: Event) -> LeaseRun:
    return LeaseRun(
        event.lease or "",
        event.space,
        event.resources,
        event.holder,
        event.session,
        event.fence,
        MODE_NAMES.get(_text(event, "mode") or ""),
        _text(event, "name"),
        _text(event, "reason"),
        _text(event, "context"),
        event.at_us,
        None,
        _number(event, "waited") or 0,
        "held",
        None,
    )


def _ended(event: Event, known: LeaseRun | None) -> LeaseRun:
    """Complete a life by its end, even without its grant, which may be older than the fetched events."""
    run = known if known is not None else _begun(event)
    began = _number(event, "acquired_at")
    ended = _number(event, "expired_at") if event.kind == "expired" else event.at_us
    outcome = (_text(event, "status") or "completed") if event.kind == "released" else event.kind
    return run._replace(
        began=run.began if began is None else began,
        ended=event.at_us if ended is None else ended,
        outcome=outcome if outcome in OUTCOMES else "completed",
        error=_why(event),
        context=_text(event, "context") or run.context,
    )


def _why(event: Event) -> str | None:
    if event.kind == "forced":
        how = "stolen" if event.detail.get("stolen") else "forced"
        return f"{how} by {event.detail.get('by')}: {event.detail.get('why')}"
    return _text(event, "error") or (_text(event, "reason") if event.kind == "cancelled" else None)
