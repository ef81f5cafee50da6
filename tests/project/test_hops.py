"""How many files one acquire enters: printed for whoever changes the way of a request."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit.shell import ROOT

WAYS = ("cli", "lock", "sqlite", "postgres", "etcd")


@pytest.mark.parametrize("way", WAYS)
def test_an_acquire_enters_files_that_can_be_listed(way: str) -> None:
    told = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "hops.py"), "--list", way],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    print(told)
    assert "  domain/rules/acquiring.py\n" in told
