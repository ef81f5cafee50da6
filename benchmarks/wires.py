"""The requests to each lock server, byte for byte: ours over HTTP, Redis over RESP, etcd over gRPC on HTTP/2.

Each is spoken by hand, as leanly as the next, so that what is compared is the servers and not their clients. A *wire*
is one connection; a *client* takes one lock at a time, and learns when it has it and when it has released it. On
HTTP and RESP a client has a connection of its own, on HTTP/2 several share one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from leasehold.stores.etcd.messages import read_varint, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TTL = 60
_numbers = itertools.count(1)


class Target(NamedTuple):
    """Whom to ask."""

    kind: str
    """`leasehold`, `redis` or `etcd`."""
    host: str
    port: int
    key: str = ""
    sharing: int = 1
    """How many clients share a connection; only etcd's protocol can."""
    process: int = 0
    """The server's process, where what it takes is measured."""
    spaces: Sequence[str] = ()
    """The spaces of the clients, one after the other for each acquire; none: the key's own. Only Leasehold has some."""
    ports: Sequence[int] = ()
    """Several servers, for the connections in turn."""


class Client:
    """A client that takes locks; the scene decides what it does next."""

    __slots__ = ("granted", "id", "name", "proof", "released", "wire")

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.id = next(_numbers)
        self.name = b""
        self.proof: tuple[bytes, ...] = ()
        """The part of the answer that the release needs."""
        self.granted: Callable[[Client], None]
        self.released: Callable[[Client], None]

    def acquire(self, name: bytes, wait: int = 0) -> None:
        self.name = name
        self.wire.acquire(self, name, wait)

    def release(self) -> None:
        self.wire.release(self)


class Wire:
    """One connection."""

    def __init__(self, target: Target) -> None:
        self.socket = socket.create_connection((target.host, target.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.clients: list[Client] = []
        self._buffer = b""

    def begin(self, clients: int) -> None:
        """So many share this connection."""
        self.clients = [Client(self) for _ in range(clients)]

    def acquire(self, client: Client, name: bytes, wait: int) -> None:
        raise NotImplementedError

    def release(self, client: Client) -> None:
        raise NotImplementedError

    def received(self, data: bytes) -> None:
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        sent = self.socket.send(data)
        assert sent == len(data), "a request did not fit into the socket's buffer"

    def close(self) -> None:
        self.socket.close()


class LeaseholdWire(Wire):
    """HTTP/1.1, with a key."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        shown = f"Authorization: Bearer {target.key}\r\n" if target.key else ""
        common = f"Host: localhost:{target.port}\r\n{shown}Content-Type: application/json\r\nContent-Length: "
        self._acquire = f"POST /v1/acquire HTTP/1.1\r\n{common}".encode()
        self._release = f"POST /v1/release HTTP/1.1\r\n{common}".encode()
        self._is_acquiring = False
        spaces = [b',"space":"%b"' % space.encode() for space in target.spaces] or [b""]
        first = next(_numbers) % len(spaces)
        self._spaces = itertools.cycle(spaces[first:] + spaces[:first])

    def acquire(self, client: Client, name: bytes, wait: int) -> None:
        body = b'{"resources":"%b","ttl_seconds":%d,"wait_seconds":%d,"holder":"h%d"%b}' % (
            *(name, TTL, wait, client.id),
            next(self._spaces),
        )
        self._is_acquiring = True
        self.send(b"%b%d\r\n\r\n%b" % (self._acquire, len(body), body))

    def release(self, client: Client) -> None:
        body = b'{"lease":"%b","token":"%b"}' % client.proof
        self._is_acquiring = False
        self.send(b"%b%d\r\n\r\n%b" % (self._release, len(body), body))

    def received(self, data: bytes) -> None:
        data = self._buffer + data
        end = data.find(b"\r\n\r\n") + 4
        at = data.find(b"content-length: ") + 16
        if end < 4 or len(data) < end + int(data[at : data.find(b"\r", at)]):
            self._buffer = data
            return
        self._buffer = b""
        assert data.startswith(b"HTTP/1.1 200"), data
        client = self.clients[0]
        if self._is_acquiring:
            client.proof = (_between(data, b'"id":"', end), _between(data, b'"token":"', end))
            client.granted(client)
        else:
            assert b'"released":true' in data, data
            client.released(client)


def _between(data: bytes, before: bytes, start: int) -> bytes:
    at = data.index(before, start) + len(before)
    return data[at : data.index(b'"', at)]


RELEASE = b'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'
_SHA = hashlib.sha1(RELEASE).hexdigest().encode()  # noqa: S324 (how Redis names its scripts)


class RedisWire(Wire):
    """`SET name token NX PX ttl`, and the script that deletes only what is one's own. It cannot wait."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.socket.sendall(_resp(b"SCRIPT", b"LOAD", RELEASE))
        assert self.socket.recv(1000).startswith(b"$40"), "the script was not taken"
        self._token = os.urandom(16).hex().encode()

    def acquire(self, client: Client, name: bytes, wait: int) -> None:  # noqa: ARG002 (whose connection this is)
        assert not wait, "Redis has no queue"
        self.send(_resp(b"SET", name, self._token, b"NX", b"PX", b"%d" % (TTL * 1000)))

    def release(self, client: Client) -> None:
        self.send(_resp(b"EVALSHA", _SHA, b"1", client.name, self._token))

    def received(self, data: bytes) -> None:
        data = self._buffer + data
        if data[-2:] != b"\r\n":
            self._buffer = data
            return
        self._buffer = b""
        client = self.clients[0]
        if data == b"+OK\r\n":
            client.granted(client)
        else:
            assert data == b":1\r\n", data
            client.released(client)


def _resp(*words: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WIDE = 2**30
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_frame_head = struct.Struct(">HBBBI")


class EtcdWire(Wire):
    """`v3lockpb.Lock` over gRPC: as much of HTTP/2 as an unary call takes. Each client has an etcd lease of its own."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        authority = f"{target.host}:{target.port}".encode()
        self._lock = _head(b"/v3lockpb.Lock/Lock", authority)
        self._unlock = _head(b"/v3lockpb.Lock/Unlock", authority)
        self._grant = _head(b"/etcdserverpb.Lease/LeaseGrant", authority)
        self._stream = 1
        self._calls: dict[int, tuple[Client, bytes]] = {}
        self._answers: dict[int, bytes] = {}
        self._leases: dict[int, int] = {}
        self._read = 0
        settings = struct.pack(">HI", 4, WIDE)  # the window of each stream
        self.send(_PREFACE + _frame(SETTINGS, 0, 0, settings) + _frame(WINDOW, 0, 0, struct.pack(">I", WIDE)))

    def begin(self, clients: int) -> None:
        super().begin(clients)
        self.socket.setblocking(True)
        for client in self.clients:
            self._leases[client.id] = int.from_bytes(os.urandom(7), "big") | 1
            client.granted = client.released = _nothing
            self._call(client, self._grant, lease_request(self._leases[client.id]))
            while self._calls:
                self.received(self.socket.recv(65536))

    def acquire(self, client: Client, name: bytes, wait: int) -> None:  # noqa: ARG002 (a call waits as long as it takes)
        self._call(client, self._lock, lock_request(name, self._leases[client.id]))

    def release(self, client: Client) -> None:
        self._call(client, self._unlock, unlock_request(client.proof[0]))

    def _call(self, client: Client, head: bytes, message: bytes) -> None:
        stream, self._stream = self._stream, self._stream + 2
        self._calls[stream] = (client, head)
        body = struct.pack(">BI", 0, len(message)) + message
        self.send(_frame(HEADERS, END_HEADERS, stream, head) + _frame(DATA, END_STREAM, stream, body))

    def received(self, data: bytes) -> None:
        data = self._buffer + data
        at = 0
        while len(data) - at >= 9:
            high, low, kind, flags, stream = _frame_head.unpack_from(data, at)
            end = at + 9 + (high << 8 | low)
            if end > len(data):
                break
            self._frame(kind, flags, stream, data[at + 9 : end])
            at = end
        self._buffer = data[at:]

    def _frame(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == DATA:
            self._answers[stream] = self._answers.get(stream, b"") + content
            self._read += len(content)
            if self._read > WIDE // 2:
                self.send(_frame(WINDOW, 0, 0, struct.pack(">I", self._read)))
                self._read = 0
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self.send(_frame(kind, ACK, 0, content if kind == PING else b""))
        elif kind == GOAWAY:
            raise ConnectionResetError(content)
        if kind == HEADERS and flags & END_STREAM:
            self._ended(stream)

    def _ended(self, stream: int) -> None:
        client, head = self._calls.pop(stream)
        answer = self._answers.pop(stream, None)
        assert answer is not None, "etcd answered with an error"
        if head is self._lock:
            client.proof = (locked_key(answer[5:]),)
            client.granted(client)
        else:
            client.released(client)


def _nothing(_client: Client) -> None:
    """Nobody waits for this."""


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return _frame_head.pack(len(content) >> 8, len(content) & 0xFF, kind, flags, stream) + content


def _head(path: bytes, authority: bytes) -> bytes:
    """Headers without compression, so that they are the same bytes each time."""
    content_type = b"\x0f\x10" + _text(b"application/grpc")
    trailers = b"\x00" + _text(b"te") + _text(b"trailers")
    return b"\x83\x86\x04" + _text(path) + b"\x01" + _text(authority) + content_type + trailers


def _text(value: bytes) -> bytes:
    return bytes((len(value),)) + value


def lease_request(lease: int) -> bytes:
    """A LeaseGrantRequest for a lease of this id, which outlives the measurement."""
    return b"\x08" + varint(TTL * 10) + b"\x10" + varint(lease)


def lock_request(name: bytes, lease: int) -> bytes:
    return b"\x0a" + varint(len(name)) + name + b"\x10" + varint(lease)


def unlock_request(key: bytes) -> bytes:
    return b"\x0a" + varint(len(key)) + key


def locked_key(message: bytes) -> bytes:
    """The key in a LockResponse: a header, then the key, both with their lengths."""
    length, at = read_varint(message, 1)
    at += length
    assert message[at] == 0x12, message
    length, at = read_varint(message, at + 1)
    return message[at : at + length]


WIRES: dict[str, type[Wire]] = {"leasehold": LeaseholdWire, "redis": RedisWire, "etcd": EtcdWire}


def connect(target: Target, clients: int) -> list[Wire]:
    """As many connections as so many clients take."""
    wires = []
    ports = itertools.cycle(target.ports or (target.port,))
    for first in range(0, clients, target.sharing):
        wire = WIRES[target.kind](target._replace(port=next(ports)))
        wire.begin(min(target.sharing, clients - first))
        wire.socket.setblocking(False)
        wires.append(wire)
    return wires


def target_of(text: str) -> Target:
    return Target(**json.loads(text))
