"""The file-locking API of Git LFS: its routes, and the story of the real `git lfs` (Debian's package) on two clones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

import leasehold
from tests.kit.serving import create_key, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.serving import Reply, Running

MEDIA = "application/vnd.git-lfs+json"
LOCKS = "/lfs/default/locks"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    return {name: create_key(tmp_path, "agent", name=name) for name in ("ann", "bob")} | {
        "ops": create_key(tmp_path, "admin", name="ops")
    }


@pytest.fixture
def server(tmp_path: Path, keys: dict[str, str]) -> Iterator[Running]:
    with serving(tmp_path) as running:
        yield running


def ask(server: Running, method: str, path: str, body: object = None, *, key: str | None = None) -> Reply:
    headers = {"Content-Type": MEDIA, "Accept": MEDIA}
    if key is not None:
        headers["Authorization"] = f"Basic {b64encode(f'user:{key}'.encode()).decode()}"
    return server.ask(method, path, None if body is None else json.dumps(body).encode(), **headers)


def test_a_file_is_locked_by_one_and_listed_for_all(server: Running, keys: dict[str, str]) -> None:
    locked = ask(server, "POST", LOCKS, {"path": "art/hero.psd", "ref": {"name": "refs/heads/main"}}, key=keys["ann"])
    assert locked.status == 201
    assert locked.headers["content-type"] == MEDIA
    lock = locked.json["lock"]
    assert (lock["path"], lock["owner"]) == ("art/hero.psd", {"name": "ann"})
    refused = ask(server, "POST", LOCKS, {"path": "art/hero.psd"}, key=keys["bob"])
    assert (refused.status, refused.json["lock"]["owner"]) == (409, {"name": "ann"})
    assert ask(server, "GET", LOCKS, key=keys["bob"]).json == {"locks": [lock]}
    assert ask(server, "GET", f"{LOCKS}?path=art/other.psd", key=keys["bob"]).json == {"locks": []}
    assert ask(server, "POST", f"{LOCKS}/verify", {}, key=keys["ann"]).json == {"ours": [lock], "theirs": []}
    assert ask(server, "POST", f"{LOCKS}/verify", {}, key=keys["bob"]).json == {"ours": [], "theirs": [lock]}


def test_only_its_owner_unlocks_unless_an_admin_forces_it(server: Running, keys: dict[str, str]) -> None:
    id_ = ask(server, "POST", LOCKS, {"path": "a"}, key=keys["ann"]).json["lock"]["id"]
    assert ask(server, "POST", f"{LOCKS}/{id_}/unlock", {}, key=keys["bob"]).status == 403
    assert ask(server, "POST", f"{LOCKS}/{id_}/unlock", {"force": True}, key=keys["bob"]).status == 403
    assert ask(server, "POST", f"{LOCKS}/{id_}/unlock", {}, key=keys["ann"]).json["lock"]["path"] == "a"
    assert ask(server, "POST", f"{LOCKS}/{id_}/unlock", {}, key=keys["ann"]).status == 404
    again = ask(server, "POST", LOCKS, {"path": "a"}, key=keys["bob"]).json["lock"]["id"]
    assert ask(server, "POST", f"{LOCKS}/{again}/unlock", {"force": True}, key=keys["ops"]).status == 200
    assert ask(server, "GET", LOCKS, key=keys["ops"]).json == {"locks": []}


def test_what_agents_hold_counts_as_locked(server: Running, keys: dict[str, str]) -> None:
    with leasehold.connect(server.url, api_key=keys["bob"], holder="coder-1") as locks:
        assert locks.acquire("path:src", ttl=60)
        refused = ask(server, "POST", LOCKS, {"path": "src/logo.png"}, key=keys["ann"])
        assert (refused.status, refused.json["lock"]["owner"]) == (409, {"name": "coder-1"})
        id_ = refused.json["lock"]["id"]
        assert ask(server, "POST", f"{LOCKS}/{id_}/unlock", {}, key=keys["bob"]).status == 403, "another of its holders"
    assert ask(server, "POST", LOCKS, {"path": "odd [1].png"}, key=keys["ann"]).json["lock"]["path"] == "odd [1].png"


def test_lists_come_in_pages(server: Running, keys: dict[str, str]) -> None:
    for number in range(3):
        ask(server, "POST", LOCKS, {"path": f"f{number}"}, key=keys["ann"])
    first = ask(server, "GET", f"{LOCKS}?limit=2", key=keys["ann"]).json
    assert [each["path"] for each in first["locks"]] == ["f0", "f1"]
    rest = ask(server, "GET", f"{LOCKS}?limit=2&cursor={first['next_cursor']}", key=keys["ann"]).json
    assert ([each["path"] for each in rest["locks"]], "next_cursor" in rest) == (["f2"], False)


def test_a_caller_without_a_key_is_asked_for_one(server: Running) -> None:
    refused = ask(server, "GET", LOCKS)
    assert refused.status == 401
    assert "Basic" in refused.headers["lfs-authenticate"]


@pytest.mark.parametrize("body", [{}, {"path": ""}, {"path": 5}, {"path": "../x"}, {"path": "/etc"}, [], "x"])
def test_what_is_no_lock_changes_nothing(server: Running, keys: dict[str, str], body: object) -> None:
    assert ask(server, "POST", LOCKS, body, key=keys["ann"]).status == 400
    assert ask(server, "GET", f"{LOCKS}?cursor=x", key=keys["ann"]).status == 400
    assert ask(server, "GET", LOCKS, key=keys["ann"]).json == {"locks": []}
    assert ask(server, "POST", "/lfs/other/locks", {"path": "a"}, key=keys["ann"]).status == 403


class Clone:
    """A working copy of one person, whose key git has stored."""

    def __init__(self, folder: Path, remote: Path, server: Running, key: str) -> None:
        self.folder = folder
        home = folder.parent / f"{folder.name}-home"
        home.mkdir()
        (home / ".git-credentials").write_text(f"http://me:{key}@{server.host}:{server.port}\n")
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {**kept, "HOME": str(home), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
        folder.mkdir()
        self.run("git", "init", "-q", "-b", "main")
        for name, value in {
            "user.name": folder.name,
            "user.email": "someone@example.com",
            "credential.helper": "store",
            "lfs.url": f"{server.url}/lfs/default",
            "lfs.locksverify": "true",
        }.items():
            self.run("git", "config", name, value)
        self.run("git", "lfs", "install", "--local")
        self.run("git", "remote", "add", "origin", str(remote))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self.ask(*words)
        assert done.returncode == 0, done
        return done

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.mark.skipif(
    shutil.which("git-lfs") is None, reason="NOT RUN: git-lfs is not installed: apt-get install git-lfs"
)
def test_the_real_client_locks_and_is_kept_from_pushing(server: Running, keys: dict[str, str], tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    ann = Clone(tmp_path / "ann", remote, server, keys["ann"])
    bob = Clone(tmp_path / "bob", remote, server, keys["bob"])
    (ann.folder / "hero.txt").write_text("one\n")
    ann.run("git", "add", "hero.txt")
    ann.run("git", "commit", "-qm", "one")
    ann.run("git", "push", "-q", "origin", "main")
    bob.run("git", "pull", "-q", "origin", "main")

    assert "Locked hero.txt" in ann.run("git", "lfs", "lock", "hero.txt").stdout
    assert "hero.txt\tann" in bob.run("git", "lfs", "locks").stdout
    refused = bob.ask("git", "lfs", "lock", "hero.txt")
    assert (refused.returncode == 0, "hero.txt" in refused.stdout + refused.stderr) == (False, True)
    (bob.folder / "hero.txt").write_text("two\n")
    bob.run("git", "commit", "-qam", "two")
    halted = bob.ask("git", "push", "-q", "origin", "main")
    assert halted.returncode != 0
    assert "hero.txt - ann" in halted.stdout + halted.stderr

    assert bob.ask("git", "lfs", "unlock", "hero.txt").returncode != 0
    ann.run("git", "lfs", "unlock", "hero.txt")
    bob.run("git", "push", "-q", "origin", "main")


@pytest.mark.skipif(
    shutil.which("git-lfs") is None, reason="NOT RUN: git-lfs is not installed: apt-get install git-lfs"
)
def test_the_real_client_forces_a_lock_and_sees_one_expire(
    server: Running, keys: dict[str, str], tmp_path: Path
) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    ann, ops = (Clone(tmp_path / name, remote, server, keys[name]) for name in ("ann", "ops"))
    ann.run("git", "lfs", "lock", "hero.txt")
    id_ = ask(server, "GET", LOCKS, key=keys["ops"]).json["locks"][0]["id"]
    forced = ops.run("git", "lfs", "unlock", "--force", "--id", id_)
    assert "Unlocked" in forced.stdout + forced.stderr
    assert ann.run("git", "lfs", "locks").stdout == ""

    ann.run("git", "lfs", "lock", "hero.txt")
    lease = ask(server, "GET", LOCKS, key=keys["ops"]).json["locks"][0]["id"]
    with leasehold.connect(server.url, api_key=keys["ops"]) as locks:
        assert locks.extend(lease, ttl="50ms", by="ops", reason="as if a day had gone by")
    until(lambda: ops.run("git", "lfs", "locks").stdout == "")
    ops.run("git", "lfs", "lock", "hero.txt")
    assert "hero.txt\tops" in ann.run("git", "lfs", "locks").stdout
