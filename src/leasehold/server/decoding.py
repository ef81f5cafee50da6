"""From bytes and query strings to the types of ``requests``, or to a problem that names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from leasehold.server.problems import Problem
from leasehold.server.requests import Body, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

B = TypeVar("B", bound=Body)
Q = TypeVar("Q", bound=Query)

_NUMBERS = ("since", "before", "limit", "last_event_id")
MISSPELLED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises; a `ValidationError`, of something that is JSON, is one of them."""
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def check_media_type(media_type: str | None) -> None:
    """Whoever says what a body is must say that it is JSON."""
    if media_type is not None and media_type.partition(";")[0].strip().lower() != "application/json":
        raise Problem("media_type", "the body must be application/json")


def decode(kind: type[B], content: bytes, media_type: str | None = None) -> B:
    """The body, understood."""
    check_media_type(media_type)
    try:
        body: B = decoder_of(kind)(content or b"{}")
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except MISSPELLED as error:
        raise Problem("invalid", f"the body is not JSON: {error}") from None
    return body


def decoder_of(kind: type[Any]) -> Callable[[bytes], Any]:
    """What makes this kind of body of bytes, or raises one of `MISSPELLED`."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder.decode


def decode_query(kind: type[Q], pairs: Iterable[tuple[str, str]]) -> Q:
    """What stands after the `?`, understood; `kind` may be repeated, nothing else."""
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name == "kind":
            given.setdefault("kind", []).append(value)
        elif name in given:
            raise Problem("invalid", f"{name[:100]}: is given twice", field=name[:100])
        else:
            given[name] = int(value) if name in _NUMBERS and _is_number(value) else value
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise invalid(error) from None


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20


def invalid(error: msgspec.ValidationError) -> Problem:
    """The problem that names the field which was not understood."""
    what, _, place = str(error).partition(" - at `$.")
    if what.startswith("Expected `object`") and not place:
        return Problem("invalid", f"the body must be a JSON object, not {what.split('`')[3]}")
    if not place and "`" in what:  # a field that is missing or unknown
        place = what.split("`")[1] if what.split("`")[1] != "$" else ""
    field = place.rstrip("`").partition("[")[0].partition(".")[0]
    return Problem("invalid", f"{field}: {what}" if field else what, **({"field": field} if field else {}))


arguments: Callable[[Body | Query], dict[str, Any]] = msgspec.structs.asdict
"""The arguments of the verb that a body stands for."""
