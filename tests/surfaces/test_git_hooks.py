"""Commits and pushes against what others hold, with real git: in a clone, a worktree, and beside others' hooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import leasehold


class Repository:
    """A clone with Leasehold's hooks, its remote, and people and agents who commit in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remote = folder / "remote.git"
        self.root = folder / "app"
        self.url = f"sqlite:///{folder / 'locks.db'}"
        scripts = folder / "bin"
        scripts.mkdir()
        command = scripts / "leasehold"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m leasehold.cli "$@"\n')
        command.chmod(0o755)
        self.env = {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "LEASEHOLD_URL": self.url,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        for who in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{who}_NAME": "ada", f"GIT_{who}_EMAIL": "ada@example.org"}
        self.run("git", "init", "--quiet", "--bare", "-b", "main", str(self.remote), cwd=folder)
        self.run("git", "init", "--quiet", "-b", "main", str(self.root), cwd=folder)
        self.run("git", "remote", "add", "origin", str(self.remote))

    def run(
        self, *words: str, cwd: Path | None = None, holder: str | None = None, code: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        env = self.env if holder is None else {**self.env, "LEASEHOLD_HOLDER": holder}
        done = subprocess.run(words, cwd=cwd or self.root, env=env, capture_output=True, text=True, check=False)
        assert code is None or done.returncode == code, done
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def change(self, path: str, text: str, cwd: Path | None = None) -> None:
        target = (cwd or self.root) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        self.run("git", "add", path, cwd=cwd)

    def commit(
        self, *words: str, holder: str | None = None, code: int | None = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.run("git", "commit", "-m", "a change", *words, holder=holder, code=code, cwd=cwd)

    def hold(self, resource: str, holder: str) -> leasehold.Granted:
        with leasehold.connect(self.url, holder=holder) as locks:
            got = locks.acquire(resource, ttl=600)
            assert isinstance(got, leasehold.Granted)
            return got

    def policy(self, policy: str) -> None:
        (self.root / "leasehold.toml").write_text(f'lock_policy = "{policy}"\n')

    def message(self) -> str:
        return self.run("git", "log", "-1", "--format=%B").stdout


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.run("leasehold", "install", "git")
    return made


def test_what_nobody_holds_is_committed_without_a_word(repository: Repository) -> None:
    repository.policy("require")
    repository.change("src/a.py", "one")
    done = repository.commit(holder="bob")
    assert "leasehold" not in done.stderr


@pytest.mark.parametrize("policy", ["off", "warn", "require", "require-own"])
def test_a_commit_of_what_somebody_else_holds(repository: Repository, policy: str) -> None:
    repository.policy(policy)
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    blocked = policy.startswith("require")
    done = repository.commit(holder="bob", code=1 if blocked else 0)
    assert ("held by ada" in done.stderr) == (policy != "off")
    again = repository.commit("--no-verify", "--allow-empty", holder="bob", code=None)
    assert (again.returncode != 0) == blocked  # prepare-commit-msg runs all the same


def test_one_s_own_is_committed_with_its_fence(repository: Repository) -> None:
    repository.policy("require-own")
    held = repository.hold("path:src/a.py", "bob")
    repository.change("src/a.py", "one")
    repository.commit(holder="bob")
    assert f"Leasehold-Fence: {held.lease.fence}" in repository.message()
    repository.change("src/b.py", "two")
    done = repository.commit(holder="bob", code=1)
    assert "acquire it first" in done.stderr


def test_people_are_warned_only(repository: Repository) -> None:
    repository.policy("require")
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    done = repository.commit()
    assert "held by ada" in done.stderr
    assert "warning only" in done.stderr


@pytest.mark.parametrize("words", [(), ("--no-verify",)])
def test_a_warning_is_told_once_a_commit(repository: Repository, words: tuple[str, ...]) -> None:
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    done = repository.commit(*words)
    assert (done.stderr.count("held by ada"), done.stderr.count("warning only")) == (1, 1)


@pytest.mark.parametrize("hook", ["missing", "somebody else's", "not executable"])
def test_a_warning_is_told_before_a_commit_where_nobody_asks_later(repository: Repository, hook: str) -> None:
    later = repository.root / ".git/hooks/prepare-commit-msg"
    if hook == "not executable":
        later.chmod(0o644)
    else:
        later.unlink()
    if hook == "somebody else's":
        later.write_text("#!/bin/sh\nexit 0\n")
        later.chmod(0o755)
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    assert repository.commit().stderr.count("held by ada") == 1


def test_a_push_is_checked_too(repository: Repository) -> None:
    repository.policy("require")
    repository.change("src/a.py", "one")
    repository.commit(holder="bob")
    repository.hold("path:src/a.py", "ada")
    done = repository.run("git", "push", "origin", "main", holder="bob", code=1)
    assert "held by ada" in done.stderr
    repository.run("git", "push", "origin", "main", holder="ada")


def test_in_a_worktree_it_is_the_same(repository: Repository) -> None:
    repository.policy("require")
    repository.change("src/a.py", "one")
    repository.commit(holder="bob")
    other = repository.folder / "other"
    repository.run("git", "worktree", "add", "--quiet", str(other), "-b", "side")
    (other / "leasehold.toml").write_text('lock_policy = "require"\n')
    repository.hold("path:src/a.py", "ada")
    repository.change("src/a.py", "two", cwd=other)
    done = repository.commit(holder="bob", code=1, cwd=other)
    assert "held by ada" in done.stderr


def hook(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_what_ran_before_still_runs_and_first_and_comes_back(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    hooks = repository.root / ".git" / "hooks"
    hook(hooks / "pre-commit", 'echo before >> "$HOME.log"; test ! -e forbidden')
    hook(hooks / "pre-push", 'cat >> "$HOME.log"')
    before = {path.name: (path.read_bytes(), path.stat().st_mode) for path in hooks.iterdir()}
    repository.run("leasehold", "install", "git")
    assert "Nothing to change" in repository.run("leasehold", "install", "git").stdout
    repository.change("a", "one")
    repository.commit(holder="bob")
    repository.run("git", "push", "origin", "main", holder="bob")
    logged = (tmp_path / "home.log").read_text()
    assert logged.startswith("before\nrefs/heads/main ")
    (repository.root / "forbidden").touch()
    repository.change("b", "two")
    repository.commit(holder="bob", code=1)
    repository.run("leasehold", "uninstall", "git")
    after = {path.name: (path.read_bytes(), path.stat().st_mode) for path in hooks.iterdir()}
    assert after == before


def test_beside_husky_its_own_files_are_used(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.policy("require")
    husky = repository.root / ".husky"
    hook(husky / "_" / "pre-commit", '. "$(dirname "$0")/../pre-commit"')  # as husky's shim ends up doing
    (husky / "pre-commit").write_text('echo husky >> "$HOME.log"\n')
    repository.run("git", "config", "core.hooksPath", ".husky/_")
    before = {path: path.read_bytes() for path in husky.rglob("*") if path.is_file()}
    repository.run("leasehold", "install", "git")
    repository.change("src/a.py", "one")
    repository.commit(holder="bob")
    assert (tmp_path / "home.log").read_text() == "husky\n"
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "two")
    assert "held by ada" in repository.commit(holder="bob", code=1).stderr
    repository.run("leasehold", "uninstall", "git")
    assert {path: path.read_bytes() for path in husky.rglob("*") if path.is_file()} == before


def test_beside_the_pre_commit_framework_both_run(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.policy("require")
    (repository.root / ".pre-commit-config.yaml").write_text(
        "repos:\n- repo: local\n  hooks:\n  - id: mine\n    name: mine\n    language: system\n"
        "    entry: sh -c 'echo framework >> \"$HOME.log\"'\n    always_run: true\n    pass_filenames: false\n"
    )
    framework = [sys.executable, "-m", "pre_commit", "install"]
    for order in (("framework", "leasehold"), ("leasehold", "framework")):
        for who in order:
            if who == "framework":
                repository.run(*framework)
            else:
                repository.run("leasehold", "install", "git")
        repository.change("src/a.py", order[0])
        repository.run("git", "add", ".pre-commit-config.yaml")
        repository.commit(holder="bob")
        assert (tmp_path / "home.log").read_text().endswith("framework\n")
        (tmp_path / "home.log").write_text("")
        with leasehold.connect(repository.url, holder="ada") as locks:
            got = locks.acquire("path:src", ttl=600)
            assert isinstance(got, leasehold.Granted)
            repository.change("src/a.py", order[1] + "!")
            assert "held by ada" in repository.commit(holder="bob", code=1).stderr
            locks.release(got.lease.id, got.token)
        repository.run("git", "reset", "--quiet")
        repository.run("leasehold", "uninstall", "git")
        repository.run(sys.executable, "-m", "pre_commit", "uninstall")


def test_the_server_takes_only_what_shows_the_fence(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.run("leasehold", "install", "git", "--server", cwd=repository.remote)
    repository.change("src/a.py", "one")
    repository.commit()
    repository.run("git", "push", "origin", "main")
    held = repository.hold("path:src/a.py", "ada")
    repository.change("src/a.py", "two")
    repository.commit()
    done = repository.run("git", "push", "origin", "main", code=1)
    assert "held by ada" in done.stderr
    fence = ("--trailer", f"Leasehold-Fence: {held.lease.fence}")
    repository.run("git", "commit", "--quiet", "--amend", "--no-edit", *fence)
    repository.run("git", "push", "origin", "main")
    with leasehold.connect(repository.url, holder="ada") as locks:
        locks.release(held.lease.id, held.token)
    repository.hold("path:src/a.py", "eve")  # a successor: the old fence opens nothing
    repository.change("src/a.py", "three")
    repository.commit(*fence)
    assert "held by eve" in repository.run("git", "push", "origin", "main", code=1).stderr


def test_without_leasehold_a_commit_goes_on_and_a_server_takes_nothing(repository: Repository) -> None:
    repository.run("leasehold", "install", "git", "--server", cwd=repository.remote)
    repository.env["PATH"] = os.environ["PATH"].replace(str(Path(sys.executable).parent), "/nowhere")
    repository.change("a", "one")
    assert "not installed: not checked" in repository.commit().stderr
    assert "not installed" in repository.run("git", "push", "origin", "main", code=1).stderr


def test_installed_by_a_command_that_is_not_on_the_path_it_is_asked_all_the_same(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.env["PATH"] = os.environ["PATH"].replace(str(Path(sys.executable).parent), "/nowhere")
    repository.run(sys.executable, "-m", "leasehold.cli", "install", "git")
    repository.policy("require")
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    assert "held by ada" in repository.commit(holder="bob", code=1).stderr


def test_beside_husky_those_who_do_not_have_leasehold_can_commit(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    hook(repository.root / ".husky" / "_" / "pre-commit", '. "$(dirname "$0")/../pre-commit"')
    repository.run("git", "config", "core.hooksPath", ".husky/_")
    repository.run("leasehold", "install", "git")
    repository.env["PATH"] = os.environ["PATH"].replace(str(Path(sys.executable).parent), "/nowhere")
    repository.change("a", "one")
    assert "not installed: not checked" in repository.commit().stderr
