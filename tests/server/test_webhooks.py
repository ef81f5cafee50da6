"""Webhooks: told once it happened, signed, again until it is taken, after a restart too; never to a private address."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.errors import InvalidInput, LeaseholdError, StoreError
from leasehold.locks.connect import open_served
from leasehold.routing.history import HistoryOfLanes
from leasehold.server.webhooks import delivery
from leasehold.server.webhooks.addresses import Forbidden, is_public, resolve
from leasehold.server.webhooks.positions import Positions
from leasehold.server.webhooks.settings import Hook, configured, state_file
from leasehold.testing.lending import free_port
from tests.kit.receiver import SECRET, Receiver, receiving
from tests.kit.serving import Running, serving, start, until, until_soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from leasehold.locks.hosted import Served
    from leasehold.server.webhooks.delivery import Count


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def hook_in(folder: Path, receiver: Receiver, **more: str) -> None:
    """A configuration file where the server starts."""
    settings = {"url": f'"{receiver.url()}"', "secret": f'"{SECRET}"', "allow_private": "true", **more}
    lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
    (folder / "leasehold.toml").write_text(f"[[webhooks]]\n{lines}\n")


def take(server: Running, name: str, holder: str = "ann", **more: object) -> dict[str, str]:
    reply = server.post("acquire", {"resources": name, "holder": holder, **more})
    assert reply.status == 200, reply
    return {"lease": reply.json["lease"]["id"], "token": reply.json["token"]}


def test_what_happens_is_told_signed_and_in_order(tmp_path: Path, receiver: Receiver) -> None:
    hook_in(tmp_path, receiver)
    with serving(tmp_path) as server:
        take(server, "one")
        take(server, "two", "bob", ttl_seconds=0.05)
        until(lambda: ("expired", ["two"]) in receiver.seen)
        server.post("force-release", {"target": "one", "reason": "gone", "by": "ops"})
        take(server, "left", "ann")
        take(server, "right", "bob")
        with server.begin("acquire", {"resources": "right", "holder": "ann", "wait_seconds": 40}):
            until(lambda: server.waiting("right") == ["ann"])
            assert server.post("acquire", {"resources": "left", "holder": "bob", "wait_seconds": 40}).code == "deadlock"
            until(lambda: ("deadlock", ["left"]) in receiver.seen)
        assert receiver.seen == [
            ("granted", ["one"]),
            ("granted", ["two"]),
            ("expired", ["two"]),
            ("forced", ["one"]),
            ("granted", ["left"]),
            ("granted", ["right"]),
            ("deadlock", ["left"]),
        ]
        assert all(told.is_signed and told.path == "/hook" for told in receiver.told)
        assert len({told.headers["webhook-id"] for told in receiver.told}) == len(receiver.told)
        forced = receiver.told[3].json
        assert forced["data"]["detail"]["by"] == "ops"
        assert forced["timestamp"] == forced["data"]["at"]
        assert "token" not in str([told.json for told in receiver.told])
        figures = server.ask("GET", "/metrics").content.decode()
        assert f'leasehold_webhooks_total{{hook="http://127.0.0.1:{receiver.port}",outcome="delivered"}} 7' in figures


def test_only_what_was_asked_for(tmp_path: Path, receiver: Receiver) -> None:
    hook_in(tmp_path, receiver, kinds='["forced"]', space='"team"')
    with serving(tmp_path) as server:
        for space in ("default", "team"):
            take(server, "one", space=space)
            server.post("force-release", {"target": "one", "reason": "gone", "space": space})
        until(lambda: receiver.told)
        assert [told.json["data"]["space"] for told in receiver.told] == ["team"]
        assert receiver.seen == [("forced", ["one"])]


def test_what_was_not_taken_is_sent_again_with_the_same_id(tmp_path: Path, receiver: Receiver) -> None:
    hook_in(tmp_path, receiver)
    receiver.answers = [(503, {}), (302, {"Location": receiver.url("/elsewhere")}), (429, {"Retry-After": "1"})]
    with serving(tmp_path) as server:
        take(server, "one")
        take(server, "two")
        until(lambda: len(receiver.told) == 5)
        assert receiver.seen == [("granted", ["one"])] * 4 + [("granted", ["two"])]
        assert len({told.headers["webhook-id"] for told in receiver.told[:4]}) == 1
        assert {told.path for told in receiver.told} == {"/hook"}  # the redirect was not followed
        times = [int(told.headers["webhook-timestamp"]) for told in receiver.told]
        assert times == sorted(times)


def test_a_restart_loses_nothing(tmp_path: Path) -> None:
    """The receiver is away, the server is killed, something happens without it; then both come back."""
    with receiving(free_port()) as first:
        hook_in(tmp_path, first)
        with serving(tmp_path) as server:
            take(server, "seen")
            until(lambda: first.told)
    with serving(tmp_path) as server:
        take(server, "while nobody listens")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with leasehold.connect(f"sqlite:///{server.database}") as elsewhere:
        elsewhere.acquire("while no server runs", ttl=60, holder="ann")
    with receiving(first.port) as again, serving(tmp_path):
        until(lambda: ("granted", ["while no server runs"]) in again.seen)
        names = [resources for _, resources in again.seen]
        assert names[-2:] == [["while nobody listens"], ["while no server runs"]]
        assert names[:-2] in ([], [["seen"]])  # at least once: after a kill, perhaps again


def test_what_was_sent_is_remembered_whatever_the_options_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ours = tmp_path / "wh.db-webhooks.json"
    assert state_file(f"sqlite://{tmp_path}/wh.db") == str(ours)
    assert state_file(f"sqlite://{tmp_path}/wh.db?retention_days=7") == str(ours)
    before = tmp_path / "wh.db?retention_days=9-webhooks.json"  # as it was called once
    before.write_text('{"hook": 9}')
    assert state_file(f"sqlite://{tmp_path}/wh.db?retention_days=9") == str(ours)
    assert ours.read_text() == '{"hook": 9}'
    assert not before.exists()
    files = {state_file(f"postgresql://ann:{password}@db/locks") for password in ("old", "new")}
    assert len(files) == 1
    assert state_file("postgresql://ann:old@db/others") not in files
    (tmp_path / "no folder").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "no folder"))
    with pytest.raises(LeaseholdError, match="--webhook-state"):
        state_file("postgresql://ann@db/locks")


def test_a_new_hook_begins_with_what_happens_next(tmp_path: Path, receiver: Receiver) -> None:
    with serving(tmp_path) as server:
        take(server, "before")
    hook_in(tmp_path, receiver)
    with serving(tmp_path) as server:
        take(server, "after")
        until(lambda: receiver.told)
        assert receiver.seen == [("granted", ["after"])]


def test_a_receiver_on_this_machine_must_be_allowed(tmp_path: Path, receiver: Receiver) -> None:
    """Also for a name that only a resolver takes for this address: other readers see no address in it."""
    hook_in(tmp_path, receiver, allow_private="false", url=f'"http://127.1:{receiver.port}/hook"')
    with serving(tmp_path) as server:
        take(server, "one")
        until(lambda: 'outcome="retried"' in server.ask("GET", "/metrics").content.decode())
        assert receiver.told == []
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert "which is not public" in server.process.stderr.read()


def test_from_the_command_line(tmp_path: Path, receiver: Receiver) -> None:
    words = ("--webhook", receiver.url("/a?b=c"), "--webhook-private", "--webhook-state", str(tmp_path / "state"))
    with serving(tmp_path, *words, env={"LEASEHOLD_WEBHOOK_SECRET": SECRET}) as server:
        take(server, "one")
        until(lambda: receiver.told)
        assert receiver.told[0].path == "/a?b=c"
        assert receiver.told[0].is_signed
    assert (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("url", "says"),
    [("https://hooks.example/x", "LEASEHOLD_WEBHOOK_SECRET is not set"), ("ftp://x", "url: must be https://")],
)
def test_a_wrong_hook_is_refused_at_the_start(tmp_path: Path, url: str, says: str) -> None:
    with start(tmp_path / "locks.db", "--webhook", url) as process:
        assert process.wait(60) == 2
        assert process.stderr is not None
        assert says in process.stderr.read()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "url"),
        ({"url": "https://h/x"}, "secret"),
        ({"url": "https://h/x", "secret": "short"}, "at least 16 bytes"),
        ({"url": "https://h/x", "secret": "whsec_*"}, "base64"),
        ({"url": "https://h/x", "secret": SECRET, "secret_env": "X"}, "either"),
        ({"url": "https://h/x", "secret_env": "NOT_THERE"}, "NOT_THERE is not set"),
        ({"url": "https://u:p@h/x", "secret": SECRET}, "user"),
        ({"url": "https://h/ x", "secret": SECRET}, "blanks"),
        ({"url": "https://h/x\r\nX: y", "secret": SECRET}, "url"),
        ({"url": "file:///etc/passwd", "secret": SECRET}, "url"),
        ({"url": "https://h:99999/", "secret": SECRET}, "url"),
        ({"url": "https://h/x", "secret": SECRET, "kinds": ["renewed"]}, "kinds"),
        ({"url": "https://h/x", "secret": SECRET, "kinds": []}, "kinds"),
        ({"url": "https://h/x", "secret": SECRET, "space": ""}, "space"),
        ({"url": "https://h/x", "secret": SECRET, "colour": "red"}, "colour"),
        ({"url": "https://h/x", "secret": SECRET, "allow_private": 1}, "allow_private"),
        ({"url": "http://127.0.0.1:9/x", "secret": SECRET}, "not on the Internet, which allow_private .* would allow"),
        ({"url": "http://[::ffff:10.0.0.1]/x", "secret": SECRET}, "not on the Internet"),
        ({"url": "http://localhost/x", "secret": SECRET}, "not on the Internet"),
    ],
)
def test_a_wrong_table_is_refused_by_name(table: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        configured([table], {})


def test_secrets_may_be_base64() -> None:
    (hook,) = configured([{"url": "https://h/x", "secret": "whsec_" + "QUFBQUFBQUFBQUFBQUFBQQ=="}], {})
    assert hook.secret == b"A" * 16


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "10.0.0.1",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "240.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd12:3456::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:db8::1",
        "nonsense",
    ],
)
def test_these_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_these_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "::1", "0"])
def test_no_spelling_of_this_machine_gets_through(host: str) -> None:
    async def ask() -> None:
        with pytest.raises((Forbidden, OSError)):
            await resolve(host, 80, allow_private=False)

    asyncio.run(ask())


def test_the_connection_goes_to_the_address_that_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when it is looked up and private a moment later: it is looked up only once."""
    from leasehold.domain.events import Event
    from leasehold.server.webhooks import delivery as posting

    looked: list[str] = []
    connected: list[str] = []

    async def ask() -> None:
        loop = asyncio.get_running_loop()

        async def lookup(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
            looked.append(host)
            address = "93.184.216.34" if len(looked) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        async def connect(address: str, port: int, **_: object) -> None:
            connected.append(address)
            raise ConnectionRefusedError

        monkeypatch.setattr(loop, "getaddrinfo", lookup)
        monkeypatch.setattr(asyncio, "open_connection", connect)
        hook = Hook(f"http://rebinding.example:{receiver.port}/", b"x" * 16)
        event = Event("granted", 0, "default", ("x",), "ann", None, None, 1, {}, 1)
        with pytest.raises(ConnectionRefusedError):
            await posting.post(hook, event)

    asyncio.run(ask())
    assert (looked, connected, receiver.told) == (["rebinding.example"], ["93.184.216.34"], [])


@asynccontextmanager
async def telling(
    folder: Path, receiver: Receiver, count: Count, told: int | None = None
) -> AsyncIterator[tuple[Served, delivery.Webhooks]]:
    """A store in this process, and the receiver as its hook, which was told everything up to this number."""
    served = await open_served(f"sqlite:///{folder}/locks.db")
    hook, places = Hook(receiver.url(), SECRET.encode(), allow_private=True), Positions(str(folder / "state"))
    if told is not None:
        places.set(hook.id, (told,))
    hooks = delivery.Webhooks(served, [hook], places, count)
    yield served, hooks
    await hooks.close()
    await served.close()


def test_what_was_told_is_never_written_through_a_link(tmp_path: Path) -> None:
    state, precious = tmp_path / "state", tmp_path / "precious"
    precious.write_text("{}")
    (tmp_path / "state.new").symlink_to(precious)
    Positions(str(state)).set("hook", (7,))
    assert (precious.read_text(), Positions(str(state)).get("hook")) == ("{}", (7,))
    state.unlink()
    state.symlink_to(precious)
    with pytest.raises(LeaseholdError, match="cannot be read"):
        Positions(str(state))
    state.unlink()
    os.mkfifo(state)
    with pytest.raises(LeaseholdError, match="cannot be read"):
        Positions(str(state))


def test_an_event_that_is_never_accepted_is_given_up(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is told nevertheless."""
    monkeypatch.setattr(delivery, "FIRST_PAUSE", 0.001)
    receiver.answers = [(400, {})] * delivery.REFUSALS_MOST
    counted: list[str] = []

    async def deliver() -> None:
        async with telling(tmp_path, receiver, lambda _, outcome: counted.append(outcome)) as (served, hooks):
            await hooks.begin()
            for name in ("one", "two"):
                await served.locks.acquire(name, ttl=60, holder="ann")
            await until_soon(lambda: "delivered" in counted)

    asyncio.run(deliver())
    assert receiver.seen == [("granted", ["one"])] * delivery.REFUSALS_MOST + [("granted", ["two"])]
    assert counted == ["retried"] * (delivery.REFUSALS_MOST - 1) + ["given_up", "delivered"]


def test_who_is_too_far_behind_loses_the_oldest(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "BACKLOG", 3)
    counted: list[str] = []

    async def deliver() -> None:
        async with telling(tmp_path, receiver, lambda _, outcome: counted.append(outcome), told=0) as (served, hooks):
            for number in range(5):
                await served.locks.acquire(f"r{number}", ttl=60, holder="ann")
            await hooks.begin()
            await until_soon(lambda: counted.count("delivered") == 3)

    asyncio.run(deliver())
    assert [resources for _, resources in receiver.seen] == [["r2"], ["r3"], ["r4"]]
    assert counted[0] == "skipped"


def test_a_store_that_is_away_is_told_of_once(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "POLL_EVERY", 0.001)
    caplog.set_level("INFO", "leasehold")
    looked: list[tuple[int, ...]] = []
    after = HistoryOfLanes.after
    is_away = True

    def be_away(self: HistoryOfLanes, at: tuple[int, ...], *asked: Any) -> object:
        looked.append(at)
        if is_away:
            raise StoreError("the store is away")
        return after(self, at, *asked)

    monkeypatch.setattr(HistoryOfLanes, "after", be_away)

    async def deliver() -> None:
        nonlocal is_away
        async with telling(tmp_path, receiver, lambda _hook, _outcome: None) as (served, hooks):
            await hooks.begin()
            await served.locks.acquire("one", ttl=60, holder="ann")
            await until_soon(lambda: len(looked) >= 20)
            is_away = False
            await until_soon(lambda: "webhooks are resumed" in caplog.messages)

    asyncio.run(deliver())
    assert [told for told in caplog.messages if "webhooks" in told] == [
        "webhooks are paused, the store cannot be read: the store is away",
        "webhooks are resumed",
    ]
    assert receiver.seen == [("granted", ["one"])]
