"""Bytes to requests: uvicorn's own protocol, with a limit on how long a request's head may take to arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS = 20.0
HEAD_BYTES = 64 * 1024


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Whoever connects has to ask something, soon."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Some bytes: of a head, unless one is complete."""
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.send_400_response("The head of the request is too large.")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """The head of a request begins."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def on_headers_complete(self) -> None:
        """The head is here."""
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there."""
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
