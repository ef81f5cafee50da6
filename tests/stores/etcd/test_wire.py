"""gRPC as the etcd store speaks it: what may be asked again elsewhere, what nobody can tell, and who is no etcd."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded
from hpack import NeverIndexedHeaderTuple

from leasehold.errors import OutcomeUnknown, StoreError, Unreachable
from leasehold.stores.etcd import health, messages
from leasehold.stores.etcd.address import parse
from leasehold.stores.etcd.calls import RANGE, TRANSACTION, EtcdCalls
from leasehold.stores.etcd.grpc import GrpcConnection
from leasehold.stores.etcd.members import Members
from tests.kit import etcd
from tests.kit import listening as ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpack.struct import Header

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_HEADERS = 0x4
END = END_HEADERS | 0x1
OK = b"\x88"
SUCCEEDED = b"\x00\x0bgrpc-status\x010"
NOT_FOUND = b"\x8d"
UNAVAILABLE = b"\x88\x00\x0bgrpc-status\x0214"
PUT = messages.transaction([], [messages.put("wire", b"x")], [])


def grpc_answer(message: bytes) -> bytes:
    """The frames of an answer to the first call of a connection."""
    body = frame(DATA, 0, 1, struct.pack(">BI", 0, len(message)) + message)
    return frame(HEADERS, END_HEADERS, 1, OK) + body + frame(HEADERS, END, 1, SUCCEEDED)


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def receive_call(peer: socket.socket) -> tuple[str, bytes]:
    """Read until a whole call has arrived; return its path, and all that was read."""
    server = H2Connection(H2Configuration(client_side=False))
    path, heard = "", b""
    while data := peer.recv(65_536):
        heard += data
        for event in server.receive_data(data):
            if isinstance(event, RequestReceived):
                path = dict(event.headers)[b":path"].decode()
            elif isinstance(event, StreamEnded):
                return path, heard
    raise AssertionError("the client closed the connection before its call was complete")


@contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """A server that sends these bytes in answer to the first call, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as peer:
                server.close()  # it accepts one connection
                receive_call(peer)
                peer.sendall(answer)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65_536):
                    pass

        port = server.getsockname()[1]
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{port}"
        thread.join()


@contextmanager
def calling(*members: str) -> Iterator[EtcdCalls]:
    calls = EtcdCalls(Members(parse(f"etcd://{','.join(members)}")), lambda: "")
    try:
        yield calls
    finally:
        calls.close()


def real() -> str:
    return etcd.server().url.removeprefix("etcd://")


# ----------------------------------------------------------------------------------- who may be asked again


@pytest.mark.parametrize(
    "refusal",
    [
        frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)),
        frame(SETTINGS, 0, 0) + frame(RESET, 0, 1, struct.pack(">I", 7)),
    ],
    ids=["goes away", "refuses"],
)
def test_a_call_that_was_certainly_not_carried_out_goes_to_the_next_member(refusal: bytes) -> None:
    with listening(refusal) as refusing, calling(refusing, real()) as calls:
        assert messages.answer(calls.change(TRANSACTION, PUT)).succeeded


@pytest.mark.parametrize(
    "end",
    [
        b"",
        frame(SETTINGS, 0, 0),
        frame(RESET, 0, 1, struct.pack(">I", 2)),
        frame(GOAWAY, 0, 0, struct.pack(">II", 1, 0)),
        frame(HEADERS, END, 1, NOT_FOUND),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frame(HEADERS, END, 1, UNAVAILABLE),
    ],
    ids=["hangs up", "says nothing", "resets", "goes away later", "is no gRPC", "is no HTTP/2", "has timed out"],
)
def test_a_change_of_which_nobody_knows_is_not_made_again(end: bytes) -> None:
    with listening(end) as broken, calling(broken, real()) as calls:
        with pytest.raises(OutcomeUnknown):
            calls.change(TRANSACTION, PUT)
        assert calls._members.turn == 1  # the next one goes elsewhere
        assert messages.answer(calls.change(TRANSACTION, PUT)).succeeded


@pytest.mark.parametrize(
    "before",
    [frame(GOAWAY, 0, 0, struct.pack(">II", (1 << 31) - 1, 0)) + frame(PING, 0, 0, b"12345678"), b""],
    ids=["while it shuts down", "before it refuses to read on"],
)
def test_a_call_that_a_member_still_answers_is_answered(before: bytes) -> None:
    answer = before + grpc_answer(b"\x10\x01") + frame(RESET, 0, 1, struct.pack(">I", 0))
    with listening(answer) as ending, calling(ending) as calls:
        assert messages.answer(calls.change(TRANSACTION, PUT)).succeeded
        assert calls.is_connected is not before.startswith(frame(GOAWAY, 0, 0, bytes(8))[:4])


def test_a_member_that_answers_before_it_has_read_a_call() -> None:
    """As etcd does with a message that is longer than it accepts: it opens no window, so the rest is never sent."""
    with calling(real()) as calls:
        with pytest.raises(StoreError, match="larger than max"):
            calls.change(TRANSACTION, messages.transaction([], [messages.put("wire", b"x" * 9_000_000)], []))
        assert messages.answer(calls.change(TRANSACTION, PUT)).succeeded


def test_a_token_is_sent_with_each_call() -> None:
    seen: list[Header] = []
    token = "t" * 1_000

    def serve(peer: socket.socket) -> None:
        server = H2Connection(H2Configuration(client_side=False))
        while data := peer.recv(65_536):
            for event in server.receive_data(data):
                if isinstance(event, RequestReceived):
                    seen.extend(each for each in event.headers if each[0] == b"authorization")
                elif isinstance(event, StreamEnded):
                    server.send_headers(event.stream_id, [(":status", "200")])
                    server.send_data(event.stream_id, struct.pack(">BI", 0, 0))
                    server.send_headers(event.stream_id, [("grpc-status", "0")], end_stream=True)
            peer.sendall(server.data_to_send())

    with ports.listening(serve) as port, closing(GrpcConnection("127.0.0.1", port, 5.0, None)) as connection:
        for _ in range(2):
            assert connection.call(RANGE, b"", token).status == 0
    assert [tuple(each) for each in seen] == [(b"authorization", token.encode())] * 2
    assert all(isinstance(each, NeverIndexedHeaderTuple) for each in seen)  # a proxy must not store it, either


def test_what_speaks_http_1_and_stays_is_no_etcd() -> None:
    def serve(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with suppress(OSError):
            while peer.recv(65_536):
                pass

    with (
        ports.listening(serve) as port,
        closing(GrpcConnection("127.0.0.1", port, 60.0, None)) as connection,
        pytest.raises(OSError, match="does not speak gRPC"),
    ):
        connection.call(RANGE, b"")


def test_a_question_is_asked_again() -> None:
    with listening(b"") as broken, calling(broken, real()) as calls:
        assert messages.range_answer(calls.ask(RANGE, messages.range_request("nothing"))).pairs == []


# ----------------------------------------------------------------------------------- who is waited for


class Slow:
    """Stands before a real etcd, and keeps the answers to the first that comes back until others were answered."""

    def __init__(self, others: int) -> None:
        self._others = others
        self._lock = threading.Condition()
        self._first: socket.socket | None = None
        self.answered = 0

    def answer(self, client: socket.socket) -> None:
        with self._lock:
            is_first = self._first is None
            self._first = self._first or client
        host, _, port = real().partition(":")
        with socket.create_connection((host, int(port))) as server:
            back = threading.Thread(target=self._hand_back, args=(server, client, is_first))
            back.start()
            with suppress(OSError):  # given up
                while data := client.recv(65_536):
                    server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)
            back.join()
        with self._lock:
            self.answered += not is_first
            self._lock.notify_all()

    def _hand_back(self, server: socket.socket, client: socket.socket, is_first: bool) -> None:
        if is_first:
            with self._lock:
                self._lock.wait_for(lambda: self.answered >= self._others)
        with suppress(OSError):
            while data := server.recv(65_536):
                client.sendall(data)


def test_a_member_that_is_slow_is_waited_for() -> None:
    """As long as it says that it is well: what is slow is the disk, and nobody else would be quicker."""
    slow = Slow(others=3)
    with ports.listening(slow.answer) as port, calling(f"127.0.0.1:{port}", real()) as calls:
        assert messages.answer(calls.change(TRANSACTION, PUT)).succeeded
        assert calls._members.turn == 0
        assert slow.answered >= 3


@pytest.mark.parametrize(
    ("leader", "term", "is_worth_it"),
    [(1, 5, True), (0, 5, False), (1, 6, False)],
    ids=["as before", "without a leader", "another leader"],
)
def test_a_member_is_waited_for_only_while_its_leader_stays(
    leader: int, term: int, is_worth_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what was asked may have gone to a leader that is no more."""
    monkeypatch.setattr(messages, "status", lambda _: (leader, term))
    host, _, port = real().partition(":")
    trouble, told = health.member_trouble((host, int(port)), None, "", 5)
    assert ("leader" in trouble) is (not is_worth_it)
    assert told == term
    assert bool(health.member_trouble((host, int(port)), None, "", 0)[0]) is (not leader)


class Slower:
    """Stands before a real etcd, and hands back no answer before somebody was told how that etcd is."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._told = 0

    def answer(self, client: socket.socket) -> None:
        path, heard = receive_call(client)
        with self._lock:
            self._told += path == health.STATUS
            self._lock.notify_all()
            before = self._told
            self._lock.wait_for(lambda: path == health.STATUS or self._told > before)
        host, _, port = real().partition(":")
        with socket.create_connection((host, int(port))) as server:
            server.sendall(heard)
            while data := server.recv(65_536):
                client.sendall(data)


def test_a_member_that_is_slow_after_it_got_another_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was said to have one: what is asked from then on is not lost with the one before."""
    monkeypatch.setattr(messages, "status", lambda _: (1, 99))
    slower = Slower()
    with (
        ports.listening(slower.answer) as one,
        ports.listening(slower.answer) as two,
        calling(f"127.0.0.1:{one}", f"127.0.0.1:{two}") as calls,
    ):
        calls._latest = b"\x0a\x04\x18\x07\x20\x05"  # revision 7, term 5
        assert messages.range_answer(calls.ask(RANGE, messages.range_request("nothing"))).pairs == []
        assert calls._members.turn == 2


def test_what_a_member_says_of_itself() -> None:
    with calling(real()) as calls:
        told = calls.ask(health.STATUS, b"")
        leader, term = messages.status(told)
        assert leader
        assert term == messages.term(told[: health.HEADER]) > 0
        assert messages.term(calls.ask(RANGE, messages.range_request("x"))[: health.HEADER]) == term


def test_what_is_no_etcd_is_told() -> None:
    answers = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with (
        listening(answers) as one,
        listening(answers) as two,
        calling(one, two) as calls,
        pytest.raises(Unreachable, match="no member of etcd"),
    ):
        calls.ask(RANGE, messages.range_request("x"))


def test_what_etcd_says_is_told_in_its_words() -> None:
    too_many = messages.transaction([], [messages.put(f"wire{number}", b"x") for number in range(129)], [])
    too_long = messages.transaction([], [messages.put("wire", b"x" * 2_000_000)], [])
    with calling(real()) as calls:
        with pytest.raises(StoreError, match="too many operations in txn request"):
            calls.change(TRANSACTION, too_many)
        with pytest.raises(StoreError, match="request is too large"):
            calls.change(TRANSACTION, too_long)


def test_long_messages_both_ways() -> None:
    """Longer than a window, and than a frame."""
    long = [os.urandom(1_000_000) for _ in range(6)]
    with calling(real()) as calls:
        for number, value in enumerate(long):
            calls.change(TRANSACTION, messages.transaction([], [messages.put(f"wire-long/{number}", value)], []))
        found = messages.range_answer(calls.ask(RANGE, messages.range_request("wire-long/", "wire-long0")))
        assert [value for _, value in found.pairs] == long
        calls.change(TRANSACTION, messages.transaction([], [messages.delete("wire-long/", "wire-long0")], []))


# -------------------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize("broken", [b"\x0a\x05ab", b"\x0a", b"\x07\x01", b"\xff"])
def test_a_broken_message_is_noticed(broken: bytes) -> None:
    with pytest.raises(messages.MalformedMessage):
        messages.answer(broken)
