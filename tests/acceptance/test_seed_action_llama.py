"""Every command, route and answer of Action Llama's pages on resource locks, on a real server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.kit.llamas import Llama, command, start
from tests.kit.serving import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ISSUE, PULL, DEPLOY = "github://acme/app/issues/42", "github://acme/app/pr/17", "deploy://api-prod"


@pytest.fixture
def agent(server: Running, tmp_path: Path) -> Iterator[Callable[[str], Llama]]:
    """Agents whose runs end with the test, and with them whatever they hold."""
    begun: list[Llama] = []

    def begin(holder: str) -> Llama:
        begun.append(Llama(server, tmp_path, start(server, holder)))
        return begun[-1]

    yield begin
    for each in begun:
        server.post("sessions/end", {"session": each.secret})


def test_an_agent_locks_works_and_unlocks(agent: Callable[[str], Llama]) -> None:
    """How it works, steps 1 to 4."""
    one, two = agent("dev-1"), agent("dev-2")
    before = time.time() * 1000
    taken = one.types("rlock", ISSUE)
    assert (taken.code, taken.body) == (0, {"ok": True, "resourceKey": ISSUE})
    refused = two.types("rlock", ISSUE)
    assert refused.code == 1
    assert refused.body.keys() == {"ok", "holder", "heldSince"}
    assert (refused.body["ok"], refused.body["holder"]) == (False, "dev-1")
    assert before - 1000 <= refused.body["heldSince"] <= time.time() * 1000 + 1000  # epoch milliseconds
    given = one.types("runlock", ISSUE)
    assert (given.code, given.body) == (0, {"ok": True})
    assert two.types("rlock", ISSUE).code == 0


@pytest.mark.parametrize("uri", [ISSUE, PULL, DEPLOY])
def test_the_patterns_of_resource_keys(agent: Callable[[str], Llama], uri: str) -> None:
    assert agent("dev-1").types("rlock", uri).body == {"ok": True, "resourceKey": uri}


def test_only_the_holder_can_release_or_heartbeat(agent: Callable[[str], Llama]) -> None:
    one, two = agent("dev-1"), agent("dev-2")
    one.types("rlock", DEPLOY)
    for name in ("runlock", "rlock-heartbeat"):
        said = two.types(name, DEPLOY)
        assert (said.code, said.body) == (1, {"ok": False, "reason": "held by dev-1"})
    assert one.locks() == [DEPLOY]
    for name in ("runlock", "rlock-heartbeat"):
        said = two.types(name, "deploy://nobody-has-it")
        assert (said.code, said.body) == (2, {"ok": False, "reason": "lock not found"})


def test_a_lock_lives_for_half_an_hour_and_a_heartbeat_resets_the_clock(agent: Callable[[str], Llama]) -> None:
    one = agent("dev-1")
    one.types("rlock", ISSUE)
    [lock] = one.server.ask("GET", f"/locks/list?secret={one.secret}").json
    assert lock["expiresAt"] - lock["heldSince"] == 1800 * 1000
    until(lambda: time.time() * 1000 > lock["heldSince"] + 5)
    said = one.types("rlock-heartbeat", ISSUE)
    assert said.code == 0
    assert said.body.keys() == {"ok", "expiresAt"}
    assert said.body["expiresAt"] > lock["expiresAt"]


def test_an_expired_lock_can_be_claimed_by_another(agent: Callable[[str], Llama]) -> None:
    one, two = agent("dev-1"), agent("dev-2")
    assert one.post("acquire", ISSUE, ttl=0.05).status == 200
    until(lambda: two.types("rlock", ISSUE).code == 0)
    assert one.types("rlock-heartbeat", ISSUE).body == {"ok": False, "reason": "held by dev-2"}


def test_the_time_out_of_config_toml_is_the_default(tmp_path: Path) -> None:
    """`resourceLockTimeout`, in the scheduler's own config.toml."""
    (tmp_path / "config.toml").write_text('resourceLockTimeout = 120\n[models.sonnet]\nprovider = "anthropic"\n')
    with serving(tmp_path) as server:
        one = Llama(server, tmp_path, start(server, "dev-1"))
        one.types("rlock", ISSUE)
        [lock] = server.ask("GET", "/locks/list", Authorization=f"Bearer {one.secret}").json
    assert lock["expiresAt"] - lock["heldSince"] == 120 * 1000


def test_the_example_of_a_deadlock_with_two_agents_that_poll(agent: Callable[[str], Llama]) -> None:
    """Agent A holds the pull request and wants the deployment; agent B the other way round."""
    a, b = agent("a"), agent("b")
    pull = "github://acme/app/pr/10"
    assert a.types("rlock", pull).code == 0
    assert b.types("rlock", DEPLOY).code == 0
    assert a.types("rlock", DEPLOY).body["holder"] == "b"  # skipped, and polled for
    said = b.types("rlock", pull)
    assert said.code == 1
    assert said.body == {
        "ok": False,
        "reason": f"possible deadlock: b → {pull} → a → {DEPLOY} → b",
        "deadlock": True,
        "cycle": ["b", pull, "a", DEPLOY],
    }
    # "The agent can then release its held locks and retry."
    assert b.types("runlock", DEPLOY).code == 0
    assert a.types("rlock", DEPLOY).code == 0
    assert a.types("runlock", pull).code == 0
    assert b.types("rlock", pull).code == 0


@pytest.mark.parametrize("moves_on", ["takes another", "gives up", "ends"])
def test_an_agent_that_moved_on_is_no_phantom(agent: Callable[[str], Llama], moves_on: str) -> None:
    a, b = agent("a"), agent("b")
    a.types("rlock", PULL)
    b.types("rlock", DEPLOY)
    assert a.types("rlock", DEPLOY).body["holder"] == "b"
    if moves_on == "takes another":
        assert a.types("rlock", ISSUE).code == 0
        assert b.types("rlock", PULL).body.keys() == {"ok", "holder", "heldSince"}  # held, and no deadlock
    elif moves_on == "gives up":
        assert a.types("runlock", PULL).code == 0
        assert b.types("rlock", PULL).code == 0
    else:
        assert a.server.post("sessions/end", {"session": a.secret}).json["released"] == [PULL]
        assert b.types("rlock", PULL).code == 0


def test_what_a_run_holds_is_released_when_it_ends(agent: Callable[[str], Llama]) -> None:
    """Auto-release on exit."""
    one, two = agent("dev-1"), agent("dev-2")
    for uri in (ISSUE, DEPLOY):
        one.types("rlock", uri)
    ended = one.server.post("sessions/end", {"session": one.secret}).json
    assert sorted(ended["released"]) == sorted([ISSUE, DEPLOY])
    assert two.types("rlock", ISSUE).code == 0
    said = one.types("rlock", "deploy://other")
    assert (said.code, said.body) == (3, {"error": "invalid secret"})


def test_the_same_holder_again_resets_the_ttl(agent: Callable[[str], Llama]) -> None:
    one = agent("dev-1")
    assert one.post("acquire", ISSUE, ttl=60).status == 200
    [first] = one.server.ask("GET", f"/locks/list?secret={one.secret}").json
    assert one.types("rlock", ISSUE).body == {"ok": True, "resourceKey": ISSUE}
    [again] = one.server.ask("GET", f"/locks/list?secret={one.secret}").json
    assert again["heldSince"] == first["heldSince"]
    assert again["expiresAt"] > first["expiresAt"]


# -------------------------------------------------------------------------------- what was broken there


def test_a_missing_configuration_is_never_a_yes(tmp_path: Path) -> None:
    """The original answers {"ok":true} to everybody who has no gateway."""
    said = command("rlock", ISSUE, folder=tmp_path, LEASEHOLD_HOLDER="ada")
    assert said.body == {"ok": True, "resourceKey": ISSUE}
    said = command("rlock", ISSUE, folder=tmp_path, LEASEHOLD_HOLDER="bob")
    assert (said.code, said.body["holder"]) == (1, "ada")  # it was a real lock, in the embedded store
    said = command("rlock", ISSUE, folder=tmp_path, GATEWAY_URL="http://127.0.0.1:7420")
    assert said.code == 4
    assert said.body["error"].startswith("missing secret")


def test_a_gateway_that_does_not_answer_is_never_a_yes(tmp_path: Path) -> None:
    """The original's heartbeat says {"ok":true,"note":"gateway unreachable"}."""
    for name in ("rlock", "runlock", "rlock-heartbeat"):
        said = command(name, ISSUE, folder=tmp_path, GATEWAY_URL="http://127.0.0.1:9", SHUTDOWN_SECRET="x" * 20)
        assert said.code == 6
        assert said.body["ok"] is False


@pytest.mark.parametrize(
    "uri",
    [
        'deploy://a","secret":"stolen',
        'deploy://a"}\n{"x":"',
        "deploy://a\nb",
        "deploy://$(id)`id`",
        "deploy://' or 1=1; --",
        'deploy://\\"',
    ],
)
def test_a_key_cannot_inject_anything(agent: Callable[[str], Llama], uri: str) -> None:
    """The original pastes the key into JSON. Here it is the key, as it stands, or it is refused."""
    one = agent("dev-1")
    said = one.types("rlock", uri)
    if "\n" in uri:
        assert said.code == 4
        assert said.body["error"].startswith("Invalid URI format: ")
        assert one.locks() == []
    else:
        assert said.body == {"ok": True, "resourceKey": uri}
        assert one.locks() == [uri]
        assert one.types("runlock", uri).code == 0


@pytest.mark.parametrize("ttl", ["abc", "60", 0, -1, -0.5, 1e12, True, [], {}])
@pytest.mark.parametrize("verb", ["acquire", "heartbeat"])
def test_a_senseless_ttl_is_refused(agent: Callable[[str], Llama], verb: str, ttl: object) -> None:
    """There, "abc" becomes NaN and the lock never expires."""
    one = agent("dev-1")
    if verb == "heartbeat":
        one.post("acquire", ISSUE)
    reply = one.post(verb, ISSUE, ttl=ttl)
    assert reply.status == 400
    assert "ttl" in reply.json["error"]
    assert one.locks() == ([ISSUE] if verb == "heartbeat" else [])


def test_a_late_clean_up_never_removes_a_successors_lock(agent: Callable[[str], Llama]) -> None:
    """A run that lost its lock, and then ends or unlocks, must not free what another run holds by then."""
    one, two = agent("dev-1"), agent("dev-2")
    one.post("acquire", ISSUE, ttl=0.05)
    until(lambda: two.types("rlock", ISSUE).code == 0)
    assert one.types("runlock", ISSUE).body == {"ok": False, "reason": "held by dev-2"}
    assert one.server.post("sessions/end", {"session": one.secret}).json["released"] == []
    assert two.locks() == [ISSUE]
    assert two.types("rlock-heartbeat", ISSUE).code == 0


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        secret = start(server, "dev-1")
        Llama(server, tmp_path, secret).types("rlock", ISSUE)
        Llama(server, tmp_path, start(server, "dev-2", session="two.0123456789abcdef")).types("rlock", ISSUE)
        server.process.kill()
    with serving(tmp_path) as server:
        one, two = Llama(server, tmp_path, secret), Llama(server, tmp_path, "two.0123456789abcdef")
        assert one.locks() == [ISSUE]
        assert two.types("rlock", ISSUE).body["holder"] == "dev-1"
        assert one.types("rlock-heartbeat", ISSUE).code == 0
        assert one.types("runlock", ISSUE).code == 0
