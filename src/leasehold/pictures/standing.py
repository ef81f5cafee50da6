"""How a wait for several resources stands, as if they were one. Pure: it is given what was seen of each."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.domain.leases import Inspection, Waiting

    Place = Callable[[Sequence[Waiting]], int]
    """Where in a queue whoever asks stands; 0 if it is not in there."""


def together(seen: Sequence[Inspection], place: Place, *, any_of: bool) -> Inspection:
    """Everybody who is in the way of any of them, and the queue that decides.

    Who wants all of them is served when the longest way is over; who wants any, with the shortest.
    """
    if len(seen) == 1:
        return seen[0]
    leases = {lease.id: lease for each in seen for lease in each.leases}
    closed = {(it.lease, it.resource): it for each in seen for it in each.closed}
    return seen[0]._replace(
        now_us=max(each.now_us for each in seen),
        leases=tuple(leases.values()),
        waiting=_deciding([each.waiting for each in seen], place, any_of=any_of),
        closed=tuple(closed.values()),
    )


def _deciding(queues: list[tuple[Waiting, ...]], place: Place, *, any_of: bool) -> tuple[Waiting, ...]:
    joined = [queue for queue in queues if place(queue)] or queues
    return min(joined, key=place) if any_of else max(joined, key=place)
