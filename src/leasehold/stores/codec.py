"""Entries and events as plain arrays, and back: `[tag, *fields]`, nested nouns as nested arrays. It knows no store.

Any JSON-like encoder accepts the result of `pack` (named tuples are arrays to all of them), and `unpack` rebuilds the
exact types from the result of its decoder. A noun may get new fields
at its end if they have defaults: rows written before that are still understood.
"""

from __future__ import annotations

from leasehold.domain.api_keys import Key
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
from leasehold.domain.events import Event
from leasehold.domain.sessions import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from leasehold.domain.entries import Entry

TAGS: dict[type, str] = {
    Hold: "h",
    Waiter: "w",
    End: "e",
    Ref: "r",
    Poll: "i",
    PlanTerms: "a",
    PlanMark: "m",
    Session: "s",
    Request: "q",
    Presence: "p",
    Receipt: "t",
    Key: "k",
    PoolMembers: "d",
}

_EVENT_SEQ = Event._fields.index("seq")
_ASK_OPTIONS = LeaseRequest._fields.index("options")
_ASK_TOKENS = LeaseRequest._fields.index("tokens")
_HOLD_ASK = Hold._fields.index("ask")
_WAITER_ASK = Waiter._fields.index("ask")
_WAITER_SHOWN = Waiter._fields.index("shown")
_WAITER_ORDER = Waiter._fields.index("order")
_WISH_OPTIONS = Poll._fields.index("options")
_PLAN_ASK = PlanTerms._fields.index("ask")
_END_RESOURCES = End._fields.index("resources")
_KEY_PREFIXES = Key._fields.index("prefixes")


def pack(entry: Entry) -> list[object]:
    """Return the entry as an array."""
    return [TAGS[type(entry)], *entry]


def unpack(packed: Sequence[Any]) -> Entry:
    """Rebuild an entry that was packed."""
    tag, *fields = packed
    return _BUILDERS[tag](fields)


def unpack_event(fields: Sequence[Any], seq: int) -> Event:
    """Rebuild an event from the array of its fields; `seq` is its number."""
    kind, at, space, resources, holder, session, lease, fence, detail = fields[:_EVENT_SEQ]
    return Event(kind, at, space, tuple(resources), holder, session, lease, fence, detail, seq)


def _tupled(value: Any) -> Any:  # noqa: ANN401 (any JSON value)
    return tuple(value) if isinstance(value, list) else value


def _options(packed: Sequence[Any]) -> tuple[Alternative, ...]:
    return tuple(
        [Alternative(tuple(resources), tuple([Claim(*claim) for claim in claims])) for resources, claims in packed]
    )


def _ask(packed: Sequence[Any]) -> LeaseRequest:
    fields = list(packed)
    fields[_ASK_OPTIONS] = _options(fields[_ASK_OPTIONS])
    fields[_ASK_TOKENS] = tuple(fields[_ASK_TOKENS])
    return LeaseRequest(*fields)


def _hold(fields: list[Any]) -> Hold:
    if fields[_HOLD_ASK] is not None:
        fields[_HOLD_ASK] = _ask(fields[_HOLD_ASK])
    return Hold(*fields)


def _waiter(fields: list[Any]) -> Waiter:
    fields[_WAITER_ORDER] = tuple(fields[_WAITER_ORDER])
    if fields[_WAITER_ASK] is not None:
        fields[_WAITER_ASK] = _ask(fields[_WAITER_ASK])
    fields[_WAITER_SHOWN] = tuple(fields[_WAITER_SHOWN])
    return Waiter(*fields)


def _wish(fields: list[Any]) -> Poll:
    fields[_WISH_OPTIONS] = _options(fields[_WISH_OPTIONS])
    return Poll(*fields)


def _plan(fields: list[Any]) -> PlanTerms:
    fields[_PLAN_ASK] = _ask(fields[_PLAN_ASK])
    return PlanTerms(*fields)


def _key(fields: list[Any]) -> Key:
    fields[_KEY_PREFIXES] = tuple(fields[_KEY_PREFIXES])
    return Key(*fields)


_BUILDERS: dict[str, Callable[[list[Any]], Entry]] = {
    "h": _hold,
    "w": _waiter,
    "e": lambda fields: End(*fields[:_END_RESOURCES], *map(_tupled, fields[_END_RESOURCES:])),
    "r": lambda fields: Ref(*fields),
    "i": _wish,
    "a": _plan,
    "m": lambda fields: PlanMark(*fields),
    "s": lambda fields: Session(*fields),
    "q": lambda fields: Request(*fields),
    "p": lambda fields: Presence(*fields),
    "t": lambda fields: Receipt(*fields),
    "k": _key,
    "d": lambda fields: PoolMembers(*map(_tupled, fields)),
}
