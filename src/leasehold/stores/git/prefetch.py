"""Guess from the cache which records a request will need next, to fetch them all at once.

A wrong guess only costs a few more refs in a fetch.
"""

# pathlib costs a one-shot process more than this whole module
# ruff: noqa: PTH104, PTH108, PTH118, PTH120, PTH123

from __future__ import annotations

import os
from contextlib import suppress

from leasehold.domain.entries import Hold, Waiter
from leasehold.errors import StoreError
from leasehold.stores.git import payload, refs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.stores.git.objects import Objects
    from leasehold.stores.git.remote import Change

_NODES = f"{refs.SPACE}n/"
MOST = 200
"""Most records to guess."""


class Prefetch:
    """The refs in the private repository, as of the last fetch or push."""

    def __init__(self, directory: str, objects: Objects) -> None:
        self._directory = directory
        self._objects = objects

    def related(self, keys: Sequence[str]) -> list[str]:
        """Return other records that belong to the same leases and waiters as these."""
        found: dict[str, None] = {}
        for key in keys:
            if key[0] == "n" and len(found) < MOST:
                found.update(dict.fromkeys(self._related_to(key)))
        return [key for key in found if key not in keys][:MOST]

    def _related_to(self, key: str) -> Iterable[str]:
        """Yield keys that a request on this record is likely to need as well, by the copy fetched last."""
        try:
            with open(self._path(refs.of_key(key)), encoding="ascii") as file:
                oid = file.read().strip()
            stored = payload.decode(key, self._objects.read_loose(oid) or "")
        except (OSError, ValueError, StoreError):
            return  # never fetched, or in an unknown format: fetch no further records
        for each in stored.values():
            entry = each.entry
            if isinstance(entry, Hold | Waiter) and entry.ask is not None:
                yield entry.actor
                for option in entry.ask.options:
                    yield from (claim.node for claim in option.claims)
                if entry.ask.request is not None:
                    yield entry.ask.request
            if isinstance(entry, Waiter):
                yield entry.engine

    def note(self, changes: Iterable[Change]) -> None:
        """Note pushed refs. A ref that exists here keeps its value: replacing it is slow, and a guess may be old."""
        for change in changes:
            if not change.ref.startswith(_NODES):
                continue
            path = self._path(change.ref)
            if change.new == "":
                with suppress(FileNotFoundError):
                    os.unlink(path)
            elif change.old == "":
                self._write(path, change.new)

    def _write(self, path: str, oid: str) -> None:
        draft = os.path.join(self._directory, f"draft.{os.getpid()}")
        with open(draft, "w", encoding="ascii") as file:
            file.write(oid + "\n")
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)  # noqa: PTH103
        os.rename(draft, path)

    def _path(self, ref: str) -> str:
        return os.path.join(self._directory, ref)
