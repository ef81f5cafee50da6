"""Parse simple TOML, one `key = value` a line, as most configurations are. Anything else is left to tomllib.

Importing ``tomllib`` takes longer than a whole `leasehold acquire`. Text that is parsed here means the same there;
other text goes there, and gets an explanation if it is wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Value: TypeAlias = str | int | list[str]

_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def read(data: bytes) -> dict[str, Value] | None:
    """Return the settings of a simple file; None if it is not simple."""
    lines = _lines(data)
    return None if lines is None else _table(lines)


def read_table(data: bytes, name: str) -> dict[str, Value] | None:
    """Return the settings of the table `[name]`; None unless it is simple and stands in one place."""
    lines = _lines(data)
    if lines is None or lines.count(f"[{name}]") != 1 or b'"""' in data or b"'''" in data:
        return None
    below = lines[lines.index(f"[{name}]") + 1 :]
    end = next((number for number, line in enumerate(below) if line.startswith("[")), len(below))
    return _table(below[:end])


def _lines(data: bytes) -> list[str] | None:
    try:
        return [line.strip(" \t") for line in data.decode().replace("\r\n", "\n").split("\n")]
    except UnicodeDecodeError:
        return None


def _table(lines: list[str]) -> dict[str, Value] | None:
    found: dict[str, Value] = {}
    for line in lines:
        if not line.isprintable():
            return None
        if not line or line.startswith("#"):
            continue
        key, _, rest = line.partition("=")
        key, value = key.rstrip(), _value(rest.strip())
        if value is None or not key or not _KEY.issuperset(key) or key in found:
            return None
        found[key] = value
    return found


def _value(text: str) -> Value | None:
    if text[:1] in ('"', "'"):
        end = text.find(text[0], 1)
        after = text[end + 1 :].lstrip()
        return _text(text[: end + 1]) if end > 0 and (not after or after.startswith("#")) else None
    if text.startswith("[") and text.endswith("]"):
        parts = [part.strip() for part in text[1:-1].split(",")]
        if not parts[-1]:
            parts.pop()
        texts = [one for part in parts if (one := _text(part)) is not None]
        return texts if len(texts) == len(parts) else None
    number = text.partition("#")[0].rstrip()
    is_plain = number.isascii() and number.isdigit() and (number == "0" or not number.startswith("0"))
    return int(number) if is_plain and len(number) < 16 else None


def _text(quoted: str) -> str | None:
    """Return the text between two quotation marks; None if it contains escapes or quotation marks."""
    inner = quoted[1:-1]
    is_whole = len(quoted) > 1 and quoted[0] in "\"'" and quoted[-1] == quoted[0]
    return inner if is_whole and quoted[0] not in inner and "\\" not in inner else None
