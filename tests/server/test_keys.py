"""Who is let in, and what each role may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

import leasehold
from leasehold.server.access.permissions import LOOKING, RULING
from leasehold.server.api.routes import ROUTES
from tests.kit.serving import Reply, Running, create_key, id_of, read_reply, serving, start, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Scene(NamedTuple):
    server: Running
    folder: Path
    keys: dict[str, str]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("keys")
    keys = {role: create_key(folder, role, space="team") for role in ("admin", "agent", "viewer")}
    keys["docs"] = create_key(folder, "agent", name="docs", space="team", prefixes=("path:docs",))
    with serving(folder, "--rate", "0") as running:
        yield Scene(running, folder, keys)


def take(scene: Scene, name: str, who: str, **more: object) -> Reply:
    return scene.server.post("acquire", {"resources": name, **more}, key=scene.keys[who])


def session_of(scene: Scene, who: str, **more: object) -> str:
    reply = scene.server.post("sessions", {"ttl_seconds": 600, **more}, key=scene.keys[who])
    assert reply.status == 200, reply
    return str(reply.json["credential"])


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer lh_x_y", "Bearer lh_", "Bearer a.b", "Bearer x", "Bearer é"],
)
def test_nobody_gets_in_without_a_key(scene: Scene, header: str | None) -> None:
    shown = {} if header is None else {"Authorization": header}
    for route in ROUTES:
        reply = scene.server.ask(route.method, route.path, {} if route.method == "POST" else None, **shown)
        assert (reply.status, reply.code) == (401, "unauthenticated"), route
        assert reply.headers["www-authenticate"] == "Bearer"
    assert scene.server.get("events", **shown).status == 401


def test_a_wrong_secret_is_refused(scene: Scene) -> None:
    key = scene.keys["admin"]
    assert scene.server.get("leases", key=key[:-1] + ("0" if key[-1] != "0" else "1")).status == 401
    assert scene.server.get("leases", key=key).status == 200


def test_each_role_has_its_verbs(scene: Scene) -> None:
    allowed = {"viewer": LOOKING, "agent": {route.verb for route in ROUTES} - RULING, "admin": set(RULING)}
    for who, verbs in allowed.items():
        for route in ROUTES:
            if route.verb in ("end_session", "renew_session"):
                continue
            reply = scene.server.ask(
                route.method,
                route.path,
                BODIES.get(route.verb, {}) if route.method == "POST" else None,
                key=scene.keys[who],
            )
            is_denied = reply.status == 403
            assert is_denied == (route.verb not in verbs and who != "admin"), (who, route, reply)


def test_a_client_whose_key_is_revoked_waits_no_longer(scene: Scene) -> None:
    gone = create_key(scene.folder, "agent", name="gone", space="team")
    until(lambda: scene.server.get("leases", key=gone).status == 200)
    session = str(scene.server.post("sessions", {"ttl_seconds": 600}, key=gone).json["credential"])
    take(scene, "wanted", "agent")
    asked = {"resources": "wanted", "wait_seconds": 40}
    lines = [scene.server.begin("acquire", asked, key=key) for key in (gone, session, scene.keys["admin"])]
    looking = "inspect?resource=wanted&space=team"
    until(lambda: len(scene.server.get(looking, key=scene.keys["viewer"]).json["waiting"]) == 3)
    with leasehold.connect(f"sqlite:///{scene.server.database}") as locks:
        locks.revoke_key(id_of(gone), by="ops", reason="left")
    for line in lines[:2]:
        with line:
            told = read_reply(line)
            assert (told.status, told.code) == (401, "unauthenticated")
    until(lambda: len(scene.server.get(looking, key=scene.keys["viewer"]).json["waiting"]) == 1)
    lines[2].close()


def test_nor_does_it_keep_the_place_of_a_ticket(tmp_path: Path) -> None:
    keys = {name: create_key(tmp_path, "agent", name=name) for name in ("gone", "parked", "stays")}
    with serving(tmp_path, "--rate", "0", "--keep-open", "300ms", "--keep-place", "10m") as server:
        server.post("acquire", {"resources": "x"}, key=keys["stays"])
        for name in ("gone", "parked"):
            asked = {"resources": "x", "wait_seconds": 600, "request_id": "q"}
            assert server.post("acquire", asked, key=keys[name]).status == 202

        def waiting() -> list[str]:
            seen = server.get("inspect?resource=x", key=keys["stays"]).json
            return [each["holder"] for each in seen["waiting"]]

        until(lambda: waiting() == ["gone", "parked"])
        with leasehold.connect(f"sqlite:///{server.database}") as locks:
            for name in ("gone", "parked"):
                locks.revoke_key(id_of(keys[name]), by="ops", reason="left")
        until(lambda: waiting() == [])


def test_a_session_need_not_say_where_it_lives(scene: Scene) -> None:
    credential = session_of(scene, "agent")
    with leasehold.connect(scene.server.url, api_key=credential, space="team") as locks:
        granted = locks.acquire("at home", ttl=60)
        assert isinstance(granted, leasehold.Granted)
        assert isinstance(locks.renew(granted.lease.id), leasehold.Renewed)
        assert isinstance(locks.update(granted.lease.id, context={"step": 1}), leasehold.Updated)
        listed = locks.list(resource="at home")
        assert not isinstance(listed, leasehold.Refused)
        assert [lease.space for lease in listed] == ["team"]
        released = locks.release(granted.lease.id)
        assert isinstance(released, leasehold.Released)
        assert released.released
        with locks.lock("at home", ttl=60):
            pass
    calls = [{"verb": "acquire", "resources": "at home", "space": "team"}]
    assert scene.server.post("batch", {"calls": calls}, key=credential).json["answers"][0]["status"] == 200


def test_what_an_admin_does_is_told_under_the_name_of_its_key(scene: Scene) -> None:
    admin = create_key(scene.folder, "admin", name="the-ops-key", space="team")
    until(lambda: scene.server.get("leases", key=admin).status == 200)
    for by, told in ((None, "the-ops-key"), ("me", "the-ops-key (me)"), ("x" * 256, "the-ops-key")):
        take(scene, "theirs", "agent")
        asked = {"target": "theirs", "reason": "it hangs", "space": "team"} | ({} if by is None else {"by": by})
        assert scene.server.post("force-release", asked, key=admin).json["released"]
        event = scene.server.get("history?kind=forced&resource=theirs&limit=1&space=team", key=admin).json["events"][0]
        assert event["detail"]["by"] == told
    lease = take(scene, "theirs", "agent").json["lease"]["id"]
    for by in ("", " me", "x" * 257):
        bad = {"target": "theirs", "reason": "it hangs", "space": "team", "by": by}
        assert scene.server.post("force-release", bad, key=admin).code == "invalid"
    assert scene.server.post("release", {"lease": lease}, key=admin).json["released"]
    event = scene.server.get("history?kind=released&resource=theirs&limit=1&space=team", key=admin).json["events"][0]
    assert event["detail"]["by"] == "the-ops-key"


NO_RUN = "wf-00000000000000000000000000"
BODIES = {
    "batch": {"calls": []},
    "create_run": {"name": "matrix", "work_unit": "matrix"},
    "update_run": {"id": NO_RUN, "context": {}},
    "beat_run": {"id": NO_RUN},
    "release_run": {"id": NO_RUN},
    "acquire": {"resources": "matrix"},
    "renew": {"lease": "l1-" + "0" * 32, "token": "t"},
    "release": {"lease": "l1-" + "0" * 32, "token": "t"},
    "update": {"lease": "l1-" + "0" * 32, "token": "t", "context": 1},
    "cancel": {"request_id": "x"},
    "force_release": {"target": "matrix-2", "reason": "test"},
    "steal": {"resources": "matrix-2", "reason": "test"},
    "clear": {"resource": "matrix-2", "reason": "test"},
    "extend": {"lease": "l1-" + "0" * 32, "reason": "test"},
    "note": {"resource": "matrix-2", "text": "test"},
    "declare_pool": {"resource": "pool://matrix", "members": ["a"]},
    "plan": {"resources": "matrix-plan"},
    "report_trespass": {"lease": "l1-" + "0" * 32, "paths": ["a.py"]},
    "create_key": {"role": "viewer", "name": "new"},
    "rotate_key": {"id": "0000"},
    "revoke_key": {"id": "0000"},
}


def test_an_agent_stays_in_its_space_and_its_names(scene: Scene) -> None:
    assert take(scene, "anything", "agent").json["lease"]["space"] == "team"
    assert take(scene, "elsewhere", "agent", space="other").code == "not_allowed"
    assert take(scene, "path:docs/a.md", "docs").status == 200
    assert take(scene, "path:src/a.py", "docs").code == "not_allowed"
    assert take(scene, "path:docs/../src/a.py", "docs").code == "not_allowed"
    both = scene.server.post("acquire", {"resources": ["path:docs/b", "issue:1"]}, key=scene.keys["docs"])
    assert both.code == "not_allowed"
    assert scene.server.get("leases?space=other", key=scene.keys["viewer"]).code == "not_allowed"
    assert scene.server.get("history?space=other", key=scene.keys["agent"]).code == "not_allowed"
    spaces = {lease["space"] for lease in scene.server.get("leases", key=scene.keys["viewer"]).json["leases"]}
    assert spaces == {"team"}


def test_an_admins_deeds_are_told_under_its_name(scene: Scene) -> None:
    take(scene, "to-force", "agent", space="team")
    body = {"target": "to-force", "reason": "it hangs", "space": "team"}
    assert scene.server.post("force-release", body, key=scene.keys["admin"]).json["released"]
    events = scene.server.get("history?kind=forced&resource=to-force", key=scene.keys["admin"]).json["events"]
    assert [(each["detail"]["by"], each["detail"]["why"]) for each in events] == [("admin", "it hangs")]


def test_an_admin_releases_without_a_token_and_an_agent_does_not(scene: Scene) -> None:
    lease = take(scene, "tokenless", "agent").json["lease"]["id"]
    assert scene.server.post("release", {"lease": lease}, key=scene.keys["agent"]).code == "not_allowed"
    assert scene.server.post("release", {"lease": lease}, key=scene.keys["admin"]).json["released"]


def test_a_session_acts_in_its_own_name_on_its_own_leases(scene: Scene) -> None:
    server = scene.server
    mine, other = session_of(scene, "agent", holder="run-1"), session_of(scene, "agent", holder="run-2")
    asked = {"resources": "mine", "space": "team", "holder": "somebody-else"}
    lease = server.post("acquire", asked, key=mine).json["lease"]
    assert lease["holder"] == "run-1"
    assert lease["session"] == mine.rpartition(".")[0]
    theirs = take(scene, "theirs", "agent").json
    shown = {"lease": theirs["lease"]["id"], "token": theirs["token"], "space": "team"}
    assert server.post("release", shown, key=mine).code == "not_allowed"
    assert server.post("renew", {"lease": lease["id"], "space": "team"}, key=other).code == "not_allowed"
    assert server.post("renew", {"lease": lease["id"], "space": "team"}, key=mine).status == 200
    assert server.post("acquire", {"resources": "x", "space": "team", "session": other}, key=mine).code == "not_allowed"
    assert server.post("sessions", {"space": "team"}, key=mine).code == "not_allowed"
    assert server.post("sessions/end", {"space": "team"}, key=mine).json["released"] == ["mine"]
    assert server.get("leases?space=team", key=mine).status == 401


def test_a_session_started_again_with_the_same_secret_is_the_same(scene: Scene) -> None:
    asked = {"secret": "chosen by a scheduler", "holder": "run-7", "space": "team", "ttl_seconds": 600}
    first, again = (scene.server.post("sessions", asked, key=scene.keys["admin"]) for _ in range(2))
    assert (first.status, again.status) == (200, 200)
    assert again.json == first.json
    other = scene.server.post("sessions", {**asked, "holder": "run-8"}, key=scene.keys["admin"])
    assert (other.status, other.code) == (409, "conflict")


def test_a_session_inherits_the_bounds_of_its_key(scene: Scene) -> None:
    session = session_of(scene, "docs", holder="writer")
    ask = scene.server.post
    assert ask("acquire", {"resources": "path:docs/c", "space": "team"}, key=session).status == 200
    assert ask("acquire", {"resources": "path:src/c", "space": "team"}, key=session).code == "not_allowed"
    chosen = {"session": "sk-0-0.secret", "holder": "x"}
    assert ask("sessions", chosen, key=scene.keys["docs"]).code == "not_allowed"


def test_a_revoked_key_stops_working_and_so_do_its_sessions(scene: Scene) -> None:
    made = {role: create_key(scene.folder, role, space="team") for role in ("agent", "viewer")}
    until(lambda: all(scene.server.get("leases", key=key).status == 200 for key in made.values()))
    reply = scene.server.post("sessions", {"ttl_seconds": 600, "holder": "x"}, key=made["agent"])
    session = reply.json["credential"]
    assert scene.server.get("leases?space=team", key=session).status == 200
    assert scene.server.post("keys/revoke", {"id": id_of(made["agent"])}, key=scene.keys["admin"]).json["revoked"]
    assert scene.server.get("leases", key=made["agent"]).status == 401  # this server did it: it knows at once
    until(lambda: scene.server.get("leases?space=team", key=session).status == 401)
    with leasehold.connect(f"sqlite:///{scene.server.database}") as elsewhere:
        elsewhere.revoke_key(id_of(made["viewer"]))
    until(lambda: scene.server.get("leases", key=made["viewer"]).status == 401)


def test_prefixes_are_spelled_as_names_are(scene: Scene) -> None:
    """Names are compared as the rules see them: a prefix in another spelling would fit none."""
    admin = scene.keys["admin"]
    body = {"role": "agent", "name": "shouting", "space": "team", "prefixes": ["Deploy://AP", "PATH:./lib//"]}
    made = scene.server.post("keys", body, key=admin).json
    assert made["key"]["prefixes"] == ["deploy://ap", "path:lib/"]
    key = made["credential"]
    for name in ("deploy://api/x", "DEPLOY://API/y", "path:lib/a.py"):
        assert scene.server.post("acquire", {"resources": name}, key=key).status == 200, name
    for name in ("deploy://other", "path:library"):
        assert scene.server.post("acquire", {"resources": name}, key=key).code == "not_allowed", name
    refused = scene.server.post("keys", {**body, "prefixes": ["path:/etc"]}, key=admin)
    assert (refused.code, refused.json["field"]) == ("invalid", "prefixes")
    assert "relative to the root" in refused.json["detail"]


def test_a_key_for_a_directory_takes_patterns_in_it_alone(scene: Scene) -> None:
    """What a pattern may match is no more than what its text before the first wildcard allows."""
    made = scene.server.post(
        "keys", {"role": "agent", "name": "lib", "space": "team", "prefixes": ["path:kit/"]}, key=scene.keys["admin"]
    )
    key = made.json["credential"]
    assert scene.server.post("acquire", {"resources": "path:kit/**/*.py"}, key=key).status == 200
    for name in ("path:**/*.py", "path:k*/x", "path:[k]it/x", "path:*"):
        assert scene.server.post("acquire", {"resources": name}, key=key).code == "not_allowed", name


def test_keys_are_created_listed_and_never_told_again(scene: Scene) -> None:
    admin = scene.keys["admin"]
    made = scene.server.post("keys", {"role": "agent", "name": "ci", "space": "team"}, key=admin).json
    assert scene.server.get("leases", key=made["credential"]).status == 200
    listed = scene.server.get("keys", key=admin)
    assert made["key"]["id"] in [each["id"] for each in listed.json["keys"]]
    assert made["credential"].split("_")[2] not in listed.content.decode()
    assert made["credential"].split("_")[2].encode() not in scene.server.database.read_bytes()
    assert not scene.server.post("keys/revoke", {"id": "nobody"}, key=admin).json["revoked"]


def test_without_keys_only_this_machine_and_no_other_sites_page(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.get("leases").status == 200
        for host in ("localhost", "127.0.0.1:7420", "[::1]", "LOCALHOST:1"):
            assert server.get("leases", Host=host).status == 200, host
        for host in ("evil.example", "evil.example:7420", "localhost.evil.example", "127.0.0.1.evil.example", ""):
            assert server.get("leases", Host=host).status == 421, host
            assert server.ask("GET", "/metrics", Host=host).status == 421, host
        assert server.get("leases", Origin=server.url).status == 200
        for origin in ("http://evil.example", "null", "http://localhost@evil.example", "http://localhost:3000"):
            assert server.get("leases", Origin=origin).code == "not_allowed", origin
        key = create_key(tmp_path, "admin")
        until(lambda: server.get("leases").status == 401)
        assert server.get("leases", key=key, Host="anything.example").status == 200
        server.post("keys/revoke", {"id": id_of(key)}, key=key)
        until(lambda: server.get("leases", key=key).status == 401)
        assert server.get("leases").status == 401  # a revocation never opens a door


def test_every_address_of_this_machine_that_nobody_else_reaches_is_served(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "127.0.0.2") as server:
        assert server.get("leases").status == 200
        assert server.get("leases", Host="127.0.0.2.example.org").status == 421
        assert server.get("leases", Origin=server.url).status == 200
        assert server.get("leases", Origin="http://127.0.0.3:80").code == "not_allowed"


def test_it_does_not_listen_elsewhere_without_keys(tmp_path: Path) -> None:
    with start(tmp_path / "locks.db?retention_days=7", "--host", "0.0.0.0", folder=tmp_path) as process:
        out, err = process.communicate()
    assert process.returncode == 2
    assert out == ""
    advice = f"leasehold keys create NAME --role admin --url 'sqlite://{tmp_path}/locks.db?retention_days=7'"
    assert advice in err
    create_key(tmp_path, "agent")
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        assert server.get("leases").status == 401


def test_who_asks_too_often_is_told_to_slow_down(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "1") as server:
        replies = [server.get("leases") for _ in range(5)]
        limited = [reply for reply in replies if reply.status == 429]
        assert limited
        assert limited[0].code == "rate_limited"
        assert limited[0].headers["retry-after"] == "1"
        assert server.ask("GET", "/healthz").status == 200
