"""A clone and its remote, with an author of commits, for the tests of git's hooks."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import leasehold

if TYPE_CHECKING:
    from pathlib import Path


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
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leasehold.cli "$@"\n')
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


def hook(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
