"""The requests of simulated callers: few names, so that they meet, in every mode and way. All by one chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.testing.asking import asking

if TYPE_CHECKING:
    import random
    from typing import Any

NAMES = ("a", "b", "c", "path:src", "path:src/x", "path:src/y/z", "issue:1", "deploy://api")
POOL = ("p1", "p2", "p3")
REPOSITORY = "repo:all"
SEMAPHORES = ("sem", "sem", "sem-b", "path:src/sem", ["sem", "sem-b"])

TTLS = (0.05, 0.3, 1, 1, 2, 2, 4, 8)
REENTRANT_TTL = 3
"""Always the same, since asking again with a shorter TTL makes the lease shorter."""
WAITS = (0, 0, 0.1, 0.7, 2, 4)


def draw_wish(chance: random.Random, holder: str, reentrant: bool) -> dict[str, Any]:
    """Draw the arguments of one acquire."""
    wish = _what(chance, holder) | {"wait": chance.choice(WAITS), "reentrant": reentrant}
    if reentrant:
        wish["ttl"] = REENTRANT_TTL
    if chance.random() < 0.1:
        wish["priority"] = chance.choice((-1, 1, 5))
    if chance.random() < 0.2:
        wish["grace"] = chance.choice((0.2, 1))
    if chance.random() < 0.03:
        wish["on_expiry"] = "quarantine"
    if chance.random() < 0.2:
        wish["intent"] = True
    return wish


def _what(chance: random.Random, holder: str) -> dict[str, Any]:
    ttl, draw = chance.choice(TTLS), chance.random()
    if draw < 0.4:
        return asking(chance.choice(NAMES), ttl, holder)
    if draw < 0.55:
        return asking(chance.choice(NAMES), ttl, holder, mode="shared")
    if draw < 0.7:
        mode = chance.choice(("exclusive", "exclusive", "shared"))
        return asking(chance.sample(NAMES, chance.choice((2, 3))), ttl, holder, mode=mode)
    if draw < 0.82:
        names = chance.sample((*POOL, *POOL, *NAMES), 3)
        return asking(names, ttl, holder, any_of=True)
    if draw < 0.97:
        return asking(chance.choice(SEMAPHORES), ttl, holder, slots=chance.choice((2, 2, 2, 2, 2, 2, 3)))
    return asking(REPOSITORY, ttl, holder, mode=chance.choice(("exclusive", "shared")))
