"""Patterns: what they match, judged by git; what they meet, judged by trying paths; and what the rules make of it."""

from __future__ import annotations

import os
import random
import subprocess
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from leasehold.domain import names, patterns
from tests.domain import oracle_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROVE = os.environ.get("LEASEHOLD_PROVE") == "1"
PATTERNS_TRIED, PATHS_TRIED = (2_100, 50) if PROVE else (100, 40)

PARTS = ("**", "**", "*", "a", "b", "a.py", "*.py", "***")
PIECES = (
    *("a", "b", "c", ".", "-", "é", "*", "*", "?", "**", "[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[!]a]", "[a\\]]"),
    *("[[:alpha:]]", "[[:digit:]b]", "[[:x:]]", "[[:punct:]]", "[--0]", "[a-]", "[[:a]", "[\\a-c]"),
    *("\\*", "\\?", "\\[", "\\]", "]", "!", "#", " x"),
)
LETTERS = ("a", "b", "c", ".", "-", "é", "*", "?", "[", "]", "!", "#", "a", "b", "5", ":")


def pattern_of(chance: random.Random) -> str:
    """A random pattern, as a name."""
    while True:
        parts = [_part(chance, PARTS, PIECES, 4) for _ in range(chance.randint(1, 4))]
        try:
            name = names.parse("path:" + "/".join(parts))
        except names.BadName:
            continue
        if names.is_pattern(name):
            return name


def paths_of(chance: random.Random) -> Iterator[str]:
    """Random paths of files."""
    while True:
        path = "/".join(_part(chance, ("a", "b", "a.py", "b.py", "c"), LETTERS, 3) for _ in range(chance.randint(1, 5)))
        try:
            name = names.path(path)
        except names.BadName:
            continue
        if name != "path:." and names.file_of(name) == path:  # else it was tidied, and git would see another path
            yield path


def _part(chance: random.Random, parts: tuple[str, ...], pieces: tuple[str, ...], most: int) -> str:
    if chance.random() < 0.6:
        return chance.choice(parts)
    return "".join(chance.choice(pieces) for _ in range(chance.randint(1, most)))


def test_git_agrees_what_a_pattern_matches(tmp_path: Path) -> None:
    """One directory for each pattern, with a `.gitignore` of that one line; git says which paths it ignores."""
    chance = random.Random(3)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    asked: list[tuple[int, str, str]] = []
    for number in range(PATTERNS_TRIED):
        pattern, paths = pattern_of(chance), paths_of(chance)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / ".gitignore").write_text(f"/{pattern[5:]}\n")
        asked += [(number, pattern, next(paths)) for _ in range(PATHS_TRIED)]
    lines = "".join(f"{number}/{path}\0" for number, _, path in asked)
    command = ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin", "-z"]
    done = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
    ignored = set(done.stdout.decode().split("\0"))
    assert len(ignored) > len(asked) // 20
    for number, pattern, path in asked:
        name = names.path(path)
        matches = f"{number}/{path}" in ignored
        assert names.lies_in(name, pattern) == matches, (pattern, path)
        assert names.overlaps(name, pattern) == names.overlaps(pattern, name) >= matches, (pattern, path)


def test_patterns_that_match_the_same_path_always_meet() -> None:
    """Found by sampling paths: of two patterns that both match one of them, none misses the other."""
    chance = random.Random(4)
    paths = paths_of(chance)
    some = [pattern_of(chance) for _ in range(400 if PROVE else 80)]
    files = [next(paths) for _ in range(2_000 if PROVE else 300)]
    for path in files:
        name = names.path(path)
        parents = [name.rsplit("/", depth)[0] for depth in range(1, name.count("/") + 1)]
        exact = [
            each for each in some if names.lies_in(name, each) and not any(names.lies_in(p, each) for p in parents)
        ]
        for one, other in combinations(exact, 2):
            assert names.overlaps(one, other), (one, other, path)
            assert names.overlaps(other, one), (one, other, path)


NAMES = (
    *("path:.", "path:src", "path:src/a", "path:src/a.py", "path:a.py/b", "path:a.rs", "path:a/b/a.py"),
    *("path:*", "path:**", "path:src/*", "path:src/**", "path:**/*.py", "path:src/**/*.py", "path:src/*.py"),
    *("path:**/a", "path:s*/**", "path:*/a.py", "path:**/src/**", "path:src/[ab].??", "path:src/[!a]*", "path:a?rs/*"),
    *("path:**/a.py/b", "path:*/*", "path:src/*.rs", "path:src/a/*", "path:**/**/b", "repo:x", "issue:1", "src/a.py"),
)


def test_the_oracle_agrees_what_meets() -> None:
    for one in NAMES:
        for other in NAMES:
            assert names.overlaps(one, other) == oracle_patterns.overlaps(one, other), (one, other)
            if names.is_pattern(other):
                assert names.lies_in(one, other) == oracle_patterns.covers(other, one), (one, other)


@pytest.mark.parametrize(
    ("pattern", "free", "taken"),
    [
        (
            "path:src/**/*.py",
            ("path:src/a.rs", "path:lib/a.py", "path:srcs"),
            ("path:src", "path:src/x/a.py", "path:."),
        ),
        ("path:*.md", ("path:docs/a.md", "path:docs", "path:**/*.py"), ("path:a.md", "path:*", "path:**/*.md")),
        (r"path:app/\[slug\]/*", ("path:app/s/x", "path:app/s"), (r"path:app/\[slug]/page.tsx", "path:app")),
    ],
)
def test_what_a_pattern_leaves_to_others(pattern: str, free: tuple[str, ...], taken: tuple[str, ...]) -> None:
    parsed = names.parse(pattern)
    assert [name for name in (*free, *taken) if names.overlaps(parsed, name)] == list(taken)
    assert [name for name in (*free, *taken) if names.overlaps(name, parsed)] == list(taken)


@pytest.mark.parametrize(
    ("raw", "name", "is_pattern"),
    [
        ("path:./src//*.py/", "path:src/*.py", True),
        (r"path:src\a.py", "path:src/a.py", False),
        (r"path:a\*b", r"path:a\*b", False),
        (r"path:app/\[slug\]/x", r"path:app/\[slug]/x", False),
        ("path:a]", "path:a]", False),
        ("path:[]]x", "path:[]]x", True),
        ("path:[[:alpha:]]", "path:[[:alpha:]]", True),
        ("src/*.py", "src/*.py", False),
        ("issue:*", "issue:*", False),
    ],
)
def test_how_patterns_are_spelled(raw: str, name: str, *, is_pattern: bool) -> None:
    assert names.parse(raw) == names.parse(name) == name
    assert names.is_pattern(name) == is_pattern


@pytest.mark.parametrize("raw", ["path:a[", "path:[a/b]", "path:[]", "path:[!]", "path:[a\\]", "path:[[:alpha:]"])
def test_a_set_that_never_closes_is_refused(raw: str) -> None:
    with pytest.raises(names.BadName, match=r"needs its '\]'") as caught:
        names.parse(raw)
    assert caught.value.rule == "open_set"


@pytest.mark.parametrize("path", ["app/[slug]/page.tsx", "a*b", "what?", "[", "a]b", "plain.py"])
def test_the_name_of_a_file_is_no_pattern(path: str) -> None:
    name = names.path(path)
    assert not names.is_pattern(name)
    assert names.file_of(name) == path
    assert patterns.unescaped(patterns.escaped(path)) == path


def test_what_all_matches_begin_with() -> None:
    assert names.literal("path:src/a*/b") == "path:src/a"
    assert names.literal(r"path:src/\*/[b]") == r"path:src/\*/"
    assert names.literal("path:src") == "path:src"


def test_a_long_pattern_is_compared_in_bounded_time() -> None:
    """No backtracking without end: stars are matched at their first place, directories by the set of their states."""
    stars = "path:" + "a*" * 250
    deep = "path:" + "**/a/" * 100 + "b"
    assert not names.overlaps(stars, "path:" + "a" * 249)
    assert not names.overlaps(deep, "path:" + "a/" * 200 + "a.c")
    assert names.overlaps(deep, "path:" + "a/**/" * 90 + "x")
