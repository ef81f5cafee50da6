"""Pools: `pool://ports/3000-3099` stands for any one of its members, `pool://ports/3007` for this one. Pure.

All names of a pool share one node. A lease on it has one member, which its resource names; which requests exclude each
other follows from the members that both want.
"""

from __future__ import annotations

from leasehold.domain.names import BadName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PREFIX: Final = "pool://"
MEMBERS_MOST: Final = 10_000
_NUMBER_MOST: Final = 2**31 - 1
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_MEANING: Final = "a pool is pool://NAME/FIRST-LAST, pool://NAME/a,b,c, or pool://NAME if it is declared"
_KNOWN_MOST: Final = 256
_known: Final[dict[str, dict[str, None]]] = {}
"""The members of so many names: each decision about a pool needs them."""


def check(name: str, text: str) -> None:
    """Raise `BadName` unless this (normalised) name is one of a pool, and `text`, as it was written, is a URI."""
    pool, spec = _split(name)
    if text[4:7] != "://":  # pool:NAME would be a name that has a pool's node, and no members
        raise BadName("bad_pool", f"write 'pool://' with two slashes; {_MEANING}")
    if not pool or not _LETTERS.issuperset(pool):
        raise BadName("bad_pool", f"the name of a pool has letters, digits, '.', '_' and '-'; {_MEANING}")
    if not is_declared(name):
        _expand(pool, spec)


def is_declared(name: str) -> bool:
    """Return True if only the configuration knows the members: `pool://staging`, `pool://gpu?label=a100`."""
    return "/" not in name[len(PREFIX) :]


def declared(name: str) -> tuple[str, str | None]:
    """Return the pool of such a name, and the label that its members must have."""
    pool, _, query = name[len(PREFIX) :].partition("?")
    key, _, label = query.partition("=")
    if query and (key != "label" or not label):
        raise BadName("bad_pool", "after the '?' of a pool goes label=NAME, and nothing else")
    return pool, label or None


def listed(name: str, members: tuple[str, ...]) -> str:
    """Return the name that lists those of the declared members (each with its labels) that this name stands for."""
    pool, label = declared(name)
    found = [words[0] for words in map(str.split, members) if label is None or label in words[1:]]
    if not found:
        raise BadName("bad_pool", f"no member of pool {pool} has the label {label}")
    return f"{PREFIX}{pool}/{','.join(found)}"


def is_member(name: str) -> bool:
    """Return True if this name stands for one member only."""
    return not is_declared(name) and len(members(name)) == 1


def whole(name: str) -> str:
    """Return the name of the whole pool, which is that of its node."""
    return PREFIX + _split(name)[0]


def value(name: str) -> str | None:
    """Return the member that this name of a granted lease names; None if it is no name of a pool."""
    return _split(name)[1] if name.startswith(PREFIX) else None


def members(name: str) -> dict[str, None]:
    """Return the names of the members that this name stands for, in the order in which they are given out."""
    found = _known.get(name)
    if found is None:
        if len(_known) >= _KNOWN_MOST:
            _known.clear()
        pool, spec = _split(name)
        found = _known[name] = dict.fromkeys(f"{PREFIX}{pool}/{member}" for member in _expand(pool, spec))
    return found


def meet(a: str, b: str) -> bool:
    """Return True if these names of pools have a member in common. A declared pool stands for all of its members."""
    if whole(a) != whole(b):
        return False
    return is_declared(a) or is_declared(b) or not members(a).keys().isdisjoint(members(b))


def _split(name: str) -> tuple[str, str]:
    pool, _, spec = name[len(PREFIX) :].partition("/")
    return pool.partition("?")[0], spec


def _expand(pool: str, spec: str) -> list[str]:
    found: list[str] = []
    for item in spec.split(","):
        first, dash, last = item.partition("-")
        if dash and _is_number(first) and _is_number(last):
            if int(first) > int(last) or int(last) - int(first) >= MEMBERS_MOST:
                raise BadName("bad_pool", f"{item}: a range of a pool goes up, and has at most {MEMBERS_MOST} members")
            found.extend(map(str, range(int(first), int(last) + 1)))
        elif item and _LETTERS.issuperset(item):
            found.append(item)
        else:
            raise BadName("bad_pool", f"{item[:40]!a} is no member of pool {pool}; {_MEANING}")
    if len(found) > MEMBERS_MOST:
        raise BadName("bad_pool", f"at most {MEMBERS_MOST} members in one name, not {len(found)}")
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= _NUMBER_MOST
