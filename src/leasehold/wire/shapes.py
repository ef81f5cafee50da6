"""Encode the model as JSON values: the one contract of HTTP, ``--json`` and MCP. It decides nothing.

The fields come from ``table``. Times are RFC 3339, durations are seconds. Only the answer to its own acquire has a
lease's token.
"""

from __future__ import annotations

import time

from leasehold.domain.entries import MODE_NAMES
from leasehold.domain.outcomes import Deadlock, Held, Lost, Refused, TimedOut
from leasehold.domain.timestamps import FOREVER, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final, TypeAlias

    from leasehold.domain.events import Event
    from leasehold.domain.leases import Blocker, Lease
    from leasehold.wire.table import Shape

    Json: TypeAlias = dict[str, Any]
    Encoder: TypeAlias = Callable[[Any, int], Any]

SCHEMA_VERSION = 1
SECONDS_KEPT: Final = 256
_texts_of_seconds: Final[dict[int, str]] = {}
"""Most times of a busy server are of a few seconds: formatting one anew costs as much as the rest of a lease."""


def rfc3339(us: int) -> str | None:
    """Return the exact text of a time of the store's clock; None for one that never comes."""
    if us >= FOREVER:
        return None
    second = _texts_of_seconds.get(us // SECOND)
    if second is None:
        if len(_texts_of_seconds) >= SECONDS_KEPT:
            _texts_of_seconds.clear()
        second = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(us // SECOND))
        _texts_of_seconds[us // SECOND] = second
    # As this takes a tenth of what `:06d` does, once compiled.
    return second + str(us % SECOND + SECOND)[1:] + "Z"


def seconds(us: int) -> float | int:
    """Return a duration in seconds; a whole number where it is one."""
    return us // SECOND if us % SECOND == 0 else us / SECOND


def _context(text: str) -> Any:  # noqa: ANN401 (any JSON value)
    import json  # noqa: PLC0415 (only a lease with a context pays for it)

    return json.loads(text)


def lease_values(it: Lease) -> tuple[Any, ...]:
    """Return the values of a lease's fields in the order of the table, which a test compares.

    By hand, as acquire and renew spend a fifth of their processor time outside the store in here.
    """
    # Unpacked at once: reading each field by its name takes several times as long.
    # fmt: off
    (id_, space, resources, holder, session_, mode, slots, fence, ttl, begun, end, name, reason, context, as_of,
     _, _, _, host) = it
    # fmt: on
    return (
        id_,
        space,
        list(resources),
        holder,
        session_,
        mode,
        slots,
        fence,
        seconds(ttl),
        rfc3339(begun),
        rfc3339(end),
        seconds(max(0, end - as_of)),
        rfc3339(as_of),
        name,
        reason,
        None if context is None else _context(context),
        host,
    )


# ------------------------------------------------------------------------------------------ from the table


def names(shape: str) -> tuple[str, ...]:
    """Return the names of a shape's fields, in order."""
    from leasehold.wire import table  # noqa: PLC0415 (a one-shot command that prints no JSON does without)

    return tuple([field.name for field in table.shape(shape).fields])


_LEASE_NAMES: list[str] = []


def lease(it: Lease, _now: int = 0) -> Json:
    """Return a lease as everybody may see it."""
    if not _LEASE_NAMES:
        _LEASE_NAMES.extend(names("Lease"))
    return dict(zip(_LEASE_NAMES, lease_values(it), strict=True))


def _listed_lease(it: Lease, _now: int) -> Json:
    told = lease(it) if it.principal is None else {**lease(it), "principal": it.principal, "key": it.key}
    return told if it.trace is None else {**told, "trace": it.trace}


def _detail(it: Json, _now: int) -> Json:
    return {f"{key}_seconds" if key in DURATIONS else key: _of_detail(key, value) for key, value in it.items()}


def _of_detail(key: str, value: object) -> object:
    if key in TIMES and isinstance(value, int):
        return rfc3339(value)
    if key in DURATIONS and isinstance(value, int):
        return seconds(value)
    if key == "context" and isinstance(value, str):
        return _context(value)
    return MODE_NAMES.get(value, value) if key == "mode" and isinstance(value, str) else value


TIMES = ("acquired_at", "expires_at", "expired_at", "deadline")
DURATIONS = ("ttl", "waited", "grace")
"""Details of events that are times and durations; a client turns them back (``client.decoding``)."""
PLAIN = frozenset(("text", "count", "number", "integer", "fence", "flag", "object", "lease_id", "run_id"))
"""Kinds of which the model has the JSON value itself."""
_ENCODERS: dict[str, Encoder] = {
    "time": lambda it, _: rfc3339(it),
    "end": lambda it, _: rfc3339(it),
    "seconds": lambda it, _: seconds(it),
    "fence?": lambda it, _: it or None,
    "context": lambda it, _: None if it is None else _context(it),
    "text[]": lambda it, _: list(it),
    "detail": _detail,
    "Lease": lease,
    "ListedLease": _listed_lease,
}
"""By kind of field; made from the table when they are first needed."""


def encoder(kind: str) -> Encoder:
    """Return the function that encodes a value of this kind; it also takes the time of the whole answer."""
    found = _ENCODERS.get(kind)
    if found is None:
        found = _ENCODERS[kind] = _made(kind)
    return found


def _made(kind: str) -> Encoder:
    if kind.endswith("[]"):
        one = encoder(kind[:-2])
        return lambda they, now: [one(it, now) for it in they]
    if kind.endswith("?"):
        given = encoder(kind[:-1])
        return lambda it, now: None if it is None else given(it, now)
    if kind in PLAIN or "|" in kind or kind[0] == "=":
        return lambda it, _: it
    from leasehold.wire import table  # noqa: PLC0415 (see `names`)

    shape = table.shape(kind)
    return _of_shape(shape) if shape.model else lambda it, _: it


def _of_shape(shape: Shape) -> Encoder:
    rows = [(field.name, field.source, encoder(field.kind), field.when) for field in shape.fields]
    has_now = any(source == "now_us" for _, source, _, _ in rows)

    def encode(it: Any, now: int) -> Json:  # noqa: ANN401 (the shape's noun)
        seen = it.now_us if has_now else now
        return {
            name: convert(getattr(it, source) if isinstance(source, str) else source(it, seen), seen)
            for name, source, convert, when in rows
            if not when or getattr(it, when) not in (None, ())
        }

    return encode


def blocker(it: Blocker) -> Json:
    """Return what stands in the way of a request."""
    told: Json = encoder("Blocker")(it, 0)
    return told


def event(it: Event) -> Json:
    """Return one event of the history."""
    told: Json = encoder("Event")(it, 0)
    return told


def encoded(kind: str, it: object, now: int = 0) -> Any:  # noqa: ANN401 (JSON)
    """Return a noun as this kind of JSON; `now` is the time of the answer, for a noun that does not have it."""
    return encoder(kind)(it, now)


# ------------------------------------------------------------------------------------------------- answers


def leases(they: Iterable[Lease]) -> Json:
    """Return a listing of leases."""
    told: Json = encoder("Leases")(they, 0)
    return told


def events(they: Iterable[Event]) -> Json:
    """Return a listing of events."""
    told: Json = encoder("Events")(they, 0)
    return told


_KINDS: Final[dict[type, str]] = {TimedOut: "Held"}
"""The shape of an outcome that is not named like its class."""
_REFUSALS: Final = frozenset({Held, TimedOut, Deadlock, Lost, Refused})


def answer(outcome: Any) -> Json:  # noqa: ANN401 (an outcome, an inspection or a graph)
    """Return the `data` of an answer, or the `error` of a refusal (see `is_refusal`)."""
    kind = type(outcome)
    told: Json = encoder(_KINDS.get(kind, kind.__name__))(outcome, 0)
    return told


def is_refusal(outcome: object) -> bool:
    """Return True if this answer is a refusal."""
    return type(outcome) in _REFUSALS


def envelope(outcome: Any) -> Json:  # noqa: ANN401 (see `answer`)
    """Return what ``--json`` prints for this outcome."""
    refused = is_refusal(outcome)
    return {"schema_version": SCHEMA_VERSION, "ok": not refused, "error" if refused else "data": answer(outcome)}


def why_forced(event: Event) -> object:
    """Return who ended a lease and why, from its event. Over git the commits keep only the whole reason."""
    told = event.detail
    return f"forced by {told['by']}: {told['why']}" if "by" in told else told.get("reason")
