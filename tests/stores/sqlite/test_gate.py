"""The gate: one turn at a time, and a number that no damage to the file can turn into nonsense."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.domain.timestamps import FOREVER
from leasehold.stores.sqlite.gate import Gate
from leasehold.stores.sqlite.wal import COPIED, NO_LOG, Mark


def test_the_mark_is_what_was_written_last(tmp_path: Path) -> None:
    gate = Gate(str(tmp_path / "gate"))
    assert gate.mark() is None
    for mark in (Mark(1), Mark(12, 3, 4, 5, 6, 7, COPIED, b"5" * 32), Mark(FOREVER, FOREVER), Mark(3)):
        gate.set_mark(mark)
        assert gate.mark() == mark
    gate.sync()
    gate.close()
    gate.close()
    again = Gate(str(tmp_path / "gate"))
    assert again.mark() == Mark(3)
    again.close()


TEXT = b"%020d %020d %020d %020d %010d %010d %d %s" % (7, 1, 2, 3, 4, 5, 0, NO_LOG)
WHOLE = b"%s %08x\n" % (TEXT, int.from_bytes(TEXT, "big") % 0xFFFFFFFB)


def damaged(at: int, how: int) -> bytes:
    return WHOLE[:at] + bytes([WHOLE[at] ^ how]) + WHOLE[at + 1 :]


def test_a_whole_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "gate").write_bytes(WHOLE)
    gate = Gate(str(tmp_path / "gate"))
    assert gate.mark() == Mark(7, 1, 2, 3, 4, 5)
    gate.close()


@given(st.binary(max_size=250) | st.builds(damaged, st.integers(0, len(WHOLE) - 1), st.integers(1, 255)))
def test_damage_is_noticed_or_harmless(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "gate"
        path.write_bytes(content)
        gate = Gate(str(path))
        mark = gate.mark()
        assert mark is None
        gate.set_mark(Mark(7))
        assert gate.mark() == Mark(7)
        gate.close()


def test_it_is_readable_for_its_owner_only(tmp_path: Path) -> None:
    Gate(str(tmp_path / "gate")).close()
    assert (tmp_path / "gate").stat().st_mode & 0o777 == 0o600


def test_a_forked_child_does_not_keep_it_shut(tmp_path: Path) -> None:
    path = str(tmp_path / "gate")
    killed, after = Gate(path), Gate(path)
    killed.take()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # lives until the parent lets it go
        os._exit(0)
    try:
        os.close(reading)
        killed.close()  # as if the process had been killed: its own descriptors are gone, the child's are not
        thread = threading.Thread(target=after.take, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    finally:
        os.close(writing)
        os.waitpid(child, 0)
    after.release()
    after.close()


@pytest.mark.parametrize("closes", [True, False])
def test_a_child_does_not_open_it_for_others(tmp_path: Path, closes: bool) -> None:
    path = str(tmp_path / "gate")
    ours, theirs = Gate(path), Gate(path)
    ours.take()
    child = os.fork()
    if child == 0:
        if closes:
            ours.close()
        os._exit(0)
    os.waitpid(child, 0)
    entered = threading.Event()

    def enter() -> None:
        theirs.take()
        entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert not entered.is_set()
    ours.release()
    assert entered.wait(30)
    ours.close()
    theirs.close()
