"""The number of files that one acquire enters is bounded, and its spine is as CONTRIBUTING says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.kit.shell import ROOT

MOST = {"cli": 32, "lock": 24, "sqlite": 24, "postgres": 29, "etcd": 32}
"""Files on each way. Lower a bound when you take a file out of the way; do not raise one without a reason.

Behind a network a store has lanes, which commit together on etcd: a file on PostgreSQL, three on etcd.
"""
SPINE_MOST = 10
SHORT_MOST = 102
"""Functions of at most three lines that are called once: half as many as before the rooms (docs/adr/0044)."""


def listed(way: str) -> list[str]:
    command = [sys.executable, str(ROOT / "scripts" / "hops.py"), "--list", way]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    print(told)
    return re.findall(r"^  (\S+\.py)$", told, flags=re.MULTILINE)


def spine() -> list[str]:
    """The files of CONTRIBUTING's table, the first of each row."""
    rows = (ROOT / "CONTRIBUTING.md").read_text().partition("### The way of one acquire")[2].partition("\n## ")[0]
    return re.findall(r"^\| \d+ \| `([^`]+)`", rows, flags=re.MULTILINE)


@pytest.mark.parametrize("way", MOST)
def test_an_acquire_enters_few_files(way: str) -> None:
    assert 0 < len(listed(way)) <= MOST[way]


def test_the_spine_is_short_and_lies_on_the_way() -> None:
    files = spine()
    assert 0 < len(files) <= SPINE_MOST
    assert set(files) <= set(listed("lock"))


def test_few_functions_are_shorter_than_their_docstring_and_called_once() -> None:
    script = str(ROOT / "scripts" / "short_functions.py")
    told = subprocess.run([sys.executable, script, "--list"], capture_output=True, text=True, timeout=120, check=True)
    found = told.stdout.splitlines()[:-2]
    assert len(found) <= SHORT_MOST, "inline one that is shorter than its name and docstring:\n" + "\n".join(found)
