"""The page about reliability shows the results of runs, and nothing else."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from leasehold.testing.faults import page

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "tests" / "faults" / "results"
RUN = {
    "run": "mixed",
    "store": "etcd",
    "on": "2026-11-19",
    "seconds": 180,
    "clients": 64,
    "operations": 12_345,
    "grants": 678,
    "violations": ["one"],
    "faults": {
        "clients: cut": {"times": 3, "overtaken": 1, "recovery_ms": [20, 400]},
        "suspend": {"times": 1, "overtaken": 1, "recovery_ms": []},
    },
}


def test_the_tables_of_the_page_are_those_of_the_results() -> None:
    text = (ROOT / "docs" / page.PAGE).read_text()
    assert page.with_tables(text, page.load(RESULTS)) == text, "python -m leasehold.testing.faults page"


def test_the_chart_of_the_page_is_that_of_the_results() -> None:
    assert (ROOT / "docs" / page.CHART).read_text() == page.chart(page.load(RESULTS))


def test_every_result_that_is_shown_was_without_a_violation() -> None:
    found = page.load(RESULTS)
    assert {each["store"] for each in found if each["run"] == "mixed"} == {*page.STORES}
    assert [each for each in found if each["violations"]] == []


def test_a_run_is_shown_with_its_faults_and_violations() -> None:
    shown = page.tables([RUN])
    assert "| mixed | etcd | 2026-11-19 | 180 s | 64 | 12,345 | 678 | 4 | 400 ms | 1 |" in shown
    assert "| clients: cut | - | - | 3 times: 210 / 400 (1 not before the next fault) | - |" in shown
    assert "| suspend | - | - | once: not measured | - |" in shown


def test_the_longest_recovery_of_a_queue_is_the_longest_time_between_two_grants() -> None:
    queue = {**RUN, "run": "queues", "longest_gap_ms": 1_234, "faults": {}}
    assert "| 678 | 0 | 1,234 ms | 1 |" in page.tables([queue])


def test_a_chart_has_a_dot_for_each_recovery() -> None:
    drawn = page.chart([RUN])
    root = ET.fromstring(drawn)
    dots = [each for each in root.iter("{http://www.w3.org/2000/svg}circle") if len(each)]
    assert len(dots) == 2
    assert "etcd, clients: cut: 400 ms" in drawn
