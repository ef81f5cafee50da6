"""What simulated callers wish for: few names, so that they meet; every mode, every way to ask. All by one chance."""

from __future__ import annotations

from leasehold.requests.checks import Asking

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random

NAMES = ("a", "b", "c", "path:src", "path:src/x", "path:src/y/z", "issue:1", "deploy://api")
POOL = ("p1", "p2", "p3")
REPOSITORY = "repo:all"
SEMAPHORES = ("sem", "sem", "sem-b", "path:src/sem", ["sem", "sem-b"])

TTLS = (0.05, 0.3, 1, 1, 2, 2, 4, 8)
REENTRANT_TTL = 3
"""Always the same, since asking again with a shorter TTL makes the lease shorter."""
WAITS = (0, 0, 0.1, 0.7, 2, 4)


def draw_asking(chance: random.Random, holder: str, reentrant: bool) -> Asking:
    """One acquire."""
    asking = _what(chance, holder)._replace(wait=chance.choice(WAITS), reentrant=reentrant)
    if reentrant:
        asking = asking._replace(ttl=REENTRANT_TTL)
    if chance.random() < 0.1:
        asking = asking._replace(priority=chance.choice((-1, 1, 5)))
    if chance.random() < 0.2:
        asking = asking._replace(grace=chance.choice((0.2, 1)))
    if chance.random() < 0.03:
        asking = asking._replace(on_expiry="quarantine")
    if chance.random() < 0.2:
        asking = asking._replace(intent=True)
    return asking


def _what(chance: random.Random, holder: str) -> Asking:
    ttl, draw = chance.choice(TTLS), chance.random()
    if draw < 0.4:
        return Asking(chance.choice(NAMES), ttl, holder)
    if draw < 0.55:
        return Asking(chance.choice(NAMES), ttl, holder, mode="shared")
    if draw < 0.7:
        mode = chance.choice(("exclusive", "exclusive", "shared"))
        return Asking(chance.sample(NAMES, chance.choice((2, 3))), ttl, holder, mode=mode)
    if draw < 0.82:
        names = chance.sample((*POOL, *POOL, *NAMES), 3)
        return Asking(names, ttl, holder, any_of=True)
    if draw < 0.97:
        return Asking(chance.choice(SEMAPHORES), ttl, holder, slots=chance.choice((2, 2, 2, 2, 2, 2, 3)))
    return Asking(REPOSITORY, ttl, holder, mode=chance.choice(("exclusive", "shared")))
