"""The search explains what can happen to a register, and nothing else."""

from __future__ import annotations

import pytest

from leasehold.testing.faults.linearizability import LockRegister, RegisterCall, check_registers, explain
from tests.testing.faults.test_client_checkers import SECOND, ask, grant, kinds

TTL = 100


def call(begin: int, end: int, kind: str, lease: str = "") -> RegisterCall:
    return RegisterCall(begin, end, kind, lease, TTL)


def register(*calls: RegisterCall, may_end: dict[str, int] | None = None, held: tuple[int, ...] = ()) -> LockRegister:
    return LockRegister(sorted(calls, key=lambda each: each.call), may_end or {}, [*held])


TAKEN = call(0, 10, "granted", "a")

GOOD = {
    "one after the other": register(TAKEN, call(20, 30, "released", "a"), call(40, 50, "granted", "b")),
    "at the same time, in the order that fits": register(
        TAKEN, call(12, 40, "released", "a"), call(11, 39, "granted", "b"), call(13, 41, "held")
    ),
    "after its TTL": register(TAKEN, call(101, 120, "granted", "b"), call(130, 140, "lost", "a")),
    "held, then free": register(TAKEN, call(11, 20, "held"), call(110, 120, "gone", "a")),
    "a release that got no answer": register(TAKEN, call(30, 40, "granted", "b"), may_end={"a": 20}),
    "a release that got no answer, and its retry": register(
        TAKEN,
        call(30, 40, "granted", "b"),
        call(50, 60, "released", "a"),
        call(70, 80, "released", "b"),
        may_end={"a": 20},
    ),
    "an acquire that got no answer": register(call(30, 40, "held"), held=(5,)),
}

BAD = {
    "two at once": register(TAKEN, call(20, 30, "granted", "b")),
    "two at once, of four": register(
        TAKEN, call(1, 30, "held"), call(20, 30, "granted", "b"), call(25, 40, "released", "b")
    ),
    "lost early": register(TAKEN, call(20, 30, "lost", "a")),
    "revived": register(TAKEN, call(101, 120, "granted", "b"), call(130, 140, "renewed", "a")),
    "renewed, and lost early": register(TAKEN, call(50, 60, "renewed", "a"), call(120, 140, "granted", "b")),
    "held by nobody": register(call(20, 30, "held")),
    "held after its release": register(TAKEN, call(20, 30, "released", "a"), call(40, 50, "held")),
    "released twice": register(TAKEN, call(20, 30, "released", "a"), call(40, 50, "released", "a")),
    "released after its successor came": register(
        TAKEN, call(101, 110, "granted", "b"), call(120, 130, "released", "a")
    ),
    "released after its successor came, by a release that got no answer later": register(
        TAKEN, call(101, 110, "granted", "b"), call(120, 130, "released", "a"), may_end={"a": 140}
    ),
    "a release that was not yet asked for": register(TAKEN, call(20, 25, "granted", "b"), may_end={"a": 30}),
}


@pytest.mark.parametrize("name", GOOD)
def test_this_is_explained(name: str) -> None:
    assert explain(GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_nothing_explains_this(name: str) -> None:
    assert explain(BAD[name]) is not None


def test_clocks_at_other_rates_count_on_a_part_of_the_ttl() -> None:
    early = register(TAKEN, call(80, 85, "granted", "b"))
    assert explain(early) is not None
    assert explain(early, 0.8) is None


def test_a_long_history_with_many_clients_at_once_is_searched_quickly() -> None:
    calls = []
    for turn in range(2_000):
        at = turn * 50
        calls += [call(at, at + 30, "granted", f"l{turn}"), call(at + 30, at + 49, "released", f"l{turn}")]
        calls += [call(at + number, at + 35, "held") for number in range(4)]
    assert explain(register(*calls)) is None
    assert explain(register(*calls, call(99_001, 99_020, "granted", "one too many"))) is not None


def test_a_history_of_clients_is_sorted_by_register_and_judged() -> None:
    one = grant("a", 0, 1, 5, what="register 1")
    again = grant("b", 1.1, 1.2, 6, what="register 1")
    elsewhere = grant("b", 1.1, 1.2, 7, what="register 2")
    assert kinds(check_registers([one, elsewhere], 0.8)) == []
    assert kinds(check_registers([one, again, elsewhere], 0.8)) == ["linear"]
    unknown = ask("a", "release", "l5", 1, None, "unknown")
    assert kinds(check_registers([one, unknown, again], 0.8)) == []


def test_a_retry_may_bring_the_lease_of_the_first_copy() -> None:
    lost = ask("a", "acquire", "register 1", 0, None, "unknown", request_id="x")
    held = ask("b", "acquire", "register 1", 2, 3, "held")
    retried = grant("a", 4, 5, 5, what="register 1", request_id="x")
    assert kinds(check_registers([lost, held, retried], 1.0)) == []
    assert lost.call < 1 * SECOND


def test_a_release_that_another_client_retried_takes_no_effect() -> None:
    held = [grant("a", 0, 0.1, 5, what="register 1"), ask("a", "release", "l5", 1, 1.1, "released")]
    late = ask("b", "release", "l5", 1, 2, "released")
    assert kinds(check_registers([*held, late], 1.0)) == []
    assert kinds(check_registers([*held, late._replace(call=SECOND // 2, reply=SECOND // 2 + 1)], 1.0)) == ["linear"]
