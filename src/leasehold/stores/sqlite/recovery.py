"""After a reboot or a restore: apply the rule for that to every entry."""

from __future__ import annotations

import apsw

from leasehold.domain.entries import Hold
from leasehold.domain.records import due, pack, unpack
from leasehold.domain.rules.reboot import after_reboot
from leasehold.domain.sessions import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.domain.entries import Entry

_CHUNK = 1_000
_ACTORS = "SELECT rowid, key, body FROM entry WHERE rowid > ? AND key >= 'a' AND key < 'b' ORDER BY rowid LIMIT ?"
_OTHERS = "SELECT rowid, key, body FROM entry WHERE rowid > ? AND NOT (key >= 'a' AND key < 'b') ORDER BY rowid LIMIT ?"


def revive(connection: apsw.Connection, last: int, now: int) -> None:
    """Give each lease held at `last` a full TTL from `now`, and drop waits and sessions that ended with the machine."""
    ends: dict[str, int] = {}
    for rowid, key, entry in _entries(connection, _ACTORS):
        after = after_reboot(entry, last, now, ends)
        if isinstance(after, Session):
            ends[key] = after.expires_us
        _write(connection, rowid, entry, after)
    elsewhere: list[tuple[int, Hold]] = []
    for rowid, _, entry in _entries(connection, _OTHERS):
        if isinstance(entry, Hold) and entry.ask is None:
            elsewhere.append((rowid, entry))
            continue
        after = after_reboot(entry, last, now, ends)
        if isinstance(after, Hold) and after.ask is not None and len(after.ask.options[0].claims) > 1:
            ends[after.id] = after.expires_at
        _write(connection, rowid, entry, after)
    for rowid, hold in elsewhere:
        _write(connection, rowid, hold, after_reboot(hold, last, now, ends))


def _entries(connection: apsw.Connection, query: str) -> Iterator[tuple[int, str, Entry]]:
    """Return all entries, read in chunks: rows must not be changed under a running query."""
    last = 0
    rows: list[tuple[int, str, bytes]]
    while rows := list(connection.execute(query, (last, _CHUNK))):
        for rowid, key, body in rows:
            yield rowid, key, unpack(apsw.jsonb_decode(body))
        last = rows[-1][0]


def _write(connection: apsw.Connection, rowid: int, before: Entry, after: Entry | None) -> None:
    if after is None:
        connection.execute("DELETE FROM entry WHERE rowid = ?", (rowid,))
    elif after != before:
        body = apsw.jsonb_encode(pack(after))
        connection.execute("UPDATE entry SET due = ?, body = ? WHERE rowid = ?", (due(after), body, rowid))
