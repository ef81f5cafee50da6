"""The one ref that every change moves: the next fence, the number of commits, and the receipts of the last ones. Pure.

Because every commit compares and moves it, all commits of a remote stand in one order; and because it stays when
everything else is deleted, no fence is ever lost. Should a remote be wiped or restored from a backup, whoever has
seen more than it still knows goes on far above that.
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
"""Of so many commits it can still be told whether they happened."""
CHANGES = 256
"""A commit that changed more refs than this does not list them."""
SKIP = 1_000_000
"""So many fences are left out after a loss: more than can have been given out since anybody here has looked."""


class GitHead(Noun):
    """Where all commits stand."""

    fence: int = 1
    """The next one that is unused."""
    commits: int = 0
    """How many there were."""
    receipts: tuple[tuple[str, str, int], ...] = ()
    """(engine, batch, until) of the last commits that left one, the oldest first."""
    changed: Mapping[str, str] | None = None
    """The refs that the last commit changed, with what they point to since (empty: deleted); None: too many."""

    def after(self, fence: int, receipt: Receipt | None, engine: str, changed: dict[str, str]) -> GitHead:
        """What one more commit makes of it."""
        left = ((engine, receipt.batch, receipt.until),) if receipt is not None else ()
        receipts = (*self.receipts, *left)[-RECEIPTS:]
        return GitHead(fence, self.commits + 1, receipts, changed if len(changed) <= CHANGES else None)

    def above(self, mark: int) -> GitHead:
        """The same, or if the remote has said more before: with fences above all that can have been given out."""
        return self if self.fence >= mark else self._replace(fence=mark + SKIP)

    def receipt_of(self, engine: str) -> Receipt | None:
        """What the last batch of this engine left, as far as is remembered."""
        for known, batch, until in reversed(self.receipts):
            if known == engine:
                return Receipt("receipt", batch, until)
        return None


def encode(head: GitHead) -> str:
    """The message of the head's commit."""
    body = {"schema": SCHEMA, **head._asdict()}
    return f"Leasehold: commit {head.commits}, next fence {head.fence}\n\n{json.dumps(body)}\n"


def decode(message: str) -> GitHead:
    """The head, from the message of its commit."""
    body = parsed(message, "the ref `fence`")
    try:
        receipts = tuple((str(engine), str(batch), int(until)) for engine, batch, until in body["receipts"])
        return GitHead(int(body["fence"]), int(body["commits"]), receipts, body["changed"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"refs/leasehold/fence cannot be read: {error}; without it no fence is safe") from error
