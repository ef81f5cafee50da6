"""Clearing up at one engine: what is due is swept, old history is forgotten. A little each turn; it decides nothing.

Whoever asks something meanwhile is served between two steps. An engine that only acquires and releases does not
import this.
"""

from __future__ import annotations

from leasehold.domain.outcomes import Collected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.engine.pending import Pending
    from leasehold.stores.protocol import Store

PAUSE = 0.05
"""Between two steps, in seconds, while nobody waits for the end."""


class Collection:
    """One clearing up, from its first step to its last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._askers: list[Pending] = []
        self._swept = 0
        self._forgotten = 0
        self._due_last: Sequence[str] = ()
        self.sweeps = False
        """Whether there may be more to sweep."""
        self.at = 0.0
        """When the next step is due, on the engine's clock."""

    def join(self, pending: Pending) -> None:
        """Somebody wants to know when it is over: now it goes on without a pause, and sweeps as well."""
        self._askers.append(pending)
        self.sweeps = True
        self.at = 0.0

    def count(self, due: Sequence[str], most: int) -> None:
        """These were swept, of at most so many at once."""
        self._swept += len(due)
        # The same ones again: a sweep does not change them, so more sweeps will not either.
        self.sweeps = self.sweeps and len(due) == most and due != self._due_last
        self._due_last = due

    def forget_some(self, now: float) -> bool:
        """Trim the history a little; whether nothing is left to do."""
        went = self._store.prune()
        self._forgotten += went
        self.at = now if self._askers else now + PAUSE
        return not went and not self.sweeps

    def tell(self, error: Exception | None = None) -> None:
        """It is over, or it broke: everybody who asked learns it."""
        for pending in self._askers:
            if error is None:
                pending.resolve(Collected(self._swept, self._forgotten))
            else:
                pending.fail(error)
