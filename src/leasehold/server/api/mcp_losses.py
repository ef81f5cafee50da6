"""Leases that agents lost over /mcp, which each agent learns with its next answer."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted, Lost, Released
from leasehold.wire import shapes as wire
from leasehold.wire.sentences import told_lost

if TYPE_CHECKING:
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.server.api.losses import LossStreams

ENDING = ("release", "renew")
"""Verbs whose answer tells an agent that its own lease is over."""
FOLLOWED_MOST = 10_000
"""Leases that are followed; of more, those that were acquired longest ago are not."""


class HandedLeases:
    """Follows the leases of all agents of this server by the events that end them."""

    def __init__(self, losses: LossStreams) -> None:
        self._losses = losses
        self._held: OrderedDict[str, tuple[str, Lease]] = OrderedDict()
        """The party and the lease, by its id."""
        self._news: dict[tuple[str, str], dict[str, str]] = {}
        """The losses that each agent of a party does not know of yet, by the lease."""

    def note(self, party: str, verb: str, outcome: object) -> None:
        """Follow a lease that is granted, until its agent learns from an outcome that it is over."""
        if isinstance(outcome, Granted):
            if not self._held:
                self._losses.join(self)
            self._held[outcome.lease.id] = (party, outcome.lease)
            if len(self._held) > FOLLOWED_MOST:
                self._forget(next(iter(self._held)))
        elif verb in ENDING and isinstance(outcome, Released | Lost):
            self._forget(outcome.lease)
            for losses in self._news.values():
                losses.pop(outcome.lease, None)

    def _forget(self, lease: str) -> None:
        if self._held.pop(lease, None) is not None and not self._held:
            self._losses.leave(self)

    def news(self, party: str, agent: str) -> list[str]:
        """Return what this agent has lost since its last answer. Each loss is reported once."""
        return list(self._news.pop((party, agent), {}).values())

    def notify(self, event: Event) -> None:
        """Note which leases an event ended."""
        if event.lease is not None:
            gone = [event.lease] if event.lease in self._held else []
        else:
            gone = [id_ for id_, (_, lease) in self._held.items() if lease.session == event.session is not None]
        for id_ in gone:
            party, lease = self._held[id_]
            why = wire.why_forced(event) if event.lease is not None else "its session ended"
            self._news.setdefault((party, lease.holder), {})[id_] = told_lost(" + ".join(lease.resources), str(why))
            if len(self._news) > FOLLOWED_MOST:
                del self._news[next(iter(self._news))]
            self._forget(id_)
