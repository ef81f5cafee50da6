"""The life of every lease: granted once, renewed while it lives, ended once, and alone wherever it must be. Pure.

A lease holds from its `granted` until its end, or until the expiry that was reported last, whichever comes first.
After an unclean end (expired, forced) its resources stay closed for its grace, or until they are cleared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasehold.domain.timestamps import FOREVER
from leasehold.testing.invariants.places import Index
from leasehold.testing.invariants.wants import SLOTS, Malformed, Want, number, who

if TYPE_CHECKING:
    from leasehold.domain.events import Event
    from leasehold.testing.invariants.wants import Report

CLEAN = frozenset({"released", "cancelled"})
UNCLEAN = frozenset({"expired", "forced"})
AFTER_EXPIRY = frozenset({"expired", "cancelled"})
"""These tell that time ran out; everything else needs a lease that lives."""


@dataclass(slots=True, eq=False)
class Span(Want):
    """One lease, from its grant to the moment when others can have its resources."""

    expires_at: int = field(init=False)
    closing: int = field(init=False)
    """For how long the resources stay closed after an unclean end; FOREVER is a quarantine."""
    end: Event | None = None
    opens_at: int = field(init=False)
    """From when others can have the resources, as things stand."""

    def __post_init__(self) -> None:
        Want.__post_init__(self)
        self.closing = FOREVER if self.event.detail.get("quarantine") else number(self.event, "grace", 0)
        self.lives_until(number(self.event, "expires_at"))

    def lives_until(self, expires_at: int) -> None:
        """Set the moment at which the lease ends uncleanly, if nothing else happens."""
        self.expires_at = expires_at
        self.opens_at = min(FOREVER, expires_at + self.closing)


class Holds:
    """Every lease so far. `see` must be shown the events in order."""

    def __init__(self, report: Report, hierarchical: frozenset[str], *, whole: bool) -> None:
        self._report = report
        self._hierarchical = hierarchical
        self._whole = whole
        self._spans: dict[str, Span] = {}
        self._index: Index[Span] = Index(hierarchical)
        self._of_session: dict[tuple[str, str | None], dict[str, Span]] = defaultdict(dict)

    def see(self, event: Event) -> None:
        """Judge one event, then take note of it."""
        if event.kind == "granted":
            self._granted(event)
        elif event.kind == "session_ended":
            for span in self._of_session.pop((event.space, event.session), {}).values():
                self._report("residue", f"a session left a lease behind: {who(span.event)}", span.event, event)
        elif event.lease is not None:
            self._changed(event, event.lease)
        elif event.kind == "renewed":
            self._heartbeat(event)

    def finish(self) -> None:
        """Report every lease whose end no event reports."""
        for span in self._spans.values():
            if span.end is None:
                self._report("residue", f"a lease is left over: {who(span.event)}", span.event)

    # ------------------------------------------------------------------------------------------ granted

    def _granted(self, event: Event) -> None:
        if event.lease is None:
            raise Malformed(f"event {event.seq} (granted) does not tell its lease")
        known = self._spans.get(event.lease)
        if known is not None:
            self._report("life", f"{event.lease} was granted twice, to {who(event)}", known.event, event)
            return
        span = Span(event, (0, len(self._spans)), self._hierarchical)
        if span.expires_at > event.at_us + number(event, "ttl"):
            self._report("life", f"granted for longer than its TTL: {who(event)}", event)
        self._judge(span)
        self._spans[event.lease] = span
        self._index.add(event.space, span.names, span)
        if event.session is not None:
            self._of_session[event.space, event.session][event.lease] = span

    def _judge(self, new: Span) -> None:
        for old in self._present(new):
            if old.expires_at <= new.event.at_us:
                kind = "quarantine" if old.opens_at == FOREVER else "grace"
                message = f"{who(new.event)} was granted what is closed until {old.opens_at} after {who(old.event)}"
                self._report(kind, message, old.event, *([old.end] if old.end else []), new.event)
            elif new.clashes(old):
                message = f"{who(new.event)} was granted what {who(old.event)} held until {old.expires_at}"
                self._report("overlap", message, old.event, new.event)
        for where, taken in self.takers(new).items():
            if taken >= new.slots:
                message = f"{who(new.event)} is one more than the {new.slots} slots of {where}"
                self._report("overlap", message, new.event)

    def _present(self, new: Span) -> list[Span]:
        """Return the leases that hold, or keep closed, what meets the names of the new one; drop those that ended."""
        event, present = new.event, []
        for span in self._index.near(event.space, new.names):
            if span.opens_at > event.at_us:
                present.append(span)
            else:
                self._index.remove(event.space, span.names, span)
        return present

    def takers(self, new: Want) -> dict[str, int]:
        """Return the number of taken slots at each place where this want needs one."""
        if new.mode != SLOTS:
            return {}
        event = new.event
        return {
            where: sum(
                new.shares(span) and span.expires_at > event.at_us for span in self._index.at(event.space, where)
            )
            for where in self._index.places_of(new.names)
        }

    # ------------------------------------------------------------------------------------ what comes later

    def _changed(self, event: Event, lease: str) -> None:
        span = self._spans.get(lease)
        if span is None:
            if self._whole:
                self._report("life", f"{event.kind}, but never granted: {who(event)}", event)
        elif event.kind in ("quarantined", "cleared"):
            self._closed_or_opened(event, span)
        elif event.kind == "lost":
            if span.end is None:
                self._report("life", f"a loss was reported that never was: {who(event)}", span.event, event)
        elif self._is_in_order(event, span):
            self._apply(event, span)

    def _is_in_order(self, event: Event, span: Span) -> bool:
        wrong = None
        if span.end is not None:
            wrong = f"after it had been {span.end.kind}"
        elif event.kind in AFTER_EXPIRY and event.at_us < span.expires_at:
            wrong = f"before it ran out at {span.expires_at}"
        elif event.kind == "expired" and number(event, "expired_at") != span.expires_at:
            wrong = f"as of another time than {span.expires_at}"
        elif event.kind not in AFTER_EXPIRY and event.at_us >= span.expires_at:
            wrong = f"after it had run out at {span.expires_at}"
        elif (event.fence, event.space, event.resources) != (span.event.fence, span.event.space, span.event.resources):
            wrong = "with another fence or other resources than it was granted with"
        if wrong is not None:
            message = f"a lease was {event.kind} {wrong}: {who(span.event)}"
            self._report("life", message, span.event, *([span.end] if span.end else []), event)
        return wrong is None

    def _apply(self, event: Event, span: Span) -> None:
        if event.kind in ("renewed", "extended"):
            span.lives_until(number(event, "expires_at"))
        elif event.kind in CLEAN:
            self._end(event, span, closing=0)
        elif event.kind in UNCLEAN:
            self._end(event, span, closing=0 if event.detail.get("stolen") else span.closing)

    def _end(self, event: Event, span: Span, closing: int) -> None:
        span.closing = closing
        span.lives_until(min(event.at_us, span.expires_at))
        span.end = event
        if event.session is not None:
            self._of_session[event.space, event.session].pop(event.lease or "", None)

    def _closed_or_opened(self, event: Event, span: Span) -> None:
        if span.end is None or span.end.kind not in UNCLEAN or span.opens_at <= event.at_us:
            self._report("life", f"{event.kind}, but nothing had closed it: {who(span.event)}", span.event, event)
        else:
            span.opens_at = event.at_us if event.kind == "cleared" else FOREVER

    def _heartbeat(self, event: Event) -> None:
        """Apply the one event that renews all leases of a session."""
        leases = event.detail.get("leases")
        if not isinstance(leases, Mapping):
            raise Malformed(f"event {event.seq} (renewed) tells neither its lease nor the leases of its session")
        for lease, expires_at in leases.items():
            granted = self._spans[lease].event if lease in self._spans else event
            told = event._replace(fence=granted.fence, resources=granted.resources, detail={"expires_at": expires_at})
            self._changed(told, lease)
