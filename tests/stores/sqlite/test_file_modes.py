"""A database that several users of one machine share: git's `core.sharedRepository`, and the group of a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.file_modes import mode_of_files
from leasehold.testing.unprivileged import room
from tests.kit.someone import ROOT, git

if TYPE_CHECKING:
    from collections.abc import Iterator

ADA, BOB, TEAM = 54_321, 54_322, 54_320
"""Two users and their group. Nobody needs to know them: the system asks for numbers only."""
ONE_LINE = """
import importlib, os, pkgutil, shlex, sys, traceback
sys.path[:0] = sys.argv[1:2]
import leasehold
away = ("server", "mcp", "testing", "demo", "stores.postgres", "stores.etcd", "__main__")
for each in pkgutil.walk_packages(leasehold.__path__, "leasehold."):
    if not each.name.startswith(tuple(f"leasehold.{name}" for name in away)):
        importlib.import_module(each.name)
os.umask(0o027)
os.setgroups([int(sys.argv[4])])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[2]))
sys.argv[1:] = sys.argv[5:]
sys.exit(leasehold.cli.main(sys.argv[1:]))
"""
"""The command line as another user, imported before: that user may be unable to enter the folder of our libraries."""


def modes(directory: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o7777 for each in (directory, *directory.iterdir())}


def filled(directory: Path) -> Path:
    SqliteStore(str(directory / "leasehold.db"), creates_directory=True).close()
    return directory


@pytest.mark.parametrize(
    ("word", "directory", "file"),
    [
        ("group", 0o2770, 0o660),
        ("true", 0o2770, 0o660),
        ("all", 0o2775, 0o664),
        ("0640", 0o700, 0o600),
        ("0660", 0o2770, 0o660),
        ("umask", 0o700, 0o600),
        ("false", 0o700, 0o600),
    ],
)
def test_what_the_repository_says_of_sharing_counts(tmp_path: Path, word: str, directory: int, file: int) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "core.sharedRepository", word)
    found = modes(filled(tmp_path / ".git" / "leasehold"))
    assert found.pop("leasehold") == directory
    assert set(found.values()) == {file}


def test_without_a_word_of_sharing_the_files_are_for_their_owner(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert set(modes(filled(tmp_path / ".git" / "leasehold")).values()) == {0o700, 0o600}


def test_the_files_in_a_shared_directory_are_the_groups(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    (tmp_path / "leasehold.db.gate").touch(0o600)
    filled(tmp_path)
    assert {mode for name, mode in modes(tmp_path).items() if name != tmp_path.name} == {0o660}
    tmp_path.chmod(0o770)
    assert mode_of_files(str(tmp_path)) == 0o600


# ----------------------------------------------------------------------------- two users, and what each is answered


class Team:
    """A repository, and the users that work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.root.mkdir()
        git(self.root, "init", "--quiet")
        self.source = folder / "src"
        shutil.copytree(
            ROOT / "src" / "leasehold", self.source / "leasehold", ignore=shutil.ignore_patterns("__pycache__")
        )

    def share(self) -> None:
        git(self.root, "config", "core.sharedRepository", "group")
        self.give(TEAM, 0o2770)

    def give(self, group: int, mode: int) -> None:
        """Make Ada the owner of everything."""
        for place, _, files in os.walk(self.root):
            os.chown(place, ADA, group)
            Path(place).chmod(mode)
            for name in files:
                os.chown(f"{place}/{name}", ADA, group)

    def run(self, user: int, *words: str) -> subprocess.CompletedProcess[str]:
        home = self.folder / str(user)
        home.mkdir(exist_ok=True)
        os.chown(home, user, user)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "GIT_", "XDG_"))
        }
        command = [sys.executable, "-c", ONE_LINE, str(self.source), *map(str, (user, user, TEAM)), *words]
        environment = {**kept, "HOME": str(home)}
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def team() -> Iterator[Team]:
    if os.geteuid() != 0:
        pytest.skip("only root becomes other users")
    place = room("leasehold-team-")  # pytest keeps other users out of its own folders
    place.chmod(0o755)
    yield Team(place)
    shutil.rmtree(place)


def test_a_second_user_of_a_repository_never_gets_a_yes_from_a_store_of_their_own(team: Team) -> None:
    team.give(ADA, 0o755)
    assert team.run(ADA, "acquire", "deploy://a").returncode == 0
    for words in (["acquire", "deploy://a"], ["list"], ["release", "deploy://a"], ["run", "deploy://a", "--", "true"]):
        answer = team.run(BOB, *words)
        assert answer.returncode == 9, (words, answer)
        assert f"may not write in {team.root}/.git" in answer.stderr
        assert "LEASEHOLD_URL" in answer.stderr
    assert not list((team.folder / str(BOB)).rglob("*.db"))


@pytest.mark.parametrize("closed", ["work/.git", "work", "."])
def test_a_user_who_cannot_look_into_a_repository_gets_no_yes_elsewhere(team: Team, closed: str) -> None:
    team.give(ADA, 0o755)
    assert team.run(ADA, "acquire", "deploy://a").returncode == 0
    (team.folder / str(BOB)).mkdir()
    (team.folder / closed).chmod(0o700)
    for words in (["acquire", "deploy://a"], ["list"], ["run", "deploy://a", "--", "true"]):
        answer = team.run(BOB, *words)
        assert answer.returncode == 9, (words, answer)
        assert f"this user cannot look into {team.root}/.git" in answer.stderr
        assert "\nexport LEASEHOLD_URL=" in answer.stderr
    (team.folder / closed).chmod(0o755)
    assert not list((team.folder / str(BOB)).rglob("*.db"))


def test_users_of_a_shared_repository_share_its_locks(team: Team) -> None:
    team.share()
    assert team.run(ADA, "acquire", "deploy://a").returncode == 0
    answer = team.run(BOB, "acquire", "deploy://a")
    assert (answer.returncode, "held" in answer.stderr.lower()) == (4, True), answer
    assert "deploy://a" in team.run(BOB, "list").stdout
    assert team.run(BOB, "acquire", "deploy://b").returncode == 0
    assert team.run(ADA, "acquire", "deploy://b").returncode == 4


def test_the_command_of_the_refusal_shares_the_locks(team: Team) -> None:
    team.give(ADA, 0o755)
    assert team.run(ADA, "acquire", "deploy://a").returncode == 0
    told = team.run(BOB, "list").stderr
    (command,) = [line for line in told.splitlines() if "chgrp" in line]
    subprocess.run(["sh", "-c", command.replace("GROUP", str(TEAM))], check=True)
    answer = team.run(BOB, "acquire", "deploy://a")
    assert answer.returncode == 4, answer


def test_a_database_of_another_user_is_refused_with_words(team: Team) -> None:
    team.give(TEAM, 0o2770)
    assert team.run(ADA, "acquire", "deploy://a").returncode == 0
    (team.root / ".git" / "leasehold").chmod(0o2770)
    answer = team.run(BOB, "acquire", "deploy://a")
    assert answer.returncode == 9, answer
    assert "Traceback" not in answer.stderr
    assert "this user may not open or create it" in answer.stderr
    assert "LEASEHOLD_URL" in answer.stderr
