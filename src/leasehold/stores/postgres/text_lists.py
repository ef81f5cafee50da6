"""Lists as PostgreSQL reads them, each as one text. Pure; on the way of every commit, so it does much in few calls."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

BETWEEN, BETWEEN_ROWS, BETWEEN_LISTS = "\x1f", "\x1e", b"\x1d"
"""None is ever part of a name, an id, or of JSON: control characters are refused there, and escaped here.

So a list goes as one text, and nothing in it has to be quoted."""

LOSS = "loss"
"""Notified when a commit ends leases of others. The key of an engine is longer."""


def listed(items: Iterable[str]) -> bytes:
    """These texts as one."""
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
