"""The nouns of what commands print with --json, as JSON Schemas: leases, holders, events, refusals. No commands."""

from __future__ import annotations

from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
SECONDS: Schema = {"type": "number", "minimum": 0}
SECONDS_OR_NULL: Schema = {"type": ["number", "null"], "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time", "pattern": "Z$"}
TIME_OR_NULL: Schema = {"type": ["string", "null"], "format": "date-time"}
NAMES: Schema = {"type": "array", "items": TEXT}
FENCE: Schema = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1}
MODE: Schema = {"enum": ["exclusive", "shared", "slots"]}
LEASE_ID: Schema = {"type": "string", "pattern": "^l[0-9]+-[0-9a-f]{32}$"}
ANYTHING: Schema = {"description": "any JSON value"}


def record(optional: Schema | None = None, /, **fields: Any) -> Schema:
    """An object with these fields, and some that may be missing."""
    return {"type": "object", "required": list(fields), "properties": {**fields, **(optional or {})}}


def several(name: str) -> Schema:
    """A list of one of the definitions."""
    return {"type": "array", "items": one(name)}


def one(name: str) -> Schema:
    """One of the definitions."""
    return {"$ref": f"#/$defs/{name}"}


RUN: dict[str, Schema] = {
    "id": {"type": "string", "pattern": "^wf-[0-7][0-9A-HJKMNP-TV-Z]{25}$"},
    "status": {"enum": ["running", "completed", "failed", "cancelled", "expired"]},
    "name": TEXT_OR_NULL,
    "space": TEXT,
    "resource": TEXT_OR_NULL,
    "holder": TEXT,
    "context": ANYTHING,
    "error": TEXT_OR_NULL,
    "started_at": TIME_OR_NULL,
    "ended_at": TIME_OR_NULL,
    "expires_at": TIME_OR_NULL,
    "ttl_seconds": SECONDS_OR_NULL,
    "fence": {"type": ["integer", "null"], "minimum": 1},
    "lease": TEXT_OR_NULL,
}
"""What `workflow` tells of a run."""

GRITE_LISTED = record(
    resource=TEXT,
    owner=TEXT,
    expires_unix_ms=COUNT,
    time_remaining_seconds=COUNT,
    expired=FLAG,
    kept_by={"enum": ["leasehold", "grite"]},
)
GUARDED = {
    "type": "array",
    "items": record(
        path=TEXT,
        resource=TEXT,
        state={"enum": ["free", "yours", "held", "closed", "not_yours"]},
        allowed=FLAG,
        message=TEXT,
        holders=several("lease"),
    ),
}
POLICY = {"enum": ["off", "warn", "require", "require-own"]}

DEFINITIONS: dict[str, Schema] = {
    "lease": record(
        {"principal": TEXT, "key": TEXT},
        id=LEASE_ID,
        space=TEXT,
        resources=NAMES,
        holder=TEXT,
        session=TEXT_OR_NULL,
        mode=MODE,
        slots={"type": "integer", "minimum": 1},
        fence=FENCE,
        ttl_seconds=SECONDS,
        acquired_at=TIME,
        expires_at=TIME,
        expires_in_seconds=SECONDS,
        as_of=TIME,
        name=TEXT_OR_NULL,
        reason=TEXT_OR_NULL,
        context=ANYTHING,
    ),
    "blocker": record(
        {"watched_since": TIME, "recorded_until": TIME_OR_NULL},
        resource=TEXT,
        holder=TEXT,
        state={"enum": ["held", "waiting", "grace", "quarantined"]},
        mode=MODE,
        name=TEXT_OR_NULL,
        reason=TEXT_OR_NULL,
        since=TIME,
        expires_at=TIME_OR_NULL,
        expires_in_seconds=SECONDS_OR_NULL,
        fence=COUNT,
        lease=TEXT,
        as_of=TIME,
        yours=FLAG,
    ),
    "waiting": record(
        {"principal": TEXT, "key": TEXT},
        id=TEXT,
        resources=NAMES,
        holder=TEXT,
        session=TEXT_OR_NULL,
        mode=MODE,
        position={"type": "integer", "minimum": 1},
        since=TIME,
        waited_seconds=SECONDS,
        until=TIME,
        name=TEXT_OR_NULL,
        reason=TEXT_OR_NULL,
    ),
    "session": record(
        {"principal": TEXT, "key": TEXT},
        id=TEXT,
        space=TEXT,
        holder=TEXT,
        name=TEXT_OR_NULL,
        ttl_seconds=SECONDS,
        started_at=TIME,
        expires_at=TIME,
    ),
    "key": record(
        id=TEXT,
        role={"enum": ["admin", "agent", "viewer"]},
        space=TEXT,
        name=TEXT,
        prefixes=NAMES,
        created_at=TIME,
        principal=TEXT,
        until=TIME_OR_NULL,
    ),
    "event": record(
        seq=COUNT,
        kind=TEXT,
        at=TIME,
        space=TEXT,
        resources=NAMES,
        holder=TEXT,
        session=TEXT_OR_NULL,
        lease=TEXT_OR_NULL,
        fence={"type": ["integer", "null"], "minimum": 1},
        detail={"type": "object"},
    ),
    "agent": record(id=TEXT, space=TEXT, holder=TEXT, session=TEXT_OR_NULL),
    "edge": record(
        waiter=TEXT,
        blocker=TEXT,
        resource=TEXT,
        state={"enum": ["held", "waiting"]},
        by=TEXT,
        place=TEXT_OR_NULL,
        since=TIME,
        waited_seconds=SECONDS,
        until=TIME,
    ),
    "finding": record(topic=TEXT, ok={"type": ["boolean", "null"]}, text=TEXT, advice=TEXT, command=TEXT),
    "held": record(
        code={"enum": ["held", "timeout"]},
        message=TEXT,
        resources=NAMES,
        holders=several("blocker"),
        queue=record(length=COUNT, position=COUNT),
        retry_after_seconds=SECONDS,
    ),
    "workflow": record(**RUN),
    "conflict": record(
        code={"enum": ["held", "timeout"]},
        message=TEXT,
        resources=NAMES,
        holders=several("blocker"),
        queue=record(length=COUNT, position=COUNT),
        retry_after_seconds=SECONDS,
        workflow={"anyOf": [one("workflow"), {"type": "null"}]},
    ),
    "deadlock": record(code={"const": "deadlock"}, message=TEXT, resources=NAMES, cycle=NAMES),
    "lost": record(
        {"exit_code": {"type": ["integer", "null"]}},
        code={"const": "lost"},
        message=TEXT,
        lease=TEXT,
        reason=TEXT,
    ),
    "not_allowed": record(
        {"holders": several("lease")}, code={"const": "not_allowed"}, message=TEXT, field=TEXT_OR_NULL
    ),
    "lock_conflict": record(
        code={"const": "conflict"},
        message=TEXT,
        resource=TEXT,
        lock=GRITE_LISTED,
    ),
    "guarded": record(code={"const": "held"}, message=TEXT, policy=POLICY, paths=GUARDED),
    "unwell": record(
        code={"const": "unwell"}, message=TEXT, field=TEXT_OR_NULL, well={"const": False}, findings=several("finding")
    ),
    "failure": {
        **record(
            {"field": TEXT_OR_NULL},
            code={"type": "string", "not": {"enum": ["held", "timeout", "deadlock", "lost", "not_allowed", "unwell"]}},
            message=TEXT,
        ),
        "not": {"required": ["lock"]},
    },
}
