"""Trespasses on what an agent holds: reported with its next answer, each once. The history of the store has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.mcp.callers import ask

if TYPE_CHECKING:
    from leasehold.domain.events import Event
    from leasehold.mcp.callers import Party

AGENTS_MOST = 10_000
"""Agents that are remembered, at most; one that was forgotten learns of later trespasses only."""
TOLD_MOST = 10
"""Trespasses that one answer reports, at most."""


class TrespassReports:
    """Remembers which trespasses each agent knows of."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, int]] = {}
        """The time and the number of the last event, by party and agent."""

    async def news(self, party: Party, given: str | None) -> list[str]:
        """Return the trespasses on this agent's leases since its last answer; none before its first."""
        agent = party.agent(given)
        known = self._known.pop((party.id, agent), None)
        asked = {"space": None, "resource": None, "holder": agent, "lease": None, "kinds": ("trespass",)}
        since = None if known is None else known[0]
        found = await ask(party, "history", {**asked, "since": since, "before": None, "limit": TOLD_MOST})
        events: tuple[Event, ...] = () if isinstance(found, Refused) else tuple(found)
        self._known[party.id, agent] = max(map(_place, events), default=known or (0, 0))
        if len(self._known) > AGENTS_MOST:
            self._known.pop(next(iter(self._known)))
        return [_told(each) for each in reversed(events) if known is not None and _place(each) > known]


def _place(event: Event) -> tuple[int, int]:
    return event.at_us, event.seq


def _told(event: Event) -> str:
    paths = event.detail.get("paths")
    names = ", ".join(map(str, paths)) if isinstance(paths, list | tuple) else " + ".join(event.resources)
    return shown(f"CHANGED: {event.detail.get('by')} changed {names}, which you hold: read it anew.")
