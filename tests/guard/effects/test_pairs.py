"""Two processes of each kind of agent edit one repository; no edit of the other's file reaches a commit."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.guard.editors.adapters import ADAPTERS
from tests.guard.effects.repository import sh
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LONG = os.environ.get("LEASEHOLD_PROVE") == "1"
EDITS = 200 if LONG else 8
"""By both agents together."""
FILES = [f"src/f{number}.py" for number in range(6)]
LOSES_MESSAGES = ("copilot", "windsurf")
"""They give no id of a call and read messages only before their next tool, so they may miss one to undo. Git's hooks
then refuse their commit."""
PATIENCE = 1800 if LONG else 240
"""Seconds; each edit takes two processes or more, on a machine that may be busy."""


@pytest.mark.timeout(2 * PATIENCE + 60)
@pytest.mark.parametrize("agent", ADAPTERS)
def test_no_edit_of_the_others_file_reaches_a_commit(agent: str, app: Path, tmp_path: Path) -> None:
    (app / "src").mkdir(exist_ok=True)
    for name in FILES:
        (app / name).write_text("0\n")
    sh("git add -A; git commit -qm files", app)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    url = f"sqlite:///{tmp_path}/locks.db"
    env = {**kept, "HOME": str(tmp_path / "home"), "LEASEHOLD_URL": url, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.guard.effects.one_agent", agent]
    agents = [
        subprocess.Popen(
            [*command, session, str(EDITS // 2), str(tmp_path / "tools.lock"), *FILES],
            cwd=app,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for session in ("anns", "bobs")
    ]
    try:
        told = [each.communicate(timeout=PATIENCE) for each in agents]
    finally:
        for each in agents:
            each.kill()
    assert [each.returncode for each in agents] == [0, 0], told
    counts = [dict(word.split("=") for word in out.split()) for out, _ in told]
    print(agent, counts)
    assert not LONG or sum(int(count["reported"]) for count in counts) > 0, "their shells reach for the other's files"
    with leasehold.connect(url, holder="test") as locks:
        leases = locks.list()
    assert not isinstance(leases, leasehold.Refused)
    holders = {name: lease.holder for lease in leases for name in lease.resources}
    both = {f"{agent}-anns", f"{agent}-bobs"}
    assert set(holders.values()) <= both
    assert not LONG or set(holders.values()) == both, "in few edits one of them may get all files"
    authors = {name: (app / name).read_text().partition(" ")[0].strip() for name in FILES}
    survivors = {name: by for name, by in authors.items() if by != "0" and holders[f"path:{name}"] != f"{agent}-{by}"}
    assert not survivors or agent in LOSES_MESSAGES, (survivors, holders)
    for name, author in survivors.items():
        sh(f"git reset -q; git add {name}", app)
        hook = [sys.executable, "-m", "leasehold.cli", "git-hook", "pre-commit", "--policy", "require"]
        asked = {**env, "LEASEHOLD_HOLDER": f"{agent}-{author}"}
        refused = subprocess.run(hook, cwd=app, env=asked, capture_output=True, text=True, check=False)
        assert (refused.returncode, name in refused.stderr) == (4, True), refused
