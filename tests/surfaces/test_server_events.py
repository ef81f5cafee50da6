"""Server-sent events: live, filtered, and resumed where a reader left off."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import leasehold
from tests.surfaces.serving import PATIENCE, Running, create_key, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.client import HTTPResponse
    from pathlib import Path


@contextmanager
def watching(server: Running, query: str = "", **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    connection = HTTPConnection(server.host, server.port, timeout=PATIENCE)
    try:
        connection.request("GET", f"/v1/events{query}", headers=headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.readline() == b": leasehold\n"  # from here on, nothing is missed
        yield _frames(reply)
    finally:
        connection.close()


def _frames(reply: HTTPResponse) -> Iterator[dict[str, Any]]:
    frame: dict[str, str] = {}
    for raw in reply:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif frame:
            yield {"id": int(frame["id"]), "event": frame["event"], "data": json.loads(frame["data"])}
            frame = {}


def take(server: Running, name: str, holder: str = "ann", **more: object) -> None:
    assert server.post("acquire", {"resources": name, "holder": holder, **more}).status == 200


def test_events_come_live_filtered_and_again_from_where_one_was(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with watching(server) as events:
            take(server, "one")
            take(server, "two", "bob")
            seen = [next(events), next(events)]
        assert [event["data"]["resources"] for event in seen] == [["one"], ["two"]]
        assert [event["event"] for event in seen] == ["granted", "granted"]
        assert all(event["id"] == event["data"]["seq"] for event in seen)
        take(server, "three")
        with watching(server, **{"Last-Event-ID": str(seen[0]["id"])}) as events:
            assert [next(events)["data"]["resources"] for _ in range(2)] == [["two"], ["three"]]
        with watching(server, "?last_event_id=0&holder=ann&resource=three") as events:
            assert next(events)["data"]["resources"] == ["three"]
        with watching(server) as events, leasehold.connect(f"sqlite:///{server.database}") as elsewhere:
            elsewhere.acquire("four", ttl=60, holder="other process")
            assert next(events)["data"]["holder"] == "other process"
        assert server.get("events", **{"Last-Event-ID": "x"}).code == "invalid"
        assert server.get("events?last_event_id=-1").code == "invalid"


def test_a_reader_sees_its_space_only(tmp_path: Path) -> None:
    viewer = create_key(tmp_path, "viewer", space="team")
    admin = create_key(tmp_path, "admin")
    with serving(tmp_path) as server:
        for space in ("other", "team"):
            server.post("acquire", {"resources": "x", "space": space}, key=admin)
        with watching(server, "?last_event_id=0", Authorization=f"Bearer {viewer}") as events:
            assert [next(events)["data"]["space"] for _ in range(2)] == ["team", "team"]  # its key, then the lease
        assert server.get("events?space=other", key=viewer).code == "not_allowed"


def test_streams_end_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server, watching(server) as events:
        take(server, "one")
        next(events)
        assert server.stop() == 0
        assert list(events) == []
