"""Check what clients saw: critical sections, measured by each process itself, judged together. Must do no I/O.

The history says what the service believes; this says what happened where it matters. All clients have to measure with
one clock that is the same in every process (`time.monotonic_ns()` on one machine): `start` after the lease was granted,
`end` before it is released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.events import Event
from leasehold.domain.nouns import Noun
from leasehold.requests.checks import MODES
from leasehold.testing.invariants.holds import Holds
from leasehold.testing.invariants.places import lineage
from leasehold.testing.invariants.wants import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


class Observation(Noun):
    """One client was inside the critical section of one (parsed) resource.

    A lease on several resources is several observations with the same client, fence, start and end.
    """

    client: str
    resource: str
    start: int
    end: int
    fence: int
    mode: str = "exclusive"
    """`exclusive`, `shared` or `slots`, as a `Lease` tells it."""
    slots: int = 1


def check_observations(observed: Iterable[Observation], *, hierarchical: Collection[str] = ()) -> list[Violation]:
    """Return every broken promise that the clients saw: kinds `overlap`, `fence` and `clock`.

    Incompatible sections must not overlap, and the later of them must have the larger fence. Sections that go together
    (shared ones, slots) may be entered in any order, so their fences must only differ.
    """
    found: list[Violation] = []

    def report(kind: str, message: str, *proof: Event) -> None:
        found.append(Violation(kind, message, proof))

    sections = sorted(observed, key=lambda each: (each.start, each.end, each.fence))
    found += [Violation("clock", f"ended before it began: {each}") for each in sections if each.end < each.start]
    holds = Holds(report, frozenset(hierarchical), whole=True)
    for number, (section, resources) in enumerate(_leases(sections).items(), 1):
        holds.see(_granted(section, tuple(resources), number))
    return found + _fences(sections, frozenset(hierarchical))


def _leases(sections: Iterable[Observation]) -> dict[Observation, list[str]]:
    """Join the sections of one lease into one, with all of its resources."""
    leases: dict[Observation, list[str]] = {}
    for section in sections:
        leases.setdefault(section._replace(resource=""), []).append(section.resource)
    return leases


def _granted(section: Observation, resources: tuple[str, ...], number: int) -> Event:
    """Return a section in the form of a lease that is held until its expiry."""
    detail = {
        "mode": MODES[section.mode],
        "slots": section.slots,
        "ttl": section.end - section.start,
        "expires_at": section.end,
    }
    lease = f"section {number}"
    return Event(
        "granted", section.start, "", resources, section.client, None, lease, section.fence, detail, seq=number
    )


def _fences(sections: Iterable[Observation], hierarchical: frozenset[str]) -> list[Violation]:
    """Report sections whose fence is not larger than that of an earlier one in conflict."""
    found = []
    seen: dict[tuple[str, int], Observation] = {}
    newest: dict[tuple[str, str], dict[tuple[str, int], Observation]] = {}
    for section in sections:
        chain = lineage(section.resource, hierarchical)
        rivals = [seen[chain[0], section.fence]] if (chain[0], section.fence) in seen else []
        lease = section._replace(resource="")
        rivals += [*_before(section, chain, newest)]
        rivals = [each for each in rivals if each._replace(resource="") != lease]
        if rivals:
            found.append(Violation("fence", f"the fence does not grow: {rivals[0]}, then {section}"))
        seen[chain[0], section.fence] = section
        for where in (("at", chain[0]), *(("below", place) for place in chain[1:])):
            of_kind = newest.setdefault(where, {})
            known = of_kind.get((section.mode, section.slots))
            if known is None or known.fence < section.fence:
                of_kind[section.mode, section.slots] = section
    return found


def _before(
    section: Observation,
    chain: tuple[str, ...],
    newest: dict[tuple[str, str], dict[tuple[str, int], Observation]],
) -> Iterator[Observation]:
    """Earlier sections that cannot go together with this one and whose fence is not smaller."""
    for where in (*(("at", place) for place in chain), ("below", chain[0])):
        for (mode, slots), earlier in newest.get(where, {}).items():
            both_shared = mode == section.mode == "shared"
            same_slots = (mode, slots) == ("slots", section.slots) and where == ("at", chain[0])
            goes_together = both_shared or (same_slots and section.mode == "slots")
            if earlier.fence >= section.fence and not goes_together:
                yield earlier
