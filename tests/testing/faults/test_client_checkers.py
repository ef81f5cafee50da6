"""The checkers of client histories pass good ones and find what is wrong with bad ones, each written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.testing.faults.checkers import (
    check_clients,
    check_fences,
    check_identity,
    check_kept,
    check_waits,
    check_writings,
)
from leasehold.testing.faults.recording import ClientHistory, Invocation, Writing
from leasehold.testing.observations import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasehold.testing.invariants.wants import Violation

SECOND = 1_000_000_000
TTL = 3.0


def ask(client: str, verb: str, of: str, call: float, reply: float | None, kind: str, **more: Any) -> Invocation:
    """One call, in seconds."""
    lease, fence = more.pop("lease", ""), more.pop("fence", 0)
    asked = {"what": of if verb == "acquire" else [of], **more}
    if verb == "acquire":
        asked = {"ttl": TTL, "wait": 0, "request_id": f"{client} {call}", **asked}
    end = None if reply is None else round(reply * SECOND)
    return Invocation(client, verb, asked, round(call * SECOND), end, kind, lease, fence)


def grant(client: str, call: float, reply: float, fence: int, **more: Any) -> Invocation:
    return ask(client, "acquire", "r", call, reply, "granted", fence=fence, **{"lease": f"l{fence}", **more})


def kinds(found: Iterable[Violation]) -> list[str]:
    return [each.kind for each in found]


GOOD = [
    grant("t-1", 0, 1, 1),
    ask("t-1", "renew", "l1", 1, 2, "renewed"),
    ask("t-1", "release", "l1", 2, 3, "released", lease="l1"),
    grant("t-2", 2, 4, 2),
    ask("t-2", "release", "l2", 4, None, "unknown"),
]


def test_a_good_history_has_no_violations() -> None:
    history = ClientHistory(GOOD, [Observation("t-1", "r", 1, 2, 1)], [], [])
    assert check_clients(history, share=0.8, killed=["t"]) == []


def test_a_fence_that_does_not_grow_is_found() -> None:
    assert kinds(check_fences([grant("a", 0, 1, 5), grant("b", 2, 3, 4)])) == ["fence"]
    assert kinds(check_fences([grant("a", 0, 3, 5), grant("b", 2, 4, 4)])) == [], "both were under way"


def test_a_retry_may_bring_the_fence_of_its_first_copy() -> None:
    first = ask("a", "acquire", "r", 0, 1, "unknown", request_id="one")
    assert kinds(check_fences([first, grant("b", 0, 2, 6), grant("a", 3, 4, 5, request_id="one")])) == []
    assert kinds(check_fences([first, grant("b", 0, 2, 6), grant("a", 3, 4, 5, request_id="two")])) == ["fence"]


def test_a_fence_that_is_given_twice_is_found() -> None:
    assert kinds(check_fences([grant("a", 0, 1, 5), grant("b", 2, 3, 5, lease="other")]))[0] == "fence"


def test_a_lease_with_two_fences_is_found() -> None:
    assert kinds(check_fences([grant("a", 0, 3, 5), grant("a", 0, 3, 6, lease="l5")])) == ["fence"]


def test_a_lease_that_two_clients_were_granted_is_found() -> None:
    assert kinds(check_identity([grant("a", 0, 1, 5), grant("b", 2, 3, 5)])) == ["identity"]


def test_a_client_that_acts_for_another_is_found() -> None:
    for verb, kind in (("renew", "renewed"), ("release", "released")):
        assert kinds(check_identity([grant("a", 0, 1, 5), ask("b", verb, "l5", 2, 3, kind)])) == ["identity"]
    assert kinds(check_identity([grant("a", 0, 1, 5), ask("b", "renew", "l5", 2, 3, "refused")])) == []


def test_a_release_that_another_client_retried_may_find_the_lease_released() -> None:
    granted, theirs = grant("a", 0, 1, 5), ask("b", "release", "l5", 2, 9, "released")
    for verb, of in (("release", "l5"), ("end_session", "s")):
        assert kinds(check_identity([granted, ask("a", verb, of, 3, 4, "ended"), theirs])) == []
        assert kinds(check_identity([granted, theirs, ask("a", verb, of, 10, 11, "ended")])) == ["identity"]
        assert kinds(check_identity([granted, theirs, ask("c", verb, of, 3, 4, "ended")])) == ["identity"]


def test_a_lease_that_is_lost_early_is_found() -> None:
    lost = ask("a", "renew", "l5", 1, 2, "lost", lease="l5")
    assert kinds(check_kept([grant("a", 0, 1, 5), lost], 0.8)) == ["kept"]
    assert kinds(check_kept([grant("a", 0, 1, 5), ask("a", "renew", "l5", 2, 2.5, "lost", lease="l5")], 0.8)) == []
    released = ask("a", "release", "l5", 1, 1.5, "unknown")
    assert kinds(check_kept([grant("a", 0, 1, 5), released, lost], 0.8)) == []
    retried = [ask("a", "acquire", "r", 0, 2, "unknown", request_id="one"), grant("a", 2, 3, 5, request_id="one")]
    assert kinds(check_kept([*retried, ask("a", "renew", "l5", 3, 3.5, "lost", lease="l5")], 0.8)) == []


def test_a_lease_is_lost_with_the_session_that_expired() -> None:
    started = ask("a", "start_session", "", 0, 0.5, "started", ttl=2.0)
    granted, lost = grant("a", 1, 1.2, 5), ask("a", "renew", "l5", 1.6, 1.9, "lost", lease="l5")
    assert kinds(check_kept([started, granted, lost], 0.8)) == []
    assert kinds(check_kept([started, granted, lost], 1.0)) == ["kept"], "the session lives"
    ended = ask("a", "end_session", "s", 0.6, 0.7, "ended")
    assert kinds(check_kept([started, ended, granted, lost], 0.8)) == ["kept"], "it is of no session"


def test_a_lease_that_was_waited_for_counts_from_its_first_renewal() -> None:
    granted = grant("a", 0, 2, 5, wait=2)
    lost = ask("a", "renew", "l5", 2, 2.1, "lost", lease="l5")
    assert kinds(check_kept([granted, lost], 0.8)) == []
    renewed = ask("a", "renew", "l5", 1.8, 2, "renewed")
    assert kinds(check_kept([granted, renewed, lost], 0.8)) == ["kept"]


def test_a_call_that_nobody_answered_is_found_unless_its_client_was_killed() -> None:
    assert kinds(check_waits(GOOD, frozenset())) == ["wait"]
    assert kinds(check_waits(GOOD, frozenset(["t"]))) == []


def test_a_wait_that_takes_too_long_is_found() -> None:
    late = ask("a-1", "acquire", "r", 0, 100, "timeout", wait=2)
    assert kinds(check_waits([late], frozenset())) == ["wait"]
    assert kinds(check_waits([late._replace(reply=40 * SECOND)], frozenset())) == []


def wrote(client: str, value: int, read: int, written: int, *, late: bool = False, name: str = "counter") -> Writing:
    return Writing(client, name, value, value, read, written, late)


def test_a_lost_update_is_found_unless_a_late_write_explains_it() -> None:
    one, two = wrote("a", 1, 0, 10), wrote("b", 1, 5, 12)
    assert kinds(check_writings([one, two], {})) == ["lost_update"]
    assert kinds(check_writings([one, two._replace(is_late=True)], {})) == []
    assert kinds(check_writings([one, wrote("b", 2, 11, 12)], {})) == []


def test_behind_a_fence_a_late_write_explains_nothing() -> None:
    one, two = wrote("a", 1, 0, 10, name="fenced"), wrote("b", 1, 5, 12, name="fenced", late=True)
    assert kinds(check_writings([one, two], {})) == ["lost_update"]


def test_an_element_that_is_missing_is_found() -> None:
    assert kinds(check_writings([wrote("a", 7, 0, 1, name="list")], {"list": [6]})) == ["lost_update"]
    assert kinds(check_writings([wrote("a", 7, 0, 1, name="list")], {"list": [6, 7]})) == []


def test_overlaps_complaints_and_broken_calls_are_found() -> None:
    sections = [Observation("a", "path:src", 0, 10, 1), Observation("b", "path:src/x", 5, 20, 2)]
    broken = ask("a-1", "list", "", 0, 1, "broken")
    found = check_clients(ClientHistory([broken], sections, [], ["this must not be"]), share=0.8)
    assert kinds(found) == ["complaint", "broken", "overlap"]


def test_a_hundred_thousand_calls_are_judged_in_one_sweep() -> None:
    calls = [grant("a", number, number + 0.5, number + 1) for number in range(100_000)]
    sections = [Observation("a", "r", number * 10, number * 10 + 5, number + 1) for number in range(100_000)]
    calls[-1] = calls[-1]._replace(fence=1, lease="l1")
    sections[-1] = sections[-1]._replace(start=sections[-2].start + 1)
    found = check_clients(ClientHistory(calls, sections, [], []), share=0.8)
    assert {*kinds(found)} == {"overlap", "fence"}
