"""Every legal answer of HTTP/1.1 is read, in whatever pieces it comes; what is not legal is refused in words."""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.client import deciding, framing
from leasehold.client.encoding import HttpRequest
from leasehold.client.losses import LossFeed
from leasehold.client.messages import bases
from leasehold.client.one_request import ask
from tests.kit.scripting import HANG_UP, NOBODY, Script, answer, bytewise
from tests.kit.serving import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = b'{"leases": []}'
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = OK + b"Content-Type: application/json\r\n\r\n" + BODY
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"
ZIPPED = gzip.compress(BODY)

KEPT = {
    "chunked": CHUNKS + b"e\r\n%b\r\n0\r\n\r\n" % BODY,
    "two chunks": CHUNKS + b"2\r\n%b\r\nC\r\n%b\r\n0\r\n\r\n" % (BODY[:2], BODY[2:]),
    "leading zeros": CHUNKS + b"000e\r\n%b\r\n000\r\n\r\n" % BODY,
    "extensions": CHUNKS + b'e;a=1;b="c d"\r\n%b\r\n0;last\r\n\r\n' % BODY,
    "blank before an extension": CHUNKS + b"e \t; a=1\r\n%b\r\n0\r\n\r\n" % BODY,
    "trailers": CHUNKS + b"e\r\n%b\r\n0\r\nContent-Length: 99\r\nX-Sum: 1\r\n\r\n" % BODY,
    "mixed case": OK + b"tRANSFER-eNCODING:CHUNKED\r\n\r\ne\r\n%b\r\n0\r\n\r\n" % BODY,
    "length in mixed case": OK + b"cONTENT-lENGTH:  14  \r\n\r\n" + BODY,
    "lengths alike": OK + b"Content-Length: 14\r\nContent-Length: 14\r\n\r\n" + BODY,
    "a list of lengths": OK + b"Content-Length: 14, 14\r\n\r\n" + BODY,
    "no reason": b"HTTP/1.1 200 \r\nContent-Length: 14\r\n\r\n" + BODY,
    "reason beyond ASCII": b"HTTP/1.1 200 na\xefve\r\nX: \xff\r\nContent-Length: 14\r\n\r\n" + BODY,
    "keep-alive in a list": OK + b"Connection: Foo, Keep-Alive\r\nContent-Length: 14\r\n\r\n" + BODY,
    "HTTP/1.0 that stays": b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 14\r\n\r\n" + BODY,
    "100 before": CONTINUE + NOBODY,
    "103 and 100 before chunks": EARLY + CONTINUE + CHUNKS + b"e\r\n%b\r\n0\r\n\r\n" % BODY,
    "gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(ZIPPED), ZIPPED),
    "deflate": answer(zlib.compress(BODY), OK + b"Content-Encoding: Deflate"),
    "gzip in chunks": OK
    + b"Content-Encoding: GZIP\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(ZIPPED), ZIPPED),
    "identity": OK + b"Content-Encoding: identity\r\nContent-Length: 14\r\n\r\n" + BODY,
}
"""Answers after which the connection is used again."""
CLOSED = {
    "until the end": (ENDLESS, HANG_UP),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, HANG_UP),
    "HTTP/1.0 with a length": (b"HTTP/1.0 200 OK\r\nContent-Length: 14\r\n\r\n" + BODY,),
    "close": (OK + b"Connection: close\r\nContent-Length: 14\r\n\r\n" + BODY,),
    "close in a list": (OK + b"Connection: Foo,  CLOSE\r\nContent-Length: 14\r\n\r\n" + BODY,),
    "close in a second header": (OK + b"Connection: Foo\r\nconnection: close\r\nContent-Length: 14\r\n\r\n" + BODY,),
    "chunks and close": (OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\ne\r\n%b\r\n0\r\n\r\n" % BODY,),
    "chunks and a length": (CHUNKS[:-2] + b"Content-Length: 3\r\n\r\ne\r\n%b\r\n0\r\n\r\n" % BODY,),
    "103 before": (EARLY + ENDLESS, HANG_UP),
}
REFUSED = {
    "folded": (OK + b"X-A: b\r\n c\r\nContent-Length: 14\r\n\r\n" + BODY, "goes on in a second line"),
    "blank before the colon": (OK + b"Content-Length : 14\r\n\r\n" + BODY, "headers cannot be read"),
    "no colon": (OK + b"Content-Length 14\r\n\r\n" + BODY, "headers cannot be read"),
    "two lengths": (OK + b"Content-Length: 14\r\nContent-Length: 15\r\n\r\n" + BODY, "no proper length"),
    "no length": (OK + b"Content-Length:\r\n\r\n" + BODY, "no proper length"),
    "below zero": (OK + b"Content-Length: -1\r\n\r\n" + BODY, "no proper length"),
    "another coding": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + BODY, "transfer coding"),
    "chunks of HTTP/1.0": (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "transfer coding"),
    "no size": (CHUNKS + b"\r\n", "chunks cannot be read"),
    "0x": (CHUNKS + b"0xe\r\n%b\r\n0\r\n\r\n" % BODY, "chunks cannot be read"),
    "more than the size": (CHUNKS + b"2\r\n%b\r\n0\r\n\r\n" % BODY, "chunks cannot be read"),
    "a long size": (CHUNKS + b"0" * 17 + b"\r\n", "chunks cannot be read"),
    "a huge chunk": (CHUNKS + b"ffffffffffff\r\n", "too long"),
    "an endless extension": (CHUNKS + b"e;" + b"a" * 5_000, "chunks cannot be read"),
    "endless trailers": (CHUNKS + b"0\r\n" + b"X: 12345678\r\n" * 7_000, "chunks cannot be read"),
    "another protocol": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\n\r\n", "another protocol"),
    "only interim": (CONTINUE * 200, "never answers"),
    "an endless head after 100": (CONTINUE + b"x" * 70_000, "does not begin"),
    "brotli": (OK + b"Content-Encoding: br\r\nContent-Length: 14\r\n\r\n" + BODY, "content coding is unknown: 'br'"),
    "no gzip": (OK + b"Content-Encoding: gzip\r\nContent-Length: 14\r\n\r\n" + BODY, "compressed answer"),
    "cut gzip": (answer(ZIPPED[:-4], OK + b"Content-Encoding: gzip"), "compressed answer"),
    "HTTP/2": (b"HTTP/2 200\r\nContent-Length: 14\r\n\r\n" + BODY, "does not speak HTTP"),
    "four digits": (b"HTTP/1.1 2000 OK\r\nContent-Length: 14\r\n\r\n" + BODY, "does not speak HTTP"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", "not JSON"),
    "a refusal without a code": (answer(b'{"message": "no"}', b"HTTP/1.1 403 Forbidden"), "no code"),
}


@pytest.mark.parametrize("form", KEPT)
def test_a_legal_answer_is_read_and_its_connection_used_again(script: Script, locks: Any, form: str) -> None:  # noqa: ANN401
    told = KEPT[form]
    script.answers = [(told,), bytewise(told), (told[:-3], told[-3:])]
    for _ in range(4):
        assert locks.list() == ()
    assert script.asked == [1, 1, 1, 1]


@pytest.mark.parametrize("form", CLOSED)
def test_a_legal_answer_may_end_the_connection(script: Script, locks: Any, form: str) -> None:  # noqa: ANN401
    pieces = CLOSED[form]
    script.answers = [pieces, (*bytewise(pieces[0]), *pieces[1:])]
    for _ in range(3):
        assert locks.list() == ()
    assert script.asked == [1, 2, 3]


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_not_legal_is_refused_in_words(script: Script, locks: Any, form: str) -> None:  # noqa: ANN401
    told, why = REFUSED[form]
    script.answers = [(told,)] * (deciding.TRIES + 1)
    with pytest.raises(leasehold.Unreachable, match=why):
        locks.list()


@pytest.mark.parametrize(
    "cut",
    [
        CHUNKS + b"e\r\n" + BODY,
        CHUNKS + b"e\r\n%b\r\n0\r\n" % BODY,
        CHUNKS + b"e",
        CONTINUE,
        CONTINUE + OK,
        EARLY + answer(BODY)[:-1],
    ],
)
def test_an_answer_that_is_cut_is_asked_for_again(script: Script, locks: Any, cut: bytes) -> None:  # noqa: ANN401
    script.answers = [(cut, HANG_UP)]
    assert locks.list() == ()
    assert len(script.asked) == 2
    script.answers = [(cut, HANG_UP)] * (deciding.TRIES + 1)
    with pytest.raises(leasehold.Unreachable, match="before the end of the answer"):
        locks.list()


def test_an_answer_without_a_length_that_is_cut_is_no_json(script: Script, locks: Any) -> None:  # noqa: ANN401
    script.answers = [(ENDLESS[:-1], HANG_UP)]
    assert locks.list() == ()
    assert len(script.asked) == 2


def test_an_answer_without_a_length_is_bounded(
    script: Script,
    locks: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framing, "BODY_MOST", 100)
    script.answers = [(OK + b"\r\n" + b" " * 101,)] * (deciding.TRIES + 1)
    with pytest.raises(leasehold.Unreachable, match="too long"):
        locks.list()


def test_a_large_answer_in_chunks_is_heard_whole(script: Script, locks: Any) -> None:  # noqa: ANN401
    parts = [b'{"leases": [', *[b" " * 40_000] * 60, b"]}"]
    script.answers = [(CHUNKS, *(b"%x\r\n%b\r\n" % (len(part), part) for part in parts), b"0\r\n\r\n")]
    assert locks.list() == locks.list() == ()
    assert script.asked == [1, 1]


def test_what_comes_after_the_last_chunk_ends_the_connection(script: Script, locks: Any) -> None:  # noqa: ANN401
    script.answers = [(KEPT["chunked"] + answer(b'{"leases": "somebody else\'s"}'),)]
    assert locks.list() == locks.list() == ()
    assert script.asked == [1, 2]


@pytest.mark.parametrize("form", ["chunked", "gzip in chunks", "100 before"])
def test_so_do_the_routes_of_other_systems(script: Script, form: str) -> None:
    script.answers = [(KEPT[form],)]
    assert ask(script.url, "GET", "/v1/workflows", None, within=5.0) == (200, json.loads(BODY))


def test_what_our_own_server_sends_needs_no_more_than_before(
    script: Script,
    locks: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader of all other answers has nothing to do with it."""
    monkeypatch.delattr(framing, "Reader")
    assert locks.list() == ()
    script.answers = [bytewise(NOBODY)]
    assert locks.list() == ()


# ------------------------------------------------------------------------------------------- event streams

EVENTS = (b": here\n\n", b'id: 1\ndata: {"lease": "l1"}\n\n', b'data: {"lease"', b': "l2"}\n\n')
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x;e=1\r\n%b\r\n" % (len(data), data)


def streamed(script: Script) -> list[Any]:
    """What it tells until it ends."""
    (base,) = bases(script.url)
    told: list[Any] = []
    with closing(LossFeed(base, HttpRequest("POST", "/v1/losses", {}))) as stream, suppress(ConnectionResetError):
        while True:
            told += stream.receive(PATIENCE)
    return told


@pytest.mark.parametrize(
    "pieces",
    [
        (STREAM + b"\r\n", *EVENTS, HANG_UP),
        (b"HTTP/1.0 200 OK\r\nContent-Type: TEXT/event-stream\r\n\r\n", *EVENTS, HANG_UP),
        (EARLY + STREAM + b"tRANSFER-encoding: Chunked\r\n\r\n", *map(chunk, EVENTS), b"0\r\nX: 1\r\n\r\n"),
        (STREAM + b"Content-Length: %d\r\n\r\n" % len(b"".join(EVENTS)), *EVENTS[:-1], EVENTS[-1][:-1], HANG_UP),
    ],
    ids=["until the end", "HTTP/1.0", "chunked", "with a length, and cut"],
)
@pytest.mark.parametrize("cut", [tuple, lambda pieces: bytewise(b"".join(pieces))], ids=["pieces", "bytes"])
def test_an_event_stream_is_read_however_it_is_framed(
    script: Script, pieces: tuple[bytes, ...], cut: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
) -> None:
    script.answers = [(*cut(pieces), HANG_UP)]
    told = streamed(script)
    assert told == [{"lease": "l1"}, {"lease": "l2"}][: 1 if b"Content-Length" in pieces[0] else 2]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (answer(b"{}"), "not a stream of events"),
        (STREAM + b"Content-Encoding: gzip\r\n\r\n", "not a stream of events"),
        (
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n<h1>",
            "a proxy answered 502 instead of the server",
        ),
    ],
)
def test_what_is_no_event_stream_is_refused_in_words(script: Script, told: bytes, why: str) -> None:
    script.answers = [(told,)]
    (base,) = bases(script.url)
    with pytest.raises(leasehold.Unreachable, match=why):
        LossFeed(base, HttpRequest("POST", "/v1/losses", {}))
