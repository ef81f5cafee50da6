"""JSON Schemas (2020-12) of what every command prints with --json: `python -m leasehold.cli.schemas`.

They are published in docs/schemas, one file a command; a test compares the files with these tables, and what the
commands really print with the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.cli.entry.table import VERBS
from leasehold.wire import schemas, table
from leasehold.wire.shapes import SCHEMA_VERSION
from leasehold.wire.table import Field, Shape

if TYPE_CHECKING:
    from leasehold.wire.schemas import Schema

POLICY = "off|warn|require|require-plans|require-own"
_GRITE_LOCK = (("resource", "text"), ("owner", "text"), ("nonce", "text"), ("expires_unix_ms", "count"))
_GRANTED_OVER_GIT = (("lock", "GriteLock"), *_GRITE_LOCK, ("ttl_seconds", "count"), ("fence", "fence?"))
_INSTALLED = (("what", "text"), ("dry_run", "flag"), ("files", "InstalledFile[]"))
_WORKTREE = (
    *(("agent", "text?"), ("path", "text"), ("branch", "text?"), ("values", "WorktreeValue[]")),
    ("plan", "text[]"),
    *(("leases", "ListedLease[]"), ("overlaps", "WorktreeOverlap[]")),
)
_FAILED = ("code", "text"), ("message", "text")


def _shape(name: str, says: str, *rows: tuple[str, ...], base: str = "") -> tuple[str, Shape]:
    """Return a shape that only the command line has; a name that ends in `?` may be left out."""
    own = [Field(row[0].rstrip("?"), row[1], row[0], "?" if row[0].endswith("?") else "") for row in rows]
    return name, Shape(name, says, (*(table.shape(base).fields if base else ()), *own), "")


OWN = dict(
    (
        _shape("ListedLease", "A lease in a listing.", ("yours?", "flag"), base="ListedLease"),
        _shape("Listed", "Live leases and plans.", ("leases", "ListedLease[]"), ("plans", "Plan[]")),
        _shape("Acquired", "The lease, and its token.", ("local?", "true"), base="Granted"),
        _shape("Waited", "A resource that is free.", ("resource", "text"), ("waited_seconds", "seconds")),
        _shape("History", "Past events, the newest first.", ("events", "Event[]"), ("plot?", "text")),
        _shape("Watched", "The leases, and their waiters.", ("leases", "ListedLease[]"), ("waiting", "Waiting[]")),
        _shape(
            "RunEnded",
            "How the command ended.",
            *(("lease", "Lease"), ("exit_code", "integer"), ("status", "completed|failed"), ("released", "flag")),
        ),
        _shape("WorkflowEnded", "A run that is over.", ("released", "flag"), base="Workflow"),
        _shape(
            "Swept", "The results of a clean-up.", ("tokens", "count"), ("not_removed", "Blocker[]"), base="Collected"
        ),
        _shape("GriteLock", "A lock, in grite's words.", *_GRITE_LOCK),
        _shape("GriteGranted", "A lock that is yours, in grite's words.", *_GRANTED_OVER_GIT),
        _shape("GriteReleased", "A lock that was released.", ("resource", "text"), ("released", "flag")),
        _shape(
            "GriteListed",
            "A lock in a listing, in grite's words.",
            *(("resource", "text"), ("owner", "text"), ("expires_unix_ms", "count")),
            *(("time_remaining_seconds", "count"), ("expired", "flag"), ("kept_by", "leasehold|grite")),
        ),
        _shape(
            "GriteConflict",
            "Two locks that overlap.",
            *(("resource", "text"), ("owner", "text"), ("with", "GriteListed")),
        ),
        _shape(
            "GriteStatus",
            "Every lock.",
            *(("locks", "GriteListed[]"), ("conflicts", "GriteConflict[]"), ("total", "count")),
        ),
        _shape(
            "GriteSwept",
            "The results of a clean-up.",
            *(("removed", "count"), ("kept", "count"), ("not_removed", "Blocker[]")),
        ),
        _shape(
            "GuardedPath",
            "The result of checking a path.",
            *(("path", "text"), ("resource", "text"), ("state", "free|yours|held|closed|not_yours|planned")),
            *(("allowed", "flag"), ("message", "text"), ("holders", "ListedLease[]")),
        ),
        _shape("Guarded", "The result of checking several paths.", ("policy", POLICY), ("paths", "GuardedPath[]")),
        _shape(
            "NewKey", "A key that works from now on.", *(("key", "Key"), ("credential?", "text"), ("key_file?", "text"))
        ),
        _shape(
            "RotatedKey",
            "A key that works from now on, and the one that it replaces.",
            *(("key", "Key"), ("before", "Key"), ("credential?", "text"), ("key_file?", "text")),
        ),
        _shape(
            "BackedUp",
            "A backup, and what it has.",
            *(("file", "text"), ("bytes", "count"), ("leases", "count"), ("sessions", "count"), ("keys", "count")),
            ("newest", "time?"),
        ),
        _shape("Divided", "How many lanes a store has, and had.", ("lanes", "integer"), ("before", "integer")),
        _shape(
            "WorktreeValue",
            "A member of a pool that a worktree's agent holds.",
            *(("variable", "text"), ("value", "text"), ("resource", "text"), ("lease", "lease_id")),
        ),
        _shape(
            "WorktreeOverlap",
            "Where an agent meets another: it waits for it, blocks it, or has planned what overlaps.",
            *(
                ("resource", "text"),
                ("holder", "text"),
                ("other", "text"),
                ("state", "waits|blocks|planned|held|waiting|grace|quarantined"),
            ),
        ),
        _shape("Worktree", "A git worktree, and what its agent has.", *_WORKTREE),
        _shape(
            "RemovedWorktree",
            "A git worktree that is gone.",
            *(*_WORKTREE, ("released", "count"), ("discarded", "text[]")),
        ),
        _shape("Worktrees", "The worktrees beside the main one.", ("worktrees", "Worktree[]")),
        _shape("Served", "The address of the server.", ("url", "text")),
        _shape("InstalledFile", "A file of an editor or of git.", ("path", "text"), ("changed", "flag")),
        _shape("Installed", "The changed files.", *_INSTALLED),
        _shape("Prompt", "Instructions about locks for agents.", ("prompt", "text")),
        _shape("Version", "The versions.", ("version", "text"), ("python", "text")),
        _shape(
            "Finding",
            "The result of one check of the doctor.",
            *(("topic", "text"), ("ok", "flag?"), ("text", "text"), ("advice", "text"), ("command", "text")),
        ),
        _shape("Diagnosis", "Everything is well.", ("well", "true"), ("findings", "Finding[]")),
        _shape("Completion", "A script for a shell.", ("shell", "bash|zsh|fish"), ("script", "text")),
        _shape("RunLost", "The lease is gone.", ("exit_code?", "integer?"), base="Lost"),
        _shape("Conflict", "Another run is active.", ("workflow", "Workflow?"), base="Held"),
        _shape(
            "NotAllowed",
            "It is not yours.",
            *(("code", "=not_allowed"), ("message", "text"), ("field", "text?"), ("holders?", "ListedLease[]")),
        ),
        _shape(
            "LockConflict",
            "Another owner has the lock.",
            *(("code", "=conflict"), ("message", "text"), ("resource", "text"), ("lock", "GriteListed")),
        ),
        _shape(
            "Blocked",
            "Some of these paths may not be changed.",
            *(("code", "=held"), ("message", "text"), ("policy", POLICY), ("paths", "GuardedPath[]")),
        ),
        _shape(
            "Unwell",
            "Some checks failed.",
            *(
                ("code", "=unwell"),
                ("message", "text"),
                ("field", "text?"),
                ("well", "false"),
                ("findings", "Finding[]"),
            ),
        ),
        _shape("Failure", "Anything else that went wrong.", *_FAILED, ("field?", "text?")),
    )
)
"""The shapes that only the command line has."""
DATA: dict[str, str] = {
    "acquire": "Acquired",
    "renew": "Renewed",
    "release": "Released",
    "update": "Updated",
    "inspect": "Inspection",
    "plan": "Plans",
    "wait": "Waited",
    "list": "Listed",
    "history": "History",
    "graph": "Graph",
    "watch": "Watched",
    "run": "RunEnded",
    "session start": "SessionStarted",
    "session heartbeat": "SessionRenewed",
    "session end": "SessionEnded",
    "session list": "Sessions",
    "workflow create": "Workflow",
    "workflow get": "Workflow",
    "workflow check": "Workflow",
    "workflow list": "Workflows",
    "workflow update": "Workflow",
    "workflow heartbeat": "Workflow",
    "workflow release": "WorkflowEnded",
    "gc": "Swept",
    "backup": "BackedUp",
    "restore": "BackedUp",
    "lanes": "Divided",
    "lock acquire": "GriteGranted",
    "lock renew": "GriteGranted",
    "lock release": "GriteReleased",
    "lock status": "GriteStatus",
    "lock gc": "GriteSwept",
    "guard": "Guarded",
    "force-release": "Released",
    "steal": "Acquired",
    "clear": "Cleared",
    "extend": "Renewed",
    "note": "Noted",
    "pool": "PoolDeclared",
    "keys create": "NewKey",
    "keys list": "Keys",
    "keys rotate": "RotatedKey",
    "keys revoke": "KeyRevoked",
    "worktree add": "Worktree",
    "worktree list": "Worktrees",
    "worktree env": "Worktree",
    "worktree remove": "RemovedWorktree",
    "serve": "Served",
    "install": "Installed",
    "uninstall": "Installed",
    "prompt": "Prompt",
    "version": "Version",
    "doctor": "Diagnosis",
    "completion": "Completion",
}
"""The shape that each command prints when it succeeds."""
_TOUCHING = ("RunLost", "NotAllowed")
REFUSALS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("acquire", "run"), ("Held", "Deadlock", "RunLost")),
    "plan": ("Held", "Deadlock"),
    **dict.fromkeys(("wait", "worktree add", "worktree env"), ("Held",)),
    "steal": ("Held",),
    **dict.fromkeys(("renew", "update", "session heartbeat"), _TOUCHING),
    **dict.fromkeys(("workflow update", "workflow heartbeat", "workflow release"), _TOUCHING),
    **dict.fromkeys(("release", "session end"), ("NotAllowed",)),
    "workflow create": ("Conflict", "Deadlock"),
    **dict.fromkeys(("lock acquire", "lock renew"), ("LockConflict", "Deadlock")),
    "lock release": ("LockConflict",),
    "guard": ("Blocked",),
    "doctor": ("Unwell",),
}
"""The shapes of the refusals of each command, besides a `Failure`."""
EVENTS: dict[str, dict[str, str]] = {
    "waiting": {"position": "number?", "holders": "ListedLease[]"},
    "acquired": {"lease": "Lease"},
    "trouble": {"message": "text"},
    "lost": {"reason": "text"},
}
"""The fields of the JSON lines that `run` prints before its answer."""


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "required": list(fields), "properties": fields}


def _envelope(data: Schema, error: Schema) -> list[Schema]:
    version: Schema = {"const": SCHEMA_VERSION}
    return [
        _object(schema_version=version, ok={"const": True}, data=data),
        _object(schema_version=version, ok={"const": False}, error=error),
    ]


def _of_several(data: Schema, error: Schema) -> list[Schema]:
    """Return the envelopes of a verb with several targets, which hold a result for each."""
    target: Schema = {"type": "string"}
    each = {
        "oneOf": [
            _object(target=target, ok={"const": True}, data=data),
            _object(target=target, ok={"const": False}, error=error),
        ]
    }
    results = {"type": "array", "minItems": 2, "items": each}
    return _envelope(_object(results=results), {"allOf": [error, _object(results=results)]})


def schema(verb: str) -> Schema:
    """Return the schema of what this command prints with --json: the object, or each of the lines."""
    data = schemas.of_kind(DATA[verb])
    if verb == "workflow check":
        data = {"anyOf": [data, {"type": "object", "maxProperties": 0}]}
    if verb == "plan":  # a firm one is acquired
        data = {"anyOf": [data, schemas.of_kind("Acquired")]}
    refusals = (*REFUSALS.get(verb, ()), "Failure")
    error: Schema = {"oneOf": [schemas.of_kind(name) for name in refusals]}
    choices = _envelope(data, error)
    kinds = [DATA[verb], *(["Acquired"] if verb == "plan" else []), *refusals]
    if verb in ("renew", "release"):
        choices = [*_envelope(data, {**error, "not": {"required": ["results"]}}), *_of_several(data, error)]
    if verb == "run":
        for name, fields in EVENTS.items():
            told = {field: schemas.of_kind(kind) for field, kind in fields.items()}
            choices.append(_object(schema_version={"const": SCHEMA_VERSION}, event={"const": name}, **told))
            kinds += fields.values()
    what = "Each line" if verb in ("run", "watch") else "The object"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:leasehold:schema:{SCHEMA_VERSION}:{file_name(verb)}",
        "title": f"leasehold {verb} --json",
        "description": f"{what} that `leasehold {verb} --json` prints.",
        "oneOf": choices,
        "$defs": {name: _definition(name) for name in schemas.referred(kinds, _find)},
    }


def _find(name: str) -> Shape:
    return OWN[name] if name in OWN else table.shape(name)


def _definition(name: str) -> Schema:
    found = schemas.of_shape(_find(name))
    if name == "Failure":
        found["properties"]["code"] |= {"not": {"enum": _OTHER_CODES}}
        found["not"] = {"required": ["lock"]}
    return found


_OTHER_CODES = ["held", "timeout", "deadlock", "lost", "not_allowed", "unwell"]
"""Codes of refusals that have a shape of their own."""


def file_name(verb: str) -> str:
    """Return the name of the file of a command's schema."""
    return verb.replace(" ", "-") + ".json"


def speakers() -> list[str]:
    """Return the commands that print answers; the others speak the protocol of an agent or of an editor."""
    return [name for name, verb in VERBS.items() if any(option.flag == "--json" for option in verb.options)]


def files() -> dict[str, str]:
    """Return the text of every published schema, by file name."""
    return {file_name(verb): json.dumps(schema(verb), indent=2) + "\n" for verb in speakers()}


def main(words: list[str]) -> int:
    """Write the files into DIRECTORY, or with --check print which of them are not current."""
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
