"""Each role, route and key, from the table of routes: only an admin touches what another key or session holds.

The attacker knows everything that a listing shows, and every field of every body is filled with it. It lacks the token.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import pytest

from leasehold.server.api.routes import ROUTES, Route
from tests.kit.serving import Reply, Running, create_key, read_reply, serving, until

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path

HOLDER = "builder-1"
_number = itertools.count()


class Scene(NamedTuple):
    server: Running
    keys: dict[str, str]
    """What each role shows: a key, or a session's credential."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("matrix")
    kinds: dict[str, dict[str, Any]] = {
        "owner": {"role": "agent", "space": "team"},
        "agent": {"role": "agent", "space": "team"},
        "viewer": {"role": "viewer", "space": "team"},
        "prefix": {"role": "agent", "space": "team", "prefixes": ("path:docs",)},
        "space": {"role": "agent", "space": "elsewhere"},
        "admin": {"role": "admin", "space": "team"},
    }
    keys = {name: create_key(folder, name=name, **kind) for name, kind in kinds.items()}
    with serving(folder, "--rate", "0") as server:
        for name, key in (("its own session", "owner"), ("another's session", "agent")):
            keys[name] = server.post("sessions", {"ttl_seconds": 3_600}, key=keys[key]).json["credential"]
        yield Scene(server, keys)


class Owned:
    """A lease of a key, one of a session, a place in a queue and a run: what an attacker would have."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.name = f"path:src/{next(_number)}"
        started = self.post("sessions", {"ttl_seconds": 3_600, "holder": HOLDER}).json
        self.session = started["session"]["id"]
        self.lease = self.post("acquire", self.asked()).json
        mine = {"resources": f"{self.name}-of-session", "request_id": self.name, "session": started["credential"]}
        self.other = self.post("acquire", mine).json
        self.unit = f"unit-{next(_number)}"
        run = {"name": "n", "work_unit": self.unit, "context": {"step": 1}, "holder": HOLDER}
        self.run: str = self.post("workflows", run).json["workflow"]["id"]
        scene.server.post("acquire", {"resources": f"{self.name}-busy", "space": "team"}, key=scene.keys["admin"])
        self.waits = {"resources": f"{self.name}-busy", "wait_seconds": 600, "request_id": f"{self.name}-wait"}
        self.line: socket.socket = scene.server.begin(
            "acquire", {**self.waits, "holder": HOLDER}, key=scene.keys["owner"]
        )
        until(lambda: self._waiting() != [])

    def asked(self) -> dict[str, Any]:
        return {"resources": self.name, "ttl_seconds": 600, "holder": HOLDER, "request_id": self.name}

    def post(self, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 (a reply)
        reply = self.scene.server.post(path, body, key=self.scene.keys["owner"])
        assert reply.status == 200, reply
        return reply

    def _waiting(self) -> list[object]:
        found = self.scene.server.get(
            f"inspect?{urlencode({'resource': f'{self.name}-busy', 'space': 'team'})}", **self._shown
        )
        return [(each["holder"], each["position"]) for each in found.json["waiting"]]

    @property
    def _shown(self) -> dict[str, Any]:
        return {"key": self.scene.keys["admin"]}

    def seen(self) -> tuple[Any, Any, list[object], object]:
        """Everything about it that must not change."""
        leases = self.scene.server.get("leases?space=team", **self._shown).json["leases"]
        sessions = self.scene.server.get("sessions?space=team", **self._shown).json["sessions"]
        told = ("id", "fence", "expires_at", "context", "name", "holder")
        return (
            [[each[field] for field in told] for each in leases if each["resources"][0].startswith(self.name)],
            [each["expires_at"] for each in sessions if each["id"] == self.session],
            self._waiting(),
            [[each[field] for field in told] for each in leases if self.unit in each["resources"][0]],
        )

    def kept(self) -> object:
        """`seen`, without those who wait behind the owner, as a tool leaves a place in the queue."""
        leases, sessions, waiting, run = self.seen()
        return leases, sessions, waiting[:1], run

    def known(self, which: str) -> dict[str, Any]:
        """What an attacker puts into each field: about the lease of the key, of the session, the wait or the run."""
        lease = (self.other if which.startswith("session") else self.lease)["lease"]
        more = {
            "session": {"session": f"{self.session}.{'0' * 32}"},
            "session's id": {"session": self.session},
            "run": {"id": self.run, "work_unit": self.unit},
        }
        name = self.waits["resources"] if which == "wait" else lease["resources"][0]
        return {
            "lease": lease["id"],
            "target": lease["id"],
            "resource": name,
            "resources": name,
            "paths": name,
            "id": lease["id"],
            "request_id": self.waits["request_id"] if which == "wait" else self.name,
            "holder": HOLDER,
            "space": "team",
            "context": {"stolen": True},
            "status": "completed",
            "ttl_seconds": 1,
            "role": "admin",
            "name": "stolen",
            "reason": "mine",
            "reentrant": True,
            "merge": False,
            **more.get(which, {}),
        }

    def is_its_owners(self) -> None:
        """The owner's retry still has the lease, and its token still releases it."""
        again = self.post("acquire", self.asked()).json
        assert again["lease"]["id"] == self.lease["lease"]["id"]
        for each in (self.lease, self.other):
            assert self.post("release", {"lease": each["lease"]["id"], "token": each["token"]}).json["released"]
        assert self.post("workflows/release", {"id": self.run}).json["released"]


def bodies(route: Route, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """With what the route needs, and with all that is known."""
    if route.verb == "batch":
        for call in ("renew", "release", "acquire"):
            inner = next(each for each in ROUTES if each.verb == call)
            yield {"calls": [{"verb": call, **body} for body in bodies(inner, known)]}
        return
    fields = msgspec.structs.fields(route.takes)
    yield {each.encode_name: known.get(each.encode_name, "x") for each in fields if each.required}
    yield {each.encode_name: known[each.encode_name] for each in fields if each.required or each.encode_name in known}


WHO = ("agent", "viewer", "prefix", "space", "its own session", "another's session")
WHAT = ("key", "session", "session's id", "wait", "run")


@pytest.mark.parametrize(
    ("who", "what"),
    [*((each, WHAT) for each in WHO), ("owner", ("session's id", "session"))],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_nobody_else_touches_what_a_key_or_a_session_holds(scene: Scene, who: str, what: tuple[str, ...]) -> None:
    """Not even the key that began a session touches what the session holds."""
    owned = Owned(scene)
    before = owned.seen()
    assert all(before)
    secrets = [each["token"] for each in (owned.lease, owned.other)]
    for route, which in itertools.product(ROUTES, what):
        for body in bodies(route, owned.known(which)):
            is_post = route.method == "POST"
            path = route.path if is_post else f"{route.path}?{urlencode({k: v for k, v in body.items() if v})}"
            reply = scene.server.ask(route.method, path, body if is_post else None, key=scene.keys[who])
            assert reply.status < 500, (route, body, reply)
            assert owned.seen() == before, (who, route.path, body, reply)
            assert not [secret for secret in secrets if secret.encode() in reply.content]
            if route.verb == "acquire" and reply.status == 200:
                assert reply.json["lease"]["id"] not in {each["lease"]["id"] for each in (owned.lease, owned.other)}
    owned.is_its_owners()
    owned.line.close()


def test_a_guess_of_holder_and_request_id_ends_nothing_that_was_granted(scene: Scene) -> None:
    """Agents may share a key, and so its principal."""
    owned = Owned(scene)
    before = owned.seen()
    guess = {"request_id": owned.name, "holder": HOLDER}
    for more in ({}, {"token": "0" * 32}, {"token": owned.other["token"]}, {"admin": "ops"}):
        reply = scene.server.post("cancel", guess | more, key=scene.keys["owner"])
        assert reply.code in ("not_allowed", "invalid"), (more, reply)
        assert owned.seen() == before
    owned.is_its_owners()
    owned.line.close()


def test_a_guess_ends_nothing_on_an_open_server(tmp_path: Path) -> None:
    """Every caller is an admin there."""
    with serving(tmp_path) as server:
        asked = {"resources": "r", "holder": HOLDER, "request_id": "q"}
        granted = server.post("acquire", asked).json
        guess = {"request_id": "q", "holder": HOLDER}
        for more in ({}, {"token": "0" * 32}):
            assert server.post("cancel", guess | more).code == "not_allowed"
        again = server.post("acquire", asked).json
        assert again["lease"]["id"] == granted["lease"]["id"]
        assert server.post("cancel", {**guess, "token": again["token"]}).json["was"] == "granted"


def test_an_admin_cancels_its_own_without_a_token(scene: Scene) -> None:
    asked = {"resources": f"mine-{next(_number)}", "holder": HOLDER, "request_id": "mine"}
    assert scene.server.post("acquire", asked, key=scene.keys["admin"]).status == 200
    guess = {"request_id": "mine", "holder": HOLDER}
    assert scene.server.post("cancel", guess, key=scene.keys["admin"]).json["was"] == "granted"


def test_an_admin_ends_it(scene: Scene) -> None:
    owned = Owned(scene)
    for each in (owned.lease, owned.other):
        body = {"lease": each["lease"]["id"]}
        assert scene.server.post("release", body, key=scene.keys["admin"]).json["released"]
    scene.server.post(
        "force-release", {"target": f"{owned.name}-busy", "reason": "x", "space": "team"}, key=scene.keys["admin"]
    )
    with owned.line:
        assert read_reply(owned.line).status == 200


# ------------------------------------------------------------------------------ the other surfaces of a server


def by_gateway(scene: Scene, who: str, path: str, uri: str) -> int:
    body = {"secret": scene.keys[who], "resourceKey": uri, "space": "team"}
    return scene.server.ask("POST", f"/locks/{path}", body).status


@pytest.mark.parametrize("who", WHO)
def test_nobody_else_touches_it_by_the_gateway(scene: Scene, who: str) -> None:
    uri = f"deploy://{next(_number)}"
    owner = scene.server.post("sessions", {"holder": HOLDER}, key=scene.keys["owner"]).json["credential"]
    mine = {"secret": owner, "resourceKey": uri, "space": "team"}
    assert scene.server.ask("POST", "/locks/acquire", mine).status == 200
    shown = f"inspect?{urlencode({'resource': uri, 'space': 'team'})}"
    before = scene.server.get(shown, key=scene.keys["admin"]).json["leases"]
    for path in ("acquire", "heartbeat", "release"):
        assert by_gateway(scene, who, path, uri) in (403, 404, 409)
        after = scene.server.get(shown, key=scene.keys["admin"]).json["leases"]
        assert [(each["id"], each["expires_at"]) for each in after] == [
            (each["id"], each["expires_at"]) for each in before
        ]
    assert scene.server.ask("POST", "/locks/release", mine).status == 200


class Agent:
    """A client of MCP with one key."""

    def __init__(self, scene: Scene, who: str) -> None:
        self._scene, self._key, self._headers = (
            scene,
            scene.keys[who],
            {"Accept": "application/json, text/event-stream"},
        )
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        reply = self._ask("initialize", about)
        if reply.status == 200:
            self._headers["Mcp-Session-Id"] = reply.headers["mcp-session-id"]

    def _ask(self, method: str, params: dict[str, Any]) -> Reply:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._scene.server.ask("POST", "/mcp", body, key=self._key, **self._headers)

    def tools(self) -> dict[str, list[str]]:
        """The arguments of each tool."""
        told = json.loads(self._ask("tools/list", {}).content.partition(b"data: ")[2])["result"]["tools"]
        return {each["name"]: list(each["inputSchema"]["properties"]) for each in told}

    def call(self, tool: str, arguments: dict[str, Any]) -> bytes:
        return self._ask("tools/call", {"name": tool, "arguments": arguments}).content


@pytest.mark.parametrize("who", WHO)
def test_nobody_else_touches_it_by_the_tools_of_agents(scene: Scene, who: str) -> None:
    owned = Owned(scene)
    before = owned.kept()
    agent, tools = Agent(scene, who), Agent(scene, "admin").tools()
    assert {"acquire_lock", "release_lock", "renew_lock", "force_release_lock"} < set(tools)
    for tool, which in itertools.product(tools, ("key", "session", "session's id", "wait")):
        known = {
            **owned.known(which),
            "agent_id": HOLDER,
            "token": "0" * 32,
            "ticket": owned.waits["request_id"],
            "wait_seconds": 0.1,
        }
        for names in (("resource", "wait_seconds"), ("resource", "agent_id", "wait_seconds"), tuple(tools[tool])):
            told = agent.call(tool, {name: known[name] for name in names if name in tools[tool] and name in known})
            assert owned.kept() == before, (who, tool, names, told)
            assert not [each for each in (owned.lease, owned.other) if each["token"].encode() in told]
    owned.is_its_owners()
    owned.line.close()
