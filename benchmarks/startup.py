"""One-shot commands: `leasehold acquire NAME` and `release NAME`, each a fresh process, against `python -c pass`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import leasehold
from benchmarks import scratch
from benchmarks.report import Figure, at_most

SOURCE = Path(leasehold.__file__).resolve().parents[1]
GOAL = 1.8
PASS = [sys.executable, "-c", "pass"]
MODULE = [sys.executable, "-c", "from leasehold.cli import main; main()"]
SCRIPT = Path(sys.executable).with_name("leasehold")


def _took(command: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=env["PWD"], env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def _environment(folder: str) -> dict[str, str]:
    """As a user has it: a home of one's own, a git repository in it, and compiled modules are kept."""
    repository = Path(folder, "work")
    for part in ("objects", "refs"):
        (repository / ".git" / part).mkdir(parents=True)
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    ours = {"HOME": folder, "PWD": str(repository), "PYTHONPATH": str(SOURCE)}
    return {"PATH": os.environ["PATH"], "USER": "bench", **ours}


def _medians(commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """Each command's median, all of them in turn, so that what disturbs the machine disturbs all alike."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with scratch.folder() as folder:
        env = _environment(folder)
        for number in range(rounds + 2):
            for name, command in commands.items():
                seconds = _took(command, env)
                if number >= 2:  # the first ones create the database and compile
                    taken[name].append(seconds)
    return {name: statistics.median(each) for name, each in taken.items()}


def one_shot(rounds: int = 30) -> list[Figure]:
    """By the interpreter itself, and by the script that the installer made, which has a start of its own."""
    ways = {"by python -c": MODULE} | ({"by the installed script": [str(SCRIPT)]} if SCRIPT.exists() else {})
    commands = {"python -c pass": PASS}
    for way, command in ways.items():
        commands |= {f"{verb} NAME, {way}": [*command, verb, "bench"] for verb in ("acquire", "release")}
    medians = _medians(commands, rounds)
    floor = medians.pop("python -c pass")
    return [
        at_most(
            f"{name}, a fresh process, median",
            f"{taken * 1e3:.1f} ms",
            f"python -c pass {floor * 1e3:.1f} ms",
            taken / floor,
            GOAL,
        )
        for name, taken in medians.items()
    ]
