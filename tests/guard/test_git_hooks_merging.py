"""Merges against what others hold, with real git: what is only taken over is not a change, all else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.guard import git_changes as asking
from leasehold.guard import git_changes as merging
from tests.kit.repositories import Repository

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


class Team(Repository):
    """Ada holds `a.py` and has pushed a change of it; Bob has changed `b.py` meanwhile and has yet to merge."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.run("leasehold", "install", "git")
        self.policy("require")
        for name in ("a.py", "b.py", "c.py"):
            self.change(name, "one")
        self.commit()
        self.run("git", "push", "origin", "main")
        self.held = self.hold("path:a.py", "ada")
        self.change("a.py", "two")
        self.commit(holder="ada")
        self.run("git", "push", "origin", "main", holder="ada")
        self.run("git", "checkout", "--quiet", "-b", "bobs", "HEAD~1")
        self.change("b.py", "two")
        self.commit(holder="bob")

    def merge(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("git", "merge", "--no-edit", *words, "main", holder="bob", code=code)

    def push(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("git", "push", "origin", *words, "bobs:main", holder="bob", code=code)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


@pytest.mark.parametrize("words", [(), ("--no-verify",)])
def test_what_its_holder_has_pushed_can_be_merged_and_pushed_on(team: Team, words: tuple[str, ...]) -> None:
    for done in (team.merge(*words), team.push(*words)):
        assert "leasehold" not in done.stderr


def test_what_its_holder_has_pushed_is_taken_by_the_server_in_a_merge(team: Team) -> None:
    team.run("leasehold", "install", "git", "--server", cwd=team.remote)
    team.merge()
    team.push()


def test_what_a_merge_adds_to_it_is_a_change(team: Team) -> None:
    team.merge("--no-commit")
    team.change("a.py", "three")
    assert "held by ada" in team.commit(holder="bob", code=1).stderr
    team.run("git", "commit", "--message", "merged by somebody")
    assert "held by ada" in team.push(code=1).stderr


def test_a_merge_that_drops_it_is_a_change(team: Team) -> None:
    assert "held by ada" in team.merge("--strategy=ours", code=1).stderr
    team.run("git", "commit", "--message", "merged by somebody")
    assert "held by ada" in team.push(code=1).stderr
    team.run("leasehold", "install", "git", "--server", cwd=team.remote)
    assert "held by ada" in team.push("--no-verify", code=1).stderr


def test_a_conflict_is_a_change_however_it_is_settled(team: Team) -> None:
    team.run("git", "reset", "--quiet", "--hard")
    team.change("a.py", "otherwise")
    team.commit()  # by a person, who is warned only
    team.merge(code=1)
    for side in ("--ours", "--theirs"):
        team.run("git", "checkout", side, "a.py")
        team.run("git", "add", "a.py")
        assert "held by ada" in team.commit(holder="bob", code=1).stderr


def test_a_merge_of_three_counts_with_all_that_it_has(team: Team) -> None:
    team.run("git", "checkout", "--quiet", "-b", "carols", "main~1")
    team.change("c.py", "two")
    team.commit(holder="carol")
    team.run("git", "checkout", "--quiet", "bobs")
    assert "held by ada" in team.merge("carols", code=1).stderr


def test_more_merges_than_can_be_looked_into_count_with_all_that_they_have(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.merge()
    team.run("git", "merge", "--quiet", "main")
    new = team.run("git", "rev-parse", "HEAD").stdout.strip()
    old = team.run("git", "rev-parse", "main").stdout.strip()
    monkeypatch.chdir(team.root)
    line = f"refs/heads/bobs {new} refs/heads/main {old}\n"
    assert asking.pushed(line) == ["b.py"]
    monkeypatch.setattr(asking, "MERGES", 0)
    assert set(asking.pushed(line)) == {"a.py", "b.py"}


@pytest.mark.parametrize(
    ("unlike_one", "unlike_other", "by_one", "by_other", "is_changed"),
    [
        ("", "f", "f", "", False),  # one side's, taken over
        ("f", "", "", "f", False),  # the other's
        ("", "", "f", "f", False),  # both did the same
        ("f", "", "f", "", True),  # one side's, dropped
        ("", "f", "", "f", True),  # the other's
        ("f", "", "f", "f", True),  # both did something, and one of it was taken
        ("f", "f", "f", "f", True),  # both did something, and both was joined
        ("f", "f", "", "", True),  # nobody's
        ("f", "f", "f", "", True),  # one side's, and more
    ],
)
def test_what_a_merge_changes_by_itself(
    unlike_one: str, unlike_other: str, by_one: str, by_other: str, *, is_changed: bool
) -> None:
    found = merging.changed_by_itself(set(unlike_one), set(unlike_other), set(by_one), set(by_other))
    assert found == ({"f"} if is_changed else set())
