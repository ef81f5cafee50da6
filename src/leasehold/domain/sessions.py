"""Sessions, and the outcomes of commands about them."""

from __future__ import annotations

from leasehold.domain.nouns import Noun, OutcomeNoun, Success
from leasehold.domain.timestamps import moment, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from leasehold.domain.leases import Lease


class Session(Noun):
    """The life of one agent run."""

    id: str
    space: str
    session: str
    holder: str
    secret: str
    """Hash of the secret."""
    name: str | None
    ttl_us: int
    started_us: int
    expires_us: int
    principal: str | None = None
    """The principal that began it (`keys.principal`)."""
    key: str | None = None
    """The id of the key that it was begun with."""

    @property
    def ttl(self) -> timedelta:
        """Its life unless a heartbeat renews it."""
        return span(self.ttl_us)

    @property
    def started_at(self) -> datetime:
        """When it began."""
        return moment(self.started_us)

    @property
    def expires_at(self) -> datetime:
        """When it ends unless its heartbeat comes."""
        return moment(self.expires_us)


class SessionStarted(Success):
    """A session lives until `session.expires_at` unless its heartbeat comes."""

    session: Session
    secret: str


class SessionRenewed(Success):
    """The session and all of its leases have a full TTL again."""

    session: Session
    leases: tuple[Lease, ...]


class SessionEnded(OutcomeNoun):
    """All that the session held is released; False when it had ended before."""

    session: str
    ended: bool
    released: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.ended
