"""The one ref that every commit moves: the next fence, the number of commits, and the last receipts. Pure.

Each commit compares and moves this ref, so all commits of a remote are in one order. It stays when all records are
deleted, so no fence is issued twice. If the remote was wiped or restored from a backup, an observer that has seen a
higher fence continues far above it.
"""

from __future__ import annotations

import json

from leasehold.domain.entries import Receipt
from leasehold.domain.nouns import Noun
from leasehold.errors import StoreError
from leasehold.stores.git.payload import SCHEMA, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

RECEIPTS = 256
"""Receipts that are kept: one for each of the last commits that left one."""
CHANGES = 256
"""A commit that changed more refs than this does not list them."""
SKIP = 1_000_000
"""Fences that are skipped after a loss: more than can have been issued since this observer's last fetch."""


class GitHead(Noun):
    """The state that every commit changes."""

    fence: int = 1
    """The next unused fence."""
    commits: int = 0
    """Number of commits so far."""
    receipts: tuple[tuple[str, str, int], ...] = ()
    """Engine, batch and end of retention of each receipt, oldest first."""
    changed: Mapping[str, str] | None = None
    """The refs that the last commit changed, with their new values (empty if deleted); None if there were too many."""

    def after(self, fence: int, receipt: Receipt | None, engine: str, changed: dict[str, str]) -> GitHead:
        """Return the head after one more commit."""
        left = ((engine, receipt.batch, receipt.until),) if receipt is not None else ()
        receipts = (*self.receipts, *left)[-RECEIPTS:]
        return GitHead(fence, self.commits + 1, receipts, changed if len(changed) <= CHANGES else None)

    def above(self, mark: int) -> GitHead:
        """Return this head, with a much higher fence if the remote has shown a higher one before and lost it."""
        return self if self.fence >= mark else self._replace(fence=mark + SKIP)

    def receipt_of(self, engine: str) -> Receipt | None:
        """Return the receipt of this engine's last batch, or None if it is no longer kept."""
        for known, batch, until in reversed(self.receipts):
            if known == engine:
                return Receipt("receipt", batch, until)
        return None


def encode(head: GitHead) -> str:
    """Return the message of the head's commit."""
    body = {"schema": SCHEMA, **head._asdict()}
    return f"Leasehold: commit {head.commits}, next fence {head.fence}\n\n{json.dumps(body)}\n"


def decode(message: str) -> GitHead:
    """Parse the head from the message of its commit."""
    body = parsed(message, "the ref `fence`")
    try:
        receipts = tuple((str(engine), str(batch), int(until)) for engine, batch, until in body["receipts"])
        return GitHead(int(body["fence"]), int(body["commits"]), receipts, body["changed"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"refs/leasehold/fence cannot be read: {error}; without it no fence is safe") from error
