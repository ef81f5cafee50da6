"""The names of refs: the record `n1f…` has the ref `refs/leasehold/n/1f…`. Pure."""

from __future__ import annotations

SPACE = "refs/leasehold/"
"""Prefix of all refs that are ever read or written."""
HEAD = f"{SPACE}fence"
"""The one ref that every commit moves: it counts fences and commits."""
KINDS = "naqek"
"""The first letters of keys; each has a folder of its own."""

_HASH = frozenset("0123456789abcdef")


def of_key(key: str) -> str:
    """Return the ref of a record."""
    return f"{SPACE}{key[0]}/{key[1:]}"


def key_of(ref: str) -> str | None:
    """Return the key of the record with this ref; None if the ref is not a record's."""
    if not ref.startswith(SPACE):
        return None
    kind, slash, hashed = ref[len(SPACE) :].partition("/")
    is_ours = bool(slash) and len(kind) == 1 and kind in KINDS and hashed and _HASH.issuperset(hashed)
    return kind + hashed if is_ours else None


def exact(ref: str) -> str:
    """Return a refspec that matches only this ref. As a pattern, it does not fail if the ref does not exist."""
    return f"+{ref}*:{ref}*"


def folder(kind: str) -> str:
    """Return the refspec of all records of this kind."""
    return f"+{SPACE}{kind}/*:{SPACE}{kind}/*"


EVERYTHING = f"+{SPACE}*:{SPACE}*"
