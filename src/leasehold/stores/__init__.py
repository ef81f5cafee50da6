"""The capabilities that a store declares, and a query of its history. ``protocol`` is the contract of a store."""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

    from leasehold.domain.events import Event
    from leasehold.stores.protocol import ObservingStore, Store


def observes(store: Store) -> TypeGuard[ObservingStore]:
    """Return True if the store counts leases from when it first saw them."""
    return store.capabilities.observes


SERVERS = "leasehold-servers"
"""The space, in the control lane, of the leases by which servers share the lanes; shown only to those who name it."""


class Capabilities(Noun):
    """Declares the promises of a store. The table in docs/reference/stores.md is generated from it."""

    name: str
    """Its name in documentation and messages."""
    durable: str
    """The failures that an acknowledged grant survives, in words."""
    fifo: bool
    """True if waiters are served strictly in order of arrival."""
    history: bool
    """True if it keeps events."""
    wakeup: str
    """How a waiter in another process learns of its grant, in words."""
    receipts: bool
    """True if the outcome of a commit can stay unknown: then the engine leaves a receipt in each commit."""
    poll: int
    """Microseconds between two checks of `hint` while a caller waits."""
    beat: int = 500_000
    """Microseconds between two heartbeats of an engine. Its waiters count as alive three times as long."""
    remote: bool = False
    """True for a `NetworkStore`: records are loaded together, and a server leaves it to a thread where it may wait."""
    batch: int = 1_024
    """The most commands in one transaction. Other processes wait while it lasts."""
    observes: bool = False
    """True for an `ObservingStore`."""


class Watched(Noun):
    """Since when an observer has watched a lease, on the observer's clock."""

    since: int
    recorded_until: int | None
    """When the lease expires by its writer's wall clock; None if the observer trusts wall clocks."""


class HistoryQuery(Noun):
    """A question about past events."""

    space: str | None = None
    resource: str | None = None
    holder: str | None = None
    lease: str | None = None
    kinds: tuple[str, ...] = ()
    since: int | None = None
    """Only events from this time of the store's clock on."""
    before: int | None = None
    """Only events with a smaller `seq`: for the next page."""
    limit: int = 100

    def wants(self, event: Event) -> bool:
        """Return True if the event matches, for stores that search their events in Python."""
        return (
            (event.space == self.space if self.space is not None else event.space != SERVERS)
            and (self.resource is None or self.resource in event.resources)
            and (self.holder is None or event.holder == self.holder)
            and (self.lease is None or event.lease == self.lease)
            and (not self.kinds or event.kind in self.kinds)
            and (self.since is None or event.at_us >= self.since)
            and (self.before is None or event.seq < self.before)
        )
