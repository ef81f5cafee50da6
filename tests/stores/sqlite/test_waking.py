"""Wake-ups between processes on one file reach one engine alone, and trust no FIFO of another user."""

from __future__ import annotations

import _thread
import os
import socket
import stat
import threading
import time
from typing import TYPE_CHECKING

import pytest

from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.waking import ENDING, STALE
from leasehold.testing.conformance.asking import until

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60.0
OURS, THEIRS = "e0a", "e0b"
NOBODY = 65_534
"""The user id of another user."""
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / f"locks.db{ENDING}"


def test_a_wake_up_reaches_the_engine_that_it_is_for_and_no_other(
    store: SqliteStore, other: SqliteStore, tmp_path: Path
) -> None:
    ours, theirs = threading.Event(), threading.Event()
    assert store.listen(OURS, ours.set)
    assert other.listen(THEIRS, theirs.set)
    third = SqliteStore(str(tmp_path / "locks.db"))
    third.wake([OURS])
    assert ours.wait(PATIENCE)
    assert not theirs.is_set()
    third.wake([THEIRS, "e0c"])  # nobody is called e0c
    assert theirs.wait(PATIENCE)
    third.close()


def test_the_fifo_is_private(store: SqliteStore, place: Path) -> None:
    assert store.listen(OURS, lambda: None)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE((place / OURS).stat().st_mode) == 0o600


def test_a_closed_store_leaves_no_fifo_and_no_thread(store: SqliteStore, place: Path) -> None:
    before = _thread._count()  # type: ignore[attr-defined, unused-ignore]
    assert store.listen(OURS, lambda: None)
    until(lambda: _thread._count() == before + 1, "it listens")  # type: ignore[attr-defined, unused-ignore]
    store.close()
    assert list(place.iterdir()) == []
    until(lambda: _thread._count() == before, "its thread has ended")  # type: ignore[attr-defined, unused-ignore]


def test_a_fifo_without_a_reader_is_removed_by_the_next_wake_up(store: SqliteStore, place: Path) -> None:
    place.mkdir(0o700)
    os.mkfifo(place / THEIRS, 0o600)
    store.wake([THEIRS])
    assert list(place.iterdir()) == []


def test_fifos_of_killed_processes_are_removed_after_a_while(store: SqliteStore, place: Path) -> None:
    place.mkdir(0o700)
    for name, age in (("e0old", STALE + 60), ("e0new", 0.0)):
        os.mkfifo(place / name, 0o600)
        os.utime(place / name, (time.time() - age,) * 2)
    assert store.listen(OURS, lambda: None)
    assert sorted(each.name for each in place.iterdir()) == [OURS, "e0new"]


def test_the_fifo_of_a_process_that_waits_for_long_stays(store: SqliteStore, other: SqliteStore, place: Path) -> None:
    told = threading.Event()
    assert store.listen(OURS, told.set)
    os.utime(place / OURS, (time.time() - 2 * STALE,) * 2)
    assert other.listen(THEIRS, lambda: None)
    other.wake([OURS])
    assert told.wait(PATIENCE)


def test_nothing_but_a_fifo_is_written_to(store: SqliteStore, place: Path, tmp_path: Path) -> None:
    place.mkdir(0o700)
    target = tmp_path / "precious"
    target.write_text("precious")
    (place / "e0file").write_text("")
    (place / "e0link").symlink_to(target)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(place / "e0sock"))
        store.wake(["e0file", "e0link", "e0sock", "../precious", ""])
    assert target.read_text() == "precious"
    assert (place / "e0file").read_text() == ""


@is_root
@pytest.mark.parametrize(("owner", "mode", "is_rung"), [(0, 0o600, True), (NOBODY, 0o600, False), (0, 0o602, False)])
def test_a_fifo_of_another_user_is_not_written_to(
    store: SqliteStore, place: Path, owner: int, mode: int, is_rung: bool
) -> None:
    place.mkdir(0o700)
    os.mkfifo(place / THEIRS)
    (place / THEIRS).chmod(mode)
    os.chown(place / THEIRS, owner, owner)
    fd = os.open(place / THEIRS, os.O_RDWR | os.O_NONBLOCK)
    store.wake([THEIRS])
    if is_rung:
        assert os.read(fd, 9) == b"\1"
    else:
        with pytest.raises(BlockingIOError):
            os.read(fd, 9)
    os.close(fd)


def test_something_planted_in_place_of_ours_is_refused(store: SqliteStore, place: Path) -> None:
    place.mkdir(0o700)
    os.mkfifo(place / OURS, 0o600)
    assert not store.listen(OURS, lambda: None)
    assert stat.S_ISFIFO((place / OURS).lstat().st_mode)  # and left alone


def test_a_planted_directory_is_refused(store: SqliteStore, place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    place.symlink_to(elsewhere)
    assert not store.listen(OURS, lambda: None)
    assert list(elsewhere.iterdir()) == []
    place.unlink()
    place.write_text("")
    assert not store.listen(OURS, lambda: None)


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_directory_that_others_can_write_is_refused(store: SqliteStore, place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    assert not store.listen(OURS, lambda: None)


@is_root
def test_a_directory_of_another_user_is_refused(store: SqliteStore, place: Path) -> None:
    place.mkdir(0o700)
    os.chown(place, NOBODY, NOBODY)
    assert not store.listen(OURS, lambda: None)


def test_in_a_shared_directory_the_group_can_wake(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    store = SqliteStore(str(tmp_path / "locks.db"))
    assert store.listen(OURS, lambda: None)
    place = tmp_path / f"locks.db{ENDING}"
    assert stat.S_IMODE(place.stat().st_mode) == 0o2770
    assert stat.S_IMODE((place / OURS).stat().st_mode) == 0o660
    store.close()
