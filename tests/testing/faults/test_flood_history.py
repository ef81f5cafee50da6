"""What floods were told passes if it is good, and each planted fault is found, in it or in what the store recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain.events import Event
from leasehold.testing.faults.flood import PREFIX
from leasehold.testing.faults.flood_history import FloodEvents, FloodHistory

if TYPE_CHECKING:
    from pathlib import Path

GOOD = [
    "acquire 10 20 granted 1 l1 flood f0 0 0",
    "acquire 11 21 granted 2 l2 flood f0 1 0",
    "release 22 25 unknown 900 unreachable flood f0 0 0",
    "release 26 30 released 900 l1 flood f0 0 0",
    "acquire 31 40 granted 3 l3 flood f0 0 0",
]


def flooded(tmp_path: Path, lines: list[str]) -> FloodHistory:
    (tmp_path / "flood-f0.txt").write_text("".join(f"{line}\n" for line in lines))
    return FloodHistory.read(tmp_path.glob("flood-*.txt"))


def event(seq: int, kind: str, lease: str, fence: int, name: str = "f0 0 0", at: int = 0, **detail: object) -> Event:
    at = at or seq * 100
    told = {"expires_at": at + 1_000, **detail} if kind == "granted" else detail
    return Event(kind, at, "default", (f"{PREFIX}{name}",), "f0", None, lease, fence, told, seq)


RECORDED = [
    event(1, "granted", "l1", 1),
    event(2, "granted", "l2", 2, "f0 1 0"),
    event(3, "released", "l1", 1),
    event(4, "granted", "l3", 3),
]


def judged(history: FloodHistory, events: list[Event]) -> list[str]:
    passing = FloodEvents(history)
    assert [*passing.others(events)] == []
    return [each.kind for each in passing.found]


def test_a_good_history_has_no_violations_and_is_counted(tmp_path: Path) -> None:
    history = flooded(tmp_path, GOOD)
    assert history.violations() == []
    assert (history.calls, len(history.fences), history.unknown) == (5, 3, 1)
    assert judged(history, RECORDED) == []


def test_a_line_that_a_kill_cut_short_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "flood-f0.txt").write_text("acquire 10 20 granted 1 l1 flood f0 0 0\nacquire 11 21 gran")
    assert len(FloodHistory.read(tmp_path.glob("flood-*.txt")).fences) == 1


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("acquire 50 60 granted 3 l9 flood f0 1 0", ["fence", "fence"]),  # the fence of l3, and not above it
        ("acquire 35 60 granted 4 l3 flood f0 1 0", ["identity"]),
        ("acquire 45 60 granted 0 l9 flood f0 1 0", ["fence"]),
        ("release 41 50 gone 900 l3 flood f0 0 0", ["kept"]),
        ("acquire 41 50 held 0 - flood f0 0 0", ["broken"]),
        ("acquire 41 61000000000 unknown 0 unreachable flood f0 0 0", ["wait"]),
    ],
)
def test_a_wrong_answer_is_found(tmp_path: Path, line: str, kinds: list[str]) -> None:
    assert [each.kind for each in flooded(tmp_path, [*GOOD, line]).violations()] == kinds


def test_a_lease_may_be_gone_after_its_time(tmp_path: Path) -> None:
    assert flooded(tmp_path, [*GOOD, "release 41 901 gone 900 l3 flood f0 0 0"]).violations() == []


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        (RECORDED[1:], ["kept", "life"]),  # l1 was acknowledged, and is not there
        (RECORDED[:3], ["kept"]),
        ([RECORDED[0], RECORDED[1]._replace(lease="l9"), *RECORDED[2:]], ["fence"]),
        ([*RECORDED[:2], RECORDED[2]._replace(seq=2), RECORDED[3]], ["clock"]),
        ([*RECORDED, event(5, "granted", "l4", 4, at=500)], ["overlap"]),
        ([*RECORDED, event(5, "granted", "l4", 3, "f0 2 0")], ["fence"]),
        ([*RECORDED, event(5, "released", "l2", 2)], ["life"]),
        ([*RECORDED, event(5, "expired", "l3", 3)], ["life"]),
    ],
)
def test_what_the_store_recorded_wrongly_is_found(tmp_path: Path, events: list[Event], kinds: list[str]) -> None:
    assert judged(flooded(tmp_path, GOOD), events) == kinds


def test_a_grant_that_nobody_was_told_of_may_be_recorded(tmp_path: Path) -> None:
    history = flooded(tmp_path, GOOD)
    assert judged(history, [*RECORDED, event(5, "granted", "l4", 4, at=1_500)]) == []


def test_events_on_other_names_are_handed_on(tmp_path: Path) -> None:
    other = event(5, "granted", "l4", 4)._replace(resources=("register 1",))
    passing = FloodEvents(flooded(tmp_path, GOOD))
    assert [*passing.others([*RECORDED, other])] == [other]
    assert passing.found == []
