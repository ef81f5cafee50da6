"""Commits and pushes against what others hold, with real git: in a clone, a worktree, and beside others' hooks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import leasehold
from tests.kit.repositories import Repository, hook


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
def test_a_commit_of_what_another_agent_holds(repository: Repository, policy: str) -> None:
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
    assert "acquire it first\n    leasehold acquire path:src/b.py\n" in done.stderr


EDITORS = {
    "leaves it as it is": "true",
    "removes everything": "truncate -s 0",
    "removes our line": "sed -i /Leasehold/d",
}


@pytest.mark.parametrize("verbose", [(), ("--verbose",)], ids=["plain", "verbose"])
@pytest.mark.parametrize("editor", EDITORS.values(), ids=EDITORS)
def test_who_leaves_the_message_empty_calls_the_commit_off(
    repository: Repository, editor: str, verbose: tuple[str, ...]
) -> None:
    repository.hold("path:src/a.py", "bob")
    repository.change("src/a.py", "one")
    repository.env["GIT_EDITOR"] = editor
    done = repository.run("git", "commit", *verbose, holder="bob", code=1)
    assert "empty commit message" in done.stderr


def test_no_message_is_none_with_a_fence_either(repository: Repository) -> None:
    repository.hold("path:src/a.py", "bob")
    repository.change("src/a.py", "one")
    assert "empty commit message" in repository.run("git", "commit", "-m", "", holder="bob", code=1).stderr


def test_what_was_written_is_kept_with_its_fence(repository: Repository) -> None:
    """Also if it looks like a comment, where git takes it for none."""
    held = repository.hold("path:src/a.py", "bob")
    for number, words in enumerate((["-m", "# a heading"], ["--verbose"])):
        repository.change("src/a.py", str(number))
        repository.env["GIT_EDITOR"] = "sed -i '1s/^/written here/'"
        repository.run("git", "commit", *words, holder="bob")
        first, *_, last = repository.message().strip().splitlines()
        assert (first, last) == (["# a heading", "written here"][number], f"Leasehold-Fence: {held.lease.fence}")


def test_people_are_warned_only(repository: Repository) -> None:
    repository.policy("require")
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    done = repository.commit()
    assert "held by ada" in done.stderr
    assert "warning only" in done.stderr


def test_people_are_warned_only_within_a_run_too(repository: Repository) -> None:
    repository.policy("require")
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    done = repository.run("leasehold", "run", "deploy", "--", "git", "commit", "-m", "a change")
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


def elsewhere(repository: Repository, path: str) -> None:
    """Ada changes this in a clone of her own, holds it, and pushes it."""
    clone = repository.folder / "elsewhere"
    repository.run("git", "clone", "--quiet", str(repository.remote), str(clone))
    repository.hold(f"path:{path}", "ada")
    repository.change(path, "ada's", cwd=clone)
    repository.commit(holder="ada", cwd=clone)
    repository.run("git", "push", "origin", "main", cwd=clone)


def pushed_once(repository: Repository, *paths: str) -> None:
    repository.policy("require")
    for path in paths:
        repository.change(path, "one")
    repository.commit(holder="bob")
    repository.run("git", "push", "origin", "main", holder="bob")


def test_a_push_to_what_was_never_fetched_says_what_to_do(repository: Repository) -> None:
    pushed_once(repository, "a", "b")
    elsewhere(repository, "b")
    repository.change("c", "one")
    repository.commit(holder="bob")
    for words in ((), ("--force",)):
        done = repository.run("git", "push", *words, "origin", "main", holder="bob", code=1)
        assert "refs/heads/main has commits at the remote that were never fetched: git fetch" in done.stderr
    repository.run("git", "pull", "--quiet", "--rebase", "origin", "main", holder="bob")
    repository.run("git", "push", "origin", "main", holder="bob")


def test_a_forced_push_that_takes_back_what_another_agent_holds_is_checked(repository: Repository) -> None:
    pushed_once(repository, "a", "b")
    elsewhere(repository, "b")
    repository.run("git", "fetch", "--quiet", "origin")
    assert (
        "path:b is held by ada"
        in repository.run("git", "push", "--force", "origin", "main", holder="bob", code=1).stderr
    )
    repository.run("leasehold", "install", "git", "--server", cwd=repository.remote)
    done = repository.run("git", "push", "--force", "--no-verify", "origin", "main", holder="bob", code=1)
    assert "path:b is held by ada" in done.stderr


def test_a_forced_push_that_keeps_what_another_agent_holds_goes_on(repository: Repository) -> None:
    pushed_once(repository, "a", "b")
    repository.change("a", "two")
    repository.commit(holder="bob")
    repository.run("git", "push", "origin", "main:bobs", holder="bob")
    elsewhere(repository, "b")
    repository.run("git", "pull", "--quiet", "--rebase", "origin", "main", holder="bob")
    repository.run("leasehold", "install", "git", "--server", cwd=repository.remote)
    repository.run("git", "push", "--force", "origin", "main:bobs", holder="bob")


def test_another_history_in_place_of_what_another_agent_holds_is_checked(repository: Repository) -> None:
    pushed_once(repository, "a", "b")
    repository.hold("path:b", "ada")
    repository.run("git", "checkout", "--quiet", "--orphan", "anew")
    repository.run("git", "rm", "--quiet", "--cached", "b")
    repository.run("git", "commit", "--quiet", "-m", "anew", holder="bob")
    done = repository.run("git", "push", "--force", "origin", "anew:main", holder="bob", code=1)
    assert "path:b is held by ada" in done.stderr


def test_a_submodule_that_git_s_own_diff_ignores_is_checked(repository: Repository) -> None:
    repository.policy("require")
    inner = repository.folder / "inner"
    repository.run("git", "init", "--quiet", str(inner))
    repository.run("git", "commit", "--quiet", "--allow-empty", "-m", "one", cwd=inner)
    repository.run("git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "part")
    repository.run("git", "config", "submodule.part.ignore", "all")
    repository.commit(holder="bob")
    repository.hold("path:part", "ada")
    repository.run("git", "commit", "--quiet", "--allow-empty", "-m", "two", cwd=repository.root / "part")
    repository.run("git", "update-index", "part")
    assert "held by ada" in repository.commit("--allow-empty", holder="bob", code=1).stderr


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


@pytest.mark.parametrize("shell", ["sh -e", "bash -e"])
def test_beside_husky_its_own_hook_is_told_what_is_pushed(tmp_path: Path, shell: str) -> None:
    repository = Repository(tmp_path)
    repository.policy("require")
    husky = repository.root / ".husky"
    hook(husky / "_" / "pre-push", f'{shell} "$(dirname "$0")/../pre-push" "$@"')
    (husky / "pre-push").write_text('{ echo "$1"; cat; } >> "$HOME.log"\n')
    repository.run("git", "config", "core.hooksPath", ".husky/_")
    repository.change("a.py", "one")
    repository.commit()
    log = tmp_path / "home.log"
    repository.run("git", "push", "--dry-run", "origin", "main", "main:side")
    told = log.read_text()
    assert told.count("refs/heads/main") == 3
    log.unlink()
    repository.run("leasehold", "install", "git")
    repository.run("git", "push", "--dry-run", "origin", "main", "main:side", holder="bob")
    assert log.read_text() == told
    repository.hold("path:a.py", "ada")
    assert "held by ada" in repository.run("git", "push", "origin", "main", holder="bob", code=1).stderr
    repository.run("git", "push", "--no-verify", "origin", "main")
    log.unlink()
    repository.run("git", "push", "origin", "main", holder="bob")  # nothing to push, and nothing is told
    assert log.read_text() == "origin\n"


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
    repository.run("git", "commit", "--quiet", "--amend", "--no-edit", "--trailer", "Leasehold-Fence: ²")
    assert "held by eve" in repository.run("git", "push", "origin", "main", code=1).stderr, "it is no fence at all"


@pytest.mark.parametrize("shown", ["²", "9" * 5_000, "-1", "1 or so", ""])
def test_what_is_no_fence_opens_nothing_and_breaks_nothing(tmp_path: Path, shown: str) -> None:
    repository = Repository(tmp_path)
    repository.run("leasehold", "install", "git", "--server", cwd=repository.remote)
    repository.change("a", "one")
    repository.commit("--message", f"Leasehold-Fence: {shown}")
    repository.run("git", "push", "origin", "main")
    repository.hold("path:b", "ada")
    repository.change("b", "one")
    repository.commit("--message", f"Leasehold-Fence: x{shown}")
    assert "held by ada" in repository.run("git", "push", "origin", "main", code=1).stderr


def test_a_fence_is_a_trailer_to_everybody_however_one_writes_trailers(repository: Repository) -> None:
    held = repository.hold("path:a", "ada")
    repository.run("git", "config", "trailer.separators", "=")
    repository.change("a", "one")
    repository.commit(holder="ada")
    assert repository.message() == f"a change\n\nLeasehold-Fence: {held.lease.fence}\n\n"


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


# ----------------------------------------------------------------------------------- names that no lease can have

ODD = ["src/trail ", "src/a\tb", "src/\udcff", "src/" + "d" * 200 + "/" + "d" * 200 + "/" + "x" * 200]


@pytest.mark.parametrize("policy", ["off", "warn", "require"])
@pytest.mark.parametrize("path", ODD)
def test_a_file_that_no_lease_can_name_is_committed(repository: Repository, path: str, policy: str) -> None:
    repository.policy(policy)
    held = repository.hold("path:src/a.py", "ada")
    for holder in (None, "bob"):
        repository.change(path, f"by {holder}")
        done = repository.commit(holder=holder)
        assert done.stderr.count("nobody can hold this file by itself") == (0 if policy == "off" else 1)
    repository.run("git", "push", "--quiet", "origin", "main", holder="bob")
    with leasehold.connect(repository.url, holder="ada") as locks:
        locks.release(held.lease.id, held.token)
    repository.hold("path:src", "ada")
    repository.change(path, "two")
    done = repository.commit(holder="bob", code=1 if policy == "require" else 0)
    assert (" is held by ada" in done.stderr) == (policy != "off")


def test_with_the_policy_off_nothing_is_asked(repository: Repository) -> None:
    repository.policy("off")
    repository.env["LEASEHOLD_URL"] = NOWHERE
    repository.change("src/a.py", "one")
    assert "leasehold" not in repository.commit(holder="bob").stderr
    assert "leasehold" not in repository.run("git", "push", "--quiet", "origin", "main", holder="bob").stderr


# --------------------------------------------------------------------------------------- locks that do not answer

NOWHERE = "sqlite:///dev/null/nothing.db"


@pytest.mark.parametrize("policy", ["warn", "require"])
@pytest.mark.parametrize("holder", [None, "bob"])
def test_locks_that_do_not_answer_block_agents_where_they_are_required(
    repository: Repository, holder: str | None, policy: str
) -> None:
    repository.policy(policy)
    repository.env["LEASEHOLD_URL"] = NOWHERE
    repository.change("src/a.py", "one")
    is_blocked = policy == "require" and holder is not None
    for words in ((), ("--amend", "--no-verify")):
        done = repository.commit(*words, holder=holder, code=1 if is_blocked else 0)
        assert done.stderr.count("leasehold doctor") == 1
        assert ("this is a warning only" in done.stderr) != is_blocked
        assert ("it is not allowed" in done.stderr) == is_blocked
        if is_blocked:
            return
    pushed = repository.run("git", "push", "origin", "main", holder=holder)
    assert pushed.stderr.count("this could not be checked") == 1


def test_a_server_that_does_not_answer_blocks_nobody_by_default(repository: Repository) -> None:
    repository.env["LEASEHOLD_URL"] = "http://127.0.0.1:9"
    repository.change("src/a.py", "one")
    assert repository.commit().stderr.count("this could not be checked: no answer from the server") == 1


def test_a_server_that_cannot_ask_takes_nothing(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.run("leasehold", "install", "git", "--server", cwd=repository.remote)
    repository.env["LEASEHOLD_URL"] = NOWHERE
    repository.change("src/a.py", "one")
    repository.commit()
    repository.run("git", "push", "origin", "main", code=1)


# ------------------------------------------------------------------------------- hooks that are there already


def told(folder: Path) -> dict[str, tuple[str, bytes, int]]:
    """Every file: where it leads as a link, what is in it, its mode."""
    return {
        path.name: (
            str(path.readlink()) if path.is_symlink() else "",
            path.read_bytes() if path.exists() else b"",
            path.lstat().st_mode,
        )
        for path in folder.iterdir()
    }


def test_where_hooks_are_switched_off_that_is_said(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.run("git", "config", "core.hooksPath", "/dev/null")
    for verb in ("install", "uninstall"):
        done = repository.run("leasehold", verb, "git", code=2)
        assert "hooks are switched off here: core.hooksPath is /dev/null" in done.stderr


def test_hooks_that_cannot_be_read_or_written_are_told(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    there = repository.root / ".git" / "hooks" / "pre-commit"
    there.mkdir(parents=True)
    done = repository.run("leasehold", "install", "git", code=1)
    assert f"{there} cannot be read: Is a directory; nothing is changed" in done.stderr
    repository.run("git", "config", "core.hooksPath", "/proc")  # where nobody can create a file
    done = repository.run("leasehold", "install", "git", code=1)
    assert "/proc/pre-commit cannot be changed: " in done.stderr


def test_a_hook_that_is_a_link_stays_one_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    hook(repository.root / "scripts" / "pre-commit", 'echo team >> "$HOME.log"')
    repository.run("git", "add", "scripts")
    repository.commit("--quiet")
    hooks = repository.root / ".git" / "hooks"
    (hooks / "pre-commit").symlink_to("../../scripts/pre-commit")
    (hooks / "pre-push").symlink_to("../../scripts/pre-push")  # on this branch there is none
    before = told(hooks)
    shown = repository.run("leasehold", "install", "git").stdout
    assert f"rename to {hooks}/pre-commit.before-leasehold" in shown
    assert repository.run("git", "status", "--short").stdout == ""
    assert "Nothing to change" in repository.run("leasehold", "install", "git").stdout
    repository.policy("require")
    repository.hold("path:src", "ada")
    repository.change("src/a.py", "one")
    assert "held by ada" in repository.commit(holder="bob", code=1).stderr
    assert (tmp_path / "home.log").read_text() == "team\n"
    repository.run("leasehold", "uninstall", "git")
    assert told(hooks) == before
    assert repository.run("git", "status", "--short", "scripts").stdout == ""


def test_a_hook_that_was_switched_off_stays_so(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    hooks = repository.root / ".git" / "hooks"
    hook(hooks / "pre-commit", "exit 1")
    (hooks / "pre-commit").chmod(0o644)
    hook(hooks / "pre-push", "exit 0")
    (hooks / "pre-push").chmod(0o700)
    before = told(hooks)
    repository.run("leasehold", "install", "git")
    repository.change("a", "one")
    repository.commit()
    repository.run("leasehold", "uninstall", "git")
    assert told(hooks) == before


def test_a_hook_that_was_kept_is_not_overwritten_by_another(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    hooks = repository.root / ".git" / "hooks"
    for text in ("exit 0", "exit 0; #2"):
        hook(hooks / "pre-commit", text)  # the second in the place of ours
        repository.run("leasehold", "install", "git")
    assert "#2" not in (hooks / "pre-commit.before-leasehold.1").read_text()
    repository.run("leasehold", "uninstall", "git")
    assert "#2" in (hooks / "pre-commit").read_text()
