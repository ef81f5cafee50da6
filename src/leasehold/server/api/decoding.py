"""Decoding of bodies and query strings to the types of ``requests``, or to a problem that names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from leasehold.requests import verbs
from leasehold.server.api.problems import Problem
from leasehold.server.api.requests import Body, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

B = TypeVar("B", bound=Body)
Q = TypeVar("Q", bound=Query)

JSON = "application/json"
_IN_QUERIES = [each for name in verbs.NAMES if verbs.verb(name).method == "GET" for each in verbs.verb(name).sent]
_NUMBERS = frozenset(each.spelled for each in _IN_QUERIES if each.kind.startswith("integer")) | {"window"}
_REPEATED = frozenset(each.spelled for each in _IN_QUERIES if each.kind == "text[]")
MISSPELLED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a decoder. A `ValidationError`, of a body that is JSON, is one of them."""
_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a JSON object",
}
"""The decoder's names of types, in plain words."""
_GOT = {**_WORDS, "int": "a number", "float": "a fraction"}
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def check_media_type(media_type: str | None) -> None:
    """Refuse a body that does not say that it is JSON: pages of other origins need a preflight for that."""
    kind = (media_type or "").partition(";")[0].strip()
    if kind.lower() != JSON:
        came = f"came as {kind[:100]}" if kind else "does not say what it is"
        raise Problem("media_type", f"the body {came}; send JSON, with the header\nContent-Type: {JSON}")


def decode(kind: type[B], content: bytes, media_type: str | None = None) -> B:
    """Return the decoded body. No body at all is an empty object, and needs no type."""
    if content or media_type is not None:
        check_media_type(media_type)
    try:
        body: B = decoder_of(kind)(content or b"{}")
    except msgspec.ValidationError as error:
        raise invalid(error, kind) from None
    except MISSPELLED as error:
        raise Problem("invalid", f"the body is not JSON: {error}") from None
    return body


def decoder_of(kind: type[Any]) -> Callable[[bytes], Any]:
    """Return the decoder of this kind of body. It raises one of `MISSPELLED`."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder.decode


def decode_query(kind: type[Q], pairs: Iterable[tuple[str, str]]) -> Q:
    """Return the decoded query string. Only `kind` may be repeated."""
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in _REPEATED:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Problem("invalid", f"{name[:100]}: is given twice", field=name[:100])
        else:
            given[name] = int(value) if name in _NUMBERS and _is_number(value) else value
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise invalid(error, kind) from None


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20


def invalid(error: msgspec.ValidationError, kind: type[Any]) -> Problem:
    """Return the problem that names the wrong field and says what is allowed there."""
    said, _, place = str(error).partition(" - at `$")
    place = place.strip("`.")
    words = said.split("`")[1::2]
    if said.startswith("Object contains unknown field"):
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        what = "is not known" if place else f"is not known; there are {', '.join(names)}"
        place = f"{place}.{words[0]}".strip(".")
    elif said.startswith("Object missing required field"):
        what = "is missing"
        place = f"{place}.{words[0]}".strip(".")
    elif said.startswith("Expected ") and len(words) == len(("wanted", "got")):
        wanted = words[0].replace("int | float", "float").split(" | ")
        what = f"must be {' or '.join(_WORDS.get(each, each) for each in wanted)}, not {_GOT.get(words[1], words[1])}"
    else:
        what = said[:1].lower() + said[1:]
    if not place:
        return Problem("invalid", f"the body {what}")
    return Problem("invalid", f"{place}: {what}", field=place.partition("[")[0].partition(".")[0])


arguments: Callable[[Body | Query], dict[str, Any]] = msgspec.structs.asdict
"""Return the arguments of the verb that a body stands for."""
