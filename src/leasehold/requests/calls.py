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
        """Whoever answers calls."""

        def ask(self, call: Call) -> Any:  # noqa: ANN401 (an outcome: each verb knows which)
            """The answer to this call."""

        def losses(self) -> LossSource:
            """Tells which held leases may be lost."""

        def close(self) -> None:
            """Answer everybody who still waits, and let go of the store."""

    class LossSource(Protocol):
        """Tells which held leases may be lost; for one thread."""

        def look(self, leases: Mapping[str, Lease], seconds: float) -> Collection[str]:
            """Wait for at most so long; the ids of leases that may be lost, or of sessions that may be over.

            Raises `OSError` or `LeaseholdError` while that cannot be told, and `Closed` if it never will be again.
            """

        def close(self) -> None:
            """Close its connection, if it has one."""


class Authority(Noun):
    """The principal that asks a server, and what its key is for."""

    principal: str
    """As `keys.principal` spells it."""
    key: str
    """The id of the key."""
    space: str | None = None
    """The only space that the key is for; None: every space."""
    prefixes: tuple[str, ...] = ()
    """What names must begin with; none: nothing."""


class Call(Noun):
    """A verb and its arguments."""

    verb: str
    arguments: Mapping[str, Any]
    authority: Authority | None = None
    """The principal that asks, where a server knows it."""


def refusal(error: InvalidInput) -> Refused:
    """The answer of a surface, where a wrong argument is not the fault of the code that calls a verb."""
    return Refused("invalid", error.field, error.message)


class Terms(Noun):
    """What an acquire says besides what it wants: checked, and the same for many requests of one holder."""

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
    """What an installation may decide about what is allowed."""

    hierarchical: frozenset[str] = frozenset()
    """Schemes and namespaces, besides `path:`, in which a name also covers what is below it."""
    ttl_most: int = 24 * 3600 * SECOND
