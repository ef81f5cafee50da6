"""Leasehold: the lock service for agents.

::

    locks = leasehold.connect("sqlite:///var/lib/leasehold.db")
    outcome = locks.acquire("issue:42", ttl="5m")   # Granted | Held | TimedOut | Deadlock | Refused: a value

The public names are these, and nothing else; they are imported when they are used, so that a program that
needs little starts quickly.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    raise ImportError(
        "Leasehold runs on Linux, macOS and other POSIX systems, and not on Windows itself. "
        "Use it in WSL, or use a server elsewhere over HTTP."
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.api_keys import Key, KeyCreated, KeyRevoked, KeyRotated, Whoami
    from leasehold.domain.events import Event
    from leasehold.domain.graph import Agent, Edge, Graph
    from leasehold.domain.leases import Blocker, Inspection, Lease, Queue, Waiting
    from leasehold.domain.outcomes import (
        Cancelled,
        Cleared,
        Deadlock,
        Granted,
        Held,
        Lost,
        Noted,
        Planned,
        PoolDeclared,
        Refused,
        Released,
        Renewed,
        TimedOut,
        TrespassReported,
        Updated,
    )
    from leasehold.domain.plans import Overlap, Plan
    from leasehold.domain.sessions import Session, SessionEnded, SessionRenewed, SessionStarted
    from leasehold.errors import (
        Closed,
        InvalidInput,
        LeaseholdError,
        LeaseLost,
        NotAcquired,
        OutcomeUnknown,
        StaleFence,
        StoreBehind,
        StoreError,
        StoreUnsuitable,
        Unreachable,
    )
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.connect import aconnect, connect
    from leasehold.locks.holding.guarded import current_lease
    from leasehold.locks.holding.held import HeldLease
    from leasehold.locks.sync import Locks
    from leasehold.requests.checks import Settings

__version__ = "0.1.0"

_WHERE = {
    "locks.aio": ("AsyncLocks",),
    "requests.checks": ("Settings",),
    "locks.connect": ("aconnect", "connect"),
    "errors": (
        "Closed",
        "InvalidInput",
        "LeaseholdError",
        "LeaseLost",
        "NotAcquired",
        "OutcomeUnknown",
        "StaleFence",
        "StoreBehind",
        "StoreError",
        "StoreUnsuitable",
        "Unreachable",
    ),
    "locks.holding.guarded": ("current_lease",),
    "locks.holding.held": ("HeldLease",),
    "locks.sync": ("Locks",),
    "domain.api_keys": (
        "Key",
        "KeyCreated",
        "KeyRevoked",
        "KeyRotated",
        "Whoami",
    ),
    "domain.events": ("Event",),
    "domain.graph": (
        "Agent",
        "Edge",
        "Graph",
    ),
    "domain.leases": (
        "Blocker",
        "Inspection",
        "Lease",
        "Queue",
        "Waiting",
    ),
    "domain.outcomes": (
        "Cancelled",
        "Cleared",
        "Deadlock",
        "Granted",
        "Held",
        "Lost",
        "Noted",
        "Planned",
        "PoolDeclared",
        "Refused",
        "Released",
        "Renewed",
        "TimedOut",
        "TrespassReported",
        "Updated",
    ),
    "domain.plans": ("Overlap", "Plan"),
    "domain.sessions": (
        "Session",
        "SessionEnded",
        "SessionRenewed",
        "SessionStarted",
    ),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Agent",
    "AsyncLocks",
    "Blocker",
    "Cancelled",
    "Cleared",
    "Closed",
    "Deadlock",
    "Edge",
    "Event",
    "Granted",
    "Graph",
    "Held",
    "HeldLease",
    "Inspection",
    "InvalidInput",
    "Key",
    "KeyCreated",
    "KeyRevoked",
    "KeyRotated",
    "Lease",
    "LeaseLost",
    "LeaseholdError",
    "Locks",
    "Lost",
    "NotAcquired",
    "Noted",
    "OutcomeUnknown",
    "Overlap",
    "Plan",
    "Planned",
    "PoolDeclared",
    "Queue",
    "Refused",
    "Released",
    "Renewed",
    "Session",
    "SessionEnded",
    "SessionRenewed",
    "SessionStarted",
    "Settings",
    "StaleFence",
    "StoreBehind",
    "StoreError",
    "StoreUnsuitable",
    "TimedOut",
    "TrespassReported",
    "Unreachable",
    "Updated",
    "Waiting",
    "Whoami",
    "aconnect",
    "connect",
    "current_lease",
]


def __dir__() -> list[str]:
    ours = (name for name in globals() if name.startswith("__") or name[0] != "_")
    return sorted({*ours, *__all__} - {"TYPE_CHECKING", "annotations", "sys"})


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'leasehold' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"leasehold.{module}"), name)
    globals()[name] = value
    return value
