"""Values as PostgreSQL reads them: JSON, and lists. Pure; on the way of every commit, so it does much in few calls."""

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

BETWEEN, BETWEEN_ROWS = "\x1f", "\x1e"
"""Neither is ever part of a name, an id, or of JSON: control characters are refused there, and escaped here.

So a list goes as one text, and nothing in it has to be quoted."""
_BETWEEN = BETWEEN.encode()
_in_ascii = json.JSONEncoder(separators=(",", ":")).encode


def _chosen() -> tuple[Callable[[object], bytes], Callable[[str], Any]]:
    if msgspec is None:
        return lambda value: _in_ascii(value).encode(), json.loads
    encode_bytes, decode_text = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode

    def encode(value: object) -> bytes:
        try:
            return encode_bytes(value)
        except UnicodeEncodeError:  # half a character, which only escapes can tell
            return _in_ascii(value).encode()

    def decode(text: str) -> Any:  # noqa: ANN401 (any JSON value)
        try:
            return decode_text(text)
        except msgspec.DecodeError:  # the same
            return json.loads(text)

    return encode, decode


encode, decode = _chosen()
"""Between values and JSON text; several times as fast where the server's own library is there."""


def spellings(text: str) -> tuple[str, str]:
    """How this may be written in JSON: as it is, or with escapes for all that is not ASCII."""
    return encode(text).decode(), _in_ascii(text)


def listed(items: Iterable[str]) -> bytes:
    """These texts as one."""
    return BETWEEN.join(items).encode()


def listed_bytes(items: Iterable[bytes]) -> bytes:
    """The same of texts that are encoded already."""
    return _BETWEEN.join(items)


def items_of(text: str) -> list[str]:
    """What was listed."""
    return text.split(BETWEEN) if text else []
