"""From records and events to the texts of etcd's keys and values, and back. Pure."""

from __future__ import annotations

import json

from leasehold.model import EMPTY, Event, Record
from leasehold.noun import Noun
from leasehold.records import build
from leasehold.stores.codec import pack, unpack
from leasehold.stores.etcd.gateway import from64, text64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_encode = json.JSONEncoder(separators=(",", ":")).encode
_WIDE = 16
"""Digits of a number in a key, so that keys are in the order of their numbers."""


class Meta(Noun):
    """What every change bumps: whoever knows this key's revision knows that nothing has changed since."""

    fence: int = 1
    seq: int = 0
    now: int = 0
    cluster: str = ""
    """Which cluster wrote it last: after a restore it is another one."""


def meta_text(meta: Meta) -> str:
    """As it is kept."""
    return _encode(meta._asdict())


def meta_of(text: str) -> Meta:
    """As it was kept."""
    return Meta(**json.loads(text))


def record_text(record: Record) -> str:
    """Every entry of a record."""
    entries = (*record.holds.values(), *record.waiters, *record.notes.values())
    return _encode([pack(entry) for entry in entries])


def record_of(text: str) -> Record:
    """The record again."""
    return build(unpack(packed) for packed in json.loads(text))


def events_text(events: Sequence[Event], first: int) -> str:
    """The events of one commit, numbered."""
    return _encode([[*event._replace(seq=seq)] for seq, event in enumerate(events, first)])


def events_of(text: str) -> list[Event]:
    """They again, the newest first."""
    found = []
    for fields in reversed(json.loads(text)):
        event = Event(*fields)
        found.append(event._replace(resources=tuple(event.resources)))
    return found


class Names:
    """What is kept where, below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.meta = f"{prefix}meta"
        self._records = f"{prefix}r/"
        self._dues = f"{prefix}d/"
        self._events = f"{prefix}h/"

    def record(self, key: str) -> str:
        """A record."""
        return self._records + key

    def key(self, name: str) -> str:
        """The key of the record of this name."""
        return name[len(self._records) :]

    def due(self, at: int, key: str) -> str:
        """A reminder of a record at a time."""
        return f"{self._dues}{at:0{_WIDE}x}/{key}"

    def due_key(self, name: str) -> str:
        """The record that a reminder is of."""
        return name[len(self._dues) + _WIDE + 1 :]

    def dues(self, until: int) -> tuple[str, str]:
        """The range of reminders up to a time."""
        return self._dues, f"{self._dues}{until + 1:0{_WIDE}x}"

    def events(self, last: int) -> str:
        """The events of a commit, by the number of the last of them."""
        return f"{self._events}{last:0{_WIDE}x}"


def after(prefix: str) -> str:
    """The end of the range of everything that begins so."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


# ------------------------------------------------------------------------------------ operations of a transaction


def get(name: str, until: str | None = None, **more: Any) -> dict[str, Any]:
    """Read a key, or a range."""
    asked = {"key": text64(name), **more}
    return {"requestRange": asked if until is None else {**asked, "range_end": text64(until)}}


def put(name: str, text: str) -> dict[str, Any]:
    """Write a key."""
    return {"requestPut": {"key": text64(name), "value": text64(text)}}


def delete(name: str, until: str | None = None) -> dict[str, Any]:
    """Remove a key, or a range."""
    asked = {"key": text64(name)}
    return {"requestDeleteRange": asked if until is None else {**asked, "range_end": text64(until)}}


def unchanged(name: str, revision: int) -> dict[str, Any]:
    """That a key was last changed at this revision; 0: that it is not there."""
    return {"key": text64(name), "target": "MOD", "result": "EQUAL", "modRevision": str(revision)}


def found(response: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Names, texts and revisions that a range gave."""
    pairs = response.get("response_range", response).get("kvs", [])
    return [(from64(pair["key"]), from64(pair.get("value", "")), int(pair["mod_revision"])) for pair in pairs]


def record_in(response: dict[str, Any]) -> Record:
    """The record that a range of one key gave."""
    pairs = found(response)
    return record_of(pairs[0][1]) if pairs else EMPTY
