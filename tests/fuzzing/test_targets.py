"""What the fuzzers feed holds for their seeds, for broken seeds, and for every input that a fuzzer once failed on."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fuzzing import __main__ as fuzzing
from tests.fuzzing.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 300
FAILED: dict[str, tuple[bytes, ...]] = {"name": (b"pool:./src//a.py\npath:wrc",)}
"""Inputs on which a fuzzer failed before a mistake was mended."""


def broken(seed: bytes, chance: random.Random) -> bytes:
    """Return the seed with some bytes changed, doubled or left out."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        data[at : at + chance.randint(0, 2)] = bytes(chance.choices(range(256), k=chance.randint(0, 3)))
    return bytes(data)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_broken_seeds_hold(target: str) -> None:
    feed: Callable[[bytes], None]
    feed, seeds = TARGETS[target]
    chance = random.Random(target)
    for data in (*seeds, *FAILED.get(target, ()), b""):
        feed(data)
    for _ in range(TRIES):
        feed(broken(chance.choice(seeds), chance))


def test_the_fuzzers_are_named_once() -> None:
    assert (*TARGETS,) == fuzzing.TARGETS


def test_without_atheris_the_fuzzers_say_loudly_that_they_did_not_run() -> None:
    hidden = "import runpy, sys; sys.modules['atheris'] = None; runpy.run_module('tests.fuzzing', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, fuzzing.MISSING)
