"""The commands of the README on a fresh machine: a new clone, a new home, where only one user may enter.

Its path has blanks and letters beyond ASCII, too. The clone has what is committed, and an environment of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from tests.kit.serving import until
from tests.kit.shell import ROOT, heed_signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE = 900.0
"""Packages may have to be fetched."""
SMOKE = (
    "tests/stores/postgres/test_transactions.py",
    "tests/stores/etcd/test_restore.py",
    "tests/stores/git/test_refs.py",
    "tests/project/test_demo.py",
)
MOST_FOR_THE_DEMO = 100_000_000
"""Bytes in the environment of `make run`: a newcomer fetches no compilers, browsers or databases to see it work."""
MARK = "FRESH_CLONE"
"""In the environment of every process that is started in the clone."""
NO_CHECKOUT = (
    "NOT RUN: this is not a git checkout, so `make test` and `make run` were not tried in a fresh clone. "
    "Run the tests from a clone of the repository."
)

pytestmark = pytest.mark.timeout(2 * PATIENCE)


class Fresh:
    """A clone in which nobody has done anything yet."""

    def __init__(self, clone: Path, env: Mapping[str, str]) -> None:
        self.clone = clone
        self._env = env

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Type this there."""
        return subprocess.Popen(
            words,
            cwd=self.clone,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=heed_signals,  # noqa: PLW1509 (before it has any threads)
        )

    def run(self, *words: str) -> str:
        """What this prints; it must succeed."""
        with self.start(*words) as process:
            said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
        return said

    def processes(self) -> list[str]:
        """Everything that still runs and was started here."""
        mark = f"{MARK}={self._env[MARK]}".encode()
        return [each.parent.name for each in Path("/proc").glob("[0-9]*/environ") if mark in _read(each).split(b"\0")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


@contextmanager
def _everybody_s() -> Iterator[Path]:
    """A directory for temporary files that all users may enter, as /tmp is; and so that we see what stays there."""
    made = Path(tempfile.mkdtemp(prefix="leasehold-fresh-", dir="/tmp"))
    made.chmod(0o1777)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip(NO_CHECKOUT)
    closed = tmp_path_factory.mktemp("closed")
    closed.chmod(0o700)
    clone, home = closed / "Größe und Raum" / "leasehold", closed / "home"
    home.mkdir()
    subprocess.run([git, "clone", "--quiet", str(ROOT), str(clone)], check=True)
    cache = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], check=True, capture_output=True, text=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "PYTEST_", "VIRTUAL"))
    }
    kept.pop("PYTHONPATH", None)
    with _everybody_s() as temporary:
        own = {"HOME": str(home), "TMPDIR": str(temporary), "PIP_CACHE_DIR": cache.stdout.strip(), MARK: str(clone)}
        made = Fresh(clone, {**kept, **own})
        yield made
        assert [each.name for each in temporary.glob("leasehold-*")] == []
        assert made.processes() == []


def test_make_run_answers_there_and_installs_no_more_than_it_needs(fresh: Fresh) -> None:
    with fresh.start("make", "run") as running:
        try:
            url = _address(running)
            with urlopen(url, timeout=PATIENCE) as page:
                assert b"<title>Leasehold</title>" in page.read()
            here = (".venv/bin/leasehold", "acquire", "issue:first", "--url", url)
            assert fresh.run(*here, "--holder", "newcomer").startswith("Acquired issue:first")
        finally:
            os.killpg(running.pid, signal.SIGINT)
        assert "Stopped." in running.communicate(timeout=PATIENCE)[0]
    until(lambda: not fresh.processes())
    assert _size(fresh.clone / ".venv") < MOST_FOR_THE_DEMO


def test_the_command_that_the_readme_types_starts_there(fresh: Fresh) -> None:
    fresh.run("make", ".venv/.runs")
    assert fresh.run(".venv/bin/leasehold", "--version").startswith("leasehold ")
    assert fresh.run("env", "LC_ALL=C", ".venv/bin/leasehold", "--version").startswith("leasehold ")


def test_make_test_passes_there(fresh: Fresh) -> None:
    said = fresh.run("make", "test", "WORKERS=2", f"TESTS={' '.join(SMOKE)}")
    assert " passed" in said
    assert fresh.processes() == []


def _size(folder: Path) -> int:
    return sum(each.lstat().st_size for each in folder.rglob("*"))


def _address(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line)
        if "Leasehold is running:" in line:
            return line.split()[-1]
    raise AssertionError("".join(said))
