"""The message of a commit: a headline for people, then JSON with every field named. Pure; no remote and no clock.

Each entry names the commit that wrote it (`written`: that commit's stamp, and the readings of the writer's clocks). A
commit that does not change an entry copies it with its stamp, so that an observer knows for how long it has seen the
entry unchanged (see ``observing``).
"""

from __future__ import annotations

import json

from leasehold.domain.api_keys import Key
from leasehold.domain.durations import format as duration
from leasehold.domain.entries import (
    Alternative,
    Claim,
    End,
    Hold,
    LeaseRequest,
    PlanMark,
    PlanTerms,
    Poll,
    PoolMembers,
    Presence,
    Receipt,
    Ref,
    Request,
    Waiter,
)
from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.domain.records import resources_of
from leasehold.domain.sessions import Session
from leasehold.errors import StoreError, StoreUnsuitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from leasehold.domain.entries import Entry

SCHEMA = 3
START_ANEW = "git ls-remote REMOTE 'refs/leasehold/*' | sed 's/.*refs/:refs/' | xargs git push REMOTE"

_KINDS: dict[str, type] = {
    "hold": Hold,
    "waiter": Waiter,
    "end": End,
    "ref": Ref,
    "wish": Poll,
    "plan": PlanTerms,
    "mark": PlanMark,
    "session": Session,
    "request": Request,
    "presence": Presence,
    "receipt": Receipt,
    "key": Key,
    "members": PoolMembers,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_INSIDE: dict[str, type] = {"ask": LeaseRequest, "options": Alternative, "claims": Claim}
"""Fields that are nouns, or sequences of nouns."""


class Stamp(Noun):
    """The commit that wrote an entry."""

    id: str
    """Drawn at random for each commit."""
    at: int
    """The writer's time, by the clock that the entry's own times refer to."""
    wall: int
    """The writer's wall clock, for observers with a `max_skew`."""


class Stored(Noun):
    """An entry as a commit contains it."""

    entry: Entry
    stamp: Stamp


def encode(key: str, entries: Mapping[str, Stored]) -> str:
    """Return the message of a record's commit."""
    told = ",\n  ".join(
        json.dumps({"kind": _NAMES[type(each.entry)], **_values(each.entry), "written": list(each.stamp)})
        for each in entries.values()
    )
    body = f'{{"schema": {SCHEMA}, "key": {json.dumps(key)}, "entries": [\n  {told}\n]}}'
    return f"{headline(key, [each.entry for each in entries.values()])}\n\n{body}\n"


def decode(key: str, message: str) -> dict[str, Stored]:
    """Parse the entries of a record from the message of its commit."""
    body = parsed(message, f"the ref of {key}")
    if body.get("key") != key:
        raise _strange(f"the ref of {key}", f"it is of {body.get('key')}")
    found: dict[str, Stored] = {}
    try:
        for each in body["entries"]:
            fields = dict(each)
            kind, stamp = _KINDS[fields.pop("kind")], Stamp(*fields.pop("written"))
            found[each["id"]] = Stored(_noun(kind, fields), stamp)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _strange(f"the ref of {key}", f"{type(error).__name__}: {error}") from error
    return found


def parsed(message: str, what: str) -> dict[str, Any]:
    """Parse the JSON in a message. Raise `StoreUnsuitable` for another version's schema."""
    try:
        body = json.loads(message.partition("\n\n")[2])
        schema = body["schema"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _strange(what, "it was not written by Leasehold") from error
    if isinstance(schema, int) and schema < SCHEMA:
        raise StoreUnsuitable(
            f"{what} below refs/leasehold/ has schema {schema}, and this Leasehold works with schema {SCHEMA} only: an "
            "older version created it. Nothing was changed, and its locks are not carried over. To start anew, once "
            f"nothing is held there, delete all refs of the locks at the remote:\n{START_ANEW}"
        )
    if schema != SCHEMA:
        raise _strange(what, f"it has schema {schema}, and this version reads {SCHEMA}: update Leasehold")
    found: dict[str, Any] = body
    return found


def _strange(what: str, why: str) -> StoreError:
    return StoreError(
        f"{what} below refs/leasehold/ cannot be read: {why}. If it is not needed, delete that ref at the remote"
    )


def _values(noun: Any) -> dict[str, object]:  # noqa: ANN401 (one of the nouns)
    """Return the fields that differ from their defaults: a busy record has thousands of entries."""
    usual = noun._field_defaults
    told = zip(noun._fields, noun, strict=True)
    return {field: _value(value) for field, value in told if field not in usual or value != usual[field]}


def _value(value: Any) -> object:  # noqa: ANN401 (the value of any field)
    if isinstance(value, LeaseRequest | Alternative | Claim):
        return _values(value)
    return [_value(each) for each in value] if isinstance(value, tuple | list) else value


def _noun(kind: Any, fields: dict[str, Any]) -> Any:  # noqa: ANN401 (one of the nouns)
    """Build a noun. Unknown fields are those of a newer version and are dropped; missing ones get their defaults."""
    return kind(**{name: _built(name, value) for name, value in fields.items() if name in kind._fields})


def _built(field: str, value: Any) -> Any:  # noqa: ANN401
    inside = _INSIDE.get(field)
    if isinstance(value, list):
        return tuple(_noun(inside, each) for each in value) if inside is not None else tuple(value)
    return _noun(inside, value) if inside is not None and value is not None else value


# ----------------------------------------------------------------------------------------------- for people


def headline(key: str, entries: Iterable[Entry]) -> str:
    """Return the line that `git log --oneline` shows for a record."""
    kinds: dict[type, list[Any]] = {}
    for entry in entries:
        kinds.setdefault(type(entry), []).append(entry)
    if Hold in kinds or Waiter in kinds:
        names = ", ".join(shown(waiter.holder) for waiter in kinds.get(Waiter, ()))
        return "; ".join([*map(_held, kinds.get(Hold, ())), *([f"waiting: {names}"] if names else [])])[:400]
    if Session in kinds:
        return f"session of {shown(kinds[Session][0].holder)}"
    if PlanTerms in kinds:
        return "; ".join(
            f"{shown(each.ask.holder)} plans {shown(' '.join(resources_of(each.ask)))}" for each in kinds[PlanTerms]
        )[:400]
    if Ref in kinds:
        return f"leases and requests of one holder: {len(kinds[Ref])}"
    return f"{_NAMES[next(iter(kinds))] if kinds else 'nothing'} of {key}"


def _held(hold: Hold) -> str:
    who = shown(hold.holder)
    if hold.ask is None:
        return f"part of {hold.id}, held by {who}"
    what = shown(" ".join(hold.ask.options[0].resources))
    if hold.closed:
        return f"{what} closed after {who}"
    return f"{what} held by {who} for {duration(hold.ask.ttl)} (fence {hold.fence})"
