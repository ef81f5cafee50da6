"""What comes with an old fence is refused: by a guard, a header, SQL; and the story of the paused process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import leasehold
from leasehold import fencing
from leasehold.domain.outcomes import Granted
from leasehold.domain.timestamps import FOREVER
from leasehold.errors import InvalidInput, LeaseholdError, StaleFence
from leasehold.fencing import Guard, check_header, header

BAD_FENCES = [0, -1, FOREVER + 1, True, 1.0, "7", None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


# ---------------------------------------------------------------------------------------------------- a file


def test_a_guard_remembers_the_largest_fence(path: Path) -> None:
    guard = Guard(path)
    assert guard.highest == 0
    guard.check(7)
    guard.check(7)
    guard.check(9)
    with pytest.raises(StaleFence) as caught:
        guard.check(8)
    assert (caught.value.fence, caught.value.highest) == (8, 9)
    assert Guard(str(path)).highest == 9, "it is on disk"
    assert not path.exists()


def test_a_stale_write_changes_nothing(path: Path) -> None:
    guard = Guard(path)
    guard.write('{"version": "ü"}', 7)
    assert path.read_bytes() == '{"version": "ü"}'.encode()
    guard.write(b"\x00new", 9)
    with pytest.raises(StaleFence):
        guard.write(b"old", 8)
    assert path.read_bytes() == b"\x00new"
    assert {each.name for each in path.parent.iterdir()} == {"state.json", "state.json.fence", "state.json.fence.lock"}


def test_a_block_of_several_steps(path: Path) -> None:
    path.write_text("1")
    guard = Guard(path)
    with guard.admitted(7):
        path.write_text(str(int(path.read_text()) + 1))
    assert path.read_text() == "2"
    with pytest.raises(StaleFence), guard.admitted(6):
        raise AssertionError("it must not run")


def test_the_file_keeps_its_mode_and_its_link(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o640)
    link = path.with_name("link.json")
    link.symlink_to(path)
    Guard(link).write("new", 7)
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert Guard(path).highest == 7, "one file, one guard, whatever it is called"


@pytest.mark.parametrize("text", ["", "seven", "-7", "7.0", "²", "9" * 40])
def test_a_damaged_file_of_fences_refuses_every_write(path: Path, text: str) -> None:
    path.with_name("state.json.fence").write_text(text)
    with pytest.raises(LeaseholdError, match="damaged"):
        Guard(path).write("new", 7)
    assert not path.exists()


@pytest.mark.parametrize("fence", BAD_FENCES)
def test_a_value_that_is_no_fence_is_refused(path: Path, fence: int) -> None:
    with pytest.raises(InvalidInput, match="fence"):
        Guard(path).check(fence)
    with pytest.raises(InvalidInput, match="fence"):
        header(fence)


def test_a_crash_before_the_change_still_keeps_old_holders_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(path)
    guard.write("first", 7)
    replace, calls = fencing._replace, list[str]()

    def crash(where: Path, data: bytes) -> None:
        calls.append(where.name)
        if where == path:
            raise OSError("no space left on device")
        replace(where, data)

    monkeypatch.setattr(fencing, "_replace", crash)
    with pytest.raises(OSError, match="no space"):
        guard.write("second", 9)
    assert calls == ["state.json.fence", "state.json"]
    assert path.read_text() == "first"
    with pytest.raises(StaleFence):
        guard.write("late", 8)


def write_many(path: Path, fences: range) -> None:
    for fence in fences:
        try:
            Guard(path).write(f"{fence}\n" * 500, fence)
        except StaleFence as error:
            if error.highest <= fence:
                raise


def test_many_processes_and_threads_at_once(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_many, args=(path, range(1 + first, 121, 3))) for first in range(3)]
    threads = [threading.Thread(target=write_many, args=(path, range(first, 121, 2))) for first in (1, 2)]
    for process in processes:
        process.start()
    for thread in threads:
        thread.start()
    for process in processes:
        process.join()
    for thread in threads:
        thread.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert path.read_text() == "120\n" * 500, "the last one, and whole"
    assert Guard(path).highest == 120


# ------------------------------------------------------------------------------------------------- elsewhere


def test_a_header(path: Path) -> None:
    assert header(42) == {"Leasehold-Fence": "42"}
    assert check_header(header(42)[fencing.HEADER], 41) == 42
    assert check_header(" 42 ", 42) == 42
    with pytest.raises(StaleFence, match="Leasehold-Fence has seen fence 43") as caught:
        check_header("42", 43)
    assert caught.value.highest == 43


@pytest.mark.parametrize("value", [None, "", "x", "-1", "+1", "0", "4 2", "4.0", "²", "9" * 16, "9" * 5000])
def test_a_header_that_is_missing_or_wrong(value: str | None) -> None:
    with pytest.raises(InvalidInput, match="Leasehold-Fence"):
        check_header(value, 0)


def test_the_sql_update() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE deployment (id integer PRIMARY KEY, version text)")
        connection.execute("INSERT INTO deployment (id, version) VALUES (1, 'v0')")
        connection.execute(fencing.POSTGRESQL_COLUMN)
        changed = [
            connection.execute(fencing.POSTGRESQL_UPDATE, {"id": 1, "version": version, "fence": fence}).rowcount
            for version, fence in [("v1", 7), ("v2", 9), ("v1 again", 8), ("v3", 9)]
        ]
        assert changed == [1, 1, 0, 1]
        assert connection.execute("SELECT version, fence FROM deployment").fetchall() == [("v3", 9)]
    finally:
        connection.close()
    page = Path(__file__).parents[2].joinpath("docs", "how-to", "fencing.md").read_text()
    assert f"{fencing.POSTGRESQL_COLUMN}\n{fencing.POSTGRESQL_UPDATE}" in page
    for part in (fencing.POSTGRESQL_COLUMN, fencing.POSTGRESQL_UPDATE, fencing.POSTGRESQL_TRIGGER):
        assert part in fencing.POSTGRESQL


def test_the_error_survives_pickling() -> None:
    error = StaleFence(7, 9, "state.json")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.fence, copy.highest, copy.what, copy.code) == (7, 9, "state.json", "stale_fence")
    assert str(copy) == str(error)
    assert leasehold.StaleFence is StaleFence


# ----------------------------------------------------------------------------------------- the paused process

PAUSED = """
import sys, leasehold
from leasehold.fencing import Guard

url, path = sys.argv[1:]
locks = leasehold.connect(url, holder="sleeper")
try:
    with locks.lock("deploy://api", ttl=1) as lease:
        print(lease.fence, flush=True)
        sys.stdin.readline()             # stopped here for longer than the TTL, and nobody told it
        try:
            Guard(path).write("from the sleeper", lease.fence)
        except leasehold.StaleFence as error:
            print("refused", error.fence, error.highest, flush=True)
        lease.ensure()
except leasehold.LeaseLost as error:
    print("lost", error.reason, flush=True)
locks.close()
"""


def test_a_process_that_was_paused_beyond_its_ttl_is_refused(tmp_path: Path, path: Path) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    child = subprocess.Popen(
        [sys.executable, "-c", PAUSED, url, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            assert child.stdout is not None
            old = int(child.stdout.readline())
            child.send_signal(signal.SIGSTOP)
            with leasehold.connect(url, holder="awake") as locks:
                outcome = locks.acquire("deploy://api", ttl=60, wait=60)
                assert isinstance(outcome, Granted)
                assert outcome.lease.fence > old
                Guard(path).write("from the one awake", outcome.lease.fence)
            child.send_signal(signal.SIGCONT)
            told, _ = child.communicate("\n", timeout=60)
        finally:
            child.kill()
    refused, lost = told.splitlines()
    assert refused == f"refused {old} {outcome.lease.fence}"
    assert lost in ("lost not renewed in time", "lost expired")
    assert path.read_text() == "from the one awake"
