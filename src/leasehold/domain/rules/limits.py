"""The bounds that the rules themselves keep, because they depend on what is stored. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

WAITERS_PER_NODE: Final = 10_000
LEASES_PER_ACTOR: Final = 10_000
PLANS_PER_ACTOR: Final = 16
