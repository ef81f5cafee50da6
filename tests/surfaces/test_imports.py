"""A plain `acquire` and a plain `release` import what is listed here and nothing else: they must start quickly."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.surfaces.shell import PATIENCE, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPORT = """
import sys
before = set(sys.modules)
from leasehold.cli import main
code = main(sys.argv[1:])
sys.stderr.write(" ".join(sorted(set(sys.modules) - before)))
sys.exit(code)
"""

PYTHON = {"__future__", "_blake2", "fcntl", "gc", "pwd"}
"""Written in C, and small; `pwd` only where no variable says who the user is."""
BINDING = {
    "apsw",
    # What SQLite's binding imports by itself, so that others may as well:
    *("collections", "collections.abc", "itertools", "keyword", "operator", "_operator", "reprlib", "_collections"),
}
OURS = {
    f"leasehold{name}"
    for name in (
        "",
        *(".batch", ".calls", ".checks", ".commands", ".config", ".configfiles", ".drivers", ".durations", ".embedded"),
        *(".engine", ".errors", ".identity", ".keys", ".locks", ".model", ".names", ".noun", ".opening", ".pending"),
        *(".places", ".records"),
        *(".rules", ".rules.acquiring", ".rules.conflicts", ".rules.draft", ".rules.ending", ".rules.granting"),
        *(".rules.leases", ".rules.limits", ".rules.timing"),
        *(".stores", ".stores.cache", ".stores.codec", ".stores.sqlite", ".stores.sqlite.clock"),
        *(".stores.sqlite.database", ".stores.sqlite.gate", ".stores.sqlite.place"),
        *(
            ".cli",
            ".cli.context",
            ".cli.outcomes",
            ".cli.output",
            ".cli.parsing",
            ".cli.state",
            ".cli.table",
            ".cli.taking",
        ),
    )
}
TO_ACQUIRE = PYTHON | BINDING | OURS
TO_RELEASE = TO_ACQUIRE | {"leasehold.cli.keeping"}
NEVER = {
    *("typing", "re", "json", "argparse", "dataclasses", "enum", "functools", "inspect", "threading", "logging"),
    *("asyncio", "subprocess", "pathlib", "tomllib", "datetime", "hashlib", "contextlib", "signal", "socket", "random"),
}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path / "home") as shell:
        yield shell


def imported(shell: Shell, *words: str) -> set[str]:
    """What a fresh interpreter imports for this command, beyond what every interpreter starts with."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *words],
        cwd=shell.home,
        env=shell.env(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return set(done.stderr.split())


def test_a_plain_acquire_and_release_import_only_what_is_listed(shell: Shell) -> None:
    shell.run("acquire", "first")  # creates the database, which needs more than that
    assert imported(shell, "acquire", "x") - TO_ACQUIRE == set()
    assert imported(shell, "acquire", "x", "--ttl", "5m", "--name", "again") - TO_ACQUIRE == set()
    assert imported(shell, "release", "x") - TO_RELEASE == set()


def test_nothing_slow_is_on_the_list() -> None:
    assert not TO_RELEASE & NEVER


def test_the_list_names_nothing_that_is_not_needed(shell: Shell) -> None:
    shell.run("acquire", "first")
    needed = imported(shell, "acquire", "x") | imported(shell, "release", "x")
    assert TO_RELEASE - needed - PYTHON - BINDING == set()
