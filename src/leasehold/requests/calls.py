"""One call of a verb: the verb's name and its arguments. It does nothing.

`Locks` passes it to an engine, for which ``to_command`` makes a command of it, or to a client, which sends it.
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
        """An engine, or a client of a server: it answers calls."""

        def ask(self, call: Call) -> Any:  # noqa: ANN401 (an outcome: each verb knows which)
            """Return the answer to this call."""

        def losses(self) -> LossSource:
            """Return a source of notices about lost leases."""

        def close(self) -> None:
            """Answer every waiting request and close the store."""

    class LossSource(Protocol):
        """A source of notices that held leases may be lost; for one thread."""

        def look(self, leases: Mapping[str, Lease], seconds: float) -> Collection[str]:
            """Wait for at most this long; return the ids of leases that may be lost, or of sessions that may be over.

            Raise `OSError` or `LeaseholdError` while that is unknown, and `Closed` once the source is closed.
            """

        def close(self) -> None:
            """Close its connection, if it has one."""


class Authority(Noun):
    """The principal that calls a server, and the scope of its key."""

    principal: str
    """As `keys.principal` spells it."""
    key: str
    """The id of the key."""
    space: str | None = None
    """The only space that the key is for; None: every space."""
    prefixes: tuple[str, ...] = ()
    """Each name must begin with one of these; if there are none, any name is allowed."""


class Call(Noun):
    """A verb and its arguments."""

    verb: str
    arguments: Mapping[str, Any]
    authority: Authority | None = None
    """The calling principal, if a server has authenticated it."""


def refusal(error: InvalidInput) -> Refused:
    """Return the answer to a wrong argument, for a surface whose arguments come from a user and not from code."""
    return Refused("invalid", error.field, error.message)


class Terms(Noun):
    """The checked arguments of an acquire, except for the resources. Many requests of one holder share them."""

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
    host: str | None


class Settings(Noun):
    """The limits that an installation can set."""

    hierarchical: frozenset[str] = frozenset()
    """Schemes and namespaces, besides `path:`, in which a name also covers all names below it."""
    ttl_most: int = 24 * 3600 * SECOND
    pools: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 (never changed)
    """The members of each declared pool, each with its labels after it."""
    user: str | None = None
    """The principal of a store that has no keys and is a file of this machine: the operating system's user."""
