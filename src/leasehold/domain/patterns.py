r"""Patterns in `path:` names: `path:src/**/*.py`. Pure; must not look at files.

They are git's wildmatch with slashes (`:(glob)` of a pathspec, a line of `.gitignore` that begins with a slash), and in
the tests git is the judge. `*` and `?` stay within one part of the path, a part of `**` alone stands for any number of
parts, `[…]` is one byte of a set, and a backslash before `*`, `?`, `[` or `]` takes its meaning away. A pattern covers
what it matches with everything below, as a lease on a path does.

Two names meet if some path lies in both. That is decided on the parts of the names: each pattern is a list of parts,
each part a list of sets of bytes and of `*`, and a path is a pattern without wildcards.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, TypeAlias

    Element: TypeAlias = "frozenset[str] | None"
    """The bytes that may stand here, as characters of Latin-1; None: any number of any bytes (`*`)."""
    Part: TypeAlias = "tuple[Element, ...]"

WILDCARDS: Final = "*?["
_ESCAPABLE: Final = "*?[]"
_SINGLE: Final = tuple(frozenset(chr(code)) for code in range(256))
_ANY: Final = frozenset(map(chr, range(256))) - {"/"}
_DOT: Final = _SINGLE[ord(".")]
_STAR: Final[Part] = (None,)
_DEEP: Final[Part] = (None, None)
"""`**` as a whole part: any number of parts."""
_DIGITS: Final = frozenset("0123456789")
_ALNUM: Final = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_FOLDERS: Final = frozenset({"app", "bundle", "d", "framework", "git", "lproj", "xcassets", "xcodeproj", "xcworkspace"})
"""Extensions that usually belong to a directory (`conf.d`)."""
_LONGEST_EXTENSION: Final = 10
_KNOWN_MOST: Final = 4096

_parsed: dict[str, tuple[Part, ...]] = {}
_met: dict[tuple[str, str], bool] = {}


def is_pattern(path: str) -> bool:
    """Return True if this (tidy) path has a wildcard that no backslash takes away."""
    return first_wildcard(path) < len(path)


def first_wildcard(path: str) -> int:
    """Return the place of the first wildcard in this (tidy) path; its length if there is none."""
    if not ("*" in path or "?" in path or "[" in path):
        return len(path)
    place = 0
    while place < len(path) and path[place] not in WILDCARDS:
        place += 2 if path[place] == "\\" else 1
    return min(place, len(path))


def folder(path: str) -> str:
    """Return the directory in which everything lies that this pattern matches; empty for the root."""
    return path[: first_wildcard(path)].rpartition("/")[0]


def escaped(path: str) -> str:
    """Return the path of a file, spelled so that nothing in it is a wildcard."""
    if not ("*" in path or "?" in path or "[" in path):
        return path
    return "".join("\\" + one if one in WILDCARDS else one for one in path)


def unescaped(path: str) -> str:
    """Return the path of the file that this (tidy) path without wildcards names."""
    if "\\" not in path:
        return path
    return "".join(piece[1] if piece[0] == "\\" else piece for piece in _pieces(path))


def tidy(path: str) -> str | None:
    r"""Return the path with `\` as `/` where it does not escape; None if a `[` is never closed in its part of it.

    Agents on Windows write `src\a.py`. A real backslash in a file's name is so rare that a needless conflict of `a\b`
    with `a/b` costs less than a missed one.
    """
    made: list[str] = []
    place = 0
    while place < len(path):
        one, next_one = path[place], path[place + 1 : place + 2]
        step = 1
        if one == "\\":
            is_escape = bool(next_one) and next_one in _ESCAPABLE
            made.append((path[place : place + 2] if next_one != "]" else "]") if is_escape else "/")
            step = 2 if is_escape else 1
        elif one == "[":
            end = _end_of_set(path, place)
            if end is None:
                return None
            made.append(path[place:end])
            step = end - place
        else:
            made.append(one)
        place += step
    return "".join(made)


def _end_of_set(path: str, start: int) -> int | None:
    """Return the place behind the `]` of a set; None if it has none in its part of the path."""
    place = start + 1
    if path[place : place + 1] in ("!", "^"):
        place += 1
    first = place
    while place < len(path) and path[place] != "/":
        if path[place] == "]" and place > first:
            return place + 1
        if path[place] == "\\":
            place += 1
        elif path[place : place + 2] == "[:":
            place = _end_of_class(path, place) - 1
        place += 1
    return None


def _end_of_class(path: str, start: int) -> int:
    """Return the place behind `[:name:]`, or behind its `[` if it is none."""
    end = path.find("]", start + 2)
    return end + 1 if end > start + 2 and path[end - 1] == ":" and "/" not in path[start:end] else start + 1


def _pieces(part: str) -> list[str]:
    """Cut a tidy part (or path without wildcards) into characters, escapes and whole sets."""
    pieces: list[str] = []
    place = 0
    while place < len(part):
        end = place + 1
        if part[place] == "\\":
            end += 1
        elif part[place] == "[":
            end = _end_of_set(part, place) or end
        pieces.append(part[place:end])
        place = end
    return pieces


def _class(name: str) -> frozenset[str] | None:
    """Return the bytes of a class such as `[:alpha:]`: of ASCII only, as in git."""
    printed = frozenset(map(chr, range(32, 127)))
    known = {
        "alnum": _ALNUM,
        "alpha": _ALNUM - _DIGITS,
        "blank": frozenset(" \t"),
        "cntrl": frozenset(map(chr, (*range(32), 127))),
        "digit": _DIGITS,
        "graph": printed - {" "},
        "lower": frozenset(one for one in _ALNUM if one.islower()),
        "print": printed,
        "punct": printed - _ALNUM - {" "},
        "space": frozenset(" \t\n\v\f\r"),
        "upper": frozenset(one for one in _ALNUM if one.isupper()),
        "xdigit": frozenset("0123456789abcdefABCDEF"),
    }
    return known.get(name)


# ------------------------------------------------------------------------------------------------ parts


def _parts(path: str) -> tuple[Part, ...]:
    known = _parsed.get(path)
    if known is None:
        if len(_parsed) >= _KNOWN_MOST:
            _parsed.clear()
        known = _parsed[path] = _read(path)
    return known


def _read(path: str) -> tuple[Part, ...]:
    if path in ("", "."):
        return ()
    # As Latin-1 of the bytes: git compares bytes, and `?` is one of them.
    parts = [_part(part) for part in path.encode().decode("latin-1").split("/")]
    if parts[-1] == _DEEP:  # everything below, but not the directory itself
        parts[-1] = _STAR
    return tuple(parts)


def _part(text: str) -> Part:
    if text.strip("*") == "":
        return _DEEP if len(text) > 1 else _STAR
    tokens: list[Element] = []
    for piece in _pieces(text):
        if piece == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        elif piece == "?":
            tokens.append(_ANY)
        elif len(piece) > 1 and piece[0] == "[":
            tokens.append(_set(piece[1:-1]))
        else:
            tokens.append(_SINGLE[ord(piece[-1])])
    return tuple(tokens)


def _set(inside: str) -> frozenset[str]:
    """Return the bytes that `[inside]` matches, as git's wildmatch reads it."""
    negated = inside[0] in "!^"
    place = 1 if negated else 0
    members: set[str] = set()
    last = ""
    while place < len(inside):
        one = inside[place]
        if one == "[" and inside[place + 1 : place + 2] == ":" and _end_of_class(inside, place) > place + 1:
            end = _end_of_class(inside, place)
            named = _class(inside[place + 2 : end - 2])
            if named is None:
                return frozenset()  # git matches nothing at all then
            members |= named
            last, place = "", end
            continue
        if one == "-" and last and place + 1 < len(inside):
            place += 2 if inside[place + 1] == "\\" else 1
            members.update(map(chr, range(ord(last), ord(inside[place]) + 1)))
            last = ""
        else:
            place += 1 if one == "\\" else 0
            last = inside[place]
            members.add(last)
        place += 1
    return (_ANY - members) if negated else frozenset(members - {"/"})


# ---------------------------------------------------------------------------------------------- meeting


def meet(one: str, other: str) -> bool:
    """Return True if some path lies in both of these (tidy) paths, at least one of which is a pattern.

    A name that ends in an extension is taken for a file: `*` and `**` alone do not reach below it.
    """
    known = _met.get((one, other))
    if known is None:
        if len(_met) >= _KNOWN_MOST:
            _met.clear()
        known = _met[one, other] = _meet(_parts(one), _parts(other))
    return known


def _meet(one: tuple[Part, ...], other: tuple[Part, ...]) -> bool:
    """Return True if some path matches both. Search the pairs of positions in the two lists of parts."""
    is_one_file, is_other_file = _is_file(one), _is_file(other)
    ways = [(0, 0)]
    seen = {(0, 0)}
    while ways:
        i, j = ways.pop()
        if i == len(one) or j == len(other):
            return True
        mine, theirs = one[i], other[j]
        further = []
        if mine is _DEEP:
            further.append((i + 1, j))
        if theirs is _DEEP:
            further.append((i, j + 1))
        after = (i if mine is _DEEP else i + 1, j if theirs is _DEEP else j + 1)
        goes_below_file = (is_other_file and _passes(one, after[0], mine) and after[1] == len(other)) or (
            is_one_file and _passes(other, after[1], theirs) and after[0] == len(one)
        )
        if not goes_below_file and _parts_meet(mine, theirs):
            further.append(after)
        ways += [way for way in further if way not in seen]
        seen.update(further)
    return False


def _passes(pattern: tuple[Part, ...], after: int, part: Part) -> bool:
    """Return True if a pattern goes through a part of a path by mere wildcards, to something below it."""
    return (part is _DEEP or part == _STAR) and after < len(pattern)


def _is_file(parts: tuple[Part, ...]) -> bool:
    """Return True if this ends in what looks like an extension: `a.py`, `*.py`, `*.[ch]`."""
    last = parts[-1] if parts else _STAR
    dot = max((place for place, token in enumerate(last) if token == _DOT), default=0)
    extension = [token for token in last[dot + 1 :] if token is not None and token <= _ALNUM]
    if dot == 0 or not extension or len(extension) < len(last) - dot - 1 or len(extension) > _LONGEST_EXTENSION:
        return False
    named = "".join("".join(token) for token in extension)
    return not all(token <= _DIGITS for token in extension) and named not in _FOLDERS


def covers(pattern: str, path: str) -> bool:
    """Return True if this pattern matches the (tidy) path or a directory above it; of patterns, only for itself."""
    if is_pattern(path):
        return pattern == path
    parts, wanted = _parts(pattern), _parts(path)
    states = {0}
    for part in wanted:
        states = _closed(parts, states)
        states = {place if parts[place] is _DEEP else place + 1 for place in states if _parts_meet(parts[place], part)}
        if len(parts) in states:
            return True
    return False


def _closed(parts: tuple[Part, ...], states: set[int]) -> set[int]:
    found = set(states)
    for place in sorted(states):
        while parts[place] is _DEEP:
            place += 1  # noqa: PLW2901 (the last part is never deep)
            found.add(place)
    return found


def _parts_meet(one: Part, other: Part) -> bool:
    """Return True if there is a text that both parts match."""
    if None not in one:
        return _fits(other, one) if None in other else len(one) == len(other) and _agree(one, other, 0, 0, len(one))
    if None not in other:
        return _fits(one, other)
    # Both have a `*`: their beginnings and their ends have to agree, all else the stars take in.
    head = min(one.index(None), other.index(None))
    tail = min(one[::-1].index(None), other[::-1].index(None))
    return _agree(one, other, 0, 0, head) and _agree(one, other, len(one) - tail, len(other) - tail, tail)


def _agree(one: Part, other: Part, place: int, place_of_other: int, length: int) -> bool:
    for step in range(length):
        mine, theirs = one[place + step], other[place_of_other + step]
        if mine is None or theirs is None or mine.isdisjoint(theirs):
            return False
    return True


def _fits(starred: Part, fixed: Part) -> bool:
    """Return True if a text of this fixed length fits a part with `*`: each run between stars at its first place."""
    runs = _runs(starred)
    head, tail = runs[0], runs[-1]
    end = len(fixed) - len(tail)
    if len(head) > end or not _agree(head, fixed, 0, 0, len(head)) or not _agree(tail, fixed, 0, end, len(tail)):
        return False
    place = len(head)
    for run in runs[1:-1]:
        while place + len(run) <= end and not _agree(run, fixed, 0, place, len(run)):
            place += 1
        if place + len(run) > end:
            return False
        place += len(run)
    return True


def _runs(starred: Part) -> list[Part]:
    runs: list[list[Element]] = [[]]
    for token in starred:
        if token is None:
            runs.append([])
        else:
            runs[-1].append(token)
    return [tuple(run) for run in runs]
