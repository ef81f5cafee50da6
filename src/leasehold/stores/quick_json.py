"""Between values and JSON: several times as fast where the server's own library is there. Knows no store."""

from __future__ import annotations

import json

try:
    import msgspec
except ImportError:  # it comes with the server; others can do without
    msgspec = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

in_ascii = json.JSONEncoder(separators=(",", ":")).encode
"""JSON with escapes for all that is not ASCII."""
_in_utf8 = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


if msgspec is not None:
    _encoder = msgspec.json.Encoder()


def _chosen() -> tuple[Callable[[object], bytes], Callable[[object], bytes], Callable[[bytes | str], Any]]:
    if msgspec is None:
        return lambda value: in_ascii(value).encode(), lambda value: _in_utf8(value).encode(), json.loads
    quick_encode, quick_decode = _encoder.encode, msgspec.json.Decoder().decode

    def encode(value: object) -> bytes:
        try:
            return quick_encode(value)
        except UnicodeEncodeError:  # half a character, which only escapes can tell
            return in_ascii(value).encode()

    def decode(data: bytes | str) -> Any:  # noqa: ANN401 (any JSON value)
        try:
            return quick_decode(data)
        except msgspec.DecodeError:  # the same
            return json.loads(data)

    return encode, quick_encode, decode


encode, encode_whole, decode = _chosen()
"""`encode_whole` refuses half a character (`UnicodeEncodeError`), where `encode` writes an escape."""


def encode_lines(values: Sequence[object]) -> bytes:
    """Encode each value on its own line. JSON has no line breaks within a value."""
    if msgspec is not None:
        try:
            return _encoder.encode_lines(values)[:-1]
        except UnicodeEncodeError:  # see above
            pass
    return b"\n".join([encode(value) for value in values])


def spellings(text: str) -> tuple[str, str]:
    """Return the two ways in which `encode` may have written this: as it is, or with escapes for all but ASCII."""
    escaped, plain = in_ascii(text), _in_utf8(text)
    try:
        plain.encode()
    except UnicodeEncodeError:  # half a character
        plain = escaped
    return plain, escaped
