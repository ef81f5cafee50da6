"""Names of resources: parse, normalise, overlap. Pure; must not do I/O nor import what is slow to start.

Three spellings: a URI (`github://acme/app/issues/42`), a namespace (`path:src/a.py`) and a plain string.

Overlap is decided by **claims**. A name claims its own node in the mode that was asked for, and marks each of its
ancestors with an intention; two leases conflict when they meet at a node and not both only intend. So
`path:src/a.py` meets `path:src` at the node of `path:src`, with no search for prefixes.

The root of the repository, above all of `path:` and `issue:`, is cut into stripes: each of those names marks
one stripe only, chosen by its hash, so that thousands of leases do not pile up in one record. A lease on `repo:`
takes all of the stripes; it is rare, and it alone pays.

A pattern (`path:src/**/*.py`) has a node of its own, and a **pattern's intention** on the directory in which all its
matches lie (`path:src`). There it meets the intentions of the paths below and of other patterns, and only there names
are compared (`patterns.meet`).
"""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.domain.entries import (
    INTENT_EXCLUSIVE,
    INTENT_SHARED,
    PATTERN_EXCLUSIVE,
    PATTERN_SHARED,
    POOL,
    SHARED,
    Claim,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final

MAX_NAME: Final = 512
"""Longest name, in bytes of UTF-8."""
MAX_SPACE: Final = 128
"""Longest space, in bytes of UTF-8."""
STRIPES: Final = 16
"""Into how many nodes the root of a repository is cut; at most 16, as one hexadecimal digit chooses among them."""

_REPOSITORY: Final = frozenset({"repo", "path", "issue"})
_SCHEME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-")

# C0, DEL, C1, and the two separators that many programs take for the end of a line. Other invisible characters are
# allowed, since names in some scripts need them; surfaces show them inert, see `shown`.
_CONTROL: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)))

# str.isprintable() accepts these although they are invisible: fillers, joiners, variation selectors.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)

_QUOTED_LENGTH = 60


class BadName(ValueError):
    """This cannot be a name: `rule` is the stable slug of the rule it breaks, `str()` says what is allowed."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(rule, message)
        self.rule, self.message = rule, message

    def __str__(self) -> str:
        return self.message


# ------------------------------------------------------------------------------------- parse, normalise


def parse(raw: object) -> str:
    """Return the normalised name: two names are one resource exactly if these are equal. Raises `BadName`.

    Scheme, namespace and a URI's authority lose their case. The rest is compared as written, also without Unicode
    normalisation: file systems and services tell `é` from `e` + accent, and the tables differ between versions.
    """
    text = _checked(raw, "name", MAX_NAME)
    if ":" not in text:
        return text
    name = _normal(text)
    # Folding can lengthen a name and tidying can uncover a blank (`path:a /`): the result obeys the rules, too.
    return text if name == text else _checked(name, "name", MAX_NAME)


def prefix(text: str) -> str:
    """Return the normalised beginning of all names that begin like this. Raises `BadName` if no name can.

    It may end anywhere in a name, so what it ends with is only a beginning: a slash there is kept, and `path:src/.`
    is that of `path:src/.git`. Without a colon nobody knows what it begins: it is compared as written.
    """
    kind, mark, rest = _split(text)
    if not kind:
        _refuse_no_scheme(text)
        return text
    if mark == "://":
        found = _normal_uri(kind, rest, text)
    else:
        found = f"{kind}:{_path_prefix(rest, text) if kind == 'path' else rest}"
    if len(found.encode()) > MAX_NAME:
        raise _bad("prefix", "too_long", text, f"no name is longer than {MAX_NAME} bytes of UTF-8")
    return found


def check_space(raw: object) -> str:
    """Return the space, such as `default` or `org/project`, as it is written. Raises `BadName`."""
    return _checked(raw, "space", MAX_SPACE)


def check_hierarchical(raw: object) -> frozenset[str]:
    """Return the schemes and namespaces whose names have ancestors, in lower case. Raises `BadName`."""
    if not isinstance(raw, (list, tuple, set, frozenset)):
        raise BadName("not_a_list", f"hierarchical: a list of schemes is needed, not {_kind_of(raw)}")
    return frozenset(_checked_scheme(item) for item in raw)


def _checked_scheme(raw: object) -> str:
    text = _checked(raw, "scheme", MAX_NAME)
    if not _is_scheme(text):
        raise _bad("scheme", "bad_scheme", text, "a letter, then letters, digits, '+', '.' and '-', such as 's3'")
    if text.lower() in _REPOSITORY or text.lower() == "pool":
        raise _bad("scheme", "fixed_scheme", text, "repo, path, issue and pool overlap in their own way, always")
    return text.lower()


def _checked(raw: object, what: str, limit: int) -> str:
    if not isinstance(raw, str):
        raise BadName("not_text", f"bad {what}: text is needed, not {_kind_of(raw)}")
    # A plain str, also of a StrEnum, whatever a subclass has overridden.
    text = raw if type(raw) is str else str.__str__(raw)
    if not text:
        raise _bad(what, "empty", text, f"1 to {limit} bytes are needed")
    # No character is less than a byte: a text of megabytes is refused before it is looked through.
    if len(text) > limit or (not text.isascii() and len(_utf8(text, what)) > limit):
        raise _bad(what, "too_long", text, f"at most {limit} bytes of UTF-8 are allowed")
    if not text.isprintable() and not _CONTROL.isdisjoint(text):
        raise _bad(what, "control_character", text, "no control characters and no line separators are allowed")
    if text[0].isspace() or text[-1].isspace():
        raise _bad(what, "blank_edges", text, "no blanks are allowed at the beginning and at the end")
    return text


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _bad(what, "not_utf8", text, "only text that UTF-8 can tell is allowed: no lone surrogates") from None


def _normal(text: str) -> str:
    kind, mark, rest = _split(text)
    if not kind:
        _refuse_no_scheme(text)
        return text
    if not rest:
        raise _bad("name", "empty_rest", text, f"something must follow the '{mark}'")
    if mark == "://" or kind == "pool":  # which needs the slashes, and says so
        return _normal_uri(kind, rest, text)
    return f"{kind}:{_normal_path(rest, text) if kind == 'path' else rest}"


def _refuse_no_scheme(text: str) -> None:
    # `my_app://x` means to be a URI: taken for a plain string it would silently keep its case.
    if text.partition(":")[2].startswith("//"):
        raise _bad("name", "bad_scheme", text, "before '://' goes a letter, then letters, digits, '+', '.' and '-'")


def _normal_uri(scheme: str, rest: str, text: str) -> str:
    if scheme in _REPOSITORY:  # `path://src` would not overlap with `path:src`, which is hardly what is meant
        raise _bad("name", "reserved_scheme", text, f"write '{scheme}:' without the slashes")
    # Unicode's own folding, not lower(): it alone makes equal what differs in case only (Greek has two small sigmas).
    end = min(at for at in (rest.find("/"), rest.find("?"), rest.find("#"), len(rest)) if at >= 0)
    name = f"{scheme}://{rest[:end].casefold()}{rest[end:]}"
    if scheme == "pool":
        from leasehold.domain import pools  # noqa: PLC0415 (rare)

        pools.check(name, text)
    return name


def path(of: str) -> str:
    r"""Return the name of the file at this path: `path:app/\[slug]/page.tsx`, no pattern. Raises `BadName`."""
    from leasehold.domain import patterns  # noqa: PLC0415 (rare)

    return parse("path:" + patterns.escaped(of))


def file_of(name: str) -> str | None:
    """Return the path of the file that this (parsed) name is about; None if it is none, or a pattern."""
    if not name.startswith("path:") or is_pattern(name):
        return None
    from leasehold.domain import patterns  # noqa: PLC0415 (rare)

    return patterns.unescaped(name[5:])


def is_pattern(name: str) -> bool:
    """Return True if this (parsed) name stands for every path that it matches."""
    if not (has_wildcard(name) and name.startswith("path:")):
        return False
    from leasehold.domain import patterns  # noqa: PLC0415 (rare)

    return patterns.is_pattern(name[5:])


def literal(name: str) -> str:
    """Return what everything that this (parsed) name stands for begins with: a pattern's text before its wildcards."""
    if not is_pattern(name):
        return name
    from leasehold.domain import patterns  # noqa: PLC0415 (rare)

    return name[: 5 + patterns.first_wildcard(name[5:])]


def has_wildcard(text: str) -> bool:
    """Return True if this has a wildcard, escaped or not; far quicker than to tell which."""
    return "*" in text or "?" in text or "[" in text


def _normal_path(rest: str, text: str) -> str:
    slashed = _slashed(rest, text)
    _refuse_absolute(slashed, text)
    tidy = "/".join(_steps(slashed, text)) or "."
    _refuse_absolute(tidy, text)  # `./C:/x`
    return tidy


def _slashed(rest: str, text: str) -> str:
    if not has_wildcard(rest):
        return rest.replace("\\", "/") if "\\" in rest else rest
    from leasehold.domain import patterns  # noqa: PLC0415 (rare)

    slashed = patterns.tidy(rest)
    if slashed is None:
        raise _bad("name", "open_set", text, "a '[' needs its ']' before the next '/'; write '\\[' for a '[' itself")
    return slashed


def _path_prefix(rest: str, text: str) -> str:
    if not rest:
        return rest
    try:
        slashed = _slashed(rest, text)
    except BadName:  # the beginning of a pattern or of an escaped name
        slashed = rest.replace("\\", "/")
    _refuse_absolute(slashed, text)
    whole, _, begun = slashed.rpartition("/")
    tidy = "".join(f"{step}/" for step in _steps(whole, text)) + begun
    if tidy:
        _refuse_absolute(tidy, text)
    return tidy


def _steps(path: str, text: str) -> list[str]:
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            if not steps:
                raise _bad("name", "leaves_root", text, "a path: must stay inside the root of its repository")
            steps.pop()
        elif step not in ("", "."):
            steps.append(step)
    return steps


def _refuse_absolute(path: str, text: str) -> None:
    first = path.partition("/")[0]
    if not first or (first[1:2] == ":" and first[0].isascii() and first[0].isalpha()):
        raise _bad("name", "absolute_path", text, "a path: is relative to the root of its repository: 'path:src/a.py'")


def _split(name: str) -> tuple[str, str, str]:
    """Scheme and `://`, or namespace and `:`, then the rest; both are empty for a plain string."""
    head, colon, rest = name.partition(":")
    if not colon or not _is_scheme(head):
        return "", "", name
    return (head.lower(), "://", rest[2:]) if rest.startswith("//") else (head.lower(), ":", rest)


def scheme(name: str) -> str:
    """Return the scheme or namespace of a parsed name; empty for a plain string, also for one with a colon in it."""
    head, colon, _ = name.partition(":")
    return head if colon and _is_scheme(head) else ""


def _is_scheme(text: str) -> bool:
    return text[:1].isalpha() and _SCHEME_CHARACTERS.issuperset(text)


# ---------------------------------------------------------------------------------------------- overlap


def claims(space: str, name: str, mode: str, hierarchical: Collection[str] = ()) -> tuple[Claim, ...]:
    """Return the claims of a lease on this (parsed) name: its own node first, the lease's home, then its ancestors'.

    All of `repo:` share their nodes, the stripes, so the home says "a lease on the repository", not which.
    """
    if ":" not in name:  # a plain string has no ancestors
        return (Claim(keys.node(space, name), mode),)
    kind, _, rest = _split(name)
    if kind == "pool":
        return (Claim(keys.node(space, "pool://" + rest.partition("/")[0].partition("?")[0]), POOL),)
    if kind == "repo":
        return tuple(Claim(_stripe(space, number), mode) for number in range(STRIPES))
    own, *above = [keys.node(space, node) for node in _lineage(name, hierarchical)]
    if kind in _REPOSITORY:
        above.append(_stripe(space, int(own[3], 16) % STRIPES))  # the digits before that are those of the space
    intention = INTENT_SHARED if mode == SHARED else INTENT_EXCLUSIVE
    claimed = [Claim(node, intention) for node in above]
    if kind == "path" and is_pattern(name):
        claimed[0] = Claim(above[0], PATTERN_SHARED if mode == SHARED else PATTERN_EXCLUSIVE)
    return (Claim(own, mode), *claimed)


def _stripe(space: str, number: int) -> str:
    return keys.node(space, f"repo:\x01{number}")  # no caller can request a name with a control character


def _lineage(name: str, hierarchical: Collection[str]) -> list[str]:
    """Return the names of a resource's node and of its ancestors, nearest first."""
    kind, mark, rest = _split(name)
    if kind != "path" and kind not in hierarchical:
        return [name]
    if is_pattern(name):
        from leasehold.domain import patterns  # noqa: PLC0415 (rare)

        folder = patterns.folder(rest)
        return [name, *_lineage(f"path:{folder or '.'}", hierarchical)]
    # The top is all before the first slash: a bucket, a host, or nothing (`file:///etc`).
    first, _, below = rest.partition("/")
    nodes = [f"{kind}{mark}{first}"]
    # Slashes at the end, and doubled ones, make no other node: who declares a scheme hierarchical means a tree.
    for part in filter(None, below.split("/")):
        nodes.append(f"{nodes[-1]}/{part}")
    nodes.reverse()
    return [*nodes, "path:."] if kind == "path" and rest != "." else nodes


def overlaps(a: str, b: str, hierarchical: Collection[str] = ()) -> bool:
    """Return True if exclusive leases on these two (parsed) names of one space conflict.

    Told by comparing the texts, on purpose not by way of `claims`: each checks the other.
    """
    kind, other = _split(a), _split(b)
    if "repo" in (kind[0], other[0]):
        return kind[0] in _REPOSITORY and other[0] in _REPOSITORY
    if kind[0] == other[0] == "path" and a != b and (is_pattern(a) or is_pattern(b)):
        from leasehold.domain import patterns  # noqa: PLC0415 (rare)

        return patterns.meet(kind[2], other[2])
    if kind[0] == other[0] == "pool":
        from leasehold.domain import pools  # noqa: PLC0415 (rare)

        return pools.meet(a, b)
    if a == b or kind[:2] != other[:2] or not (kind[0] == "path" or kind[0] in hierarchical):
        return a == b
    reach, reach_of_other = _reach(a), _reach(b)
    return reach.startswith(reach_of_other) or reach_of_other.startswith(reach)


def lies_in(name: str, above: str) -> bool:
    """Return True if the first (parsed) name is the second or below it, in a declared tree.

    In a pattern lies what it surely covers: each path that it matches, and of patterns only itself.
    """
    kind, other = _split(name), _split(above)
    if other[0] == "repo":
        return kind[0] in _REPOSITORY
    if is_pattern(above):
        from leasehold.domain import patterns  # noqa: PLC0415 (rare)

        return name == above or (kind[0] == "path" and patterns.covers(other[2], kind[2]))
    return name == above or (kind[:2] == other[:2] and _reach(name).startswith(_reach(above)))


def _reach(name: str) -> str:
    """Return the prefix of a resource in a tree and of all names below it, once each ends in a slash."""
    kind, mark, rest = _split(name)
    while "//" in rest:
        rest = rest.replace("//", "/")
    return "path:" if name == "path:." else f"{kind}{mark}{rest.removesuffix('/')}/"


# ------------------------------------------------------------------------------------------------ shown


def shown(name: str) -> str:
    r"""Return the name, made inert for a terminal: an invisible or control character becomes `\x1b`, `\u202e`, ..."""
    if name.isprintable() and (name.isascii() or _UNSEEN.isdisjoint(name)):
        return name
    return "".join(one if one.isprintable() and one not in _UNSEEN else ascii(one)[1:-1] for one in name)


def _bad(what: str, rule: str, text: str, allowed: str) -> BadName:
    quoted = ascii(text[:_QUOTED_LENGTH]) + ("..." if len(text) > _QUOTED_LENGTH else "")
    return BadName(rule, f"bad {what} {quoted}: {allowed}")


def _kind_of(raw: object) -> str:
    return ascii(type(raw).__name__[:_QUOTED_LENGTH])
