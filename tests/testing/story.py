"""Histories written by hand, a line an event: what the checker is tested with."""

from __future__ import annotations

from leasehold.domain.events import Event
from leasehold.testing.checker import check


def waiter(who: str) -> str:
    """The id of somebody's place in the queue."""
    return f"waiter {who}"


class Story:
    """A history in the making: every event gets its place, every grant its fence, unless told otherwise."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.fence = 0

    def tell(self, kind: str, at: int, who: str, resources: tuple[str, ...], **more: object) -> Event:
        given = {key: more.pop(key, None) for key in ("session", "lease", "fence")}
        event = Event(kind, at, "default", resources, who, None, None, 0, more, seq=len(self.events) + 1)
        event = event._replace(**{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]
        self.events.append(event)
        return event

    def grant(
        self, at: int, who: str, *resources: str, ttl: int = 100, fence: int | None = None, **more: object
    ) -> Event:
        self.fence = self.fence + 1 if fence is None else fence
        terms = {"mode": "X", "slots": 1, "ttl": ttl, "expires_at": at + ttl, "lease": f"lease of {who}", **more}
        return self.tell("granted", at, who, resources, fence=self.fence, **terms)

    def queue(self, at: int, who: str, *resources: str, wait: int = 100, priority: int = 0, **more: object) -> Event:
        terms = {"mode": "X", "slots": 1, "any_of": False, "engine": f"engine of {who}", **more}
        return self.tell(
            "queued", at, who, resources, waiter=waiter(who), deadline=at + wait, priority=priority, **terms
        )

    def then(self, kind: str, at: int, granted: Event, **more: object) -> Event:
        about = {"lease": granted.lease, "fence": granted.fence, "session": granted.session, **more}
        return self.tell(kind, at, granted.holder, granted.resources, **about)

    def leave(self, kind: str, at: int, queued: Event) -> Event:
        return self.tell(
            kind, at, queued.holder, queued.resources, waiter=queued.detail["waiter"], session=queued.session
        )

    def kinds(self, *, finished: bool = False, dead_engines: dict[str, int] | None = None) -> set[str]:
        return {violation.kind for violation in check(self.events, finished=finished, dead_engines=dead_engines)}
