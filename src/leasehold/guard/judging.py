"""May this holder change these paths? One verdict a path, from the leases that are there. It takes none.

The answer is a conversation with `Locks` (see ``compat.steps``), so that every surface can have it.
"""

from __future__ import annotations

from leasehold import names
from leasehold.guard.editors.deciding import OFF, POLICIES, REQUIRE, REQUIRE_OWN, WARN
from leasehold.model import Inspection
from leasehold.noun import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from leasehold.compat.steps import Steps
    from leasehold.model import Lease


class Verdict(Noun):
    """One path."""

    path: str
    """As it was given."""
    resource: str
    state: str
    """`free`, `own`, `held` by somebody else, or `closed` after an unclean end."""
    is_allowed: bool
    leases: tuple[Lease, ...] = ()
    """Who holds it, or something that covers it."""

    def why(self) -> str:
        """For people."""
        if self.state == "held":
            first = self.leases[0]
            work = f" ({first.name})" if first.name else ""
            return names.shown(f"{self.path} is held by {first.holder}{work}")
        if self.state == "closed":
            return names.shown(f"{self.path} is closed after an unclean end, until somebody clears it")
        whose = "yours" if self.state == "own" else "held by nobody: acquire it first"
        return names.shown(f"{self.path} is {whose}")


def judge(paths: Iterable[str], holder: str, policy: str, fences: Collection[int] = ()) -> Steps[list[Verdict]]:
    """A verdict on each path, relative to the root. Whoever shows a lease's fence counts as its holder."""
    found: list[Verdict] = []
    if policy == OFF:
        return found
    for path in dict.fromkeys(paths):
        resource = names.parse(f"path:{path}")
        seen = yield "inspect", {"resource": resource}
        if isinstance(seen, Inspection):
            found.append(_verdict(path, resource, seen, holder, policy, fences))
    return found


def _verdict(path: str, resource: str, seen: Inspection, holder: str, policy: str, fences: Collection[int]) -> Verdict:
    others = tuple(lease for lease in seen.leases if lease.holder != holder and lease.fence not in fences)
    if others:
        return Verdict(path, resource, "held", policy == WARN, others)
    if seen.closed:
        return Verdict(path, resource, "closed", policy == WARN)
    if seen.leases:
        return Verdict(path, resource, "own", True, tuple(seen.leases))
    return Verdict(path, resource, "free", policy != REQUIRE_OWN)


__all__ = ["OFF", "POLICIES", "REQUIRE", "REQUIRE_OWN", "WARN", "Verdict", "judge"]
