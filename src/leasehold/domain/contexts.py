"""A lease's context: JSON of a bounded size and depth. Pure; imported by those who have one."""

from __future__ import annotations

import json

from leasehold.errors import InvalidInput

BYTES = 16 * 1024
LEVELS = 64
"""A reader must be able to parse a context, however deep its own call stack is."""


def text(value: object) -> str:
    """Return the JSON text of a context."""
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        length = len(written.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("context", f"must be JSON: {error}") from None
    except Exception as error:  # noqa: BLE001 (a caller's own class may raise whatever it likes)
        raise InvalidInput("context", f"must be JSON: it raises {type(error).__name__}") from None
    if length > BYTES:
        raise InvalidInput("context", f"must be at most {BYTES} bytes of JSON, not {length}")
    if written.count("{") + written.count("[") > LEVELS and _is_deeper(value, LEVELS):
        raise InvalidInput("context", f"must be at most {LEVELS} levels deep")
    return written


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)
