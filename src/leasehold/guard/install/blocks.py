"""A marked block in a text file: put in, replaced and taken out, with nothing else of the file touched."""

from __future__ import annotations


def put(text: bytes | None, begin: str, body: str, end: str) -> bytes:
    """The text with this block at its end, and one newline between them, which goes again with the block."""
    block = f"{begin}\n{body.rstrip()}\n{end}\n".encode()
    return text + b"\n" + block if text else block


def take(text: bytes, begin: str, end: str) -> bytes | None:
    """The text without the block; None if there was nothing else."""
    start = text.find(begin.encode())
    stop = text.find(end.encode(), start)
    if start < 0 or stop < 0:
        return text
    stop += len(end.encode())
    stop += text[stop : stop + 1] == b"\n"
    before, after = text[:start], text[stop:]
    before = before.removesuffix(b"\n")
    return before + after if (before + after).strip() else None
