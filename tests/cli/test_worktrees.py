"""`leasehold worktree`: a checkout, a name and values for each agent, and their return without losing work."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

import leasehold
from tests.kit.shell import Done, Shell, until

if TYPE_CHECKING:
    from pathlib import Path

PORT = "PORT=pool://ports/3000-3001"


class Project:
    """A repository, and commands that run somewhere in it."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.root = shell.home / "app"
        self.root.mkdir()
        self.git("init", "--quiet", "-b", "main")
        (self.root / "a.txt").write_text("one\n")
        self.commit(self.root)

    def git(self, *words: str, at: Path | None = None) -> str:
        env = {**self.shell.env(), "GIT_CONFIG_GLOBAL": os.devnull}
        for who in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{who}_NAME": "ada", f"GIT_{who}_EMAIL": "ada@example.org"}
        return subprocess.run(
            ["git", "-C", str(at or self.root), *words], env=env, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, at: Path) -> None:
        self.git("add", ".", at=at)
        self.git("commit", "--quiet", "-m", "a change", at=at)

    def __call__(self, *words: str, at: Path | None = None, holder: str | None = None) -> Done:
        home, self.shell.home = self.shell.home, at or self.root
        try:
            return self.shell.call(*words, holder=holder)
        finally:
            self.shell.home = home

    @property
    def url(self) -> str:
        return f"sqlite://{self.root}/.git/leasehold/leasehold.db"

    def shell_locks(self) -> leasehold.Locks:
        """The same store, through the Python API."""
        return leasehold.connect(self.url, holder="outside")

    def tree(self, name: str) -> Path:
        return self.root.parent / f"app-{name}"

    def held(self) -> dict[str, str]:
        """Every holder by the resource."""
        leases = self("list", "--json").said["data"]["leases"]
        return {each["resources"][0]: each["holder"] for each in leases}


@pytest.fixture
def project(shell: Shell) -> Project:
    return Project(shell)


def test_a_worktree_has_a_branch_an_agent_and_values(project: Project) -> None:
    made = project("worktree", "add", "coder-1", "--value", PORT, "--value", "DB=pool://db/a,b")
    assert made.code == 0, made
    assert "PORT=3000" in made.out
    tree = project.tree("coder-1")
    assert project.git("branch", "--show-current", at=tree) == "coder-1"
    assert project("worktree", "env", at=tree).out.splitlines() == [
        "export LEASEHOLD_HOLDER=coder-1",
        "export PORT=3000",
        "export DB=a",
    ]
    assert project("acquire", "path:a.txt", at=tree).code == 0
    assert project.held() == {"pool://ports/3000": "coder-1", "pool://db/a": "coder-1", "path:a.txt": "coder-1"}
    assert project("acquire", "issue:1", at=tree, holder="ada").out.splitlines()[1].split() == ["holder", "ada"]
    assert project.git("status", "--porcelain", at=tree) == ""


def test_its_files_are_private(project: Project) -> None:
    project("worktree", "add", "coder-1", "--value", PORT)
    private = project.root / ".git" / "worktrees" / "app-coder-1"
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in private.glob("leasehold*")}
    assert found == {"leasehold.toml": 0o600, "leasehold-worktree.json": 0o600}
    said = project("worktree", "list", "--json").out + project("worktree", "env", "coder-1", "--json").out
    assert '"token"' not in said


def test_no_value_is_given_twice_and_a_refusal_changes_nothing(project: Project) -> None:
    said = [project("worktree", "add", f"coder-{number}", "--value", PORT) for number in (1, 2, 3)]
    assert [each.code for each in said] == [0, 0, 4]
    assert "Next: wait until a member is free" in said[2].err
    assert not project.tree("coder-3").exists()
    assert project.git("branch", "--list", "coder-3") == ""
    taken = project("worktree", "add", "coder-3", "--value", "DB=pool://db/a", "--branch", "main")
    assert taken.code == 1
    assert "already" in taken.err
    assert project.held() == {"pool://ports/3000": "coder-1", "pool://ports/3001": "coder-2"}


def test_adding_it_again_renews_what_is_there_and_takes_what_was_lost(project: Project) -> None:
    project("worktree", "add", "coder-1", "--value", PORT, "--ttl", "1h")
    again = project("worktree", "add", "coder-1", "--value", PORT, "--value", "DB=pool://db/a", "--ttl", "2h", "--json")
    leases = again.said["data"]["leases"]
    assert [each["fence"] for each in leases] == [1, 2]
    assert all(each["expires_in_seconds"] > 3_600 for each in leases)
    with project.shell_locks() as locks:
        assert locks.force_release("pool://ports/3000", by="ops", reason="a test")
    shown = project("worktree", "list").out
    assert "PORT=expired" in shown
    with project.shell_locks() as locks:
        assert locks.acquire("pool://ports/3000", ttl=600)
    assert project("worktree", "env", "coder-1").out.splitlines()[1:] == ["export DB=a", "export PORT=3001"]
    assert project("worktree", "add", "coder-1", "--branch", "other").code == 2
    assert project("worktree", "add", "coder-1", "--value", "PORT=pool://others/1").code == 2


def test_a_list_says_who_overlaps_with_whom(project: Project) -> None:
    for name in ("coder-1", "coder-2"):
        project("worktree", "add", name)
    project("acquire", "path:a.txt", at=project.tree("coder-1"))
    env = {"LEASEHOLD_URL": project.url}
    waiter = project.shell.start("acquire", "path:a.txt", "--wait", "1m", holder="coder-2", env=env)
    until(lambda: "waits" in project("worktree", "list").out)
    found = {each["agent"]: each for each in project("worktree", "list", "--json").said["data"]["worktrees"]}
    overlap = {"resource": "path:a.txt", "other": "path:a.txt"}
    assert found["coder-1"]["overlaps"] == [overlap | {"holder": "coder-2", "state": "blocks"}]
    assert found["coder-2"]["overlaps"] == [overlap | {"holder": "coder-1", "state": "waits"}]
    assert [each["resources"] for each in found["coder-1"]["leases"]] == [["path:a.txt"]]
    waiter.kill()


def test_a_plan_is_announced_shown_and_turned_into_leases(project: Project) -> None:
    project("worktree", "add", "coder-1", "--plan", "path:src/parser", "--plan", "issue:1")
    second = project("worktree", "add", "coder-2", "--plan", "path:src")
    assert "careful: coder-1 plans path:src/parser" in second.out
    assert project("acquire", "path:src/parser", at=project.tree("coder-1")).code == 0
    found = {each["agent"]: each for each in project("worktree", "list", "--json").said["data"]["worktrees"]}
    assert (found["coder-1"]["plan"], found["coder-1"]["overlaps"]) == (["issue:1"], [])
    overlap = {"resource": "path:src", "other": "path:src/parser", "holder": "coder-1", "state": "held"}
    assert found["coder-2"]["overlaps"] == [overlap]
    assert project("worktree", "env", "coder-1", "--json").said["data"]["plan"] == ["issue:1"], "it is renewed"
    assert project("worktree", "remove", "coder-1").code == 0
    with project.shell_locks() as locks:
        plans = locks.plans()
    assert isinstance(plans, tuple)
    assert [each.holder for each in plans] == ["coder-2"], "it ends with its worktree"


def test_remove_gives_everything_back(project: Project) -> None:
    project("worktree", "add", "coder-1", "--value", PORT)
    tree = project.tree("coder-1")
    project("acquire", "path:a.txt", at=tree)
    inside = project("worktree", "remove", "coder-1", at=tree)
    assert (inside.code, "that you are in\nNext: leave it" in inside.err) == (2, True)
    removed = project("worktree", "remove", "coder-1")
    assert (removed.code, "2 leases released" in removed.out) == (0, True), removed
    assert not tree.exists()
    assert project.held() == {}
    assert project.git("branch", "--list", "coder-1") == "coder-1"
    assert project("worktree", "remove", "coder-1").code == 3
    assert project("worktree", "add", "coder-1").code == 0, "with the branch that is there"


@pytest.mark.parametrize("how", ["changed", "untracked", "staged", "detached"])
def test_remove_loses_no_work_unless_it_is_told_to(project: Project, how: str) -> None:
    project("worktree", "add", "coder-1", "--value", PORT)
    tree = project.tree("coder-1")
    if how == "detached":
        project.git("switch", "--quiet", "--detach", at=tree)
    (tree / ("b.txt" if how == "untracked" else "a.txt")).write_text("two\n")
    if how == "staged":
        project.git("add", ".", at=tree)
    if how == "detached":
        project.commit(tree)
    refused = project("worktree", "remove", "coder-1")
    assert (refused.code, "has what no branch has" in refused.err) == (1, True)
    assert project("worktree", "remove", "coder-1", "--json").said["error"]["code"] == "unsaved"
    assert tree.exists()
    assert project.held() == {"pool://ports/3000": "coder-1"}
    removed = project("worktree", "remove", "coder-1", "--discard")
    assert (removed.code, "Discarded: " in removed.out) == (0, True)
    assert project.held() == {}


def test_an_agent_that_still_works_keeps_its_worktree(project: Project) -> None:
    project("worktree", "add", "coder-1")
    env = {"LEASEHOLD_URL": project.url}
    run = project.shell.start("run", "issue:1", "--", "sleep", "60", holder="coder-1", env=env)
    until(lambda: "issue:1" in project.held())
    refused = project("worktree", "remove", "coder-1")
    assert (refused.code, "still works: it holds issue:1" in refused.err) == (1, True)
    assert project.tree("coder-1").exists()
    run.terminate()
    run.wait()
    assert project("worktree", "remove", "coder-1").code == 0


def test_a_directory_that_is_gone_already_is_removed_all_the_same(project: Project) -> None:
    project("worktree", "add", "coder-1", "--value", PORT)
    subprocess.run(["rm", "-r", str(project.tree("coder-1"))], check=True)
    assert project("worktree", "remove", "coder-1").code == 0
    assert project.held() == {}


@pytest.mark.parametrize(
    "words",
    [
        ("add", "../up"),
        ("add", "-x"),
        ("add", "a..b"),
        ("add", "x", "--value", "PORT"),
        ("add", "x", "--value", "1=pool://p/1"),
        ("add", "x", "--value", "PORT=path:a"),
        ("add", "x", "--value", "PORT=pool://p/3-1"),
        ("add", "x", "--value", PORT, "--value", PORT),
        ("add", "x", "--value", PORT, "--plan", "path:../up"),
        ("add", "x", "--value", PORT, "--plan", "pool://p/1"),
        ("add", "x", "--ttl", "soon", "--value", PORT),
        ("add", "x", "--branch", "main", "--from", "HEAD"),
    ],
)
def test_a_wrong_word_is_refused_and_changes_nothing(project: Project, words: tuple[str, ...]) -> None:
    done = project("worktree", *words)
    assert done.code == 2, done
    assert project.held() == {}
    assert project("worktree", "list").out == "No worktrees beside the main one.\n"


def test_outside_of_a_repository_and_of_a_worktree_the_way_is_named(project: Project) -> None:
    outside = project("worktree", "list", at=project.shell.home)
    assert (outside.code, "git repository" in outside.err) == (2, True)
    project.git("worktree", "add", "--quiet", "../plain")
    assert "(no branch)" not in project("worktree", "list").out
    plain = project("worktree", "env", at=project.root.parent / "plain")
    assert (plain.code, "leasehold worktree list" in plain.err) == (3, True)


def test_a_space_that_was_given_counts_in_the_worktree(project: Project) -> None:
    project("worktree", "add", "coder-1", "--value", PORT, "--space", "team")
    assert project("worktree", "env", at=project.tree("coder-1")).out.endswith("export PORT=3000\n")
    listed = project("list", "--space", "team", "--json").said["data"]["leases"]
    assert [each["resources"] for each in listed] == [["pool://ports/3000"]]
    assert project("worktree", "remove", "coder-1", "--space", "team").code == 0
