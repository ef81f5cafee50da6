"""Draw the recording of the README, two agents and one lock, from what the commands really print.

    python scripts/recording.py [--check]

It runs the commands in a temporary home, replaces what differs from run to run (times and ids), and writes an SVG that
plays in a browser and on a page of a repository. `--check` writes nothing and fails if the picture is not up to date.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "two-agents.svg"
COMMAND = (sys.executable, "-m", "leasehold.cli")
FIXED = (
    (r"(until +)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", r"\g<1>14:35:07 UTC"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "14:05:07 UTC"),
    (r"l\d+-[0-9a-f]+", "l1-3f2a…"),
    (r"in 29m[\d ms]*s", "in 29m"),
    (r"\d+ms ago", "5s ago"),
    (r"[\d.]+m?s ago", "5s ago"),
)
"""What differs from run to run, and what stands for it in the picture."""
LOOP = 18.0
"""Seconds until the recording begins again."""
WIDTH, LEFT, ROW, TOP = 1240, 20, 19, 72
HALF = WIDTH // 2
PATIENCE = 60.0


class Line(NamedTuple):
    """One line of a terminal: in which of the two, when it appears, and whether it was typed."""

    terminal: int
    at: float
    text: str
    is_typed: bool = False


class Stage:
    """Two agents with one store between them."""

    def __init__(self, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        self._env = {**kept, **home, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
        self._folder = folder

    def start(self, agent: str, words: str) -> subprocess.Popen[str]:
        """Type a command as this agent."""
        return subprocess.Popen(
            [*COMMAND, *_words(words)],
            env={**self._env, "LEASEHOLD_HOLDER": agent},
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, agent: str, words: str) -> list[str]:
        """Return the lines that a command prints."""
        return printed(self.start(agent, words))

    def until_queued(self, name: str) -> None:
        """Wait until somebody waits for this name."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if json.loads("\n".join(self.run("viewer", f"inspect {name} --json")))["data"]["waiting"]:
                return
        raise SystemExit(f"the second agent never queued for {name}")


def printed(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines of a command, without what differs from run to run."""
    text = process.communicate(timeout=PATIENCE)[0]
    for pattern, instead in FIXED:
        text = re.sub(pattern, instead, text)
    return text.splitlines()


def _words(command: str) -> list[str]:
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)]


def play() -> list[Line]:
    """Let the two agents meet, and return what is seen when."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        take, wait = 'acquire path:src/parser.py --name "fix the parser"', "acquire path:src --wait 10m"
        give = "release path:src/parser.py"
        lines = _typed(0, 0.5, take, stage.run("coder-1", take))
        lines += _typed(1, 4.0, "acquire path:src", stage.run("coder-2", "acquire path:src"))
        waiting = stage.start("coder-2", wait)
        stage.until_queued("path:src")
        lines += _typed(1, 8.0, wait, [])
        lines += _typed(0, 11.0, give, stage.run("coder-1", give))
        lines += [Line(1, 12.2, text) for text in printed(waiting)]
    return lines


def _typed(terminal: int, at: float, command: str, answer: list[str]) -> list[Line]:
    return [Line(terminal, at, f"$ leasehold {command}", True), *(Line(terminal, at + 1.2, text) for text in answer)]


def drawn(lines: list[Line]) -> str:
    """Return the picture. A viewer without animation, or a reader who wants none, sees all lines."""
    rows, moments, body = [0, 0], sorted({line.at for line in lines}), list[str]()
    for line in lines:
        place = (LEFT + line.terminal * HALF, TOP + rows[line.terminal] * ROW)
        rows[line.terminal] += 1
        kind = "typed" if line.is_typed else _kind(line.text)
        body.append(
            f'<text class="{kind} m{moments.index(line.at)}" x="{place[0]}" y="{place[1]}">{escape(line.text)}</text>'
        )
    height = TOP + max(rows) * ROW + 4
    return "\n".join((*_head(height, moments), *body, "</svg>", ""))


def _kind(text: str) -> str:
    return next((kind for kind, word in (("yes", "Acquired"), ("yes", "Released"), ("no", "Held")) if word in text), "")


def _head(height: int, moments: list[float]) -> list[str]:
    shown = []
    for number, at in enumerate(moments):
        begin = 100 * at / LOOP
        steps = f"0%, {begin:.1f}% {{ opacity: 0 }} {begin + 0.5:.1f}%, 100% {{ opacity: 1 }}"
        shown.append(f"@keyframes k{number} {{ {steps} }}")
        shown.append(f".m{number} {{ animation: k{number} {LOOP:g}s infinite }}")
    titles = "".join(
        f'<text class="title" x="{LEFT + place * HALF}" y="34">{agent}</text>'
        for place, agent in enumerate(("coder-1", "coder-2"))
    )
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        ' role="img" aria-label="Two agents, one lock: coder-1 acquires a file, coder-2 is refused, waits, gets it">',
        "<style>",
        "text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #c9d1d9; white-space: pre }",
        ".title { fill: #8b949e } .typed { fill: #ffffff; font-weight: 600 }",
        ".yes { fill: #7ee787 } .no { fill: #ffa657 }",
        "@media (prefers-reduced-motion: no-preference) {",
        *shown,
        "}",
        "</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117"/>',
        f'<path d="M{HALF} 12V{height - 12}M12 46H{WIDTH - 12}" stroke="#30363d"/>',
        titles,
    ]


def main(words: list[str]) -> int:
    """Write the picture, or compare it."""
    picture = drawn(play())
    if "--check" not in words:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    if PICTURE.read_text(encoding="utf-8") == picture:
        return 0
    print(
        f"{PICTURE.name} is not what the commands print. Draw it again:\n  python scripts/recording.py", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
