"""How records and refs are spelled: `n1f…` is `refs/leasehold/n/1f…`. Pure; it knows no remote."""

from __future__ import annotations

SPACE = "refs/leasehold/"
"""Nothing outside of this is ever read or written."""
HEAD = f"{SPACE}fence"
"""The one ref that every change moves: it counts fences and commits."""
KINDS = "naqek"
"""The first letters of keys; each has a folder of its own."""

_HASH = frozenset("0123456789abcdef")


def of_key(key: str) -> str:
    """The ref of a record."""
    return f"{SPACE}{key[0]}/{key[1:]}"


def key_of(ref: str) -> str | None:
    """The key of a ref; None for one that is not a record's."""
    if not ref.startswith(SPACE):
        return None
    kind, slash, hashed = ref[len(SPACE) :].partition("/")
    is_ours = bool(slash) and len(kind) == 1 and kind in KINDS and hashed and _HASH.issuperset(hashed)
    return kind + hashed if is_ours else None


def exact(ref: str) -> str:
    """A refspec for one ref, and no failure if it is not there: a pattern that fits nothing else."""
    return f"+{ref}*:{ref}*"


def folder(kind: str) -> str:
    """A refspec for all records of this kind."""
    return f"+{SPACE}{kind}/*:{SPACE}{kind}/*"


EVERYTHING = f"+{SPACE}*:{SPACE}*"
