"""Rows of the journal and parts of chapters, as a long-running process writes them. Readers do not need this.

Both are JSON as text, because that is several times as quick to make as what SQLite reads best. Events are encoded
once: what stands in a row is put into a chapter as it is.
"""

from __future__ import annotations

from leasehold.stores.codec import TAGS
from leasehold.stores.quick_json import encode_whole
from leasehold.stores.sqlite import chapters
from leasehold.stores.sqlite.journal import DROPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from leasehold.domain.entries import Drop, Put
    from leasehold.domain.events import Event
    from leasehold.stores.sqlite.chapters import Part

_TAG_OF: Final = {**TAGS, str: DROPPED}


def row_of(changes: Sequence[Put | Drop], parts: Sequence[Part]) -> bytes:
    """Return a row of the journal. Raises UnicodeEncodeError for text that could not be read again."""
    tags = encode_whole("".join([_TAG_OF[type(what)] for _, what in changes]))
    return b"[%b,%b,%b]" % (tags, encode_whole(changes), chapters.joined(parts))


def parts_of(events: Sequence[Event]) -> list[Part]:
    """Return these events as a row and a chapter hold them. Raises UnicodeEncodeError as well."""
    most = chapters.MOST
    if len(events) <= most:  # nearly always
        return [_part(events)] if events else []
    return [_part(events[place : place + most]) for place in range(0, len(events), most)]


def _part(events: Sequence[Event]) -> Part:
    return len(events), max([event.at_us for event in events]), encode_whole(events)[1:-1]
