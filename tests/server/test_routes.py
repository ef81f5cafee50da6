"""Every route: what it answers to who asks well, and to who does not; and that OpenAPI says the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import leasehold
from leasehold.guard.editors.adapters import SERVED
from leasehold.server.api import gateway_schema, problems, requests
from leasehold.server.api.openapi import LOOKS
from leasehold.server.api.routes import ROUTES
from tests.kit.serving import Reply, Running, check_described, check_shape, until


def take(server: Running, resource: str, **more: object) -> Any:  # noqa: ANN401 (JSON)
    reply = server.post("acquire", {"resources": resource, "holder": "ann", **more})
    assert reply.status == 200, reply
    return reply.json


def fits(reply: Reply, shape: str, status: int = 200) -> Any:  # noqa: ANN401 (JSON)
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/json"
    check_shape(reply.json, shape)
    return reply.json


def refused(reply: Reply, status: int, code: str) -> Any:  # noqa: ANN401 (JSON)
    assert (reply.status, reply.code) == (status, code), reply
    check_shape(reply.json, "Problem")
    return reply.json


def test_a_lease_from_acquire_to_release(server: Running) -> None:
    granted = fits(server.post("acquire", {"resources": ["issue:1", "issue:2"], "holder": "ann"}), "Granted")
    proof = {"lease": granted["lease"]["id"], "token": granted["token"]}
    assert granted["fresh"] is True
    assert granted["lease"]["ttl_seconds"] == 1800
    renewed = fits(server.post("renew", {**proof, "ttl_seconds": 60.5}), "Renewed")
    assert renewed["lease"]["ttl_seconds"] == 60.5
    updated = fits(server.post("update", {**proof, "context": {"step": 3}}), "Renewed")
    assert updated["lease"]["context"] == {"step": 3}
    assert fits(server.post("release", {**proof, "status": "failed", "error": "red"}), "Released")["released"]
    assert not server.post("release", proof).json["released"]
    lost = refused(server.post("renew", proof), 410, "lost")
    assert lost["lease"] == proof["lease"]
    refused(server.post("update", {**proof, "context": 1}), 410, "lost")


def test_a_refusal_says_who_and_when_to_try_again(server: Running) -> None:
    held = take(server, "held-by-ann", name="fix the parser")
    reply = server.post("acquire", {"resources": "held-by-ann", "holder": "bob"})
    told = refused(reply, 409, "held")
    assert told["holders"][0]["lease"] == held["lease"]["id"]
    assert told["holders"][0]["name"] == "fix the parser"
    assert int(reply.headers["retry-after"]) >= 1
    assert "token" not in str(told)


def test_a_wait_that_ends_in_a_timeout(server: Running) -> None:
    take(server, "too-long")
    reply = server.post("acquire", {"resources": "too-long", "holder": "bob", "wait_seconds": 0.05})
    refused(reply, 409, "timeout")


def test_a_deadlock_names_its_cycle(server: Running) -> None:
    take(server, "fork-1", holder="dan")
    take(server, "fork-2", holder="eve")
    with server.begin("acquire", {"resources": "fork-2", "holder": "dan", "wait_seconds": 40}):
        until(lambda: server.waiting("fork-2") == ["dan"])
        reply = server.post("acquire", {"resources": "fork-1", "holder": "eve", "wait_seconds": 40})
        assert set(refused(reply, 409, "deadlock")["cycle"]) >= {"dan", "eve"}


def test_the_same_request_gets_the_same_lease_and_a_cancelled_one_none(server: Running) -> None:
    first = take(server, "retried", request_id="r1")
    again = take(server, "retried", request_id="r1")
    assert (again["lease"]["fence"], again["fresh"]) == (first["lease"]["fence"], False)
    refused(server.post("acquire", {"resources": "other", "holder": "ann", "request_id": "r1"}), 409, "conflict")
    request = {"request_id": "r1", "holder": "ann"}
    assert "same request_id" in refused(server.post("cancel", request), 403, "not_allowed")["detail"]
    cancelled = fits(server.post("cancel", {**request, "token": again["token"]}), "Cancelled")
    assert cancelled == {"cancelled": True, "was": "granted"}
    refused(server.post("acquire", {"resources": "retried", "holder": "ann", "request_id": "r1"}), 409, "cancelled")


def test_slots_that_do_not_match(server: Running) -> None:
    take(server, "gpu", slots=2, mode="slots")
    refused(server.post("acquire", {"resources": "gpu", "holder": "bob", "slots": 3}), 409, "slots_mismatch")


def test_a_session_from_start_to_end(server: Running) -> None:
    started = fits(server.post("sessions", {"ttl_seconds": 60, "holder": "run-1"}), "SessionStarted")
    credential = started["credential"]
    take(server, "of-a-session", holder="run-1", session=credential)
    renewed = fits(server.post("sessions/renew", {"session": credential}), "SessionRenewed")
    assert [lease["resources"] for lease in renewed["leases"]] == [["of-a-session"]]
    listed = fits(server.get("sessions"), "Sessions")
    assert started["session"]["id"] in [each["id"] for each in listed["sessions"]]
    assert "secret" not in str(listed)
    ended = fits(server.post("sessions/end", {"session": credential}), "SessionEnded")
    assert ended["released"] == ["of-a-session"]
    refused(server.post("sessions/renew", {"session": credential}), 410, "lost")
    reply = server.post("acquire", {"resources": "x", "holder": "run-1", "session": credential})
    refused(reply, 410, "session_over")


def test_an_admin_ends_takes_and_clears(server: Running) -> None:
    take(server, "deploy://a", on_expiry="quarantine")
    forced = server.post("force-release", {"target": "deploy://a", "reason": "gone", "by": "ops"})
    assert fits(forced, "Released")["released"]
    refused(server.post("acquire", {"resources": "deploy://a", "holder": "bob"}), 409, "held")
    cleared = server.post("clear", {"resource": "deploy://a", "reason": "rolled back"})
    assert fits(cleared, "Cleared")["cleared"]
    old = take(server, "deploy://a")
    stolen = fits(server.post("steal", {"resources": "deploy://a", "reason": "hotfix", "holder": "bob"}), "Granted")
    assert stolen["lease"]["fence"] > old["lease"]["fence"]
    lost = refused(server.post("renew", {"lease": old["lease"]["id"], "token": old["token"]}), 410, "lost")
    assert "hotfix" in lost["reason"]
    history = fits(server.get("history?resource=deploy%3A%2F%2Fa&kind=forced&kind=cleared"), "Events")
    assert [event["detail"]["by"] for event in history["events"]] == ["anonymous", "anonymous", "ops"]
    fits(server.post("gc", {}), "Collected")


def test_an_admin_extends_a_lease_and_the_history_says_why(server: Running) -> None:
    taken = take(server, "extend-me", ttl_seconds=60)
    extended = server.post(
        "extend", {"lease": taken["lease"]["id"], "ttl_seconds": 7200, "reason": "slow", "by": "ops"}
    )
    assert fits(extended, "Renewed")["lease"]["expires_in_seconds"] > 7000
    event = fits(server.get("history?resource=extend-me&kind=extended"), "Events")["events"][0]
    assert (event["holder"], event["detail"]["by"], event["detail"]["why"]) == (taken["lease"]["holder"], "ops", "slow")
    server.post("release", {"lease": taken["lease"]["id"], "token": taken["token"]})
    again = {"lease": taken["lease"]["id"], "ttl_seconds": 60, "reason": "late"}
    refused(server.post("extend", again), 410, "lost")


def test_a_note_is_in_the_history_of_its_resource(server: Running) -> None:
    fits(server.post("notes", {"resource": "note-me", "text": "ask ada first", "by": "ops"}), "Noted")
    fits(server.post("notes", {"resource": "note-me", "by": "ops"}), "Noted")
    told = fits(server.get("history?resource=note-me&kind=noted"), "Events")["events"]
    assert [event["detail"]["note"] for event in told] == [None, "ask ada first"]


def test_looking_at_leases(server: Running) -> None:
    take(server, "path:src/a.py", holder="looker")
    seen = fits(server.get("inspect?resource=path:src"), "Inspection")
    assert not seen["free"]
    assert len(fits(server.get("leases?holder=looker"), "Leases")["leases"]) == 1
    assert fits(server.get("leases?space=elsewhere"), "Leases")["leases"] == []
    events = fits(server.get("history?holder=looker&limit=1"), "Events")["events"]
    assert [event["kind"] for event in events] == ["granted"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("acquire", {"resources": "a", "holder": "x", "ttl_seconds": 0}, "ttl_seconds"),
        ("acquire", {"resources": "a", "holder": "x", "wait_seconds": -1}, "wait_seconds"),
        ("acquire", {"resources": "a", "holder": "x", "wait_seconds": 1e9}, "wait_seconds"),
        ("acquire", {"resources": "a", "holder": "x", "colour": "red"}, "colour"),
        ("acquire", {"resources": 7}, "resources"),
        ("acquire", {"resources": []}, "resources"),
        ("acquire", {"resources": "path:../up", "holder": "x"}, "resource"),
        ("acquire", {"resources": "a", "holder": "\u001b[31m"}, "holder"),
        ("acquire", {"resources": "a", "priority": True}, "priority"),
        ("acquire", {"holder": "x"}, "resources"),
        ("acquire", {"resources": "a", "holder": "x", "context": "x" * 20_000}, "context"),
        ("renew", {"lease": "nonsense", "token": "t"}, "lease"),
        ("sessions/renew", {"session": "no-dot", "space": "bad\nspace"}, "space"),
        ("sessions/renew", {}, "session"),
        ("force-release", {"target": "a", "reason": ""}, "reason"),
    ],
)
def test_a_wrong_field_is_named(server: Running, path: str, body: object, field: str) -> None:
    assert refused(server.post(path, body), 400, "invalid")["field"] == field


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("release", {"lease": "x", "colour": "red"}, "colour: is not known; there are lease, token, status, error, "),
        (
            "acquire",
            {"resource": "a"},
            "resource: is not known; there are resources, ttl_seconds, wait_seconds, mode, ",
        ),
        ("acquire", {}, "resources: is missing"),
        ("acquire", {"resources": ["a", 7]}, "resources[1]: must be a string, not a number"),
        ("acquire", {"resources": "a", "ttl_seconds": "30s"}, "ttl_seconds: must be a number, not a string"),
        ("acquire", {"resources": "a", "ttl_seconds": 0}, "ttl_seconds: must be 10ms to 1d, not 0s"),
        (
            "acquire",
            {"resources": "a", "wait_seconds": -1},
            "wait_seconds: -1 must not be negative: write a number of seconds",
        ),
        ("acquire", {"resources": "a", "grace_seconds": 61}, "grace_seconds: must be 0s to 1m, not 1m1s"),
        ("acquire", {"resources": "a", "slots": 3, "mode": "exclusive"}, "slots: an exclusive lease has one holder"),
        ("acquire", {"resources": "a", "slots": 1.5}, "slots: must be a whole number, not a fraction"),
        ("acquire", {"resources": "a", "holder": True}, "holder: must be a string or null, not true or false"),
        ("batch", {"calls": [{"verb": "release"}]}, "calls[0].lease: is missing"),
        ("batch", {"calls": [{"verb": "clear"}]}, "calls[0].verb: invalid value 'clear'"),
    ],
)
def test_what_is_allowed_in_a_field_is_said(server: Running, path: str, body: object, told: str) -> None:
    assert refused(server.post(path, body), 400, "invalid")["detail"].startswith(told)


def test_fields_are_called_what_they_are_called_in_a_request() -> None:
    bodies = [route.takes for route in ROUTES if issubclass(route.takes, requests.Body)]
    fields = [field for body in bodies for field in msgspec.structs.fields(body)]
    renamed = {field.name: field.encode_name for field in fields if field.name != field.encode_name}
    assert renamed == {**problems.SPELLED, "key": "id"}


def test_to_python_a_field_is_called_as_in_python(server: Running) -> None:
    with leasehold.connect(server.url) as locks:
        told = locks.acquire("a", ttl="25h", wait=1, holder="ann")
    assert told == leasehold.Refused("invalid", "ttl", "must be 10ms to 1d, not 1d1h")


@pytest.mark.parametrize("path", ["acquire", "release", "sessions", "batch"])
@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"5"])
def test_a_body_that_is_no_object_is_told_so(server: Running, path: str, body: bytes) -> None:
    """And no field is blamed."""
    said = refused(server.post(path, body), 400, "invalid")
    assert "field" not in said
    assert "the body must be a JSON object" in said["detail"]


@pytest.mark.parametrize(
    "query", ["inspect", "inspect?resource=", "history?limit=x", "history?limit=0", "history?since=null", "leases?a=b"]
)
def test_a_wrong_question_is_refused(server: Running, query: str) -> None:
    refused(server.get(query), 400, "invalid")


@pytest.mark.parametrize("mode", ["exclusive", "shared", "slots"])
def test_the_history_calls_a_mode_as_a_lease_does(server: Running, mode: str) -> None:
    name = f"told-{mode}"
    assert server.post("acquire", {"resources": name, "mode": mode, "slots": 2 if mode == "slots" else 1}).status == 200
    assert server.get(f"history?resource={name}").json["events"][0]["detail"]["mode"] == mode
    with leasehold.connect(server.url) as there, leasehold.connect(f"sqlite:///{server.database}") as here:
        assert there.history(resource=name) == here.history(resource=name)


def test_a_name_may_be_null(server: Running) -> None:
    take(server, "something", holder="null")
    assert len(server.get("leases?holder=null").json["leases"]) == 1


@pytest.mark.parametrize("verb", ["renew", "release", "update"])
def test_a_lease_that_never_was_is_not_found_and_openapi_says_so(server: Running, verb: str) -> None:
    asked = {"lease": f"l999999999-{'0' * 32}", "token": "t", **({"context": 1} if verb == "update" else {})}
    reply = server.post(verb, asked)  # which compares it with the document
    assert refused(reply, 404, "not_found")["field"] == "lease"
    told = server.ask("GET", "/openapi.json").json["paths"][f"/v1/{verb}"]["post"]["responses"]
    assert "not_found" in told["404"]["description"]


def test_an_answer_that_openapi_does_not_tell_of_is_noticed() -> None:
    headers = {"content-type": "application/problem+json"}

    def told(status: int, code: str) -> Reply:
        body = {"status": status, "type": f"urn:leasehold:problem:{code}", "code": code}
        return Reply(status, headers, msgspec.json.encode(body))

    check_described("POST", "/v1/renew", told(404, "not_found"))
    for status, code in ((404, "spent"), (409, "held")):
        with pytest.raises(AssertionError, match="OpenAPI"):
            check_described("POST", "/v1/renew", told(status, code))


def test_unknown_routes_and_methods(server: Running) -> None:
    refused(server.get("nothing"), 404, "not_found")
    reply = server.get("acquire")
    refused(reply, 405, "method")
    assert reply.headers["allow"] == "POST"


def test_health_readiness_and_metrics(server: Running) -> None:
    for path in ("/healthz", "/readyz"):
        fits(server.ask("GET", path), "Health")
    take(server, "deploy://counted")
    server.post("acquire", {"resources": "deploy://counted", "holder": "bob"})
    text = server.ask("GET", "/metrics").content.decode()
    for line in (
        'leasehold_grants_total{scheme="deploy",space="default"}',
        'leasehold_refusals_total{code="held",scheme="deploy",space="default"}',
        "leasehold_commit_seconds_count",
        "leasehold_commit_batch_size_count",
        "leasehold_queue_length",
    ):
        assert line in text


def test_openapi_describes_what_there_is(server: Running) -> None:
    told = server.ask("GET", "/openapi.json").json
    assert told["openapi"] == "3.1.0"
    paths = {(method.upper(), path) for path, each in told["paths"].items() for method in each}
    gateway = {(method.upper(), path) for path, each in gateway_schema.paths("{}").items() for method in each}
    ours = {(route.method, route.path) for route in ROUTES} | {("GET", path) for path in LOOKS}
    editors = {("POST", f"/v1/hooks/{editor}") for editor in SERVED}
    endless = {("GET", "/v1/events"), ("POST", "/v1/losses")}
    assert paths == ours | gateway | editors | endless
    for method, path in paths - endless:
        reply = server.ask(method, path, {} if method == "POST" else None)
        operation = told["paths"][path][method.lower()]
        assert str(reply.status) in operation["responses"], (method, path, reply)
    _resolve_all(told, told)


def _resolve_all(node: object, root: dict[str, Any]) -> None:
    """Every reference leads somewhere."""
    if isinstance(node, dict):
        if "$ref" in node:
            found: Any = root
            for step in str(node["$ref"]).removeprefix("#/").split("/"):
                found = found[step]
        for each in node.values():
            _resolve_all(each, root)
    elif isinstance(node, list):
        for each in node:
            _resolve_all(each, root)
