"""The gateway's routes at their edges: bodies, secrets, keys with bounds, other spaces; and the commands' own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

import leasehold
from tests.kit.llamas import SCRIPTS, Llama, command, start
from tests.kit.serving import Running, check_shape, create_key, id_of, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "deploy://api-prod"
OWN_SECRET = "7d9f6f0e-6ad0-4c53-9a55-2f1f8b8f2a10"


def llama(server: Running, holder: str, secret: str | None = None) -> Llama:
    return Llama(server, server.database.parent, secret or start(server, holder))


@pytest.mark.parametrize("verb", ["acquire", "release", "heartbeat"])
@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"", 400, "invalid JSON body"),
        (b"not valid json {{{", 400, "invalid JSON body"),
        (b"null", 400, "invalid JSON body"),
        (b"[]", 400, "invalid JSON body"),
        (b'"x"', 400, "invalid JSON body"),
        (b'{"secret": "\xff"}', 400, "invalid JSON body"),
        (b"{}", 400, "missing secret"),
        (b'{"secret": ""}', 400, "missing secret"),
        (b'{"secret": null, "resourceKey": "a://b"}', 400, "missing secret"),
        (b'{"secret": 7, "resourceKey": "a://b"}', 400, "missing secret"),
        (b'{"secret": "x"}', 400, "missing resourceKey"),
        (b'{"secret": "x", "resourceKey": null}', 400, "missing resourceKey"),
        (b'{"secret": "x", "resourceKey": 7}', 400, "missing resourceKey"),
        (b'{"secret": "x", "resourceKey": "nonsense"}', 400, "Invalid URI format: "),
        (b'{"secret": "x", "resourceKey": "issue:42"}', 400, "Invalid URI format: "),
        (b'{"secret": "x", "resourceKey": "://a"}', 400, "Invalid URI format: "),
        (b'{"secret": "x", "resourceKey": "a://"}', 400, "Invalid URI format: "),
        (b'{"secret": "x", "resourceKey": "my_app://a"}', 400, "Invalid URI format: "),
        (b'{"secret": "x", "resourceKey": "a://b\\u0000"}', 400, "Invalid URI format: "),
        (b'{"secret": "x", "resourceKey": "a://b\\ud800"}', 400, ""),
        (b'{"secret": "x", "resourceKey": "a://b"}', 403, "invalid secret"),
        (b'{"secret": "nobody-ever-started-this", "resourceKey": "a://b"}', 403, "invalid secret"),
        (b'{"secret": "s0123456789abcdef.0123", "resourceKey": "a://b"}', 403, "invalid secret"),
        (b'{"secret": "secret:0123456789abcdef", "resourceKey": "a://b"}', 403, "invalid secret"),
        (b'{"secret": "a b\\nc d e f g h i j k", "resourceKey": "a://b"}', 403, "invalid secret"),
        (b'{"secret": "lh_0123456789abcdef_x.y", "resourceKey": "a://b"}', 403, "invalid secret"),
    ],
)
def test_what_cannot_be_understood_is_refused(server: Running, verb: str, body: bytes, status: int, error: str) -> None:
    reply = server.ask("POST", f"/locks/{verb}", body)
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/json"
    check_shape(reply.json, "GatewayError")
    assert reply.json["error"].startswith(error)


def test_answers_are_what_openapi_says(server: Running) -> None:
    one, two = llama(server, "api-1"), llama(server, "api-2")
    for reply, kind, status in (
        (one.post("acquire", "x://1"), "GatewayAcquired", 200),
        (two.post("acquire", "x://1"), "GatewayRefusal", 409),
        (two.post("release", "x://1"), "GatewayRefusal", 409),
        (two.post("release", "x://2"), "GatewayRefusal", 404),
        (two.post("heartbeat", "x://1"), "GatewayRefusal", 409),
        (one.post("heartbeat", "x://1"), "GatewayBeaten", 200),
        (server.ask("GET", f"/locks/list?secret={one.secret}"), "GatewayOwnLock", 200),
        (server.ask("GET", "/locks/status"), "GatewayLocks", 200),
        (one.post("release", "x://1"), "GatewayReleased", 200),
        (server.ask("GET", "/locks/list"), "GatewayError", 400),
        (server.ask("GET", "/locks/list?secret=nobody"), "GatewayError", 403),
    ):
        assert reply.status == status, reply
        for each in reply.json if isinstance(reply.json, list) else (reply.json,):
            check_shape(each, kind)


def test_a_body_that_is_too_large_and_a_wrong_method(server: Running) -> None:
    reply = server.ask("POST", "/locks/acquire", {"secret": "x" * 70_000})
    assert (reply.status, list(reply.json)) == (413, ["error"])
    assert server.ask("GET", "/locks/acquire").status == 405


def test_a_body_has_to_say_that_it_is_json_as_the_original_commands_do(server: Running) -> None:
    body = json.dumps({"secret": start(server, "plain"), "resourceKey": "plain://x"}).encode()
    reply = server.ask("POST", "/locks/acquire", body, **{"Content-Type": "application/x-www-form-urlencoded"})
    assert (reply.status, list(reply.json)) == (415, ["error"])
    assert server.ask("POST", "/locks/acquire", body, **{"Content-Type": "application/json"}).status == 200


def test_without_keys_no_page_of_another_site_gets_in(server: Running) -> None:
    body = {"secret": start(server, "page"), "resourceKey": "page://x"}
    assert server.ask("POST", "/locks/acquire", body, Origin="http://evil.example").status == 403
    assert server.ask("GET", "/locks/status", Host="evil.example").status == 421
    assert server.ask("GET", f"/locks/list?secret={body['secret']}", Host="evil.example").status == 421


def test_status_tells_of_everybody_and_of_which_agent_each_is_a_run(server: Running) -> None:
    run = start(server, "dev-7f3a", name="dev")
    assert llama(server, "", run).post("acquire", "status://x").status == 200
    server.post("acquire", {"resources": ["status://y", "plain"], "holder": "somebody"})
    locks = {each["resourceKey"]: each for each in server.ask("GET", "/locks/status").json["locks"]}
    assert (locks["status://x"]["agentName"], locks["status://x"]["holder"]) == ("dev", "dev-7f3a")
    assert (locks["plain"]["agentName"], locks["plain"]["holder"]) == ("somebody", "somebody")
    assert locks["status://x"].keys() == {"resourceKey", "agentName", "holder", "heldSince", "space"}
    server.post("acquire", {"resources": "plain", "holder": "other", "space": "team"})
    told = server.ask("GET", "/locks/status").json["locks"]
    held = {(each["space"], each["holder"]) for each in told if each["resourceKey"] == "plain"}
    assert held == {("default", "somebody"), ("team", "other")}, "one name in two spaces is two locks"


def test_the_spelling_of_the_caller_is_echoed_and_case_of_a_host_does_not_matter(server: Running) -> None:
    one, two = llama(server, "case-1"), llama(server, "case-2")
    assert one.post("acquire", "GitHub://ACME/App/issues/42").json["resourceKey"] == "GitHub://ACME/App/issues/42"
    assert two.post("acquire", "github://acme/App/issues/42").json["holder"] == "case-1"
    assert one.post("release", "github://acme/App/issues/42").json == {"ok": True}


def test_a_waiter_and_an_unclean_end_are_reported_as_such(server: Running) -> None:
    one = llama(server, "late")
    server.post("acquire", {"resources": "closed://x", "holder": "ann", "on_expiry": "quarantine"})
    server.post("force-release", {"target": "closed://x", "reason": "gone"})
    reply = one.post("acquire", "closed://x")
    assert reply.status == 409
    assert reply.json["holder"] == "ann"
    assert "until a person has opened it again" in reply.json["reason"]


def test_a_lock_that_its_session_would_cut_short_gets_its_full_life(server: Running) -> None:
    """To ask for a lock is a sign of life: the session's own clock is set back, too."""
    one = llama(server, "", start(server, "long", ttl_seconds=1900))
    one.post("acquire", "long://x")
    first = one.post("heartbeat", "long://x").json["expiresAt"]
    short = start(server, "short", ttl_seconds=3)  # longer than a busy machine stands still
    begun = llama(server, "", short)
    began = time.monotonic()
    assert begun.post("acquire", "short://x").status == 200
    while time.monotonic() < began + 4:  # longer than the session's first life
        assert begun.post("heartbeat", "short://x").status == 200
    assert one.post("heartbeat", "long://x").json["expiresAt"] >= first


# ----------------------------------------------------------------------------------------------- secrets


def test_an_admin_may_supply_the_secret_that_a_scheduler_has_already(server: Running) -> None:
    started = server.post("sessions", {"holder": "own-1", "secret": OWN_SECRET, "ttl_seconds": 600})
    assert started.status == 200, started
    assert OWN_SECRET not in started.content.decode()
    one = llama(server, "", OWN_SECRET)
    assert one.post("acquire", "own://x").status == 200
    assert one.types("rlock", "own://y").body == {"ok": True, "resourceKey": "own://y"}
    assert sorted(one.locks()) == ["own://x", "own://y"]
    assert server.ask("GET", "/locks/list", Authorization=f"Bearer {OWN_SECRET}").json == (
        server.ask("GET", f"/locks/list?secret={OWN_SECRET}").json
    )
    assert server.get("leases", key=f"secret:{OWN_SECRET}").status == 200  # on every other route, too
    listed = server.get("sessions").content + server.get("leases").content + server.get("history").content
    assert OWN_SECRET.encode() not in listed
    assert server.post("sessions", {"holder": "own-2", "secret": OWN_SECRET}).code == "conflict"
    ended = server.post("sessions/end", {"session": started.json["session"]["id"]})  # an admin needs no more
    assert sorted(ended.json["released"]) == ["own://x", "own://y"]
    assert one.post("acquire", "own://x").json == {"error": "invalid secret"}


def test_what_a_session_gave_ends_it_as_well(server: Running) -> None:
    secret = "another-secret-of-a-scheduler"
    server.post("sessions", {"holder": "own-3", "secret": secret})
    assert server.post("sessions/end", {"session": f"secret:{secret}"}).json["ended"] is True


@pytest.mark.parametrize("secret", ["short", "x" * 15, "", " " * 20, "y" * 600, "line\nbreak-and-more-of-it"])
def test_a_secret_that_could_be_guessed_is_refused(server: Running, secret: str) -> None:
    assert server.post("sessions", {"holder": "x", "secret": secret}).code == "invalid"


def test_a_secret_and_a_session_are_one_too_many(server: Running) -> None:
    body = {"holder": "x", "secret": "0123456789abcdef", "session": "a.b"}
    assert server.post("sessions", body).code == "invalid"


def test_where_keys_are_on(tmp_path: Path) -> None:
    admin = create_key(tmp_path, "admin")
    agent = create_key(tmp_path, "agent", prefixes=("deploy://",))
    viewer = create_key(tmp_path, "viewer")
    with serving(tmp_path) as server:
        assert server.ask("GET", "/locks/status").json == {"error": "invalid secret"}
        for key in (admin, agent, viewer):
            assert server.ask("GET", "/locks/status", key=key).json == {"locks": []}
        mine = {"holder": "x", "secret": OWN_SECRET}
        assert server.post("sessions", mine, key=agent).code == "not_allowed"
        assert server.post("sessions", mine, key=admin).status == 200
        own = Llama(server, tmp_path, OWN_SECRET)
        assert own.types("rlock", KEY).code == 0
        assert server.ask("GET", "/locks/status", key=OWN_SECRET).status == 200
        bounded = Llama(server, tmp_path, start(server, "bounded", key=agent))
        assert bounded.types("rlock", "deploy://other").code == 0
        assert bounded.types("rlock", "github://acme/app/issues/1").code == 3
        assert server.post("keys/revoke", {"id": id_of(agent)}, key=admin).json["revoked"]
        until(lambda: bounded.types("rlock", "deploy://third").code == 3)


def test_a_run_of_another_space(tmp_path: Path) -> None:
    admin = create_key(tmp_path, "admin")
    with serving(tmp_path) as server:
        secret = start(server, "dev-1", key=admin, space="acme/app")
        body = {"secret": secret, "resourceKey": KEY}
        assert server.ask("POST", "/locks/acquire", body).status == 403
        assert server.ask("POST", "/locks/acquire", {**body, "space": "acme/app"}).status == 200
        env = {"LEASEHOLD_URL": server.url, "LEASEHOLD_SESSION_SECRET": secret, "LEASEHOLD_SPACE": "acme/app"}
        assert command("rlock-heartbeat", KEY, folder=tmp_path, **env).code == 0


# ---------------------------------------------------------------------------------------------- commands


def test_the_embedded_store_with_a_session_and_with_a_schedulers_own_secret(tmp_path: Path) -> None:
    store = {"LEASEHOLD_URL": f"sqlite:///{tmp_path / 'locks.db'}"}
    with leasehold.connect(store["LEASEHOLD_URL"]) as locks:
        one = locks.start_session(ttl=600, holder="dev-1")
        assert isinstance(one, leasehold.SessionStarted)
        assert isinstance(locks.start_session(ttl=600, holder="dev-2", session=f"secret:{OWN_SECRET}"), type(one))
    ours = {**store, "LEASEHOLD_SESSION_SECRET": one.secret}
    theirs = {**store, "SHUTDOWN_SECRET": OWN_SECRET}
    assert command("rlock", KEY, folder=tmp_path, **ours).code == 0
    assert command("rlock", KEY, folder=tmp_path, **theirs).body["holder"] == "dev-1"
    assert command("runlock", KEY, folder=tmp_path, **theirs).body == {"ok": False, "reason": "held by dev-1"}
    assert command("rlock-heartbeat", KEY, folder=tmp_path, **ours).code == 0
    assert command("runlock", KEY, folder=tmp_path, **ours).code == 0
    assert command("rlock", KEY, folder=tmp_path, **theirs).code == 0
    wrong = {**store, "SHUTDOWN_SECRET": one.secret[:-4] + "0000"}
    assert command("rlock", KEY, folder=tmp_path, **wrong).body == {"error": "invalid secret"}


def test_a_caller_without_a_session_does_not_touch_a_sessions_lock(tmp_path: Path) -> None:
    store = {"LEASEHOLD_URL": f"sqlite:///{tmp_path / 'locks.db'}"}
    with leasehold.connect(store["LEASEHOLD_URL"]) as locks:
        one = locks.start_session(ttl=600, holder="ada")
        assert isinstance(one, leasehold.SessionStarted)
    assert command("rlock", KEY, folder=tmp_path, **store, LEASEHOLD_SESSION=one.secret).code == 0
    said = command("runlock", KEY, folder=tmp_path, **store, LEASEHOLD_HOLDER="ada")
    assert (said.code, said.body) == (1, {"ok": False, "reason": "held by ada"})


def test_containers_without_a_gateway_are_told_apart_by_their_secrets(tmp_path: Path) -> None:
    """Their scheduler has registered nothing: there the answer is a yes to both."""
    one = {"SHUTDOWN_SECRET": "3e0a2f36-9f7e-4f63-8f0e-1f8a6c1b7d01"}
    two = {"SHUTDOWN_SECRET": "b5c7d1a2-0c4e-4b0f-9a3e-6d2f8e4c9b02"}
    assert command("rlock", KEY, folder=tmp_path, **one).body == {"ok": True, "resourceKey": KEY}
    held = command("rlock", KEY, folder=tmp_path, **two)
    assert held.code == 1
    assert not any(secret in str(held.body) for secret in (*one.values(), *two.values()))
    assert command("runlock", KEY, folder=tmp_path, **two).code == 1
    assert command("rlock-heartbeat", KEY, folder=tmp_path, **one).code == 0
    assert command("runlock", KEY, folder=tmp_path, **one).code == 0
    assert command("rlock", KEY, folder=tmp_path, **two).code == 0
    assert command("rlock", KEY, folder=tmp_path, SHUTDOWN_SECRET="short").code == 3
    unknown = {"LEASEHOLD_SESSION_SECRET": one["SHUTDOWN_SECRET"][::-1]}
    assert command("rlock", KEY, folder=tmp_path, **unknown).code == 3  # who names a session must have one


def test_config_toml_is_honoured_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("resourceLockTimeout = 60\n[agents]\nscale = 3\n")
    command("rlock", KEY, folder=tmp_path)
    with leasehold.connect(f"sqlite:///{tmp_path / 'state' / 'leasehold' / 'leasehold.db'}") as locks:
        listed = locks.list()
        assert not isinstance(listed, leasehold.Refused)
        assert [lease.ttl_us for lease in listed] == [60_000_000]


def test_a_senseless_time_out_in_config_toml_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('resourceLockTimeout = "abc"\n')
    said = command("rlock", KEY, folder=tmp_path)
    assert said.code == 4
    assert "resourceLockTimeout" in said.body["error"]


class Gateway(BaseHTTPRequestHandler):
    """Answers every request with one status, as a proxy or a server in trouble would."""

    protocol_version = "HTTP/1.1"
    status = 200
    content = b'{"ok":true}'

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def gateway(status: int, content: bytes = b'{"ok":false}') -> Iterator[str]:
    kind = type("Answering", (Gateway,), {"status": status, "content": content})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, 0), (409, 1), (404, 2), (403, 3), (400, 4), (503, 5), (500, 7), (429, 7), (302, 7), (418, 7)],
)
def test_every_status_has_its_exit_code_and_the_body_is_printed(tmp_path: Path, status: int, code: int) -> None:
    content = json.dumps({"ok": status == 200, "of": status}).encode()
    with gateway(status, content) as url:
        said = command("rlock", KEY, folder=tmp_path, GATEWAY_URL=url, SHUTDOWN_SECRET=OWN_SECRET)
    assert (said.code, said.body) == (code, {"ok": status == 200, "of": status})


def test_an_answer_that_is_not_json_is_never_a_yes(tmp_path: Path) -> None:
    with gateway(200, b"<html>welcome</html>") as url:
        said = command("rlock", KEY, folder=tmp_path, GATEWAY_URL=url, SHUTDOWN_SECRET=OWN_SECRET)
    assert (said.code, said.body["ok"]) == (6, False)


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://", "sqlite:"])
def test_a_url_that_means_nothing_is_told(tmp_path: Path, url: str) -> None:
    said = command("rlock", KEY, folder=tmp_path, LEASEHOLD_URL=url, SHUTDOWN_SECRET=OWN_SECRET)
    assert (said.code, list(said.body)) == (4, ["error"])
    assert said.body["error"].startswith("url: ")


def test_a_store_that_cannot_be_opened_is_never_a_yes(tmp_path: Path) -> None:
    (tmp_path / "damaged.db").write_bytes(b"no database" * 1_000)
    said = command("rlock", KEY, folder=tmp_path, LEASEHOLD_URL=f"sqlite:///{tmp_path / 'damaged.db'}")
    assert said.code in (5, 6, 7)
    assert said.body["error"]


@pytest.mark.parametrize(("where", "code"), [(">&-", 0), ("| true", 0), (">/dev/full", 7)])
def test_an_answer_that_nobody_reads(tmp_path: Path, where: str, code: int) -> None:
    """A traceback would end with 1, which means that another run has it."""
    script = f"set -o pipefail; {shlex.quote(str(SCRIPTS / 'rlock'))} {KEY} {where}"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "USER": "ada"}
    done = subprocess.run(
        ["/bin/bash", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr


def test_a_cycle_in_a_locale_without_arrows_is_json_nevertheless(tmp_path: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for holder, uri in (("ä", "a://1"), ("b", "a://2"), ("ä", "a://2")):
        command("rlock", uri, folder=tmp_path, LEASEHOLD_HOLDER=holder, **env)
    said = command("rlock", "a://1", folder=tmp_path, LEASEHOLD_HOLDER="b", **env)
    assert said.body["reason"] == "possible deadlock: b → a://1 → ä → a://2 → b"


@pytest.mark.parametrize("words", [(), ("a://b", "c://d"), ("--ttl", "5"), ("--nonsense",)])
def test_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name in ("rlock", "runlock", "rlock-heartbeat"):
        said = command(name, *words, folder=tmp_path)
        assert (said.code, said.body, said.err) == (9, "", f"usage: {name} <uri>\n")


def test_help_teaches(tmp_path: Path) -> None:
    for name in ("rlock", "runlock", "rlock-heartbeat"):
        said = command(name, "--help", folder=tmp_path)
        assert said.code == 0
        for word in (f"usage: {name} <uri>", "GATEWAY_URL", "SHUTDOWN_SECRET", "LEASEHOLD_SESSION_SECRET", "9 usage"):
            assert word in said.body


def test_a_server_that_goes_away_is_busy_or_unreachable_and_never_a_yes(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        one = llama(server, "dev-1")
        server.stop()
        assert one.types("rlock", KEY).code == 6
