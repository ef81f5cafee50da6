"""The examples in the documents: read from Markdown, run, and compared. No tests in here."""

from __future__ import annotations

import re
import socket
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from tests.kit.shell import PATIENCE, ROOT, Shell

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
MARK = "=== end of example"
PORT = "7421"
"""Where examples start a server; `run` puts a free port in its place."""


class Example(NamedTuple):
    """A command and what it prints; nothing expected means: whatever it likes."""

    command: str
    expected: list[str]


class Block(NamedTuple):
    """A fenced block."""

    language: str
    section: str
    """The heading of the second level above it."""
    line: int
    text: str


def blocks(path: Path) -> list[Block]:
    found: list[Block] = []
    section, language, began, lines = "", None, 0, list[str]()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if language is None and line.startswith("## "):
            section = line[3:]
        elif language is None and line.startswith("```"):
            language, began, lines = line[3:].strip(), number, []
        elif language is not None and line.startswith("```"):
            found.append(Block(language, section, began, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
    return found


def examples(text: str) -> list[Example]:
    """The commands of a block, each after a `$ `, with what follows each."""
    found: list[Example] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Example(line[2:], []))
        else:
            assert found, f"no command comes before {line!r}"
            found[-1].expected.append(line)
    return found


def sections(path: Path) -> dict[str, list[Example]]:
    """What is to be typed in each section, in order."""
    found: dict[str, list[Example]] = {}
    for block in blocks(path):
        if block.language == "console":
            found.setdefault(block.section, []).extend(examples(block.text))
    return found


def run(shell: Shell, commands: list[str]) -> list[str]:
    """Type all of these into one shell; what each of them printed."""
    # `$?` of the next command is that of this one: the mark keeps it.
    keep = f'__code=$?; printf "{MARK}\\n"; (exit $__code)'
    end = "trap 'kill $(jobs -p) 2>/dev/null' EXIT"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    script = "\n".join((end, *(part.replace(PORT, port) for command in commands for part in (command, keep))))
    done = subprocess.run(
        ["/bin/bash", "-c", f"exec 2>&1\n{script}"],
        cwd=shell.home,
        env=shell.with_command(shell.env("ada")),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    parts = done.stdout.split(f"{MARK}\n")
    assert len(parts) == len(commands) + 1, done.stdout
    return parts[:-1]


def pattern(expected: list[str]) -> re.Pattern[str]:
    """`…` alone in a line is any number of lines; within a line it is anything."""
    lines = [r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + r"\n" for line in expected]
    return re.compile("".join(lines))
