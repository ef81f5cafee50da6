"""Which directories the words of a command mention, wherever in it: `make -C ../other`, `python -c "open('/srv/x')"`.

A script can reach any repository; one that a command mentions is compared, too. No variables are expanded.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH111, PTH118

from __future__ import annotations

import os
import re

from leasehold.guard.checking import LONGEST

MOST = 64
"""The most places in one command that are checked."""
_WORD = r"""[^\s'"`=:;,|&<>(){}\[\]$*?]"""
_PATH = re.compile(rf"{_WORD}*/{_WORD}*|(?<!{_WORD})(?:\.\.|~)(?!{_WORD})")
_INTO = re.compile(rf"(?:\bcd|\bpushd|\s-C|\s--directory)(?:\s+|=)['\"]?({_WORD}+)")
"""Where a command goes before it runs others."""
_BASES = 8


def mentioned(command: str, cwd: str) -> list[str]:
    """Return the places that a command mentions; relative ones may start in each folder that it goes to."""
    bases = [cwd]
    for word in _INTO.findall(command)[: _BASES - 1]:
        bases.append(_place(word, bases[-1]))
    words = list(dict.fromkeys(_PATH.findall(command)))[:MOST]
    found = dict.fromkeys([*bases[1:], *(_place(word, base) for word in words for base in bases)])
    return [place for place in found if len(place) < LONGEST][:MOST]


def _place(word: str, base: str) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(word)))
