"""Read every legal answer of HTTP/1.1 that is not simply a head and a body with a length, as proxies send them. Pure.

Chunks with extensions and trailers, a body that ends with the connection, answers that precede the answer (1xx), and
bodies that a proxy has compressed. Our own server sends none of them.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from leasehold.client.messages import BODY_MOST, CHUNKED, END, HEAD_MOST, INTERIM, parse_head
from leasehold.client.unexpected import NoServer
from leasehold.errors import Unreachable

if TYPE_CHECKING:
    from leasehold.client.messages import AnswerHead

INTERIMS_MOST = 100
SWITCHING = 101
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_LINE_END = b"\r\n"
_LINE_MOST = 4096
_HEX = frozenset(b"0123456789abcdefABCDEF")
_CODINGS = ("gzip", "x-gzip", "deflate")


class Reader:
    """One answer, read piece by piece."""

    def __init__(self) -> None:
        self._received = bytearray()
        """Bytes that are not parsed yet."""
        self.head: AnswerHead | None = None
        """The head, once it has arrived."""
        self._body = bytearray()
        self._left = 0
        """Bytes of the body, or of the current chunk, that have not arrived."""
        self._is_after_chunk = self._is_in_trailers = False
        self._trailed = self._interims = 0
        self.keeps = False
        """True if the connection can be used again after the answer."""

    def feed(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """Parse more bytes; return the answer once it is whole."""
        self._received += data
        while self.head is None:
            if not self._read_head():
                return None
        head = self.head
        if head.length == CHUNKED:
            return self._whole(head) if self._read_chunks(head) else None
        if head.length < 0:
            self._body += self._take(BODY_MOST + 1)
            if len(self._body) > BODY_MOST:
                raise NoServer(head.status, "its answer is too long", is_proxied=head.is_proxied)
            return None
        self._left -= len(piece := self._take(self._left))
        self._body += piece
        return None if self._left else self._whole(head)

    def drain(self) -> bytes:
        """Return the part of an endless body that arrived since the last call."""
        drained = bytes(self._body)
        self._body.clear()
        return drained

    def end(self) -> tuple[AnswerHead, bytes]:
        """Return the answer that ends with the connection. Raises `ConnectionResetError` if this one is cut off."""
        head = self.head
        if head is None or head.length >= 0 or head.length == CHUNKED:
            raise ConnectionResetError("the connection was closed before the end of the answer")
        return head, bytes(self._body)

    def _whole(self, head: AnswerHead) -> tuple[AnswerHead, bytes]:
        self.keeps = head.keeps and not self._received
        return head, bytes(self._body)

    def _take(self, most: int) -> bytearray:
        taken = self._received[:most]
        del self._received[:most]
        return taken

    def _read_head(self) -> bool:
        end = self._received.find(END)
        if end < 0:
            if len(self._received) > HEAD_MOST:
                raise Unreachable("what answers there is not a Leasehold server: its answer does not begin")
            return False
        head = parse_head(bytes(self._take(end)))
        del self._received[: len(END)]
        if head.length != INTERIM:
            self.head, self._left = head, max(0, head.length)
            return True
        self._interims += 1
        if head.status == SWITCHING or self._interims > INTERIMS_MOST:
            raise NoServer(head.status, "it wants to speak another protocol, or never answers")
        return True

    # ---------------------------------------------------------------------------------------------- chunks

    def _read_chunks(self, head: AnswerHead) -> bool:
        """Parse the chunks that have arrived; return True after the last one and its trailers."""
        while True:
            if self._left:
                self._left -= len(piece := self._take(self._left))
                self._body += piece
                self._is_after_chunk = True
                if self._left:
                    return False
            line = self._line(head)
            if line is None:
                return False
            if self._is_in_trailers:
                if not line:
                    return True
            elif self._is_after_chunk:
                if line:
                    raise self._bad(head)
                self._is_after_chunk = False
            else:
                self._begin_chunk(head, line)

    def _begin_chunk(self, head: AnswerHead, line: bytes) -> None:
        size = line.partition(b";")[0].rstrip(b" \t")  # extensions are ignored
        if not size or len(size) > 16 or not _HEX.issuperset(size):
            raise self._bad(head)
        self._left = int(size, 16)
        self._is_in_trailers = self._left == 0
        if len(self._body) + self._left > BODY_MOST:
            raise NoServer(head.status, "its answer is too long", is_proxied=head.is_proxied)

    def _line(self, head: AnswerHead) -> bytes | None:
        end = self._received.find(_LINE_END)
        if end > _LINE_MOST or (end < 0 and len(self._received) > _LINE_MOST):
            raise self._bad(head)
        if end < 0:
            return None
        line = bytes(self._take(end))
        del self._received[: len(_LINE_END)]
        if self._is_in_trailers:
            self._trailed += len(line)
            if self._trailed > HEAD_MOST:
                raise self._bad(head)
        return line

    def _bad(self, head: AnswerHead) -> NoServer:
        return NoServer(head.status, "its chunks cannot be read", is_proxied=head.is_proxied)


def uncompressed(head: AnswerHead, data: bytes) -> bytes:
    """Return the uncompressed body of an answer that a proxy compressed."""
    if head.coding not in _CODINGS:
        raise NoServer(head.status, f"its content coding is unknown: {head.coding[:40]!r}", is_proxied=head.is_proxied)
    opening = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        content = opening.decompress(data, BODY_MOST)
    except zlib.error:
        content = b""
    if not opening.eof:
        raise NoServer(head.status, "its compressed answer cannot be read", is_proxied=head.is_proxied)
    return content
