"""The arguments of an acquire, for tests that talk to the rules or to an engine without `Locks`."""

from __future__ import annotations

from typing import Any


def asking(resources: object, ttl: object, holder: object, **options: object) -> dict[str, Any]:
    """Return the arguments of an acquire."""
    return {"resources": resources, "ttl": ttl, "holder": holder, **options}
