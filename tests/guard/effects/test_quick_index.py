"""A picture by the copy of the index shows what git's own status shows, after whatever was done to the tree."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from leasehold.guard.effects import picture, quick_index
from leasehold.guard.effects.trees import around
from tests.guard.effects.repository import sh

if TYPE_CHECKING:
    from pathlib import Path

LONG = os.environ.get("LEASEHOLD_PROVE") == "1"
STEPS = 400 if LONG else 50
SEEDS = range(5) if LONG else range(1)
FOLDERS = ("", "src/", "new/", "new/deep/", "ignored/")
NAMES = ("a", "b", "held.py", "free.py", "x.log")
COMMANDS = (
    "git add -A",
    "git add -A; git commit -qm more --allow-empty",
    "git reset -q",
    "git reset -q --hard",
    "git stash -qu || true",
    "git stash pop -q || git checkout -q -f",
    "git clean -qfd",
    "git checkout -q -f feature",
    "git checkout -q -f main",
    "git mv src moved 2>/dev/null || git mv moved src 2>/dev/null || true",
    "rm -rf new; mkdir -p new/deep",
    "rm -rf src; ln -s new src",
    "rm -f src && git checkout -q -f",
    "git init -q new/inner",
    "mkdir -p new/deep; echo '*.log' > .gitignore",
    "echo ignored > .gitignore",
    "rm -f .gitignore",
    "echo b > new/.gitignore || true",
    "git update-index --assume-unchanged src/free.py || true",
    "git status",
)
"""What changes trees, indexes and what is ignored."""


@pytest.fixture(autouse=True)
def _every_index_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_index, "LARGE_BYTES", 1)


def pictures(root: Path, state: Path) -> tuple[picture.TreePicture, picture.TreePicture]:
    """Take a picture by the copy of the index, and one without it."""
    (tree, *_) = around([str(root)])
    (quick,) = picture.take([tree], state=str(state))
    (plain,) = picture.take([tree])
    return quick, plain


def copies(state: Path) -> set[str]:
    return {path.name for path in state.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_done_both_pictures_are_the_same(app: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for step in range(STEPS):
        done = []
        for _ in range(chance.randint(1, 3)):
            name = chance.choice(FOLDERS) + chance.choice(NAMES)
            done.append(
                chance.choice([chance.choice(COMMANDS), f"mkdir -p $(dirname {name}); echo {step % 10} > {name}"])
            )
            sh(f"{done[-1]} || true", app)
        quick, plain = pictures(app, tmp_path / "state")
        assert quick == plain, (step, done)
    assert sum(name.endswith(".index") for name in copies(tmp_path / "state")) == 1, "only the newest copy is kept"


def test_the_copy_is_used_until_the_index_changes(app: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    pictures(app, state)
    (first,) = copies(state)
    (app / "src" / "free.py").write_text("changed\n")
    pictures(app, state)
    assert copies(state) == {first}
    sh("git add -A", app)
    pictures(app, state)
    assert len(copies(state)) == 1
    assert copies(state) != {first}


def test_the_index_of_git_is_not_written(app: Path, tmp_path: Path) -> None:
    before = (app / ".git" / "index").read_bytes(), (app / ".git" / "index").stat()
    pictures(app, tmp_path / "state")
    pictures(app, tmp_path / "state")
    assert ((app / ".git" / "index").read_bytes(), (app / ".git" / "index").stat()) == before


def test_edits_of_the_same_size_beside_the_copying_are_seen(app: Path, tmp_path: Path) -> None:
    """Git stamps by seconds: what changes in the second of a status could look as it was ("racy" entries)."""
    for number in range(20):
        (app / "src" / "free.py").write_text("one\ntwo\nthree\n")
        sh("git add -A; git commit -qm again --allow-empty", app)
        pictures(app, tmp_path / "state")
        (app / "src" / "free.py").write_text(f"one\ntwo\nthre{number % 10}\n")
        (app / f"new{number}").write_text("")
        quick, plain = pictures(app, tmp_path / "state")
        assert quick == plain
        assert {"src/free.py", f"new{number}"} <= quick.states.keys()
        (app / f"new{number}").unlink()


def test_the_copy_is_as_old_as_the_begin_of_its_status(app: Path, tmp_path: Path) -> None:
    """So git compares by content what changed in the same second, however long the status took."""
    (app / ".gitattributes").write_text("*.py filter=slow\n")
    sh(f"git config filter.slow.clean 'touch {tmp_path}/during; cat'; git add -A; git commit -qm filter", app)
    (app / "src" / "free.py").write_text("one\ntwo\nthre3\n")
    (tmp_path / "during").unlink()
    (tree, *_) = around([str(app)])
    picture.take([tree], state=str(tmp_path / "state"))
    (copy,) = (tmp_path / "state").rglob("*.index")
    assert copy.stat().st_mtime_ns <= (tmp_path / "during").stat().st_mtime_ns


KINDS = ("git config index.skipHash true", "git update-index --untracked-cache", "git update-index --split-index")


@pytest.mark.parametrize("way", KINDS)
def test_other_kinds_of_indexes(app: Path, tmp_path: Path, way: str) -> None:
    sh(f"{way}; git add -A; git reset -q --hard", app)
    for text in ("1", "2"):
        (app / "src" / "free.py").write_text(text)
        (app / f"new{text}").write_text(text)
        quick, plain = pictures(app, tmp_path / "state")
        assert quick == plain
        assert {"src/free.py", f"new{text}"} <= quick.states.keys()


def test_a_directory_that_cannot_be_written_does_without_a_copy(app: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    quick, plain = pictures(app, tmp_path / "state")
    assert quick == plain
