"""Two principals on one server: nobody acts in another's name, and a key that rotates keeps all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.kit.serving import Reply, Running, create_key, id_of, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Scene(NamedTuple):
    server: Running
    folder: Path
    admin: str
    one: str
    other: str
    """Of another principal with the same name, in the same space."""

    def acquire(self, name: str, key: str, **more: Any) -> Reply:
        return self.server.post("acquire", {"resources": name, "holder": "alice", **more}, key=key)

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.server.get(f"history?space=team&resource={name}", key=self.admin).json[
            "events"
        ]
        return [event for event in found if event["kind"] == kind]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("principals")
    keys = (
        create_key(folder, "admin", space="team"),
        *(create_key(folder, "agent", name="ci", space="team") for _ in range(2)),
    )
    with serving(folder, "--rate", "0") as running:
        yield Scene(running, folder, *keys)


def principal_of(key: str) -> str:
    return f"ci:{id_of(key)}"


def rotated(scene: Scene, key: str, overlap: float = 3600) -> str:
    reply = scene.server.post("keys/rotate", {"id": id_of(key), "overlap_seconds": overlap}, key=scene.admin)
    assert reply.status == 200, reply
    return str(reply.json["credential"])


def test_one_holder_name_is_two_holders(scene: Scene) -> None:
    mine = scene.acquire("holders", scene.one).json
    theirs = scene.acquire("holders", scene.other, reentrant=True)
    assert theirs.code == "held"
    assert [each["yours"] for each in theirs.json["holders"]] == [False]
    again = scene.acquire("holders", scene.one, reentrant=True)
    assert [each["yours"] for each in again.json["holders"]] == [False], "a name proves nothing to oneself either"
    proven = scene.acquire("holders", scene.one, reentrant=True, token=mine["token"])
    assert proven.json["lease"]["fence"] == mine["lease"]["fence"]
    told = scene.acquire("holders", scene.one, token=mine["token"])
    assert [each["yours"] for each in told.json["holders"]] == [True]


def test_a_holder_is_the_principal_by_default(scene: Scene) -> None:
    assert scene.server.post("acquire", {"resources": "nameless"}, key=scene.one).json["lease"]["holder"] == "ci"
    assert scene.server.post("acquire", {"resources": "nameless"}, key=scene.other).code == "held"


def test_a_replay_is_of_the_same_principal_and_holder(scene: Scene) -> None:
    first = scene.acquire("replays", scene.one, request_id="r1").json
    assert scene.acquire("replays", scene.one, request_id="r1").json["lease"]["fence"] == first["lease"]["fence"]
    assert scene.acquire("replays", scene.other, request_id="r1").code == "held"
    assert scene.acquire("replays", scene.one, request_id="r1", holder="bob").code == "held"


@pytest.mark.parametrize(
    "changed",
    [
        {"resources": "other"},
        {"ttl_seconds": 61},
        {"mode": "shared"},
        {"mode": "slots", "slots": 2},
        {"name": "another"},
        {"reason": "another"},
        {"context": {"a": 2}},
        {"priority": 1},
        {"grace_seconds": 1},
        {"on_expiry": "quarantine"},
        {"reentrant": True},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("first", [False, True], ids=["noted", "unnoted"])
def test_a_replay_with_another_body_is_a_conflict(scene: Scene, changed: dict[str, Any], first: bool) -> None:
    if first and "resources" in changed:
        return  # only a client's own retry follows a first copy (docs/adr/0029), and never with other resources
    name = f"body {first} {next(iter(changed))}"
    said = {"resources": name, "ttl_seconds": 60, "name": "n", "reason": "r", "context": {"a": 1}, "request_id": name}
    granted = scene.server.post("acquire", {**said, "first": first}, key=scene.one)
    assert granted.status == 200, granted
    another = scene.server.post("acquire", {**said, **changed}, key=scene.one)
    assert (another.status, another.code) == (409, "conflict"), another
    again = scene.server.post("acquire", {**said, "wait_seconds": 1}, key=scene.one)
    assert again.json["lease"]["fence"] == granted.json["lease"]["fence"], "for how long one waits is not part of it"


def test_a_session_is_started_again_by_the_same_principal_only(scene: Scene) -> None:
    other = scene.server.post("keys", {"name": "second", "role": "admin"}, key=scene.admin).json["credential"]
    asked = {"ttl_seconds": 600, "secret": "s" * 20, "holder": "scheduler"}
    first = scene.server.post("sessions", asked, key=scene.admin)
    assert scene.server.post("sessions", asked, key=scene.admin).json == first.json
    until(lambda: scene.server.get("whoami", key=other).status == 200)
    assert scene.server.post("sessions", asked, key=other).code == "conflict"


def test_nobody_cancels_what_another_principal_asked_for(scene: Scene) -> None:
    token = scene.acquire("cancels", scene.one, request_id="c1").json["token"]
    told = scene.server.post("cancel", {"request_id": "c1", "holder": "alice"}, key=scene.other)
    assert (told.status, told.json["was"]) == (200, "unknown")
    assert scene.server.get("inspect?resource=cancels", key=scene.one).json["leases"]
    mine = {"request_id": "c1", "holder": "alice"}
    assert scene.server.post("cancel", mine, key=scene.one).code == "not_allowed", "agents may share a key"
    told = scene.server.post("cancel", {**mine, "token": token}, key=scene.one)
    assert told.json["was"] == "granted"


def test_two_principals_of_one_holder_are_two_nodes_of_a_deadlock(scene: Scene) -> None:
    """As one node there would be no cycle between them, only a wait for itself."""
    scene.acquire("node-a", scene.one, intent=True)
    scene.acquire("node-b", scene.other, intent=True)
    assert scene.acquire("node-b", scene.one, intent=True).code == "held"
    assert scene.acquire("node-a", scene.other, intent=True).code == "deadlock"


def test_a_third_principal_closes_no_cycle_of_others(scene: Scene) -> None:
    """With one node for both, `one` holding and `other` polling would be a cycle that nobody is in."""
    scene.acquire("phantom-a", scene.one, holder="carl", intent=True)
    scene.acquire("phantom-b", scene.admin, space="team", holder="dora", intent=True)
    assert scene.acquire("phantom-a", scene.admin, space="team", holder="dora", intent=True).code == "held"
    assert scene.acquire("phantom-b", scene.other, holder="carl", intent=True).code == "held"


def test_a_token_may_be_handed_on_within_the_bounds_of_the_key(scene: Scene) -> None:
    granted = scene.acquire("path:src/a.py", scene.one).json
    proof = {"lease": granted["lease"]["id"], "token": granted["token"]}
    elsewhere = create_key(scene.folder, "agent", name="far", space="elsewhere")
    docs = create_key(scene.folder, "agent", name="docs", space="team", prefixes=("path:docs",))
    viewer = create_key(scene.folder, "viewer", name="eve", space="team")
    until(lambda: scene.server.get("whoami", key=viewer).status == 200)
    for key in (elsewhere, docs, viewer):
        for verb, more in (("renew", {}), ("update", {"context": 1}), ("release", {})):
            assert scene.server.post(verb, {**proof, **more}, key=key).code == "not_allowed", (verb, key)
    assert scene.server.post("renew", proof, key=scene.other).status == 200
    assert scene.server.post("release", proof, key=scene.other).json["released"]
    (event,) = scene.events("path:src/a.py", "released")
    assert event["detail"]["principal"] == principal_of(scene.one)
    assert event["detail"]["by_principal"] == principal_of(scene.other)
    assert event["detail"]["by_key"] == id_of(scene.other)


def test_a_run_is_of_the_principal_that_began_it(scene: Scene) -> None:
    """Both are called `ci`: neither ends the other's run."""
    run = scene.server.post("workflows", {"name": "n", "work_unit": "u"}, key=scene.one).json["workflow"]["id"]
    bodies: dict[str, dict[str, Any]] = {"update": {"context": {}}, "heartbeat": {}, "release": {}}
    for verb, more in bodies.items():
        refused = scene.server.post(f"workflows/{verb}", {"id": run, **more}, key=scene.other)
        assert refused.code == "not_allowed", (verb, refused)
    assert scene.server.post("workflows/release", {"id": run}, key=scene.one).json["released"]


def test_what_an_admin_does_tells_with_which_key(scene: Scene) -> None:
    admin = {"by_principal": f"admin:{id_of(scene.admin)}", "by_key": id_of(scene.admin)}
    why = {"reason": "test", "space": "team"}
    scene.acquire("forced", scene.one, on_expiry="quarantine")
    scene.server.post("force-release", {"target": "forced", **why}, key=scene.admin)
    scene.server.post("clear", {"resource": "forced", **why}, key=scene.admin)
    scene.acquire("stolen", scene.one)
    scene.server.post("steal", {"resources": "stolen", **why}, key=scene.admin)
    for name, kind in (("forced", "forced"), ("forced", "cleared"), ("stolen", "forced")):
        (event,) = scene.events(name, kind)
        assert admin.items() <= event["detail"].items()
    (event,) = scene.events("stolen", "forced")
    assert event["detail"]["principal"] == principal_of(scene.one)


def test_without_a_proof_only_an_admin_ends_a_lease(scene: Scene) -> None:
    lease = scene.acquire("proofless", scene.one).json["lease"]["id"]
    for key in (scene.one, scene.other):
        assert scene.server.post("release", {"lease": lease}, key=key).code == "not_allowed"
    assert scene.server.post("release", {"lease": lease}, key=scene.admin).json["released"]


def test_events_tell_principal_key_and_session(scene: Scene) -> None:
    started = scene.server.post("sessions", {"ttl_seconds": 600}, key=scene.one).json
    scene.server.post("acquire", {"resources": "told", "session": started["credential"]}, key=scene.one)
    (event,) = scene.events("told", "granted")
    assert event["session"] == started["session"]["id"]
    assert (event["detail"]["principal"], event["detail"]["key"]) == (principal_of(scene.one), id_of(scene.one))


def test_listings_tell_principal_and_key_to_admins_alone(scene: Scene) -> None:
    scene.acquire("listed", scene.one)
    scene.server.post("sessions", {"ttl_seconds": 600}, key=scene.one)
    for path, field in (
        ("leases?space=team", "leases"),
        ("inspect?space=team&resource=listed", "leases"),
        ("sessions", ""),
    ):
        found = scene.server.get(path, key=scene.admin).json[field or "sessions"]
        assert (principal_of(scene.one), id_of(scene.one)) in {(each["principal"], each["key"]) for each in found}
        for key in (scene.one, scene.other):
            seen = scene.server.get(path, key=key).json[field or "sessions"]
            assert seen
            assert not any("principal" in each or "key" in each for each in seen)


def test_rotation_keeps_leases_sessions_and_replays(scene: Scene) -> None:
    old = create_key(scene.folder, "agent", name="ci", space="team", prefixes=("rota",))
    until(lambda: scene.server.get("whoami", key=old).status == 200)
    session = scene.server.post("sessions", {"ttl_seconds": 600}, key=old).json["credential"]
    of_session = scene.server.post("acquire", {"resources": "rota-s", "session": session}, key=old).json["lease"]
    granted = scene.acquire("rota", old, request_id="r").json
    lease = granted["lease"]
    new = rotated(scene, old)
    for key in (old, new):
        assert scene.server.get("whoami", key=key).json["principal"] == principal_of(old)
        assert scene.acquire("rota", key, request_id="r").json["lease"]["fence"] == lease["fence"]
    assert scene.server.post("keys/revoke", {"id": id_of(old)}, key=scene.admin).json["revoked"]
    assert scene.server.get("leases", key=old).status == 401
    assert scene.acquire("rota", new, request_id="r").json["lease"]["fence"] == lease["fence"]
    assert scene.acquire("elsewhere", new).code == "not_allowed", "role, space and prefixes stay"
    assert scene.server.post("sessions/renew", {"session": session}, key=new).status == 200
    assert scene.server.post("sessions/renew", {"session": session}, key=session).status == 200
    again = scene.server.post("acquire", {"resources": "rota-s", "session": session, "reentrant": True}, key=new)
    assert again.json["lease"]["fence"] == of_session["fence"]
    cancelled = {"request_id": "r", "holder": "alice", "token": granted["token"]}
    assert scene.server.post("cancel", cancelled, key=new).json["was"] == "granted"
    assert scene.server.post("keys/revoke", {"id": id_of(new)}, key=scene.admin).json["revoked"]
    assert scene.server.post("sessions/renew", {"session": session}, key=session).status == 401


def test_a_rotated_key_counts_no_longer_than_it_was_said(scene: Scene) -> None:
    old = create_key(scene.folder, "agent", name="short", space="team")
    until(lambda: scene.server.get("whoami", key=old).status == 200)
    new = rotated(scene, old, overlap=0.5)
    assert scene.server.get("whoami", key=old).status == 200
    until(lambda: scene.server.get("whoami", key=old).status == 401)
    assert scene.server.get("whoami", key=new).status == 200
    assert id_of(old) not in {each["id"] for each in scene.server.get("keys", key=scene.admin).json["keys"]}
    gone = scene.server.post("keys/rotate", {"id": id_of(old)}, key=scene.admin)
    assert gone.code == "not_found"


def test_rotation_is_for_admins_and_in_the_history(scene: Scene) -> None:
    assert scene.server.post("keys/rotate", {"id": id_of(scene.one)}, key=scene.one).code == "not_allowed"
    new = rotated(scene, scene.one)
    events = scene.server.get("history?space=team&kind=key_created", key=scene.admin).json["events"]
    detail = next(each["detail"] for each in events if each["detail"]["key"] == id_of(new))
    assert (detail["principal"], detail["rotated"]) == (principal_of(scene.one), id_of(scene.one))


def test_on_an_open_server_everybody_is_one_principal(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        told = server.get("whoami").json
        assert (told["principal"], told["key"], told["role"]) == (None, None, "admin")
        server.post("acquire", {"resources": "open", "holder": "alice"})
        refused = server.post("acquire", {"resources": "open", "holder": "alice", "reentrant": True})
        assert [each["yours"] for each in refused.json["holders"]] == [False]
