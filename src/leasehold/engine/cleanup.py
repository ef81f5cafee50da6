"""One cleanup of a store: sweep what has expired, delete old history, a little each turn. It decides nothing.

The engine answers other requests between two steps. An engine that only acquires and releases does not import this.
"""

from __future__ import annotations

from leasehold.domain.outcomes import Collected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.engine.pending import Pending
    from leasehold.stores.protocol import Store

PAUSE = 0.05
"""Seconds between two steps while no caller waits for the end."""


class Cleanup:
    """One cleanup, from its first step to its last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._callers: list[Pending] = []
        self._swept = 0
        self._forgotten = 0
        self._due_last: Sequence[str] = ()
        self.sweeps = False
        """True while there may be more to sweep."""
        self.at = 0.0
        """When the next step is due, on the engine's clock."""

    def join(self, pending: Pending) -> None:
        """Answer this request at the end. From now on the cleanup does not pause, and sweeps as well."""
        self._callers.append(pending)
        self.sweeps = True
        self.at = 0.0

    def count(self, due: Sequence[str], most: int) -> None:
        """Count the records of one sweep, which looks at `most` of them."""
        self._swept += len(due)
        # These records were swept before without a change, so more sweeps will not change them either.
        self.sweeps = self.sweeps and len(due) == most and due != self._due_last
        self._due_last = due

    def forget_some(self, now: float) -> bool:
        """Delete a little old history; return True if nothing is left to do."""
        went = self._store.prune()
        self._forgotten += went
        self.at = now if self._callers else now + PAUSE
        return not went and not self.sweeps

    def finish(self, error: Exception | None = None) -> None:
        """Answer the callers who asked for this cleanup, with its error if it failed."""
        for pending in self._callers:
            if error is None:
                pending.resolve(Collected(self._swept, self._forgotten))
            else:
                pending.fail(error)
