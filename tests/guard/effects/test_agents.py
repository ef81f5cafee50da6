"""Agents of several processes in one repository: what each changes is judged by its hooks, and git refuses the rest."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import leasehold
from tests.guard.effects.repository import sh

if TYPE_CHECKING:
    from pathlib import Path

LONG = os.environ.get("LEASEHOLD_PROVE") == "1"
ROUNDS = 300 if LONG else 12
FILES = [f"src/f{number}.py" for number in range(6)]


class Editor(NamedTuple):
    """An agent whose editor calls the installed hook command."""

    session: str
    root: Path
    env: dict[str, str]

    def hook(self, event: str, tool: str, number: int, **tool_input: str) -> Any:  # noqa: ANN401 (whatever it says)
        given = {"session_id": self.session, "cwd": str(self.root), "hook_event_name": event}
        given |= {"tool_name": tool, "tool_use_id": f"{self.session}-{number}"}
        done = subprocess.run(
            [sys.executable, "-m", "leasehold.cli", "hook", "claude", "--policy", "require"],
            input=json.dumps(given | {"tool_input": tool_input}),
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.root,
            check=False,
        )
        assert done.returncode in (0, 2), done
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout) if done.stdout else {"feedback": done.stderr} if done.stderr else None


def is_denied(answer: Any) -> bool:  # noqa: ANN401 (whatever a hook said)
    return answer is not None and "deny" in json.dumps(answer)


@pytest.fixture
def editors(app: Path, tmp_path: Path) -> list[Editor]:
    (app / "src").mkdir(exist_ok=True)
    for name in FILES:
        (app / name).write_text("0\n")
    sh("git add -A; git commit -qm files", app)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env = {**kept, "HOME": str(tmp_path / "home"), "LEASEHOLD_URL": f"sqlite:///{tmp_path}/locks.db"}
    return [Editor(session * 4, app, env) for session in "abc"]


@pytest.mark.timeout(1800 if LONG else 300)
def test_three_agents_in_one_tree(editors: list[Editor], tmp_path: Path) -> None:
    """Edits by file tools and shell calls overlap at random; each file has one writer, or its change is reported."""
    chance = random.Random(7)
    root = editors[0].root
    owners: dict[str, str] = {}
    accused: list[tuple[int, str, str]] = []
    real: list[int] = []
    for number in range(ROUNDS):
        agent = chance.choice(editors)
        name = chance.choice(FILES)
        other = owners.get(name) not in (None, agent.session)
        if chance.random() < 0.5:
            if is_denied(agent.hook("PreToolUse", "Edit", number, file_path=str(root / name))):
                assert other, (number, owners)
                continue
            assert not other, (number, owners)
            (root / name).write_text(f"{number}\n")
            answer = agent.hook("PostToolUse", "Edit", number, file_path=str(root / name))
        else:
            assert not is_denied(agent.hook("PreToolUse", "Bash", number, command="./build"))
            (root / name).write_text(f"{number}\n")
            answer = agent.hook("PostToolUse", "Bash", number, command="./build")
            if other:
                real.append(number)
        owners.setdefault(name, agent.session)
        if answer is not None and name in json.dumps(answer) and "what others hold" in json.dumps(answer):
            accused.append((number, agent.session, name))
    assert [number for number, _, _ in accused] == real
    with leasehold.connect(editors[0].env["LEASEHOLD_URL"], holder="test") as locks:
        leases = locks.list()
        assert not isinstance(leases, leasehold.Refused)
        assert {lease.resources[0]: lease.holder for lease in leases} == {
            f"path:{name}": f"claude-{session}" for name, session in owners.items()
        }
        reported = locks.history(kinds=["trespass"], limit=1_000)
        assert not isinstance(reported, leasehold.Refused)
        assert len(reported) == len(real)


def test_git_refuses_a_trespass_until_it_is_undone(editors: list[Editor]) -> None:
    ann, bob, _ = editors
    assert ann.hook("PreToolUse", "Edit", 1, file_path=str(ann.root / FILES[0])) is None
    ann.hook("PostToolUse", "Edit", 1, file_path=str(ann.root / FILES[0]))
    bob.hook("PreToolUse", "Bash", 2, command="./build")
    (bob.root / FILES[0]).write_text("bob was here\n")
    told = json.dumps(bob.hook("PostToolUse", "Bash", 2, command="./build"))
    assert f"{FILES[0]}, held by claude-aaaa" in told

    news = json.dumps(ann.hook("PostToolUse", "Bash", 3, command="ls"))
    assert f"{FILES[0]}, which you hold, was changed by claude-bbbb" in news

    def commit(holder: str) -> subprocess.CompletedProcess[str]:
        env = {**bob.env, "LEASEHOLD_HOLDER": holder}
        command = [sys.executable, "-m", "leasehold.cli", "git-hook", "pre-commit", "--policy", "require"]
        return subprocess.run(command, cwd=bob.root, env=env, capture_output=True, text=True, check=False)

    sh("git add -A", bob.root)
    refused = commit("claude-bbbb")
    assert refused.returncode == 4
    assert "was changed by claude-bbbb while claude-aaaa held it" in refused.stderr
    undo = next(line.strip() for line in refused.stderr.splitlines() if "git -C" in line)
    sh(f"{undo}; git add -A", bob.root)
    assert commit("claude-bbbb").returncode == 0
