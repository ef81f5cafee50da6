"""A repository with a submodule and a second worktree, in which commands change files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

AUTHOR = {f"GIT_{who}_{what}": "ada" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
FILE, FREE = "src/held.py", "src/free.py"


def sh(command: str, where: Path) -> None:
    """Run a command, which must succeed."""
    env = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")}, **AUTHOR}
    done = subprocess.run(["bash", "-c", command], cwd=where, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


def commit_files(root: Path) -> None:
    """Make a repository with a file to change, another one, and a branch that changes the first."""
    (root / "src").mkdir(parents=True)
    sh("git init -q -b main", root)
    for name in (FILE, FREE):
        (root / name).write_text("one\ntwo\nthree\n")
    sh(f"git add -A; git commit -qm one; git checkout -q -b feature; echo feature >> {FILE}", root)
    sh("git commit -qam feature; git checkout -q main", root)


def spelled(command: str, file: str = FILE) -> str:
    """Return a command about this file."""
    return command.format(f=file, dir=Path(file).parent, base=Path(file).name)
