"""Plant a bug in a copy of the tree and see whether the tests notice. The tree itself is never touched."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.mutants.kinds import Mutant

ROOT = Path(__file__).parents[2]
TEST_SECONDS = 60
"""A test that a bug keeps from ending has noticed it."""
CAUGHT, SURVIVED, STALE, BROKEN = "caught", "SURVIVED", "STALE", "BROKEN"


class Verdict(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    state: str
    told: str
    """By which test, or why not."""


def is_fresh(mutant: Mutant) -> bool:
    """Whether the bug can still be planted, in exactly one place."""
    return (ROOT / "src/leasehold" / mutant.file).read_text().count(mutant.old) == 1


def missing_tests(mutant: Mutant) -> list[str]:
    """Return the files, tests and words of `-k` that it names and that there are not."""
    named = [word.split("::") for word in mutant.tests if word.startswith("tests/")]
    missing = ["::".join(words) for words in named if not _is_there(*words)]
    if "-k" in mutant.tests:
        files = [ROOT / file for file, *_ in named] + [*(ROOT / "src/leasehold/testing/conformance").glob("*.py")]
        text = "".join(_text(file) for file in files).lower()
        words = re.findall(r"\w+", mutant.tests[mutant.tests.index("-k") + 1].lower())
        missing += [word for word in words if word not in ("and", "or", "not") and word not in text]
    return missing


def _is_there(file: str, *names: str) -> bool:
    text = _text(ROOT / file)
    return bool(text) and all(re.search(rf"(def|class) {name.partition('[')[0]}\b", text) for name in names)


@cache
def _text(path: Path) -> str:
    """Return the names of the files at this path, and what is in them."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []
    return "".join(f"{file.name}\n{file.read_text()}" for file in files)


def planted(mutant: Mutant) -> str:
    """The file with the bug in it; raises `SyntaxError` if that is not even Python."""
    text = (ROOT / "src/leasehold" / mutant.file).read_text().replace(mutant.old, mutant.new)
    ast.parse(text)
    return text


def try_out(mutant: Mutant) -> Verdict:
    """Plant this bug in a copy, and run the tests that should notice."""
    if not is_fresh(mutant):
        return Verdict(mutant, STALE, f"the text to be replaced is not in {mutant.file}, or not once")
    with tempfile.TemporaryDirectory(prefix="leasehold-mutant-") as place:
        copy = _copy(Path(place))
        try:
            (copy / "src/leasehold" / mutant.file).write_text(planted(mutant))
        except SyntaxError as error:
            return Verdict(mutant, BROKEN, f"not even Python: {error}")
        return _judge(mutant, _pytest(copy, ["-x", *mutant.tests]))


def without_a_bug(selections: Iterable[tuple[str, ...]]) -> str:
    """Nothing, if all of these tests pass without any bug; otherwise what they say."""
    with tempfile.TemporaryDirectory(prefix="leasehold-mutant-") as place:
        copy = _copy(Path(place))
        for selection in dict.fromkeys(selections):
            done = _pytest(copy, ["-x", *selection])
            if done.returncode != 0:
                return done.stdout + done.stderr
    return ""


def _copy(place: Path) -> Path:
    without = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, place / part, ignore=without)
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def _pytest(copy: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "LEASEHOLD_PROVE"}
    environment["PYTHONPATH"] = os.pathsep.join((str(copy / "src"), str(copy)))
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    options = ["-q", "-p", "no:cacheprovider", "-o", f"timeout={TEST_SECONDS}", "--no-header", "--tb=line"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def _judge(mutant: Mutant, done: subprocess.CompletedProcess[str]) -> Verdict:
    if done.returncode == 0:
        return Verdict(mutant, SURVIVED, "nobody noticed")
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    if done.returncode == 1 and failed:
        return Verdict(mutant, CAUGHT, failed[0].removeprefix("FAILED ").partition(" - ")[0])
    return Verdict(mutant, BROKEN, (done.stdout + done.stderr)[-300:])  # e.g. no such test
