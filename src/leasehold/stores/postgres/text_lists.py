"""Lists as PostgreSQL reads them, each as one text. Pure, and on the path of every commit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

BETWEEN, BETWEEN_ROWS, BETWEEN_LISTS = "\x1f", "\x1e", b"\x1d"
"""Separators. They are never part of a name, an id, or JSON, which refuse or escape control characters.

So a list is sent as one text, and no item has to be quoted."""

LOSS = "loss"
"""Payload of a notification that leases of other holders have ended. The key of an engine is longer."""


def listed(items: Iterable[str]) -> bytes:
    """Join texts into one."""
    return BETWEEN.join(items).encode()


def items_of(text: str) -> list[str]:
    """Return the items of a list."""
    return text.split(BETWEEN) if text else []


def number_of(value: bytes | None) -> int:
    """Read a number of an answer; NULL is 0."""
    return int(value or b"0")


def text_of(value: bytes | None) -> str:
    """Read a text of an answer; NULL is empty."""
    return (value or b"").decode()
