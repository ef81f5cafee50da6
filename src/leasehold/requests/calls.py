"""One call of a verb, as it was made: the verb's name and its arguments. It does nothing.

This is what `Locks` hands on. For an engine it becomes a command (``orders``); a client of a server sends it.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any, Protocol

    from leasehold.domain.leases import Lease
    from leasehold.errors import InvalidInput

    class Answers(Protocol):
        """Answers calls: an engine, or a client of a server."""

        def ask(self, call: Call) -> Any:  # noqa: ANN401 (an outcome: each verb knows which)
            """Return the answer to this call."""

        def losses(self) -> LossSource:
            """Return what reports held leases that may be lost."""

        def close(self) -> None:
            """Answer all waiting calls, and close the store."""

    class LossSource(Protocol):
        """Reports held leases that may be lost; for one thread."""

        def look(self, leases: Mapping[str, Lease], seconds: float) -> Collection[str]:
            """Wait for at most so long; return the ids of leases that may be lost, or of sessions that may be over.

            Raises `OSError` or `LeaseholdError` while that is unknown, and `Closed` if it stays so.
            """

        def close(self) -> None:
            """Close its connection, if it has one."""


class Authority(Noun):
    """The principal that calls a server, and what its key is for."""

    principal: str
    """As `keys.principal` spells it."""
    key: str
    """The id of the key."""
    space: str | None = None
    """The only space that the key is for; None: every space."""
    prefixes: tuple[str, ...] = ()
    """Prefixes of the names that the key is for; none: every name."""


class Call(Noun):
    """A verb and its arguments."""

    verb: str
    arguments: Mapping[str, Any]
    authority: Authority | None = None
    """The calling principal, where a server knows it."""


def refusal(error: InvalidInput) -> Refused:
    """Return the refusal of a surface for a wrong argument that its user gave."""
    return Refused("invalid", error.field, error.message)


class Terms(Noun):
    """The checked terms of an acquire: all but its resources, and often the same for many requests of a holder."""

    space: str
    holder: str
    actor: str
    """The key of a holder without a session."""
    mode: str
    slots: int
    any_of: bool
    ttl: int
    name: str | None
    reason: str | None
    grace: int
    quarantine: bool
    wait: int
    priority: int
    reentrant: bool
    intent: bool
    first: bool


class Settings(Noun):
    """What an installation may configure about valid arguments."""

    hierarchical: frozenset[str] = frozenset()
    """Schemes and namespaces, besides `path:`, in which a name also covers what is below it."""
    ttl_most: int = 24 * 3600 * SECOND
