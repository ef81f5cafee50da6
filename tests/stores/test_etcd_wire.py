"""gRPC as the etcd store speaks it: what may be asked again elsewhere, what nobody can tell, and who is no etcd."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from leasehold.errors import OutcomeUnknown, StoreError, Unreachable
from leasehold.stores.etcd import doubting, http2, messages
from leasehold.stores.etcd.address import parse
from leasehold.stores.etcd.calls import RANGE, TRANSACTION, Calls
from leasehold.stores.etcd.members import Members
from tests.stores import etcd, wires

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEADERS, RESET, SETTINGS, GOAWAY = 1, 3, 4, 7
END = 0x4 | 0x1
NOT_FOUND = b"\x8d"
UNAVAILABLE = b"\x88\x00\x0bgrpc-status\x0214"
PUT = messages.transaction([], [messages.put("wire", b"x")], [])


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


@contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """Somebody who says this to whoever has asked something, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as peer:
                server.close()  # nobody else is let in
                heard = b""
                while b"etcdserverpb" not in heard:
                    heard += peer.recv(65_536)
                peer.sendall(answer)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65_536):
                    pass

        port = server.getsockname()[1]
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{port}"
        thread.join()


@contextmanager
def calling(*members: str) -> Iterator[Calls]:
    calls = Calls(Members(parse(f"etcd://{','.join(members)}")), lambda: "")
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
    with wires.listening(slow.answer) as port, calling(f"127.0.0.1:{port}", real()) as calls:
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
    trouble, told = doubting.trouble_with((host, int(port)), None, "", 5)
    assert ("leader" in trouble) is (not is_worth_it)
    assert told == term
    assert bool(doubting.trouble_with((host, int(port)), None, "", 0)[0]) is (not leader)


class Slower:
    """Stands before a real etcd, and hands back no answer before somebody was told how that etcd is."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._told = 0

    def answer(self, client: socket.socket) -> None:
        heard = b""
        while b"etcdserverpb" not in heard:
            heard += client.recv(65_536)
        with self._lock:
            self._told += doubting.STATUS.encode() in heard
            self._lock.notify_all()
            before = self._told
            self._lock.wait_for(lambda: doubting.STATUS.encode() in heard or self._told > before)
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
        wires.listening(slower.answer) as one,
        wires.listening(slower.answer) as two,
        calling(f"127.0.0.1:{one}", f"127.0.0.1:{two}") as calls,
    ):
        calls._latest = b"\x0a\x04\x18\x07\x20\x05"  # revision 7, term 5
        assert messages.range_answer(calls.ask(RANGE, messages.range_request("nothing"))).pairs == []
        assert calls._members.turn == 2


def test_what_a_member_says_of_itself() -> None:
    with calling(real()) as calls:
        told = calls.ask(doubting.STATUS, b"")
        leader, term = messages.status(told)
        assert leader
        assert term == messages.term(told[: doubting.HEADER]) > 0
        assert messages.term(calls.ask(RANGE, messages.range_request("x"))[: doubting.HEADER]) == term


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


def test_headers_that_were_coded_and_headers_that_were_not() -> None:
    # As in the examples of the standard: www.example.com, no-cache, custom-key: custom-value.
    coded = bytes.fromhex("4088 25a849e95ba97d7f 89 25a849e95bb8e8b4bf".replace(" ", ""))
    assert http2.fields_of(coded) == {"custom-key": "custom-value"}
    plain = b"\x88\x20\x00\x0bgrpc-status\x0214\x00\x0cgrpc-message\x06all%20"
    assert http2.fields_of(plain) == {":status": "200", "grpc-status": "14", "grpc-message": "all%20"}
    with pytest.raises(http2.Broken):
        http2.fields_of(b"\x00\x05ab")


@pytest.mark.parametrize("broken", [b"\x0a\x05ab", b"\x0a", b"\x07\x01", b"\xff"])
def test_a_broken_message_is_noticed(broken: bytes) -> None:
    with pytest.raises(messages.Malformed):
        messages.answer(broken)


def test_a_long_header() -> None:
    token = "t" * 1_000
    fields: Callable[[bytes], dict[str, str]] = http2.fields_of
    assert token in fields(http2.head("/path", "host", token)).values()
