"""Events: the history of a store."""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class Event(Noun):
    """One change, for history and for those who watch."""

    kind: str
    """granted queued renewed updated released expired forced refused deadlock cancelled lost timeout
    quarantined cleared trespass extended noted planned plan_ended session_started
    session_ended key_created key_revoked"""
    at_us: int
    space: str
    resources: tuple[str, ...]
    holder: str
    session: str | None
    lease: str | None
    fence: int
    detail: Mapping[str, object]
    """JSON values that belong to this kind of event."""
    seq: int = 0
    """Given by the store."""

    @property
    def at(self) -> datetime:
        """When it happened, by the store's clock."""
        return moment(self.at_us)


LOSS_KINDS = frozenset({"forced", "session_ended"})
"""Kinds of events by which a lease may end without its holder having asked for that, before it expires."""
