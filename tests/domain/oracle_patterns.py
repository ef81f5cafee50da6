"""The oracle's own idea of patterns: regular expressions, and a small world of paths to try them on.

Two names meet if some path of that world lies in both. It shares no code with `leasehold.domain.patterns`.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

from leasehold.domain.names import overlaps as overlaps_without_patterns
from tests.domain import oracle_pools as pools

SEGMENTS = ("src", "lib", "a", "b", "a.py", "b.py", "a.rs", "b.rs")
WORLD = [list(each) for depth in (1, 2, 3, 4) for each in product(SEGMENTS, repeat=depth)]
MARK = "\0"
"""Behind a segment through which mere wildcards may not pass."""
FOLDERS = ("app", "bundle", "d", "framework", "git", "lproj", "xcassets", "xcodeproj", "xcworkspace")


def is_pattern(name: str) -> bool:
    return name.startswith("path:") and re.search(r"(?<!\\)[*?\[]", name) is not None


def folder(name: str) -> str:
    """The directory in which all matches of a pattern lie; a path itself."""
    if not is_pattern(name):
        return name
    parts = name[5:].split("/")
    first = next(place for place, part in enumerate(parts) if is_pattern(f"path:{part}"))
    return "path:" + ("/".join(parts[:first]) or ".")


@cache
def overlaps(one: str, other: str) -> bool:
    if pools.is_pool(one) or pools.is_pool(other):
        return pools.is_pool(one) and pools.is_pool(other) and pools.overlap(one, other)
    if one == other or not (is_pattern(one) or is_pattern(other)):
        return overlaps_without_patterns(one, other)
    if not (one.startswith("path:") and other.startswith("path:")):
        return one.startswith("repo:") or other.startswith("repo:")
    return any(_both_have(one, other, path) for path in WORLD)


def _both_have(one: str, other: str, path: list[str]) -> bool:
    ends, others = _matched(one, path), _matched(other, path)
    return any(
        end == end_of_other
        or (end < end_of_other and _goes_below(one, end, other, path[:end_of_other]))
        or (end_of_other < end and _goes_below(other, end_of_other, one, path[:end]))
        for end in ends
        for end_of_other in others
    )


def _goes_below(upper: str, end: int, lower: str, path: list[str]) -> bool:
    """Whether what the lower name matches lies in what the upper one does: not if that is a file, by its looks."""
    if not is_file(upper):
        return True
    marked = [segment + MARK if place == end - 1 else segment for place, segment in enumerate(path)]
    return _regex(lower).fullmatch("/".join(marked)) is not None


def _matched(name: str, path: list[str]) -> list[int]:
    """How many segments of this path the name can stand for."""
    return [end for end in range(len(path) + 1) if _regex(name).fullmatch("/".join(path[:end]))]


def covers(pattern: str, name: str) -> bool:
    """Whether all of this is surely the pattern's."""
    if is_pattern(name) or not name.startswith("path:") or name == "path:.":
        return pattern == name
    return bool(_matched(pattern, name[5:].split("/")))


def is_file(name: str) -> bool:
    found = re.search(r"[^/]\.([A-Za-z0-9]{1,10})$", name[5:])
    return found is not None and not found[1].isdigit() and found[1] not in FOLDERS


@cache
def _regex(name: str) -> re.Pattern[str]:
    if name == "path:.":
        return re.compile("")
    text = ""
    parts = name[5:].split("/")
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        if part == "**":
            text += f"[^{MARK}]+" if is_last else f"(?:[^/{MARK}]+/)*"
        else:
            text += f"[^/{MARK}]+" if part == "*" else _glob(part) + f"{MARK}?"
            text += "" if is_last else "/"
    return re.compile(text, re.DOTALL)


def _glob(part: str) -> str:
    translated = {"*": f"[^/{MARK}]*", "?": f"[^/{MARK}]"}
    pieces = re.findall(r"\\.|\[[^]]+\]|.", part, re.DOTALL)
    return "".join(
        translated.get(piece) or (piece.replace("[!", "[^") if piece[0] == "[" else re.escape(piece[-1]))
        for piece in pieces
    )
