"""The default inside git: worktrees, submodules, bare repositories, git's own variables, and what cannot be used."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from leasehold.config import settings as config
from leasehold.errors import StoreError
from tests.kit.someone import SOURCE, git, inside, pretend_a_stranger_wrote, repository

pytestmark = pytest.mark.usefixtures("home")


def test_worktrees_share_the_database_of_their_repository(home: Path) -> None:
    main = repository(home / "main")
    git(main, "worktree", "add", "--quiet", "../side")
    (home / "side" / "deep").mkdir()
    expected = inside(main / ".git")
    for place in (main, home / "side", home / "side" / "deep", main / ".git", main / ".git" / "worktrees" / "side"):
        choice = config.find(cwd=str(place))
        assert choice.url == expected
        assert "git repository" in choice.why
    assert Path(git(home / "side", "rev-parse", "--git-common-dir").strip()).resolve() == (main / ".git").resolve()


def test_a_submodule_has_a_database_of_its_own(home: Path) -> None:
    part = repository(home / "part")
    whole = repository(home / "whole")
    git(whole, "submodule", "--quiet", "add", str(part), "sub")
    assert config.find(cwd=str(whole / "sub")).url == inside(whole / ".git" / "modules" / "sub")
    assert config.find(cwd=str(whole)).url == inside(whole / ".git")


def test_inside_a_bare_repository(home: Path) -> None:
    bare = home / "bare.git"
    bare.mkdir()
    git(bare, "init", "--quiet", "--bare")
    assert config.find(cwd=str(bare)).url == inside(bare)
    assert config.find(cwd=str(bare / "hooks")).url == inside(bare)
    git(repository(home / "main"), "push", "--quiet", str(bare), "HEAD:refs/heads/main")
    git(bare, "worktree", "add", "--quiet", "../checkout", "main")
    assert config.find(cwd=str(home / "checkout")).url == inside(bare)


def test_a_separate_git_directory(home: Path) -> None:
    (home / "w").mkdir()
    git(home / "w", "init", "--quiet", "--separate-git-dir", str(home / "elsewhere"))
    assert config.find(cwd=str(home / "w")).url == inside(home / "elsewhere")


def test_gits_own_variables_count(home: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, other = repository(home / "main"), repository(home / "other")
    git(main, "worktree", "add", "--quiet", "../side")
    monkeypatch.setenv("GIT_DIR", str(main / ".git" / "worktrees" / "side"))
    assert config.find(cwd=str(work)).url == inside(main / ".git")
    monkeypatch.setenv("GIT_DIR", "../side/.git")
    assert config.find(cwd=str(work)).url == inside(main / ".git")
    monkeypatch.setenv("GIT_COMMON_DIR", str(other / ".git"))
    assert config.find(cwd=str(work)).url == inside(other / ".git")


def test_a_git_dir_that_is_none_is_as_if_it_were_not_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = repository(home / "main")
    (main / "deep").mkdir()
    monkeypatch.setenv("GIT_DIR", ".git")  # as a hook has it, which then changes directory
    assert config.find(cwd=str(main / "deep")).url == inside(main / ".git")


def test_a_hook_sees_the_same_store_as_a_shell(home: Path) -> None:
    main = repository(home / "main")
    hook = main / ".git" / "hooks" / "pre-commit"
    script = "import sys; sys.path.insert(0, sys.argv[1]); import leasehold.config.settings as s; print(s.find().url)"
    hook.write_text(f'#!/bin/sh\n"{sys.executable}" -c "{script}" "{SOURCE}" > "{home}/seen"\n')
    hook.chmod(0o755)
    git(main, "worktree", "add", "--quiet", "../side")
    for place in (main, home / "side"):
        git(place, "commit", "--quiet", "--allow-empty", "--message", "second")
        assert (home / "seen").read_text().strip() == inside(main / ".git")


def test_an_empty_git_directory_is_passed_over(home: Path) -> None:
    main = repository(home / "main")
    (main / "a" / ".git").mkdir(parents=True)
    assert config.find(cwd=str(main / "a")).url == inside(main / ".git")


def refused(choice: config.Choice) -> str:
    """Why there is no store, and the ways out."""
    with pytest.raises(StoreError) as told:
        _ = choice.store_url
    assert "LEASEHOLD_URL" in str(told.value)
    return str(told.value)


def test_a_git_file_that_points_nowhere_is_refused(work: Path) -> None:
    (work / ".git").write_text("gitdir: /nowhere/to/be/found\n")
    told = refused(config.find())
    assert "points to /nowhere/to/be/found" in told
    assert "chgrp" not in told


def test_a_repository_that_cannot_be_written_is_refused_with_the_ways_out(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = repository(home / "a" / "app"), repository(home / "b" / "app")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write everywhere
    for place in (first, second):
        told = refused(config.find(cwd=str(place)))
        assert f"may not write in {place}/.git" in told
        assert f"chmod g+s {place}/.git/leasehold" in told
        assert "leasehold install" in told
    assert not (home / "state").exists()
    assert config.find(f"sqlite://{home}/set.db", cwd=str(first)).store_url == f"sqlite://{home}/set.db"


def test_a_directory_of_the_locks_that_is_shared_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = repository(home / "main")
    (main / ".git" / "leasehold").mkdir()
    monkeypatch.setattr(os, "access", lambda path, *_, **__: path.endswith("/leasehold"))
    assert config.find(cwd=str(main)).store_url == f"{inside(main / '.git')}?create=1"


def test_a_repository_that_anybody_can_have_put_there_is_not_used(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = repository(work / "open" / "x").parent
    (place / "x" / ".git").rename(place / ".git")
    place.chmod(0o1777)
    pretend_a_stranger_wrote(monkeypatch)
    assert "everyone may write" in refused(config.find(cwd=str(place / "x")))


def test_finding_creates_nothing(home: Path) -> None:
    main = repository(home / "main")
    before = sorted(home.rglob("*"))
    config.find(cwd=str(main))
    config.find(cwd=str(home))
    assert sorted(home.rglob("*")) == before
