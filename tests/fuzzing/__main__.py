"""``python -m tests.fuzzing [--seconds N] [name …]``: fuzz with atheris, each target for so long, in a process each.

Without atheris (`pip install --group fuzz`) nothing runs, which is said loudly and is no failure. An input that makes a
target fail is written to build/fuzzing, and belongs into `tests/fuzzing/test_targets.py`.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WRITTEN = Path("build", "fuzzing")
TARGETS = ("name", "pattern", "duration", "request", "shell")
LONGEST = 4_096
MISSING = """*** THE FUZZERS WERE NOT RUN: atheris is not installed for this Python ***
    .venv/bin/python -m pip install --group fuzz
"""


def main() -> int:
    """Fuzz one target after the other; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--here", action="store_true", help="in this process: one target only")
    parser.add_argument("names", nargs="*", choices=[*TARGETS, []], default=[])
    asked = parser.parse_args()
    if find_spec("atheris") is None:
        sys.stderr.write(MISSING)
        return 0
    chosen = asked.names or [*TARGETS]
    if asked.here:
        return _fuzz(chosen[0], asked.seconds)
    failed = [each for each in chosen if _apart(each, asked.seconds)]
    sys.stdout.write(f"fuzzed {', '.join(chosen)} for {asked.seconds} s each; failed: {', '.join(failed) or 'none'}\n")
    return int(bool(failed))


def _apart(target: str, seconds: int) -> int:
    words = [sys.executable, "-m", "tests.fuzzing", "--here", "--seconds", str(seconds), target]
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="replace").strip().splitlines()
    sys.stdout.write(f"{target}: {said[-1] if said else ''}\n")
    if done.returncode:
        sys.stdout.write("\n".join(said[-60:]) + "\n")
    sys.stdout.flush()
    return done.returncode


def _fuzz(target: str, seconds: int) -> int:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["leasehold"]):
        targets = importlib.import_module("tests.fuzzing.targets")
    feed, seeds = targets.TARGETS[target]
    corpus = WRITTEN / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={WRITTEN}/{target}-",
        "-timeout=10",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], feed)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
