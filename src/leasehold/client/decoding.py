"""Decode answers of a server into the nouns of the model: the counterpart of ``wire.shapes``. It trusts the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from leasehold.domain.leases import Lease
from leasehold.domain.outcomes import Deadlock, Held, Lost, Refused, TimedOut
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.errors import BY_CODE
from leasehold.requests import verbs
from leasehold.requests.checks import MODES
from leasehold.wire.shapes import DURATIONS, PLAIN, TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from leasehold.wire.shapes import Json
    from leasehold.wire.table import Shape

    Decoder: TypeAlias = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def when(text: str | None) -> int:
    """Return a time of the store's clock; null is a time that never comes."""
    return FOREVER if text is None else (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND


def span(seconds: float | None) -> int:
    """Return a duration; null is one without an end."""
    return FOREVER if seconds is None else round(seconds * SECOND)


def _text(value: object) -> str | None:
    """Return the JSON text of a context, which the model keeps as text."""
    if value is None:
        return None
    import json  # noqa: PLC0415

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def lease(it: Json) -> Lease:
    """Return a lease. By hand, as every acquire and renew of a client decodes one; a test holds it to the table."""
    return Lease(
        it["id"],
        it["space"],
        tuple(it["resources"]),
        it["holder"],
        it["session"],
        it["mode"],
        it["slots"],
        it["fence"],
        span(it["ttl_seconds"]),
        when(it["acquired_at"]),
        when(it["expires_at"]),
        it["name"],
        it["reason"],
        _text(it["context"]),
        when(it["as_of"]),
        it.get("principal"),
        it.get("key"),
        it.get("trace"),
        it.get("host"),
    )


# ------------------------------------------------------------------------------------------ from the table


_OF_DETAILS = {f"{each}_seconds": each for each in DURATIONS}


def _detail(it: Json) -> Json:
    return {_OF_DETAILS.get(key, key): _of_detail(key, value) for key, value in it.items()}


def _of_detail(key: str, value: object) -> object:
    if key in _OF_DETAILS and isinstance(value, int | float):
        return span(value)
    if key in TIMES and isinstance(value, str):
        return when(value)
    if key == "mode" and isinstance(value, str):
        return MODES.get(value, value)
    return _text(value) if key == "context" else value


_DECODERS: dict[str, Decoder] = {
    "time": when,
    "end": when,
    "seconds": span,
    "fence?": lambda it: it or 0,
    "context": _text,
    "text[]": tuple,
    "detail": _detail,
    "Lease": lease,
    "ListedLease": lease,
}
"""By kind of field; made from the table when they are first needed."""


def decoder(kind: str) -> Decoder:
    """Return the function that decodes JSON of this kind."""
    found = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = _made(kind)
    return found


def _made(kind: str) -> Decoder:
    if kind.endswith("[]"):
        one = decoder(kind[:-2])
        return lambda they: tuple([one(it) for it in they])
    if kind.endswith("?"):
        given = decoder(kind[:-1])
        return lambda it: None if it is None else given(it)
    if kind in PLAIN or "|" in kind or kind[0] == "=":
        return _as_it_is
    from leasehold.wire import table  # noqa: PLC0415 (a one-shot acquire or release does without)

    return _of_shape(table.shape(kind), table.UNTOLD)


def _of_shape(shape: Shape, untold: Mapping[str, Mapping[str, object]]) -> Decoder:
    """Return the decoder of a shape, which makes the shape's noun from an object of JSON."""
    if shape.model == "tuple":
        (field,) = shape.fields
        listed = decoder(field.kind)
        return lambda it: listed(it[field.name])
    module, _, name = shape.model.rpartition(".")
    noun: Any = getattr(import_module(f"leasehold.domain.{module}"), name)
    known = {**noun._field_defaults, **untold.get(shape.model, {})}
    told = {field.source: field for field in shape.fields if field.source not in untold.get(shape.model, {})}
    rows = [
        (told[each].name, decoder(told[each].kind), bool(told[each].when), known.get(each))
        if each in told
        else ("", _as_it_is, True, known[each])
        for each in noun._fields
    ]

    def decode(it: Json) -> Any:  # noqa: ANN401 (the shape's noun)
        values = [default if lacks and key not in it else convert(it[key]) for key, convert, lacks, default in rows]
        return noun(*values)

    return decode


def _as_it_is(it: object) -> object:
    return it


_BREAKAGES = ("error", "store", "outcome_unknown", "unreachable", "closed")


def answer(verb: str, body: Json) -> Any:  # noqa: ANN401 (each verb knows what it gets)
    """Return the outcome behind a success."""
    return decoder(verbs.verb(verb).answer)(body)


def refusal(problem: Json) -> Any:  # noqa: ANN401 (one of the refusals)
    """Return the outcome behind a refusal; raise a breakage."""
    code = problem.get("code", "store")
    if code in ("held", "timeout"):
        return _held(Held if code == "held" else TimedOut, problem)
    if code == "deadlock":
        return Deadlock(tuple(problem["resources"]), tuple(problem["cycle"]))
    if code == "lost":
        return Lost(problem.get("lease", ""), problem.get("reason", ""))
    if code in _BREAKAGES:
        raise BY_CODE[code](problem.get("detail", code))
    spelled: str = problem.get("field") or ""
    told: str = problem.get("detail") or problem.get("title") or code
    return Refused(code, spelled.removesuffix("_seconds"), told.removeprefix(f"{spelled}: ") if spelled else told)


def _held(kind: type[Held | TimedOut], problem: Json) -> Held | TimedOut:
    return kind(
        tuple(problem["resources"]),
        decoder("Blocker[]")(problem["holders"]),
        decoder("Queue")(problem["queue"]),
        span(problem["retry_after_seconds"]),
    )
