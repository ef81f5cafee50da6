"""An agent of one kind, as a process: it edits files by its file tool and its shell, and does what its hooks say.

    python -m tests.guard.effects.one_agent AGENT SESSION EDITS LOCK FILE…

It sends the payloads that tests/guard/adapters has of its agent. The lock keeps the moment in which a tool writes apart
from the hook after another tool: nothing could tell whose bytes a file has that two tools write at the same instant.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.guard.editors.adapters import ADAPTERS, WINDSURF

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parent.parent / "adapters"
BUILD = "./build"
"""Words that do not tell what a command writes."""


class HookAnswer(NamedTuple):
    """What a hook said to its agent."""

    is_denied: bool
    text: str


class OneAgent:
    """One session of an agent, with the payloads of its kind."""

    def __init__(self, kind: str, session: str, lock: str) -> None:
        self._kind = kind
        self._session = session
        self._lock = lock
        self._root = str(Path.cwd())
        self._payloads = json.loads((FIXTURES / f"{kind}.json").read_text())["payloads"]
        self._calls = 0
        self._by_shell = ""
        """The file that the last command wrote."""
        self.edits = self.denied = self.reported = 0

    def edit(self, path: str) -> None:
        """Write a file by the file tool."""
        self._calls += 1
        before = self._hook(self._edit_payload("before", path))
        if before.is_denied:
            self.denied += 1
            self._obey(before.text)
            return
        with self._alone():
            self._write(path)
            after = self._hook(self._edit_payload("after", path))
        self._obey(after.text)

    def run(self, path: str) -> None:
        """Write a file by a script, whose name tells nothing."""
        self._calls += 1
        before = self._hook(self._shell_payload("before", BUILD))
        if before.is_denied:  # it still has something to undo
            self._obey(before.text)
            return
        with self._alone():
            self._write(path)
            self._by_shell = path
        self._obey(self._hook(self._shell_payload("after", BUILD)).text)

    def settle(self) -> None:
        """Run a last command: some agents read only then what their hooks said after the one before it."""
        self._calls += 1
        self._obey(self._hook(self._shell_payload("before", BUILD)).text)
        self._obey(self._hook(self._shell_payload("after", BUILD)).text)

    def _write(self, path: str) -> None:
        Path(path).write_text(f"{self._session} {self._calls}\n")
        self.edits += 1

    def _obey(self, text: str) -> None:
        """Run the commands that undo what this agent did, through its hooks."""
        is_certain, written = "what others hold" in text, self._by_shell
        if not is_certain and not (written and f"{written}, held by" in text):
            return
        self.reported += is_certain
        for command in [line.strip() for line in text.splitlines() if line.startswith("  ")]:
            if not command.startswith(("git -C ", "cp -p ", "rm ")) or not (is_certain or written in command):
                continue
            self._calls += 1
            with self._alone():
                if not self._hook(self._shell_payload("before", command)).is_denied:
                    # It fails where the holder has just worked on the file, whose hook then removed the copy
                    subprocess.run(["bash", "-c", command], check=False, capture_output=True)
                    self._hook(self._shell_payload("after", command))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with Path(self._lock).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _hook(self, payload: dict[str, Any]) -> HookAnswer:
        command = [sys.executable, "-m", "leasehold.cli", "hook", self._kind, "--policy", "require"]
        done = subprocess.run(command, input=json.dumps(payload), capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2), done
        assert "Traceback" not in done.stderr, done
        if ADAPTERS[self._kind].answer == WINDSURF:
            return HookAnswer(done.returncode == 2, done.stderr)
        told = json.loads(done.stdout) if done.stdout else {}
        return HookAnswer('"deny"' in done.stdout, "\n".join(dict.fromkeys(_texts(told))))

    def _edit_payload(self, moment: str, path: str) -> dict[str, Any]:
        found = self._first("before", "paths")
        told = found["input"]
        for name in found["reads"]["paths"]:
            told = _with(told, name, name.replace(Path(name).name, path))
        (event,) = [field for field in ADAPTERS[self._kind].event if field in told]
        if moment == "after":
            for before, after in (("Pre", "Post"), ("pre", "post"), ("Before", "After"), ("before", "after")):
                told = {**told, event: told[event].replace(before, after)}
        return self._mine(told)

    def _shell_payload(self, moment: str, command: str) -> dict[str, Any]:
        found = self._first(moment, "command")
        return self._mine(_with(found["input"], found["reads"]["command"], command))

    def _first(self, moment: str, what: str) -> dict[str, Any]:
        found: dict[str, Any] = next(
            each
            for each in self._payloads
            if each["reads"]["moment"] == moment and each["reads"].get(what) and not each["reads"].get("agent")
        )
        return found

    def _mine(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return this payload as this session sends it from this repository."""
        row = ADAPTERS[self._kind]
        told: dict[str, Any] = _with(payload, "/repo", self._root)
        for field in row.session:
            if field in told:
                told[field] = self._session
        for field in row.call:
            if field in told:
                told[field] = f"{self._session}-{self._calls}"
        return told


def _with(value: Any, old: str, new: str) -> Any:  # noqa: ANN401 (any JSON)
    """Return the JSON with a text in all of its texts replaced; arguments may be JSON in a text themselves."""
    if isinstance(value, dict):
        return {name: _with(each, old, new) for name, each in value.items()}
    if isinstance(value, list):
        return [_with(each, old, new) for each in value]
    if not isinstance(value, str):
        return value
    if value.startswith("{"):
        return json.dumps(_with(json.loads(value), old, new))
    is_part = old == "/repo" or value.startswith("*** Begin Patch")
    return new if value == old else value.replace(old, new) if is_part else value


def _texts(told: Any) -> Iterator[str]:  # noqa: ANN401 (any JSON)
    if isinstance(told, dict):
        for each in told.values():
            yield from _texts(each)
    elif isinstance(told, str):
        yield told


def main() -> None:
    kind, session, edits, lock, *files = sys.argv[1:]
    agent = OneAgent(kind, session, lock)
    chance = random.Random(f"{session} {os.environ.get('LEASEHOLD_SEED', '')}")
    for number in range(int(edits)):
        path = files[number % len(files)] if number < len(files) else chance.choice(files)
        agent.edit(path) if chance.random() < 0.5 else agent.run(path)
    agent.settle()
    print(f"edits={agent.edits} denied={agent.denied} reported={agent.reported}")


if __name__ == "__main__":
    main()
