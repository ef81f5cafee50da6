"""JSON Schemas (2020-12) of what every command prints with --json, from one table: `python -m leasehold.cli.schemas`.

They are published in docs/schemas, one file a command; a test compares the files with this table, and what the
commands really print with the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeAlias

from leasehold.cli.table import VERBS
from leasehold.wire import SCHEMA_VERSION

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
    ),
    "waiting": record(
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
    "finding": record(topic=TEXT, ok={"type": ["boolean", "null"]}, text=TEXT, advice=TEXT),
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
        code={"const": "held"},
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

INSTALLED = record(what=TEXT, dry_run=FLAG, files={"type": "array", "items": record(path=TEXT, changed=FLAG)})
GRANTED = record({"local": {"const": True}}, lease=one("lease"), token=TEXT, fresh=FLAG)
RENEWED = record(lease=one("lease"))
RELEASED = record(lease=LEASE_ID, released=FLAG, reason=TEXT, resources=NAMES)

GRITE_LOCK = record(resource=TEXT, owner=TEXT, nonce=TEXT, expires_unix_ms=COUNT)
GRITE_GRANTED = record(
    lock=GRITE_LOCK,
    resource=TEXT,
    owner=TEXT,
    nonce=TEXT,
    expires_unix_ms=COUNT,
    ttl_seconds=COUNT,
    fence={"type": ["integer", "null"], "minimum": 1},
)
DATA: dict[str, Schema] = {
    "acquire": GRANTED,
    "renew": RENEWED,
    "release": RELEASED,
    "update": RENEWED,
    "inspect": record(
        resource=TEXT,
        at=TIME,
        free=FLAG,
        leases=several("lease"),
        waiting=several("waiting"),
        closed=several("blocker"),
    ),
    "list": record(leases=several("lease")),
    "history": record({"plot": TEXT}, events=several("event")),
    "graph": record(
        at=TIME,
        agents=several("agent"),
        resources={
            "type": "array",
            "items": record(space=TEXT, resource=TEXT, holders=NAMES, waiting=NAMES),
        },
        edges=several("edge"),
        complete=FLAG,
        deadlocks=several("event"),
    ),
    "watch": record(leases=several("lease"), waiting=several("waiting")),
    "run": record(
        lease=one("lease"),
        exit_code={"type": "integer"},
        status={"enum": ["completed", "failed"]},
        released=FLAG,
    ),
    "session start": record(session=one("session"), credential=TEXT),
    "session heartbeat": record(session=one("session"), leases=several("lease")),
    "session end": record(session=TEXT, ended=FLAG, released=NAMES),
    "session list": record(sessions=several("session")),
    "workflow create": one("workflow"),
    "workflow get": one("workflow"),
    "workflow check": {"anyOf": [one("workflow"), {"type": "object", "maxProperties": 0}]},
    "workflow list": record(workflows=several("workflow")),
    "workflow update": one("workflow"),
    "workflow heartbeat": one("workflow"),
    "workflow release": record(**RUN, released=FLAG),
    "gc": record(swept=COUNT, forgotten=COUNT, tokens=COUNT),
    "lock acquire": GRITE_GRANTED,
    "lock renew": GRITE_GRANTED,
    "lock release": record(resource=TEXT, released=FLAG),
    "lock status": record(
        locks={"type": "array", "items": GRITE_LISTED},
        conflicts={"type": "array", "items": record({"with": GRITE_LISTED}, resource=TEXT, owner=TEXT)},
        total=COUNT,
    ),
    "lock gc": record(removed=COUNT, kept=COUNT),
    "guard": record(policy=POLICY, paths=GUARDED),
    "force-release": RELEASED,
    "steal": GRANTED,
    "clear": record(resources=NAMES, cleared=FLAG),
    "keys create": record(key=one("key"), credential=TEXT),
    "keys list": record(keys=several("key")),
    "keys revoke": record(key=TEXT, revoked=FLAG),
    "serve": record(url=TEXT),
    "install": INSTALLED,
    "uninstall": INSTALLED,
    "prompt": record(prompt=TEXT),
    "doctor": record(well={"const": True}, findings=several("finding")),
    "completion": record(shell={"enum": ["bash", "zsh", "fish"]}, script=TEXT),  # noqa: S604 (a field of that name)
}
"""What each command answers when it is a yes."""

NOES: dict[str, tuple[str, ...]] = {
    "acquire": ("held", "deadlock", "lost"),
    "run": ("held", "deadlock", "lost"),
    "steal": ("held",),
    "renew": ("lost", "not_allowed"),
    "release": ("not_allowed",),
    "update": ("lost", "not_allowed"),
    "session heartbeat": ("lost", "not_allowed"),
    "session end": ("not_allowed",),
    "workflow create": ("conflict",),
    "workflow update": ("lost", "not_allowed"),
    "workflow heartbeat": ("lost", "not_allowed"),
    "workflow release": ("lost", "not_allowed"),
    "lock acquire": ("lock_conflict", "deadlock"),
    "lock renew": ("lock_conflict", "deadlock"),
    "lock release": ("lock_conflict",),
    "guard": ("guarded",),
    "doctor": ("unwell",),
}
"""What each can answer when it is a no, besides a `failure`."""

EVENTS: dict[str, Schema] = {
    "waiting": record(position={"type": ["integer", "null"], "minimum": 1}, holders=several("lease")),
    "acquired": record(lease=one("lease")),
    "trouble": record(message=TEXT),
    "lost": record(reason=TEXT),
}
"""The JSON lines of `run` before its answer."""


def envelope(data: Schema, error: Schema) -> list[Schema]:
    """A yes, and a no."""
    version = {"const": SCHEMA_VERSION}
    return [
        record(schema_version=version, ok={"const": True}, data=data),
        record(schema_version=version, ok={"const": False}, error=error),
    ]


def _of_several(data: Schema, error: Schema) -> list[Schema]:
    """The same verb for several targets at once: what became of each."""
    each = {
        "oneOf": [
            record(target=TEXT, ok={"const": True}, data=data),
            record(target=TEXT, ok={"const": False}, error=error),
        ]
    }
    results = {"type": "array", "minItems": 2, "items": each}
    failed = {"allOf": [error, {"type": "object", "required": ["results"], "properties": {"results": results}}]}
    return envelope(record(results=results), failed)


def _event(name: str) -> Schema:
    detail = EVENTS[name]["properties"]
    return record(schema_version={"const": SCHEMA_VERSION}, event={"const": name}, **detail)


def schema(verb: str) -> Schema:
    """The schema of what this command prints with --json: the object, or each of the lines."""
    error = {"oneOf": [one(name) for name in (*NOES.get(verb, ()), "failure")]}
    choices = envelope(DATA[verb], error)
    if verb in ("renew", "release"):
        alone = {**error, "not": {"required": ["results"]}}
        choices = [*envelope(DATA[verb], alone), *_of_several(DATA[verb], error)]
    if verb == "run":
        choices += [_event(name) for name in EVENTS]
    body = {"oneOf": choices}
    what = "each line" if verb in ("run", "watch") else "the object"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:leasehold:schema:{SCHEMA_VERSION}:{file_name(verb)}",
        "title": f"leasehold {verb} --json",
        "description": f"{what[:1].upper()}{what[1:]} that `leasehold {verb} --json` prints.",
        **body,
        "$defs": _needed(body),
    }


def _needed(body: Schema) -> dict[str, Schema]:
    """The definitions that are referred to, directly or by one another."""
    found: dict[str, Schema] = {}
    texts = [json.dumps(body)]
    while texts:
        text = texts.pop()
        for name, definition in DEFINITIONS.items():
            if name not in found and json.dumps(one(name)["$ref"]) in text:
                found[name] = definition
                texts.append(json.dumps(definition))
    return {name: found[name] for name in sorted(found)}


def file_name(verb: str) -> str:
    """The file of a command's schema."""
    return verb.replace(" ", "-") + ".json"


def speakers() -> list[str]:
    """The commands that have an answer of ours; the others speak the protocol of an agent or of an editor."""
    return [name for name, verb in VERBS.items() if any(option.flag == "--json" for option in verb.options)]


def files() -> dict[str, str]:
    """All schemas, as they are published."""
    return {file_name(verb): json.dumps(schema(verb), indent=2) + "\n" for verb in speakers()}


def main(words: list[str]) -> int:
    """`[--check] DIRECTORY`: write the files, or say which of them are not current."""
    directory = Path(next(word for word in words if word != "--check"))
    current = {path.name: path.read_text() for path in directory.glob("*.json")}
    stale = [name for name, text in files().items() if current.get(name) != text]
    stale += [name for name in current if name not in files()]
    if "--check" not in words:
        for name in stale:
            (directory / name).unlink(missing_ok=True)
        for name, text in files().items():
            (directory / name).write_text(text)
        return 0
    sys.stdout.writelines(f"not current: {name}\n" for name in stale)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
