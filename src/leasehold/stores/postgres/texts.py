"""Values as PostgreSQL reads them: JSON, and arrays. Pure; on the way of every commit, so it does much in few calls."""

from __future__ import annotations

import json

try:
    import msgspec
except ImportError:  # it comes with the server; others can do without
    msgspec = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_BETWEEN, _NOTHING = "\x1f", "\x1e"
"""Neither is ever part of a name, an id, or of JSON: control characters are refused there, and escaped here."""
_in_ascii = json.JSONEncoder(separators=(",", ":")).encode


def _chosen() -> tuple[Callable[[object], str], Callable[[str], Any]]:
    if msgspec is None:
        return _in_ascii, json.loads
    encode_bytes, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode

    def encode(value: object) -> str:
        try:
            return encode_bytes(value).decode()
        except UnicodeEncodeError:  # half a character, which only escapes can tell
            return _in_ascii(value)

    return encode, decode


encode, decode = _chosen()
"""Between values and JSON text; several times as fast where the server's own library is there."""


def array(items: Iterable[str]) -> str:
    """These texts as PostgreSQL writes an array. Psycopg does that too, at twenty times the cost."""
    joined = _BETWEEN.join(items)
    if not joined:
        return "{}"
    return '{"' + joined.replace("\\", "\\\\").replace('"', '\\"').replace(_BETWEEN, '","') + '"}'


def array_with_gaps(items: Iterable[str | None]) -> str:
    """The same, where some are nothing."""
    texts = array([_NOTHING if item is None else item for item in items])
    return texts.replace(f'"{_NOTHING}"', "NULL")


def numbers(items: Iterable[int | None]) -> str:
    """The same of numbers."""
    return "{" + ",".join(["NULL" if item is None else str(item) for item in items]) + "}"
