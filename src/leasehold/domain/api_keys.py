"""API keys, and the outcomes of commands about them."""

from __future__ import annotations

from leasehold.domain.nouns import Noun, OutcomeNoun, Success
from leasehold.domain.timestamps import FOREVER, moment, moment_or_never

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime


class Key(Noun):
    """A key for a server: a role, in a space, for names that begin with one of the prefixes."""

    id: str
    role: str
    """`admin`, `agent` or `viewer`."""
    space: str
    name: str
    """Its owner; events of an admin have this name."""
    prefixes: tuple[str, ...]
    """None: every name of the space."""
    secret: str
    """Hash of the secret."""
    created_us: int
    principal: str = ""
    """The id of the first key of its principal: a principal keeps its leases while its keys rotate."""
    until_us: int = FOREVER
    """When it stops working; rotation sets this."""

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return moment(self.created_us)

    @property
    def until(self) -> datetime | None:
        """When it stops working; None: when it is revoked."""
        return moment_or_never(self.until_us)


class KeyCreated(Success):
    """A key works from now on. Its owner passes `credential`, which only this answer has."""

    key: Key
    credential: str


class Whoami(Noun):
    """The caller, as the store or its server knows it, and what it may do there."""

    name: str
    role: str
    """`admin`, `agent`, `viewer` or `session`."""
    space: str | None
    """The only space that its key is for; None: every space."""
    prefixes: tuple[str, ...] = ()
    """Each name must begin with one of these; if there are none, any name is allowed."""
    principal: str | None = None
    """None on a store or server without keys."""
    key: str | None = None
    session: str | None = None
    """The id of the session that asks."""


class KeyRotated(Success):
    """The principal has another key from now on; the one before it counts until `before.until`."""

    key: Key
    credential: str
    before: Key


class KeyRevoked(OutcomeNoun):
    """The key does not work any more; False when there was none of this id."""

    key: str
    revoked: bool

    def __bool__(self) -> bool:
        return self.revoked
