"""Leases that were taken from agents over /mcp: each agent is told with its next answer."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted, Lost, Released
from leasehold.wire import shapes as wire
from leasehold.wire.sentences import told_lost

if TYPE_CHECKING:
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.server.api.losses import Losses

TOLD = ("release", "renew")
"""Verbs whose answer tells an agent that its own lease is over."""
FOLLOWED = 10_000
"""So many leases are followed; of more, those that were taken longest ago are not."""


class HandedLeases:
    """Follows the leases of all agents of this server by the events that end them: one listener for all."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._held: OrderedDict[str, tuple[str, Lease]] = OrderedDict()
        """The party and the lease, by its id."""
        self._news: dict[tuple[str, str], dict[str, str]] = {}
        """What each agent of a party has to be told, by the lease."""

    def note(self, party: str, verb: str, outcome: object) -> None:
        """Follow a lease that is handed out, and no longer one of which its agent is told that it is over."""
        if isinstance(outcome, Granted):
            if not self._held:
                self._losses.join(self)
            self._held[outcome.lease.id] = (party, outcome.lease)
            if len(self._held) > FOLLOWED:
                self._forget(next(iter(self._held)))
        elif verb in TOLD and isinstance(outcome, Released | Lost):
            self._forget(outcome.lease)
            for told in self._news.values():
                told.pop(outcome.lease, None)

    def _forget(self, lease: str) -> None:
        if self._held.pop(lease, None) is not None and not self._held:
            self._losses.leave(self)

    def news(self, party: str, agent: str) -> list[str]:
        """What this agent has lost since its last answer; each loss is told once."""
        return list(self._news.pop((party, agent), {}).values())

    def wants(self, event: Event) -> bool:
        """Note what the event took from whom. Nothing goes over a stream."""
        if event.lease is not None:
            gone = [event.lease] if event.lease in self._held else []
        else:
            gone = [id_ for id_, (_, lease) in self._held.items() if lease.session == event.session is not None]
        for id_ in gone:
            party, lease = self._held[id_]
            why = wire.why_forced(event) if event.lease is not None else "its session ended"
            self._news.setdefault((party, lease.holder), {})[id_] = told_lost(" + ".join(lease.resources), str(why))
            if len(self._news) > FOLLOWED:
                del self._news[next(iter(self._news))]
            self._forget(id_)
        return False

    def add(self, frame: bytes) -> None:
        """Nothing: see `wants`."""

    def wake(self) -> None:
        """Nothing: it ends with the server."""
