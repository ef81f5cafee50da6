"""Which records were needed together: a guess that saves a trip, and does no harm where it is wrong."""

from __future__ import annotations

from leasehold.model import Hold, Put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.model import Drop

MOST = 100_000
"""So many guesses are kept; then they are all forgotten."""


class Company:
    """Of each node that somebody was given through this store: its holder's record, which every release needs."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def with_others(self, keys: list[str]) -> list[str]:
        """These keys, and those that will be asked for next."""
        known = self._of
        others = dict.fromkeys(known[key] for key in keys if key in known)
        return list(dict.fromkeys((*keys, *others))) if others else keys

    def follow(self, changes: Sequence[Put | Drop]) -> None:
        """These changes were committed."""
        known = self._of
        for change in changes:
            if isinstance(change, Put):
                if isinstance(change.entry, Hold):
                    known[change.key] = change.entry.actor
            else:
                known.pop(change.key, None)
        if len(known) > MOST:
            known.clear()
