"""What `make bench` measures can be measured: each benchmark once, briefly. No figure is judged here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as run_all
from benchmarks import readme, report
from benchmarks.__main__ import BENCHMARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that others may look into: run by root, PostgreSQL is another user."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_brief_run(name: str, folder: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--smoke", name]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": f"{HERE}:{HERE / 'src'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ratio ") >= 1
    assert "peer" in done.stdout


def test_a_benchmark_that_fails_is_told_and_the_others_are_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*, smoke: bool) -> list[report.Figure]:
        raise RuntimeError("no such server")

    def measures(*, smoke: bool) -> list[report.Figure]:
        return [report.at_least("cycles", "9", "6", 1.5, 0.5)]

    monkeypatch.setattr(run_all, "BENCHMARKS", {"one": fails, "two": measures})
    monkeypatch.setattr(run_all, "WRITTEN", folder / "run")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--smoke", "one", "two"])
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run_all.main() == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "NOT MEASURED, see above: one " in capsys.readouterr().err
    assert list(json.loads((folder / "run.json").read_text())["benchmarks"]) == ["two"]


def test_each_benchmark_is_documented() -> None:
    told = (HERE / "docs" / "explanation" / "benchmarks.md").read_text(encoding="utf-8")
    assert [name for name in BENCHMARKS if f"\n| `{name}` |" not in told] == []


def test_the_figures_of_a_run_replace_those_of_the_readme_and_nothing_else() -> None:
    figure = report.at_least("HTTP, 64 connections", "9 cycles/s", "Redis 6 cycles/s", 1.5, 0.5)
    run = {"on": "2026-11-20", "commit": "c0ffee", "subject": "Leasehold", "machine": "2 processors"}
    page = (HERE / "README.md").read_text(encoding="utf-8")
    told = readme.with_figures(page, {**run, "benchmarks": {"http": [figure._asdict()]}})
    between = told.partition(readme.BEGIN)[2].partition(readme.END)[0]
    assert "commit `c0ffee`" in between
    assert between.rstrip().endswith("| HTTP, 64 connections | 9 cycles/s | Redis 6 cycles/s | 1.50 |")
    assert told.partition(readme.BEGIN)[0] == page.partition(readme.BEGIN)[0]
    assert told.partition(readme.END)[2] == page.partition(readme.END)[2]


def test_what_the_readme_shows_is_measured() -> None:
    assert [name for name in readme.SHOWN if name not in BENCHMARKS] == []


def test_a_run_says_when_it_was_and_of_which_commit(tmp_path: Path) -> None:
    report.write_json(tmp_path / "run.json", {})
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["on"].startswith("20")
    assert {"commit", "subject", "machine", "benchmarks"} <= run.keys()
