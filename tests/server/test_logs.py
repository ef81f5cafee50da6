"""The log: one line for what an operator has to know, as JSON or as text, with ids of requests, without secrets."""

from __future__ import annotations

import fcntl
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.server.ops.metrics import SLOW_COMMIT
from tests.kit.serving import create_key, id_of, serving, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.serving import Running


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def found(log: Path, message: str) -> list[dict[str, Any]]:
    return [each for each in lines(log) if each["message"] == message]


def take(server: Running, key: str, **more: object) -> dict[str, Any]:
    return dict(server.post("acquire", {"resources": "deploy://api", **more}, key=key).json)


def test_admin_actions_and_refused_credentials_have_a_line_each(tmp_path: Path) -> None:
    admin, agent = (create_key(tmp_path, role, name=name) for role, name in (("admin", "ops"), ("agent", "ci")))
    log = tmp_path / "log"
    with serving(tmp_path, log=log) as server:
        take(server, agent, holder="ann")
        asked = {"target": "deploy://api", "reason": "it hangs\n"[:-1]}
        reply = server.post("force-release", asked, key=admin, **{"X-Request-Id": "incident-7"})
        assert reply.headers["x-request-id"] == "incident-7"
        made = server.post("keys", {"role": "viewer", "name": "wall"}, key=admin).json["credential"]
        assert server.post("force-release", asked, key=agent).code == "not_allowed"
        assert server.get("leases", key="lh_0000_nothing").code == "unauthenticated"
        until(lambda: len(found(log, "a credential was refused")) == 2)
    forced, created = found(log, "admin action")
    assert (forced["verb"], forced["by_key"], forced["request"]) == ("force_release", id_of(admin), "incident-7")
    assert forced["about"]["reason"] == "it hangs"
    assert created["about"]["name"] == "wall"
    assert [each["code"] for each in found(log, "a credential was refused")] == ["not_allowed", "unauthenticated"]
    text = log.read_text()
    assert not [secret for secret in (admin, agent, made, "lh_0000_nothing") if secret in text]


def test_an_expiry_that_cost_a_waiter_time_has_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(tmp_path, log=log) as server:
        server.post("acquire", {"resources": "quick", "holder": "ann", "ttl_seconds": 0.05})
        until(lambda: server.holders("quick") == [])
        server.post("acquire", {"resources": "slow", "holder": "ann", "ttl_seconds": 1})
        assert server.post("acquire", {"resources": "slow", "holder": "bob", "wait_seconds": 40}).status == 200
        until(lambda: found(log, "a lease expired while a request waited"))
    (told,) = found(log, "a lease expired while a request waited")
    assert (told["holder"], told["next"], told["resources"]) == ("ann", "bob", ["slow"])
    assert told["seconds"] > 0


def test_a_slow_commit_has_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(tmp_path, log=log) as server, ThreadPoolExecutor(1) as pool:
        take(server, "", holder="ann")
        assert not found(log, "slow commit")
        gates = [each for each in tmp_path.rglob("*.gate") if each.is_file()]
        with gates[0].open("rb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            since = time.monotonic()
            asked = pool.submit(server.post, "acquire", {"resources": "slow", "holder": "ann"})
            until(lambda: time.monotonic() > since + 2 * SLOW_COMMIT)
        assert asked.result().status == 200
        until(lambda: found(log, "slow commit"))
    assert found(log, "slow commit")[0]["seconds"] > SLOW_COMMIT


def test_text_lines_are_for_people_and_inert(tmp_path: Path) -> None:
    admin = create_key(tmp_path, "admin", name="ops")
    log = tmp_path / "log"
    with serving(tmp_path, "--log-format", "text", log=log) as server:
        asked = {"target": "nothing", "reason": "red \x9b31m alert"}
        server.post("force-release", asked, key=admin)
        server.get("leases?space=%1b[31m", key="lh_0000_nothing")
        until(lambda: "a credential was refused" in log.read_text())
    assert " warning a credential was refused code=" in log.read_text()
    assert not {"\x1b", "\x9b"} & set(log.read_text())


@pytest.mark.parametrize("given", ["", "x" * 129])
def test_a_request_id_that_is_too_long_is_not_repeated(tmp_path: Path, given: str) -> None:
    with serving(tmp_path) as server:
        assert "x-request-id" not in server.get("leases", **{"X-Request-Id": given}).headers
