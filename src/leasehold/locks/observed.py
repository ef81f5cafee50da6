"""Over git: since when this observer has watched what is in the way.

It decides nothing; see docs/explanation/git-clocks.md.
"""

from __future__ import annotations

from leasehold.domain.leases import as_held
from leasehold.locks import queries as reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.leases import Blocker
    from leasehold.domain.outcomes import Held, TimedOut
    from leasehold.stores.protocol import ObservingStore


def with_watch(outcome: Held | TimedOut, store: ObservingStore) -> Held | TimedOut:
    """Return the refusal with what the store knows of each live lease that is in the way."""
    return outcome._replace(
        blockers=tuple(_watched(each, store) if each.state == "held" else each for each in outcome.blockers)
    )


def _watched(it: Blocker, store: ObservingStore) -> Blocker:
    seen = store.watched(it.lease)
    return it if seen is None else it._replace(watched_us=seen.since, recorded_us=seen.recorded_until)


def left_behind(store: ObservingStore) -> tuple[Blocker, ...]:
    """Return the leases that have expired by their writer's clock, and not yet as this observer counts."""
    kept = (_watched(as_held(lease), store) for lease in reading.leases(store, None, None, None))
    return tuple(each for each in kept if each.recorded_us is not None and each.recorded_us <= each.as_of_us)
