"""Waiting over HTTP: one request, or several with a ticket; clients that go away at every stage; the server's end."""

from __future__ import annotations

import contextlib
import itertools
import select
import signal
import socket
import sqlite3
import struct
import time
from socket import SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.server.http.undelivered import WAITED
from tests.kit.serving import PATIENCE, Reply, Running, check_shape, command_with, read_reply, serving, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_number = itertools.count()


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that keeps requests open for a moment only. Its loop commits by itself, however busy the machine is."""
    words = ("--rate", "0", "--keep-open", "300ms", "--keep-place", "1m")
    command = command_with("leasehold.engine.loop_driver.SLOW = 1e9")
    with serving(tmp_path_factory.mktemp("hurried"), *words, command=command) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that gives a disconnected client three seconds to ask again."""
    command = command_with("leasehold.server.http.protocol.PATIENCE = 3.0")
    with serving(tmp_path_factory.mktemp("patient"), "--rate", "0", command=command) as running:
        yield running


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One that does not keep a place for long either."""
    words = ("--rate", "0", "--keep-open", "300ms", "--keep-place", "1s")
    with serving(tmp_path_factory.mktemp("forgetful"), *words) as running:
        yield running


def hold(server: Running, name: str, holder: str = "ann") -> dict[str, str]:
    granted = server.post("acquire", {"resources": name, "holder": holder}).json
    return {"lease": granted["lease"]["id"], "token": granted["token"]}


def wait_for(name: str, holder: str, **more: object) -> dict[str, Any]:
    return {"resources": name, "holder": holder, "wait_seconds": 600, **more}


def settled(server: Running, asked: dict[str, Any]) -> Reply:
    """The answer to an acquire, or a ticket for a place; none yet where the disk took longer than a request is kept."""
    reply = server.post("acquire", asked)
    for _ in range(100):
        if reply.status != 202 or reply.json["queue"]["position"]:
            break
        reply = server.post("acquire", {**asked, "request_id": reply.json["ticket"]})
    return reply


def has_waited() -> None:
    """Wait until a request that is in the queue now counts as one that waited."""
    begun = time.monotonic()
    until(lambda: time.monotonic() > begun + 2 * WAITED)


def reset(line: socket.socket) -> None:
    """Go away like a process that was killed: no farewell."""
    line.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def test_who_waits_is_served_in_order(server: Running) -> None:
    proof = hold(server, "in-order")
    lines = []
    for count, holder in enumerate(("bob", "cid", "dan"), 1):
        lines.append(server.begin("acquire", wait_for("in-order", holder)))
        until(lambda count=count: len(server.waiting("in-order")) == count)  # type: ignore[misc] # a default
    assert server.waiting("in-order") == ["bob", "cid", "dan"]
    for line, holder in zip(lines, ("bob", "cid", "dan"), strict=True):
        server.post("release", proof)
        granted = read_reply(line)
        line.close()
        assert granted.json["lease"]["holder"] == holder
        proof = {"lease": granted.json["lease"]["id"], "token": granted.json["token"]}


@pytest.mark.parametrize("leave", [reset, lambda line: line.close()])
def test_who_goes_away_leaves_the_queue_at_once(server: Running, leave: Callable[[socket.socket], None]) -> None:
    proof = hold(server, "left")
    with server.begin("acquire", wait_for("left", "next")) as behind:
        line = server.begin("acquire", wait_for("left", "goner", priority=1))
        until(lambda: server.waiting("left") == ["goner", "next"])
        leave(line)
        until(lambda: server.waiting("left") == ["next"])
        server.post("release", proof)
        granted = read_reply(behind).json
    server.post("release", {"lease": granted["lease"]["id"], "token": granted["token"]})


def test_clients_killed_while_they_are_being_served_hold_nothing(server: Running) -> None:
    """A release and the death of the next in line race; whatever wins, the last in line gets it."""
    for each in range(30):
        name = f"race-{each}"
        proof = hold(server, name)
        line = server.begin("acquire", wait_for(name, "goner"))
        until(lambda name=name: server.waiting(name))  # type: ignore[misc] # a default
        with server.begin("acquire", wait_for(name, "heir")) as heir:
            has_waited()
            releasing = server.begin("release", proof)
            reset(line)
            read_reply(releasing)
            releasing.close()
            assert read_reply(heir).json["lease"]["holder"] == "heir"


def until_written(line: socket.socket) -> None:
    """The answer is here, and nobody has read it."""
    assert select.select([line], [], [], PATIENCE)[0]


def unread(server: Running, name: str, holder: str = "goner", **more: object) -> socket.socket:
    """A connection on which a grant was written after a wait, and not read."""
    proof = hold(server, name)
    line = server.begin("acquire", wait_for(name, holder, **more))
    until(lambda: server.waiting(name) == [holder])
    has_waited()
    server.post("release", proof)
    until_written(line)
    return line


def reset_and_noticed(server: Running, line: socket.socket) -> None:
    """Reset this connection, and wait until the server would have taken back what was granted on it."""
    name = f"noticed-{next(_number)}"
    other = unread(server, name)
    reset(line)
    reset(other)
    until(lambda: server.holders(name) == [])


def test_a_grant_is_kept_when_a_network_resets_its_connection(server: Running) -> None:
    """A reset proves nothing about a client that did not wait: it may have read the grant and be at work."""
    line = server.begin("acquire", {"resources": "at-work", "holder": "ann"})
    until_written(line)
    reset_and_noticed(server, line)
    assert server.holders("at-work") == ["ann"]


def test_a_grant_that_was_renewed_is_kept_when_a_network_resets_its_connection(server: Running) -> None:
    """A client that waited has renewed its lease, on another connection: it has read the grant."""
    proof = hold(server, "renewed")
    line = server.begin("acquire", wait_for("renewed", "ann"))
    until(lambda: server.waiting("renewed") == ["ann"])
    has_waited()
    server.post("release", proof)
    granted = read_reply(line).json
    assert server.post("renew", {"lease": granted["lease"]["id"], "token": granted["token"]}).status == 200
    reset_and_noticed(server, line)
    assert server.holders("renewed") == ["ann"]


@pytest.mark.parametrize("leave", [reset, lambda line: line.close()])
@pytest.mark.parametrize("way", ["hot", "ordinary"])
def test_a_grant_that_nobody_read_is_released(
    server: Running, leave: Callable[[socket.socket], None], way: str
) -> None:
    """A client that waited dies with the answer in its hands: its kernel resets the connection."""
    asked: dict[str, Any] = {"resources": "unread", "holder": "goner", "wait_seconds": 600}
    key = None
    if way == "ordinary":  # a request with a session takes the other parser
        key = server.post("sessions", {"ttl_seconds": 600, "holder": "goner"}).json["credential"]
    proof = hold(server, "unread")
    line = server.begin("acquire", asked, key=key)
    until(lambda: server.waiting("unread") == ["goner"])
    has_waited()
    server.post("release", proof)
    until_written(line)
    assert server.holders("unread") == ["goner"]
    leave(line)
    until(lambda: server.holders("unread") == [])
    told = server.get("history?resource=unread&kind=released&limit=1").json["events"][0]
    assert "its caller is gone" in str(told["detail"])


def test_a_grant_that_was_read_stays_when_its_connection_is_closed(server: Running) -> None:
    with server.begin("acquire", wait_for("read", "ann")) as line:
        assert read_reply(line).status == 200
    unread(server, "unread-later", "bob").close()
    until(lambda: server.holders("unread-later") == [])  # it left later, and was noticed
    assert server.holders("read") == ["ann"]


def test_a_grant_is_kept_for_a_client_that_retries_at_once(patient: Running) -> None:
    """A connection that was reset on the way: the same request comes again, and finds what it was given."""
    unread(patient, "again", "ann", request_id="once").close()
    for _ in range(3):  # by now the server has seen that the connection is gone
        assert patient.holders("again") == ["ann"]
    granted = patient.post("acquire", wait_for("again", "ann", request_id="once")).json
    assert granted["fresh"] is False
    unread(patient, "again-later", "bob").close()
    until(lambda: patient.holders("again-later") == [])
    assert patient.holders("again") == ["ann"]
    assert patient.post("renew", {"lease": granted["lease"]["id"], "token": granted["token"]}).status == 200


def test_a_grant_before_another_request_was_heard(server: Running) -> None:
    """A client that sends another request has read the answer before, even if the end is abrupt."""
    line = unread(server, "heard", "ann")
    assert read_reply(line).status == 200
    again = unread(server, "heard-2", "ann")
    line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until_written(line)
    reset(line)
    until_written(again)
    again.close()
    until(lambda: server.holders("heard-2") == [])
    assert server.holders("heard") == ["ann"]


def test_many_clients_killed_in_the_queue(server: Running) -> None:
    proof = hold(server, "crowd")
    lines = [server.begin("acquire", wait_for("crowd", f"w{number}")) for number in range(200)]
    until(lambda: len(server.waiting("crowd")) == 200)
    for line in lines:
        reset(line)
    until(lambda: server.waiting("crowd") == [])
    server.post("release", proof)
    assert server.post("acquire", {"resources": "crowd", "holder": "after"}).status == 200


def test_a_ticket_keeps_ones_place(hurried: Running) -> None:
    proof = hold(hurried, "slow")
    first = settled(hurried, wait_for("slow", "bob"))
    assert first.status == 202
    ticket = first.json
    check_shape(ticket, "Ticket")
    assert ticket["queue"] == {"length": 1, "position": 1}
    assert [each["holder"] for each in ticket["holders"]] == ["ann"]
    second = settled(hurried, wait_for("slow", "cid", request_id="cids"))
    assert second.json["ticket"] == "cids"
    assert second.json["queue"] == {"length": 2, "position": 2}
    again = settled(hurried, wait_for("slow", "bob", request_id=ticket["ticket"]))
    assert again.json["queue"]["position"] == 1
    hurried.post("release", proof)  # while nobody of them is there
    granted = settled(hurried, wait_for("slow", "bob", request_id=ticket["ticket"]))
    assert granted.status == 200
    shown = {"lease": granted.json["lease"]["id"], "token": granted.json["token"]}
    assert hurried.post("renew", shown).status == 200


def test_each_of_many_is_sent_away_when_its_own_time_is_up(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0", "--keep-open", "500ms") as server:  # so long that several wait at once
        hold(server, "crowded")
        lines = []
        for number in range(5):
            lines.append(server.begin("acquire", wait_for("crowded", f"h{number}")))
            until(lambda number=number: len(server.waiting("crowded")) > number)  # type: ignore[misc] # a default
        assert [read_reply(line).status for line in lines] == [202] * 5
        for line in lines:
            line.close()


def test_who_waits_no_longer_than_one_request_is_kept_is_told_that_its_time_is_up(hurried: Running) -> None:
    hold(hurried, "brief")
    for seconds in (0.299, 0.3):  # a hurried server keeps a request for 300 ms
        reply = hurried.post("acquire", {**wait_for("brief", "bob"), "wait_seconds": seconds})
        assert (reply.status, reply.code) == (409, "timeout"), reply.json


def test_who_does_not_come_back_loses_its_place(forgetful: Running) -> None:
    proof = hold(forgetful, "forgotten")
    assert settled(forgetful, wait_for("forgotten", "bob")).json["queue"] == {"length": 1, "position": 1}
    until(lambda: forgetful.waiting("forgotten") == [])
    ticket = settled(forgetful, wait_for("forgotten", "cid")).json["ticket"]
    forgetful.post("release", proof)
    until(lambda: forgetful.holders("forgotten") == [])  # given back, as cid does not come
    late = settled(forgetful, wait_for("forgotten", "cid", request_id=ticket))
    assert late.status == 200  # it was not withdrawn: it asks anew


def test_who_is_served_between_two_requests_and_does_not_come_back_holds_nothing(forgetful: Running) -> None:
    def is_seen() -> bool:
        """Unless the machine stood still for longer than a place is kept."""
        proof = hold(forgetful, "between")
        settled(forgetful, wait_for("between", "cid"))
        forgetful.post("release", proof)
        found = forgetful.holders("between")
        until(lambda: forgetful.holders("between") == [])
        return found == ["cid"]

    until(is_seen)


def test_a_place_can_be_cancelled_between_two_requests(hurried: Running) -> None:
    hold(hurried, "cancelled")
    ticket = settled(hurried, wait_for("cancelled", "bob")).json["ticket"]
    assert hurried.post("cancel", {"request_id": ticket, "holder": "bob"}).json["was"] == "waiting"
    assert hurried.waiting("cancelled") == []
    assert settled(hurried, wait_for("cancelled", "bob", request_id=ticket)).code == "cancelled"


def test_at_the_end_who_waits_is_told_to_come_back(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        proof = hold(server, "busy")
        with server.begin("acquire", wait_for("busy", "bob")) as line:
            until(lambda: server.waiting("busy"))
            server.process.send_signal(signal.SIGTERM)
            told = read_reply(line)
        assert (told.status, told.code) == (503, "closed")
        assert told.headers["retry-after"] == "1"
        assert server.stop() == 0
    with leasehold.connect(f"sqlite:///{server.database}") as locks:
        seen = locks.inspect("busy")
        assert isinstance(seen, leasehold.Inspection)
        assert ([lease.id for lease in seen.leases], seen.waiting) == ([proof["lease"]], ())
        assert isinstance(locks.renew(proof["lease"], proof["token"]), leasehold.Renewed)


def test_who_can_come_back_keeps_its_place_when_the_server_goes(tmp_path: Path) -> None:
    command = command_with("leasehold.engine.engine.KEPT = 600_000_000")
    bob, cid = (wait_for("kept", holder, request_id=f"of-{holder}") for holder in ("bob", "cid"))
    with serving(tmp_path, command=command) as server:
        proof = hold(server, "kept")
        with server.begin("acquire", bob) as first:
            until(lambda: server.waiting("kept") == ["bob"])
            with server.begin("acquire", cid) as second:
                until(lambda: server.waiting("kept") == ["bob", "cid"])
                assert server.stop() == 0
                assert read_reply(second).code == "closed"
            assert read_reply(first).code == "closed"
    with (
        serving(tmp_path) as server,
        server.begin("acquire", cid) as second,
        server.begin("acquire", bob) as first,
    ):
        assert server.waiting("kept") == ["bob", "cid"]
        server.post("release", proof)
        assert read_reply(first).status == 200
        assert server.waiting("kept") == ["cid"]
        second.close()
        until(lambda: server.waiting("kept") == [])


def test_what_others_leave_at_the_end_is_nobodys_for_long(tmp_path: Path) -> None:
    """Who is let through by another's leaving was sent away as well: it must not hold what it does not know of."""
    command = command_with("leasehold.engine.engine.KEPT = 600_000_000")
    with serving(tmp_path, command=command) as server:
        server.post("acquire", {"resources": "left", "holder": "reader", "mode": "shared"})
        with server.begin("acquire", wait_for("left", "writer")) as first:
            until(lambda: server.waiting("left") == ["writer"])
            ghost = wait_for("left", "ghost", request_id="of-ghost", mode="shared")
            with server.begin("acquire", ghost) as second:
                until(lambda: server.waiting("left") == ["writer", "ghost"])
                assert server.stop() == 0
                assert {read_reply(first).code, read_reply(second).code} == {"closed"}
    with serving(tmp_path) as server:
        until(lambda: server.holders("left") == ["reader"])
        assert server.waiting("left") == []


def test_a_grant_after_its_client_was_sent_away_is_released(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.post("acquire", {"resources": "brief", "holder": "ann", "ttl_seconds": 1})
        ghost = wait_for("brief", "ghost", request_id="of-ghost")
        with server.begin("acquire", ghost) as line, socket.create_connection((server.host, server.port)) as busy:
            busy.sendall(
                b"POST /v1/update HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            )  # it waits for that
            until(lambda: server.waiting("brief") == ["ghost"])
            server.process.send_signal(signal.SIGTERM)
            assert read_reply(line).code == "closed"
            with leasehold.connect(f"sqlite:///{server.database}") as locks:
                until(lambda: locks.history(resource="brief", holder="ghost", kinds=("released",)))
                assert locks.list(resource="brief") == ()


def test_a_place_survives_trouble_on_the_way_back(hurried: Running) -> None:
    hold(hurried, "troubled")
    ticket = settled(hurried, wait_for("troubled", "bob", request_id="of-bob")).json["ticket"]
    with contextlib.closing(sqlite3.connect(hurried.database, isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        assert hurried.post("acquire", wait_for("troubled", "bob", request_id=ticket)).status == 503
        stranger.execute("ROLLBACK")
    assert hurried.waiting("troubled") == ["bob"]


def test_a_copy_that_asks_for_something_else_leaves_the_place_alone(hurried: Running) -> None:
    proof = hold(hurried, "ticketed")
    ticket = settled(hurried, wait_for("ticketed", "bob", request_id="mine")).json["ticket"]
    assert settled(hurried, wait_for("something else", "bob", request_id=ticket)).code == "conflict"
    assert hurried.waiting("ticketed") == ["bob"]
    with hurried.begin("acquire", wait_for("ticketed", "bob", request_id=ticket)) as line:
        hurried.post("release", proof)
        assert read_reply(line).status == 200


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        proofs = [hold(server, f"kept-{number}") for number in range(20)]
        server.process.kill()
        server.process.wait()
    with serving(tmp_path) as server:
        for proof in proofs:
            assert server.post("renew", proof).status == 200
        fences = [int(proof["lease"][1:].partition("-")[0]) for proof in proofs]
        newest = server.post("acquire", {"resources": "newest", "holder": "x"}).json["lease"]["fence"]
        assert newest > max(fences)
