"""As much of HTTP/2 as a gRPC call takes: one connection, one call at a time, by hand. It knows nothing of etcd.

Headers are sent without compression, and the other side is told to keep none, so only single answers have to be
understood. See docs/adr for why there is no library.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote

from leasehold.noun import Noun
from leasehold.stepwise import through

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stepwise import Steps

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_TABLE_SIZE, _PUSH, _INITIAL_WINDOW = 1, 2, 4
_REFUSED = 7
_WIDE = 1 << 30
_FRAME = 16_384
"""No frame may be longer unless both sides agree, and we never do."""
_SMALL_WINDOW = 65_535
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_frame_head = struct.Struct(">HBBBI")
_word = struct.Struct(">I")
_setting = struct.Struct(">HI")
_message_head = struct.Struct(">BI")
_STATUSES = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}
"""Lines of the table that headers refer to; of the others, only the names could be."""
_LETTERS = {
    5: "012aceiost",
    6: " %-./3456789=A_bdfghlmnpru",
    7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: "&*,;XZ",
    10: '!"()?',
    11: "'+|",
    12: "#>",
    13: "\0$@[]~",
    14: "^}",
    15: "<`{",
}
"""By the bits that each takes in a header, in the order of their codes. Others do not occur in what we read."""


class Refused(OSError):
    """The other side has certainly not carried this call out."""


class Broken(OSError):
    """What came is no HTTP/2, or breaks its rules."""


class Reply(Noun):
    """What came of a call."""

    status: int
    """As gRPC counts: 0 is well."""
    message: bytes
    """The answer."""
    error: str
    """What went wrong, in words."""


@lru_cache(maxsize=64)
def head(path: str, authority: str, authorization: str = "", *, tls: bool = False) -> bytes:
    """The headers of a call: the same bytes each time."""
    fields = (b"\x83\x87\x04" if tls else b"\x83\x86\x04") + _string(path) + b"\x01" + _string(authority)
    fields += b"\x0f\x10" + _string("application/grpc") + b"\x00" + _string("te") + _string("trailers")
    return fields + (b"\x0f\x08" + _string(authorization) if authorization else b"")


def _string(text: str) -> bytes:
    data = text.encode()
    rest = len(data) - 0x7F
    if rest < 0:
        return bytes((len(data),)) + data
    size = b"\x7f"
    while rest > 0x7F:
        size += bytes((rest & 0x7F | 0x80,))
        rest >>= 7
    return size + bytes((rest,)) + data


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return _frame_head.pack(len(content) >> 8, len(content) & 0xFF, kind, flags, stream) + content


_SETTINGS_OF_OURS = ((_TABLE_SIZE, 0), (_PUSH, 0), (_INITIAL_WINDOW, _WIDE))
_GREETING = (
    _PREFACE
    + _frame(_SETTINGS, 0, 0, b"".join(_setting.pack(*each) for each in _SETTINGS_OF_OURS))
    + _frame(_WINDOW, 0, 0, _word.pack(_WIDE))
)


def _connected(host: str, port: int, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection((host, port), timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise
    made.setblocking(False)  # whoever waits does it by itself
    return made


def _never() -> bool:
    """Whoever takes longer than the time-out is given up."""
    return False


class Connection:
    """One connection, for one call at a time; it does not matter which thread takes the next step of a call.

    While a call is under way it is an answer that is on its way (see ``stores.Answering``).
    """

    def __init__(
        self, host: str, port: int, timeout: float, tls: ssl.SSLContext | None, silence: float | None = None
    ) -> None:
        self._socket = _connected(host, port, timeout, tls)
        self._silence = silence or timeout
        self._quiet_until = time.monotonic() + self._silence
        """Until then it may be quiet without being asked about."""
        self._buffer = b""
        self._stream = -1
        self._read = 0
        self._window = _SMALL_WINDOW
        """So much may be sent on the whole connection."""
        self._stream_window = self._initial_window = _SMALL_WINDOW
        """And so much in this call."""
        self._owed = b""
        """Answers to what the other side said in between: they go with the next call."""
        self._fields: dict[str, str] = {}
        self._block = b""
        self._ends_here = False
        self._body: list[bytes] = []
        self._is_complete = False
        self._trouble: OSError | None = None
        """What `is_answered` has met with: the next step is told."""
        self.is_ending = False
        """Whether the other side takes no further calls."""
        self.is_sent = False
        """Whether the call that is under way was sent as a whole."""
        self._goes_on: Callable[[], bool] = _never
        try:
            self._send_all(_GREETING)
        except OSError:
            self._socket.close()
            raise

    def call(self, headers: bytes, message: bytes, goes_on: Callable[[], bool] = _never) -> Reply:
        """Ask, and wait for the answer; `goes_on` is asked after each time-out whether to wait on."""
        return through(self.calling(headers, message, goes_on))

    def calling(self, headers: bytes, message: bytes, goes_on: Callable[[], bool] = _never) -> Steps[Reply]:
        """The same, step by step."""
        self._goes_on = goes_on
        self._quiet_until = time.monotonic() + self._silence
        self._stream += 2
        self._stream_window = self._initial_window
        self._fields, self._block, self._body, self._is_complete = {}, b"", [], False
        self.is_sent = False
        yield from self._send(headers, _message_head.pack(0, len(message)) + message)
        self.is_sent = True
        if not self._is_complete:
            yield self
        while not self._is_complete:
            self._take_in()
        return self._reply()

    def _send(self, headers: bytes, body: bytes) -> Steps[None]:
        out = self._owed + _frame(_HEADERS, _END_HEADERS, self._stream, headers)
        self._owed = b""
        at = 0
        while at < len(body) and not self._is_complete:
            room = min(self._window, self._stream_window, _FRAME)
            if room <= 0:
                self._send_all(out)
                yield None
                self._take_in()
                out, self._owed = self._owed, b""
                continue
            piece = body[at : at + room]
            at += len(piece)
            self._window -= len(piece)
            self._stream_window -= len(piece)
            out += _frame(_DATA, _END_STREAM if at >= len(body) else 0, self._stream, piece)
        self._send_all(out)

    def _send_all(self, data: bytes) -> None:
        sent = 0
        while sent < len(data):
            try:
                sent += self._socket.send(data[sent:] if sent else data)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN)

    def _wait(self, event: int) -> None:
        """Until the socket is ready for that; while it is not, it is asked again and again whether to go on."""
        socket_ = self._socket.fileno()
        if socket_ < 0:
            raise Broken("the connection was closed")
        ready = select.poll()
        ready.register(socket_, event)
        while not ready.poll(max(0.0, self._quiet_until - time.monotonic()) * 1_000):
            if not self._goes_on():
                raise TimeoutError("timed out")
            self._quiet_until = time.monotonic() + self._silence

    # -------------------------------------------------------------------------------- what comes back

    def fileno(self) -> int:
        """The socket that the answer comes by."""
        return self._socket.fileno()

    def is_answered(self) -> bool:
        """Take in what has come, without waiting. Whether that is all of the answer, or there will be none."""
        try:
            while not self._is_complete and self._trouble is None:
                data = self._received()
                if data is None:
                    return False
                self._take(data)
        except OSError as error:
            self._trouble = error
        return True

    def _take_in(self) -> None:
        """Wait for something, and look at every frame that is there as a whole."""
        if self._trouble is not None:
            raise self._trouble
        while (data := self._received()) is None:
            self._wait(select.POLLIN)
        self._take(data)

    def _received(self) -> bytes | None:
        """What has come; None: nothing yet."""
        try:
            data = self._socket.recv(1 << 16)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        if not data:
            raise Broken("the connection was closed")
        self._quiet_until = time.monotonic() + self._silence
        return data

    def _take(self, data: bytes) -> None:
        data = self._buffer + data
        if data.startswith(b"HTTP/"):
            raise Broken("what listens there speaks no gRPC")
        at = 0
        while len(data) - at >= _frame_head.size:
            high, low, kind, flags, stream = _frame_head.unpack_from(data, at)
            size = high << 8 | low
            if size > _FRAME:
                raise Broken("what listens there speaks no gRPC")
            end = at + _frame_head.size + size
            if end > len(data):
                break
            try:
                self._look_at(kind, flags, stream & 0x7FFFFFFF, data[end - size : end])
            except (struct.error, IndexError):
                raise Broken("a frame was cut off") from None
            at = end
        self._buffer = data[at:]

    def _look_at(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == _DATA and stream == self._stream:
            self._take_body(flags, content)
        elif kind in (_HEADERS, _CONTINUATION) and stream == self._stream:
            self._take_headers(kind, flags, content)
        elif kind == _RESET and stream == self._stream:
            why = _word.unpack(content)[0]
            raise Refused("the call was refused") if why == _REFUSED else Broken(f"the call was reset: {why}")
        elif kind == _WINDOW:
            self._widen(stream, _word.unpack(content)[0] & 0x7FFFFFFF)
        elif kind == _SETTINGS and not flags & _ACK:
            self._settle(content)
        elif kind == _PING and not flags & _ACK:
            self._owed += _frame(_PING, _ACK, 0, content)
        elif kind == _GOAWAY:
            self.is_ending = True
            if _word.unpack_from(content)[0] & 0x7FFFFFFF < self._stream:
                raise Refused("the other side is about to go away")

    def _take_body(self, flags: int, content: bytes) -> None:
        self._read += len(content)
        if self._read > _WIDE // 2:
            self._send_all(_frame(_WINDOW, 0, 0, _word.pack(self._read)))  # they may wait for it
            self._read = 0
        self._body.append(_unpadded(flags, content))
        self._is_complete = bool(flags & _END_STREAM)

    def _take_headers(self, kind: int, flags: int, content: bytes) -> None:
        if kind == _HEADERS:
            content = _unpadded(flags, content)
            self._block = content[5:] if flags & _PRIORITY else content
            self._ends_here = bool(flags & _END_STREAM)
        else:
            self._block += content
        if flags & _END_HEADERS:
            self._fields |= fields_of(self._block)
            self._is_complete = self._ends_here

    def _widen(self, stream: int, by: int) -> None:
        if stream == 0:
            self._window += by
        elif stream == self._stream:
            self._stream_window += by

    def _settle(self, content: bytes) -> None:
        for at in range(0, len(content) - 5, _setting.size):
            name, value = _setting.unpack_from(content, at)
            if name == _INITIAL_WINDOW:
                self._stream_window += value - self._initial_window
                self._initial_window = value
        self._owed += _frame(_SETTINGS, _ACK, 0)

    def _reply(self) -> Reply:
        told = self._fields.get("grpc-status", "")
        if self._fields.get(":status") != "200" or not told.isdigit():
            raise Broken("what listens there speaks no gRPC")
        body = b"".join(self._body)
        if told == "0" and (len(body) < _message_head.size or _message_head.unpack_from(body)[1] != len(body) - 5):
            raise Broken("the answer was cut off")
        return Reply(int(told), body[_message_head.size :], unquote(self._fields.get("grpc-message", "")))

    def hang_up(self) -> None:
        """End it, also under somebody who waits for an answer: that one gets none."""
        with suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give it back."""
        self._socket.close()


def _unpadded(flags: int, content: bytes) -> bytes:
    return content[1 : len(content) - content[0]] if flags & _PADDED else content


# ----------------------------------------------------------------------------------------------- headers


@lru_cache(maxsize=64)  # they are mostly the same
def fields_of(block: bytes) -> dict[str, str]:
    """The headers with names of their own, and the status."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(block):
            first = block[at]
            bits = 7 if first & 0x80 else 6 if first & 0x40 else 5 if first & 0x20 else 4
            index, at = _integer(block, at, bits)
            if bits == 7 and index in _STATUSES:
                found[":status"] = _STATUSES[index]
            if bits in (4, 6):
                name, at = (":status" if index in _STATUSES else "", at) if index else _text_at(block, at)
                found[name], at = _text_at(block, at)
    except IndexError:
        raise Broken("a header was cut off") from None
    return found


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value, at, shift = block[at] & most, at + 1, 0
    if value < most:
        return value, at
    while True:
        byte = block[at]
        value += (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _text_at(block: bytes, at: int) -> tuple[str, int]:
    is_coded = block[at] & 0x80
    size, at = _integer(block, at, 7)
    data = block[at : at + size]
    return (_decoded(data) if is_coded else data.decode("latin-1")), at + size


def _codes() -> dict[tuple[int, int], str]:
    """From the length and the value of a code to its letter."""
    codes, code, last = {}, 0, 0
    for length, letters in _LETTERS.items():
        code <<= length - last
        for letter in letters:
            codes[length, code] = letter
            code += 1
        last = length
    return codes


_letters = _codes()


def _decoded(data: bytes) -> str:
    text, code, length = "", 0, 0
    for byte in data:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            letter = _letters.get((length, code))
            if letter is not None:
                text, code, length = text + letter, 0, 0
    return text
