"""The rows of ``table`` for what is listed and inspected: leases, blockers, queues, sessions, keys, events, graphs."""

from __future__ import annotations

from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from leasehold.domain.graph import Graph

    Rows: TypeAlias = tuple[tuple[Any, ...], ...]
    Entry: TypeAlias = tuple[str, str, Rows]

MODE = "exclusive|shared|slots"
ROLE = "admin|agent|viewer"
BLOCKER_STATE = "held|waiting|grace|quarantined"
_BY_ADMINS = (("principal", "text", "principal", "principal"), ("key", "text", "key", "principal"))
"""Told to admins, of servers with keys."""
_TRACE = ("trace", "text", "trace", "trace")
_LEASE = (
    ("id", "lease_id"),
    ("space", "text"),
    ("resources", "text[]"),
    ("holder", "text"),
    ("session", "text?"),
    ("mode", MODE),
    ("slots", "number"),
    ("fence", "fence"),
    ("ttl_seconds", "seconds", "ttl_us"),
    ("acquired_at", "time", "acquired_us"),
    ("expires_at", "time", "expires_us"),
    ("expires_in_seconds", "seconds", lambda it, _: max(0, it.expires_us - it.as_of_us)),
    ("as_of", "time", "as_of_us"),
    ("name", "text?"),
    ("reason", "text?"),
    ("context", "context"),
    ("host", "text?"),
)
_SESSION = (
    ("id", "text", "session"),
    ("space", "text"),
    ("holder", "text"),
    ("name", "text?"),
    ("ttl_seconds", "seconds", "ttl_us"),
    ("started_at", "time", "started_us"),
    ("expires_at", "time", "expires_us"),
)


def _contended(it: Graph, _now: int) -> list[dict[str, object]]:
    """Return each resource that agents wait for, with those that hold it and those that want it, by the edges."""
    spaces = {agent.id: agent.space for agent in it.agents}
    found: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for each in it.edges:
        holders, waiting = found.setdefault((spaces[each.waiter], each.resource), ({}, {}))
        waiting[each.waiter] = None
        if each.state == "held":
            holders[each.blocker] = None
    return [
        {"space": space, "resource": name, "holders": list(holders), "waiting": list(waiting)}
        for (space, name), (holders, waiting) in found.items()
    ]


SHAPES: dict[str, Entry] = {
    "Lease": ("One grant.", "leases.Lease", _LEASE),
    "ListedLease": ("A lease in a listing.", "leases.Lease", (*_LEASE, *_BY_ADMINS, _TRACE)),
    "Blocker": (
        "A lease, a waiting request or a closed resource that stands in the way of a request.",
        "leases.Blocker",
        (
            ("resource", "text"),
            ("holder", "text"),
            ("state", BLOCKER_STATE),
            ("mode", MODE),
            ("name", "text?"),
            ("reason", "text?"),
            ("since", "time", "since_us"),
            ("expires_at", "end", "until_us"),
            (
                "expires_in_seconds",
                "seconds?",
                lambda it, _: None if it.until_us >= FOREVER else max(0, it.until_us - it.as_of_us),
            ),
            ("fence", "count"),
            ("lease", "text"),
            ("as_of", "time", "as_of_us"),
            ("yours", "flag"),
            ("session", "text?"),
            ("watched_since", "time", "watched_us", "watched_us"),
            ("recorded_until", "time?", "recorded_us", "watched_us"),
        ),
    ),
    "Queue": (
        "How many requests wait, and the place of the caller among them.",
        "leases.Queue",
        (("length", "count"), ("position", "count")),
    ),
    "Waiting": (
        "A place in the queue of a resource.",
        "leases.Waiting",
        (
            ("id", "text"),
            ("resources", "text[]"),
            ("holder", "text"),
            ("session", "text?"),
            ("mode", MODE),
            ("position", "number"),
            ("since", "time", "since_us"),
            ("waited_seconds", "seconds", lambda it, now: max(0, now - it.since_us)),
            ("until", "time", "deadline_us"),
            ("name", "text?"),
            ("reason", "text?"),
            *_BY_ADMINS,
        ),
    ),
    "Overlap": (
        "A cell of the conflict matrix: a planned resource, and what another agent does with one that overlaps.",
        "plans.Overlap",
        (
            ("resource", "text"),
            ("other", "text"),
            ("state", f"planned|{BLOCKER_STATE}"),
            ("holder", "text"),
            ("session", "text?"),
            ("name", "text?"),
            ("reason", "text?"),
            ("since", "time", "since_us"),
            ("until", "end", "until_us"),
            ("id", "text"),
        ),
    ),
    "Plan": (
        "Announcement of what an agent is about to touch: it grants nothing and blocks nobody.",
        "plans.Plan",
        (
            ("id", "text"),
            ("space", "text"),
            ("resources", "text[]"),
            ("holder", "text"),
            ("session", "text?"),
            ("name", "text?"),
            ("reason", "text?"),
            ("ttl_seconds", "seconds", "ttl_us"),
            ("since", "time", "since_us"),
            ("expires_at", "time", "expires_us"),
            ("expires_in_seconds", "seconds", lambda it, _: max(0, it.expires_us - it.as_of_us)),
            ("as_of", "time", "as_of_us"),
            ("overlaps", "Overlap[]"),
            *_BY_ADMINS,
        ),
    ),
    "Session": ("A session, without its secret.", "sessions.Session", _SESSION),
    "ListedSession": ("A session in a listing.", "sessions.Session", (*_SESSION, *_BY_ADMINS)),
    "Key": (
        "A key of a server, without its secret.",
        "api_keys.Key",
        (
            ("id", "text"),
            ("role", ROLE),
            ("space", "text"),
            ("name", "text"),
            ("prefixes", "text[]"),
            ("created_at", "time", "created_us"),
            ("principal", "text"),
            ("until", "end", "until_us"),
        ),
    ),
    "Whoami": (
        "The caller as the server knows it, and what the caller may do.",
        "api_keys.Whoami",
        (
            ("name", "text"),
            ("role", f"{ROLE}|session"),
            ("space", "text?"),
            ("prefixes", "text[]"),
            ("principal", "text?"),
            ("key", "text?"),
            ("session", "text?"),
        ),
    ),
    "Event": (
        "One change, in the history.",
        "events.Event",
        (
            ("seq", "count"),
            ("kind", "text"),
            ("at", "time", "at_us"),
            ("space", "text"),
            ("resources", "text[]"),
            ("holder", "text"),
            ("session", "text?"),
            ("lease", "text?"),
            ("fence", "fence?"),
            ("detail", "detail"),
        ),
    ),
    "Inspection": (
        "The leases, the queue and the closures of one resource.",
        "leases.Inspection",
        (
            ("resource", "text"),
            ("at", "time", "now_us"),
            ("free", "flag", lambda it, _: not it.leases and not it.closed),
            ("leases", "ListedLease[]"),
            ("waiting", "Waiting[]"),
            ("closed", "Blocker[]"),
            ("plans", "Plan[]"),
        ),
    ),
    "Agent": (
        "A session, or a holder without one, in the wait-for graph.",
        "graph.Agent",
        (("id", "text"), ("space", "text"), ("holder", "text"), ("session", "text?")),
    ),
    "Edge": (
        "One agent that waits for another.",
        "graph.Edge",
        (
            ("waiter", "text"),
            ("blocker", "text"),
            ("resource", "text"),
            ("state", "held|waiting"),
            ("by", "text"),
            ("place", "text?"),
            ("since", "time", "since_us"),
            ("waited_seconds", "seconds", lambda it, now: max(0, now - it.since_us)),
            ("until", "time", "until_us"),
        ),
    ),
    "Contended": (
        "A resource that agents wait for.",
        "",
        (("space", "text"), ("resource", "text"), ("holders", "text[]"), ("waiting", "text[]")),
    ),
    "Graph": (
        "The wait-for graph, and the deadlocks that were refused lately.",
        "graph.Graph",
        (
            ("at", "time", "now_us"),
            ("agents", "Agent[]"),
            ("resources", "Contended[]", _contended),
            ("edges", "Edge[]"),
            ("complete", "flag"),
            ("deadlocks", "Event[]"),
        ),
    ),
}
"""By name: what it is, the noun of ``domain`` that it shows (none: its writer builds the JSON itself), its fields."""
