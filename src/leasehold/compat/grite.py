"""Grite's locks in terms of `Locks`: a lease on one name, whose owner is the holder. It does no I/O.

Grite's pages and its program differ a little in their JSON: `data` holds both shapes.
"""

from __future__ import annotations

from leasehold.domain.names import overlaps
from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import FOREVER, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any, TypeAlias

    from leasehold.domain.leases import Blocker, Lease

    Json: TypeAlias = dict[str, Any]

TTL = "300"
"""Grite's default TTL in seconds."""
CONFLICT = "conflict"


class GriteLock(Noun):
    """One lock, of Leasehold or of grite itself."""

    resource: str
    owner: str
    nonce: str
    """Distinguishes one grant from the next; it is no secret."""
    expires_at: int
    """Microseconds since 1970."""
    left: int
    """The time left, in microseconds."""
    fence: int | None = None
    """None: grite's own, which has none."""
    work: str = ""
    """The holder's work and reason, if it gave them."""


def of_lease(lease: Lease, resource: str) -> GriteLock:
    """Return a lease as the lock on one of its names."""
    left, work = lease.expires_us - lease.as_of_us, _work(lease)
    return GriteLock(resource, lease.holder, lease.id, lease.expires_us, left, lease.fence, work)


def of_blocker(blocker: Blocker) -> GriteLock:
    """Return a blocker as a lock. A quarantine has no end."""
    left = blocker.until_us - blocker.as_of_us if blocker.until_us < FOREVER else 0
    fence = blocker.fence or None
    return GriteLock(blocker.resource, blocker.holder, blocker.lease, blocker.until_us, left, fence, _work(blocker))


def _work(it: Lease | Blocker) -> str:
    return ": ".join(filter(None, (it.name, it.reason)))


def granted(lock: GriteLock, ttl: int) -> Json:
    """Return the answer of acquire and renew."""
    plain = {
        "resource": lock.resource,
        "owner": lock.owner,
        "nonce": lock.nonce,
        "expires_unix_ms": lock.expires_at // 1_000,
    }
    return {"lock": plain, **plain, "ttl_seconds": ttl // SECOND, "fence": lock.fence}


def status(locks: Sequence[GriteLock], conflicts: Sequence[Json]) -> Json:
    """Return the answer of status."""
    return {"locks": [_listed(lock) for lock in locks], "conflicts": list(conflicts), "total": len(locks)}


def _listed(lock: GriteLock) -> Json:
    return {
        "resource": lock.resource,
        "owner": lock.owner,
        "expires_unix_ms": lock.expires_at // 1_000,
        "time_remaining_seconds": lock.left // SECOND,
        "expired": False,
        "kept_by": "leasehold" if lock.fence is not None else "grite",
    }


def conflict(verb: str, resource: str, lock: GriteLock) -> Json:
    """Return the error of a lock that another owner has."""
    seconds = lock.left // SECOND
    held_as = f", as {lock.resource}" if lock.resource != resource else ""
    work = f", for {lock.work}" if lock.work else ""
    said = {
        "acquire": f"Lock on {resource} is held by {lock.owner}{held_as}{work} (expires in {seconds}s)",
        "renew": f"Cannot renew lock on {resource} - owned by {lock.owner}",
        "release": f"Cannot release lock on {resource} - owned by {lock.owner}",
    }
    return {"code": CONFLICT, "message": said[verb], "resource": resource, "lock": _listed(lock)}


def in_the_way(
    resource: str, owner: str, locks: Iterable[GriteLock], hierarchical: Collection[str] = ()
) -> GriteLock | None:
    """Return the first lock of another owner that overlaps with this name."""
    for lock in locks:
        if lock.owner != owner and overlaps(resource, lock.resource, hierarchical):
            return lock
    return None


def clashes(ours: Sequence[GriteLock], theirs: Sequence[GriteLock], hierarchical: Collection[str] = ()) -> list[Json]:
    """Return the locks of grite that overlap with Leasehold's: both sides believe that they hold it."""
    found = []
    for lock in theirs:
        other = in_the_way(lock.resource, lock.owner, ours, hierarchical)
        if other is not None:
            found.append({"resource": lock.resource, "owner": lock.owner, "with": _listed(other)})
    return found
