"""Rows of the journal, as a long-running process encodes them. Readers do not need this.

They are JSON as text, because that is several times as fast to write as JSONB. Events are encoded once: their text is
copied from the journal into rows of `event`.
"""

from __future__ import annotations

from leasehold.domain.records import TAGS
from leasehold.stores.quick_json import encode_whole
from leasehold.stores.sqlite.event_rows import joined
from leasehold.stores.sqlite.journal import DROPPED
from leasehold.stores.sqlite.meta import EVENTS_MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from leasehold.domain.entries import Drop, Put
    from leasehold.domain.events import Event
    from leasehold.stores.sqlite.event_rows import Part

_TAG_OF: Final = {**TAGS, str: DROPPED}


def row_of(changes: Sequence[Put | Drop], parts: Sequence[Part]) -> str:
    """Return a row of the journal. Raises UnicodeEncodeError for text that could not be read again."""
    tags = encode_whole("".join([_TAG_OF[type(what)] for _, what in changes]))
    return f"[{tags.decode()},{encode_whole(changes).decode()},{joined(parts)}]"


def parts_of(events: Sequence[Event]) -> list[Part]:
    """Return the events as rows of the journal and of `event` contain them. Raises UnicodeEncodeError as well."""
    found: list[Part] = []
    for start in range(0, len(events), EVENTS_MOST):
        some = events[start : start + EVENTS_MOST]
        found.append((len(some), max([event.at_us for event in some]), encode_whole(some)[1:-1].decode()))
    return found
