"""Several calls in one request: each as if it had come alone, by the hot way and by the ordinary one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.server.api.batches import CALLS_MOST
from tests.kit.serving import Running, create_key, serving
from tests.server.test_waiting import reset_and_noticed, until_written

if TYPE_CHECKING:
    from pathlib import Path

_numbers = itertools.count()
ORDINARY = {"Expect": "100-continue"}
"""No hot request has this."""


@pytest.fixture(params=[{}, ORDINARY], ids=["hot", "ordinary"])
def headers(request: pytest.FixtureRequest, server: Running) -> dict[str, str]:
    assert server.get("leases").status == 200  # which keys there are is known now
    return dict(request.param)


def name() -> str:
    return f"thing {next(_numbers)}"


def acquire(resource: str, **more: object) -> dict[str, Any]:
    return {"verb": "acquire", "resources": resource, "holder": "ann", **more}


def answers(server: Running, calls: list[dict[str, Any]], **more: str) -> list[dict[str, Any]]:
    reply = server.post("batch", {"calls": calls}, **more)
    assert reply.status == 200, reply
    told: list[dict[str, Any]] = reply.json["answers"]
    return told


def test_each_call_gets_what_it_would_get_alone(server: Running, headers: dict[str, str]) -> None:
    held, free = name(), name()
    alone = server.post("acquire", {"resources": held, "holder": "bob"}).json
    nobody = "l1-" + "0" * 32
    calls = [
        acquire(free),
        acquire(held),
        {"verb": "renew", "lease": alone["lease"]["id"], "token": alone["token"]},
        {"verb": "renew", "lease": nobody, "token": "x"},
        {"verb": "release", "lease": alone["lease"]["id"], "token": alone["token"]},
        acquire("path:../up"),
        acquire(name(), ttl_seconds=-1),
    ]
    told = answers(server, calls, **headers)
    assert [each["status"] for each in told] == [200, 409, 200, 410, 200, 400, 400]
    granted, refused, renewed, lost, released, misnamed, short = (each["body"] for each in told)
    assert (granted["lease"]["resources"], granted["fresh"]) == ([free], True)
    assert (refused["code"], refused["holders"][0]["holder"]) == ("held", "bob")
    assert renewed["lease"]["id"] == alone["lease"]["id"]
    assert lost["code"] == "lost"
    assert released["released"] is True
    assert (misnamed["field"], short["field"]) == ("resource", "ttl_seconds")
    assert server.post("release", {"lease": granted["lease"]["id"], "token": granted["token"]}).json["released"]
    assert server.holders(held.replace(" ", "%20")) == []


def test_an_exclusive_lease_has_no_slots(server: Running, headers: dict[str, str]) -> None:
    (told,) = answers(server, [acquire(name(), mode="exclusive", slots=3)], **headers)
    assert (told["status"], told["body"]["field"]) == (400, "slots")


def test_a_wait_has_to_come_alone(server: Running, headers: dict[str, str]) -> None:
    told = answers(server, [acquire(name(), wait_seconds=5), acquire(name())], **headers)
    assert [each["status"] for each in told] == [400, 200]
    assert told[0]["body"]["field"] == "wait_seconds"


def test_none_is_not_too_few(server: Running, headers: dict[str, str]) -> None:
    assert answers(server, [], **headers) == []


@pytest.mark.parametrize(
    ("calls", "field"),
    [
        ([acquire("x")] * (CALLS_MOST + 1), "calls"),
        ([{**acquire("x"), "verb": "steal"}], "calls"),
        ([{"verb": "release"}], "calls"),
        ("all", "calls"),
    ],
    ids=["too many", "another verb", "a field is missing", "no list"],
)
def test_what_cannot_be_understood_is_refused_whole(
    server: Running, headers: dict[str, str], calls: object, field: str
) -> None:
    reply = server.post("batch", {"calls": calls}, **headers)
    assert (reply.status, reply.code, reply.json["field"]) == (400, "invalid", field)


def test_each_call_is_within_the_bounds_of_the_key(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        agent, viewer = create_key(tmp_path, "agent", prefixes=("ours/",)), create_key(tmp_path, "viewer")
        calls = [acquire("ours/a"), acquire("theirs/a"), acquire("ours/b", space="elsewhere")]
        for headers in ({}, ORDINARY, {}):
            told = answers(server, calls, key=agent, **headers)
            assert [each["status"] for each in told][1:] == [403, 403]
            assert told[0]["body"]["lease"]["holder"] == "ann"
            back = {"verb": "release", "lease": told[0]["body"]["lease"]["id"], "token": told[0]["body"]["token"]}
            assert answers(server, [back], key=agent)[0]["body"]["released"] is True
            assert server.post("batch", {"calls": calls}, key=viewer, **headers).status == 403
            assert server.post("batch", {"calls": calls}, key="lh_0_0", **headers).status == 401


def test_each_call_counts(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "5") as server:
        told = answers(server, [acquire(name()) for _ in range(20)])
        refused = [each for each in told if each["status"] == 429]
        assert len(refused) >= 10
        assert all(each["body"]["code"] == "rate_limited" for each in refused)
        assert all(each["body"]["retry_after_seconds"] > 0 for each in refused)


@pytest.mark.parametrize("way", ["hot", "ordinary"])
def test_grants_are_kept_when_a_network_resets_their_connection(server: Running, way: str) -> None:
    """None of them has waited, so the client may well have read them all."""
    first, second = f"unheard-{way}-1", f"unheard-{way}-2"
    key = None
    if way == "ordinary":  # a request with a session takes the other parser
        key = server.post("sessions", {"ttl_seconds": 600, "holder": "ann"}).json["credential"]
    line = server.begin("batch", {"calls": [acquire(first), acquire(second)]}, key=key)
    until_written(line)
    reset_and_noticed(server, line)
    assert server.holders(first) == server.holders(second) == ["ann"]
