"""The bounds that the rules themselves keep, because they depend on what is stored. Pure."""

from __future__ import annotations

WAITERS_PER_NODE = 10_000
LEASES_PER_ACTOR = 10_000
