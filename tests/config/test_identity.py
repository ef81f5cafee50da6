"""Which layer names a command, what the name is, and when a token may be used."""

from __future__ import annotations

import os
import pwd
import re
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.config import identity
from leasehold.config import paths as places
from leasehold.config import settings as config
from leasehold.requests import checks
from tests.kit.someone import git, repository, settle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "laptop", "", "", "")))
    return settle(tmp_path, monkeypatch)


# ------------------------------------------------- the name of a working copy, for the spellings of other systems


def copy_of(cwd: str | None = None) -> str:
    return identity.of_copy(config.find(cwd=cwd), cwd=cwd)


def test_the_name_tells_user_host_and_working_copy(home: Path) -> None:
    app = repository(home / "app")
    assert copy_of(str(app)) == f"ada@laptop:app-{places.digest(str(app))[:8]}"


def test_it_is_the_same_everywhere_in_a_working_copy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = repository(home / "app")
    (app / "deep" / "down").mkdir(parents=True)
    (home / "link").symlink_to(app)
    names = {copy_of(str(place)) for place in (app, app / "deep" / "down", app / ".git", home / "link" / "deep")}
    monkeypatch.chdir(app / "deep")
    names.add(copy_of())
    monkeypatch.setenv("GIT_DIR", str(app / ".git"))  # as in a hook
    names.add(copy_of())
    assert len(names) == 1


def test_it_differs_between_worktrees_clones_users_and_hosts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, namesake = repository(home / "app"), repository(home / "other" / "app")
    git(app, "worktree", "add", "--quiet", "../side")
    names = [copy_of(str(place)) for place in (app, namesake, home / "side")]
    monkeypatch.setenv("USER", "bob")
    names.append(copy_of(str(app)))
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "server", "", "", "")))
    names.append(copy_of(str(app)))
    assert len(set(names)) == len(names)


def test_outside_of_git_the_project_or_else_the_directory_counts(home: Path) -> None:
    below = home / "project" / "below"
    below.mkdir(parents=True)
    assert copy_of(str(below)) != copy_of(str(below.parent))
    (below.parent / "leasehold.toml").write_text("")
    assert copy_of(str(below)) == copy_of(str(below.parent))


def test_a_work_tree_that_git_was_told_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = repository(home / "app")
    (home / "tree").mkdir()
    monkeypatch.setenv("GIT_DIR", str(app / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(home / "tree"))
    assert copy_of(str(home)).startswith("ada@laptop:tree-")


def test_the_variable_wins_then_the_configuration(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "leasehold.toml").write_text('holder = "configured"')
    assert copy_of() == "configured"
    monkeypatch.setenv("LEASEHOLD_HOLDER", "coder-3")
    assert copy_of() == "coder-3"
    assert identity.of_copy(config.find(env={"HOME": str(home)})) == "configured"


@pytest.mark.parametrize(
    "name",
    ["sp ace", "new\nline", "esc\x1b[31m", "\u202ertl", "ü" * 100, "x" * 200, "caf\udce9", "日本" * 40, " "],
)
def test_any_directory_makes_a_name_that_is_allowed(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("USER", name)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", name, "", "", "")))
    place = home / name
    place.mkdir()
    for found in (copy_of(str(place)), identity.of_process()):
        assert checks.text(found, "holder", 256) == found
        assert found.isprintable()
        assert " " not in found
    assert copy_of("/").endswith(f":root-{places.digest('/')[:8]}")


def test_a_user_without_variables_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("USER")
    monkeypatch.setenv("LOGNAME", "grace")
    assert re.fullmatch(rf"grace@laptop:{os.getpid()}-[0-9a-f]{{8}}", identity.of_process())
    assert identity.of_process() == identity.of_process()
    monkeypatch.delenv("LOGNAME")
    assert identity.of_process().startswith(f"{pwd.getpwuid(os.geteuid()).pw_name}@laptop:")
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999_999 // 2)
    assert identity.of_process().startswith("uid1999999999@laptop:")


def test_the_session_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity.session() is None
    monkeypatch.setenv("LEASEHOLD_SESSION", "run-1.secret")
    assert identity.session() == "run-1.secret"
    assert identity.session({}) is None
    monkeypatch.setenv("LEASEHOLD_SESSION", "nonsense")
    with pytest.raises(leasehold.InvalidInput, match=r"ID\.SECRET"):
        identity.session()
