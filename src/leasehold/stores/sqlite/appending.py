"""What a process that stays writes: rows of the journal, and chapters. Who only reads them does not need this.

Both are JSON as text, because that is several times as quick to make as what SQLite reads best.
"""

from __future__ import annotations

from leasehold.stores.codec import TAGS
from leasehold.stores.quick_json import encode_whole
from leasehold.stores.sqlite import chapters
from leasehold.stores.sqlite.journal import DROPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from leasehold.model import Drop, Event, Put

_TAG_OF = {**TAGS, str: DROPPED}
_TELL_TOGETHER = """
INSERT INTO event (seq, at, kind, space, fence, holder, resources, first) VALUES (?, ?, '', '', 0, '', ?, ?)
"""


def row_of(changes: Sequence[Put | Drop], events: Sequence[Event]) -> bytes:
    """What a row of the journal says. Refuses what could not be read again (`UnicodeEncodeError`)."""
    return encode_whole(("".join([_TAG_OF[type(what)] for _, what in changes]), changes, events))


def tell_together(cursor: apsw.Cursor, events: Sequence[Event], first: int) -> None:
    """Write these events, which are numbered from `first`, as chapters."""
    most = chapters.MOST
    parts = [(first + place, events[place : place + most]) for place in range(0, len(events), most)]
    cursor.executemany(
        _TELL_TOGETHER,
        [(at + len(part) - 1, max([event.at for event in part]), encode_whole(part), at) for at, part in parts],
    )
