"""JSON Schemas (2020-12) of what every command prints with --json, from one table: `python -m leasehold.cli.schemas`.

They are published in docs/schemas, one file a command; a test compares the files with this table, and what the
commands really print with the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from leasehold.cli.entry.table import VERBS
from leasehold.cli.schema_nouns import (
    COUNT,
    DEFINITIONS,
    FLAG,
    GRITE_LISTED,
    GUARDED,
    LEASE_ID,
    NAMES,
    POLICY,
    RUN,
    TEXT,
    TIME,
    Schema,
    one,
    record,
    several,
)
from leasehold.wire.shapes import SCHEMA_VERSION

INSTALLED = record(what=TEXT, dry_run=FLAG, files={"type": "array", "items": record(path=TEXT, changed=FLAG)})
GRANTED = record({"local": {"const": True}, "unapplied": NAMES}, lease=one("lease"), token=TEXT, fresh=FLAG)
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
    "gc": record(swept=COUNT, forgotten=COUNT, tokens=COUNT, not_removed=several("blocker")),
    "lock acquire": GRITE_GRANTED,
    "lock renew": GRITE_GRANTED,
    "lock release": record(resource=TEXT, released=FLAG),
    "lock status": record(
        locks={"type": "array", "items": GRITE_LISTED},
        conflicts={"type": "array", "items": record({"with": GRITE_LISTED}, resource=TEXT, owner=TEXT)},
        total=COUNT,
    ),
    "lock gc": record(removed=COUNT, kept=COUNT, not_removed=several("blocker")),
    "guard": record(policy=POLICY, paths=GUARDED),
    "force-release": RELEASED,
    "steal": GRANTED,
    "clear": record(resources=NAMES, cleared=FLAG),
    "keys create": record({"credential": TEXT, "key_file": TEXT}, key=one("key")),
    "keys list": record(keys=several("key")),
    "keys rotate": record({"credential": TEXT, "key_file": TEXT}, key=one("key"), before=one("key")),
    "keys revoke": record(key=TEXT, revoked=FLAG),
    "serve": record(url=TEXT),
    "install": INSTALLED,
    "uninstall": INSTALLED,
    "prompt": record(prompt=TEXT),
    "version": record(version=TEXT, python=TEXT),
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
    "workflow create": ("conflict", "deadlock"),
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
