"""The nouns of the domain, found in its modules."""

from __future__ import annotations

from typing import Any

from leasehold.domain import api_keys, entries, events, graph, leases, outcomes, sessions

MODULES = (api_keys, entries, events, graph, leases, outcomes, sessions)
NOUNS: dict[str, Any] = {
    name: kind
    for module in MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and hasattr(kind, "_fields") and kind.__module__ == module.__name__
}
