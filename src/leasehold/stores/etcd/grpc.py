"""Unary gRPC calls over one HTTP/2 connection, one call at a time. h2 speaks HTTP/2; this module frames messages.

It knows nothing of etcd. h2 does no I/O, so that an event loop can do other work while an answer is on its way.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, H2Connection, H2ConnectionStateMachine
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hpack import NeverIndexedHeaderTuple

from leasehold.domain.nouns import Noun
from leasehold.steps import through

if TYPE_CHECKING:
    from collections.abc import Callable

    from h2.events import Event

    from leasehold.steps import Steps

WINDOW = 1 << 30
"""Bytes that the server may send before we acknowledge any: more than any answer, so acknowledging can wait."""
_RECEIVE = 1 << 16
_NOT_GRPC = "this server does not speak gRPC"
_message_head = struct.Struct(">BI")


class CallRefused(OSError):
    """The server certainly did not carry out this call."""


class ConnectionBroken(OSError):
    """The connection was closed, or the server broke the rules of HTTP/2 or gRPC."""


class GrpcReply(Noun):
    """The outcome of a call."""

    status: int
    """gRPC's status code; 0 is success."""
    message: bytes
    error: str
    """The server's explanation if the call failed."""


class _DrainingStateMachine(H2ConnectionStateMachine):
    """Accept answers after GOAWAY: a server finishes the calls it has begun, but h2 closes at once (its issue 1181)."""

    def process_input(self, input_: ConnectionInputs) -> list[Event]:
        return [] if input_ is ConnectionInputs.RECV_GOAWAY else super().process_input(input_)


def _http2() -> H2Connection:
    # Checking headers would take 25 of 115 µs a call: ours are constants, and of the server's we read three.
    config = H2Configuration(
        validate_outbound_headers=False,
        normalize_outbound_headers=False,
        validate_inbound_headers=False,
        normalize_inbound_headers=False,
    )
    made = H2Connection(config)
    made.state_machine = _DrainingStateMachine()
    made.local_settings = Settings(
        initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: WINDOW}
    )
    made.initiate_connection()
    made.increment_flow_control_window(WINDOW)
    return made


def _connected(host: str, port: int, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection((host, port), timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise
    made.setblocking(False)  # `GrpcConnection` polls
    return made


def _never() -> bool:
    return False


class GrpcConnection:
    """A connection for one call at a time. Any thread may take the next step of a call.

    During a call this object is the `Answering` that the call's steps yield (see `leasehold.stores`).
    """

    def __init__(
        self, host: str, port: int, timeout: float, tls: ssl.SSLContext | None, silence: float | None = None
    ) -> None:
        self._scheme = b"http" if tls is None else b"https"
        self._authority = f"{host}:{port}".encode()
        self._socket = _connected(host, port, timeout, tls)
        self._silence = silence or timeout
        self._quiet_until = time.monotonic() + self._silence
        """Until then the server may be silent; then `_goes_on` is asked whether to wait longer."""
        self._http2 = _http2()
        self._is_greeted = False
        self._stream = 0
        self._fields: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._is_complete = False
        self._error: OSError | None = None
        """An error that `is_answered` met; the call's next step raises it."""
        self.is_ending = False
        """True once the server accepts no further calls on this connection."""
        self.is_sent = False
        """True once the current call was sent as a whole."""
        self._goes_on: Callable[[], bool] = _never
        try:
            self._flush()
        except OSError:
            self._socket.close()
            raise

    def call(self, path: str, message: bytes, token: str = "") -> GrpcReply:
        """Send a call and wait for its reply; time out after `silence` seconds without a byte."""
        return through(self.calling(path, message, token))

    def calling(
        self, path: str, message: bytes, token: str = "", goes_on: Callable[[], bool] = _never
    ) -> Steps[GrpcReply]:
        """Send a call and wait for its reply, step by step.

        After each `silence` seconds without a byte, `goes_on` decides whether to wait longer.
        """
        self._goes_on = goes_on
        self._quiet_until = time.monotonic() + self._silence
        self._fields, self._body = {}, []
        self._is_complete = self.is_sent = False
        yield from self._send(path, token, _message_head.pack(0, len(message)) + message)
        self.is_sent = True
        if not self._is_complete:
            yield self
        while not self._is_complete:
            self._receive()
        return self._reply()

    # ---------------------------------------------------------------------------------------- sending

    def _send(self, path: str, token: str, body: bytes) -> Steps[None]:
        """Send a request as far as flow control allows, step by step."""
        http2 = self._http2
        try:
            self._stream = stream = http2.get_next_available_stream_id()
            http2.send_headers(stream, self._headers(path, token))
        except ProtocolError as error:  # this connection has carried all the calls it can, or the server allows none
            raise CallRefused(str(error)) from error
        at = 0
        while at < len(body):
            room = min(http2.local_flow_control_window(stream), http2.max_outbound_frame_size)
            if room > 0:
                http2.send_data(stream, body[at : at + room], end_stream=at + room >= len(body))
                at += room
                continue
            self._flush()
            yield None
            self._receive()
            if self._is_complete:  # the server answered without reading on
                self.is_ending = True
                return
        self._flush()

    def _headers(self, path: str, token: str) -> list[tuple[bytes, bytes]]:
        headers = [
            (b":method", b"POST"),
            (b":scheme", self._scheme),
            (b":path", path.encode()),
            (b":authority", self._authority),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        ]
        return [*headers, NeverIndexedHeaderTuple(b"authorization", token.encode())] if token else headers

    def _flush(self) -> None:
        data, sent = self._http2.data_to_send(), 0
        while sent < len(data):
            try:
                sent += self._socket.send(data[sent:] if sent else data)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN)

    def _wait(self, event: int) -> None:
        """Wait until the socket is ready for this event."""
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise ConnectionBroken("the connection was closed")
        ready = select.poll()
        ready.register(descriptor, event)
        while not ready.poll(max(0.0, self._quiet_until - time.monotonic()) * 1_000):
            if not self._goes_on():
                raise TimeoutError("timed out")
            self._quiet_until = time.monotonic() + self._silence

    # -------------------------------------------------------------------------------------- receiving

    def fileno(self) -> int:
        """Return the descriptor of the socket that the answer arrives on."""
        return self._socket.fileno()

    def is_answered(self) -> bool:
        """Process what has arrived, without waiting. True if the reply is complete or the call has failed."""
        try:
            while not self._is_complete and self._error is None:
                data = self._received()
                if data is None:
                    return False
                self._process(data)
        except OSError as error:
            self._error = error
        return True

    def _receive(self) -> None:
        """Wait for data and process it."""
        if self._error is not None:
            raise self._error
        while (data := self._received()) is None:
            self._wait(select.POLLIN)
        self._process(data)

    def _received(self) -> bytes | None:
        """Read from the socket; None if nothing has arrived."""
        try:
            data = self._socket.recv(_RECEIVE)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        if not data:
            raise ConnectionBroken("the connection was closed")
        self._quiet_until = time.monotonic() + self._silence
        return data

    def _process(self, data: bytes) -> None:
        if not self._is_greeted and data.startswith(b"HTTP/"):  # h2 would wait for the rest of an endless frame
            raise ConnectionBroken(_NOT_GRPC)
        self._is_greeted = True
        try:
            events = self._http2.receive_data(data)
        except ProtocolError as error:
            raise ConnectionBroken(f"{_NOT_GRPC} ({error})") from error
        for event in events:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        """Apply an event of HTTP/2 to the call under way."""
        if isinstance(event, DataReceived):
            self._body.append(event.data)
            self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, (ResponseReceived, TrailersReceived)):
            self._fields.update(event.headers)
        elif isinstance(event, StreamEnded):
            self._is_complete = True
        elif isinstance(event, StreamReset) and not self._is_complete:
            if event.error_code == ErrorCodes.REFUSED_STREAM:
                raise CallRefused("the server refused the call")
            raise ConnectionBroken(f"the server reset the call (HTTP/2 error {event.error_code})")
        elif isinstance(event, ConnectionTerminated):
            self.is_ending = True
            if (event.last_stream_id or 0) < self._stream and not self._is_complete:
                raise CallRefused("the server is shutting down")

    def _reply(self) -> GrpcReply:
        status = self._fields.get(b"grpc-status", b"")
        if self._fields.get(b":status") != b"200" or not status.isdigit():
            raise ConnectionBroken(_NOT_GRPC)
        body = b"".join(self._body)
        if status == b"0" and (len(body) < _message_head.size or _message_head.unpack_from(body)[1] != len(body) - 5):
            raise ConnectionBroken("the answer was cut off")
        error = unquote(self._fields.get(b"grpc-message", b"").decode("latin-1"))
        return GrpcReply(int(status), body[_message_head.size :], error)

    def shut_down(self) -> None:
        """Shut the connection down, also while another thread waits for an answer: that call fails."""
        with suppress(OSError):  # the connection is gone already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
