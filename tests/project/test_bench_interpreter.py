"""`make bench` measures on a Python as people have it, if there is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.interpreter import Python, ask, base, choose, others

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Python("own", (3, 12), is_plain=True)
TUNED = Python("own", (3, 12), is_plain=False)
NEWER = Python("newer", (3, 13), is_plain=False)
SAME = Python("same", (3, 12), is_plain=False)
SLOW = Python("slow", (3, 12), is_plain=True)


@pytest.mark.parametrize(
    ("own", "there", "expected"),
    [
        (TUNED, [SAME], "own"),
        (PLAIN, [], "own"),
        (PLAIN, [SLOW], "own"),
        (PLAIN, [SLOW, NEWER], "newer"),
        (PLAIN, [NEWER, SAME], "same"),
    ],
)
def test_another_is_taken_only_if_it_is_better(own: Python, there: list[Python], expected: str) -> None:
    known = {python.path: python for python in (own, *there)}
    assert choose("own", [*(python.path for python in there), "cannot compile"], known.get) == expected


def test_a_python_reports_its_version(tmp_path: Path) -> None:
    ours = ask(sys.executable)
    if ours is not None:  # it can compile
        assert ours.version == sys.version_info[:2]
    assert all(path != "" for path in (base(), *others()))
    none = tmp_path / "python3"
    none.write_text("#!/bin/sh\nexit 3\n")
    none.chmod(0o755)
    assert ask(str(none)) is None
    assert ask(str(tmp_path / "nothing")) is None
