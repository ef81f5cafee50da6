"""What one step sees and what it has changed so far. Pure: it collects, somebody else commits."""

from __future__ import annotations

from leasehold import records
from leasehold.model import Drop, Event, Put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from leasehold.model import Ask, Entry, Hold, Lease, Record

    class Records(Protocol):
        """What was loaded so far."""

        def get(self, key: str, /) -> Record | None:
            """The record of this key; None if it was not loaded."""

        def __contains__(self, key: object, /) -> bool: ...


class Missing(Exception):
    """The step needs records that were not loaded."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__(keys)
        self.keys = keys


class Draft:
    """Records as this step has changed them, with the changes and events that lead there."""

    __slots__ = ("_loaded", "changed", "changes", "dirty", "engine", "events", "fence", "now", "opens_at", "picked_up")

    def __init__(self, loaded: Records, now: int, fence: int, engine: str, opens_at: int = 0) -> None:
        self._loaded = loaded
        self.now = now
        self.fence = fence
        self.engine = engine
        self.opens_at = opens_at
        """Nothing new is granted before this time: the store may have lost leases that still count."""
        self.changed: dict[str, Record] = {}
        self.changes: list[Put | Drop] = []
        self.events: list[Event] = []
        self.dirty: dict[str, None] = {}
        """Nodes where something was given up, so that somebody may be served; in order."""
        self.picked_up: list[tuple[str, Lease]] = []
        """Waiters of this very engine that were granted their lease in this step."""

    def record(self, key: str) -> Record:
        """The record as it is now; ends the step with `Missing` if it was not loaded."""
        found = self.changed.get(key)
        if found is None:
            found = self._loaded.get(key)
            if found is None:
                raise Missing((key,))
        return found

    def require(self, keys: list[str]) -> None:
        """Ask for all of these at once, rather than one by one."""
        missing = [key for key in keys if key not in self.changed and key not in self._loaded]
        if missing:
            raise Missing(tuple(missing))

    def number(self) -> int:
        """The next number: a fence, or a place in the order of arrival."""
        number = self.fence
        self.fence = number + 1
        return number

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry, replacing the one of the same id."""
        self._change(key, Put(key, entry))

    def drop(self, key: str, id_: str) -> None:
        """Remove exactly this entry."""
        self._change(key, Drop(key, id_))

    def _change(self, key: str, change: Put | Drop) -> None:
        self.changed[key] = records.apply(self.record(key), change)
        self.changes.append(change)

    def tell(self, kind: str, ask: Ask, lease: Hold | None = None, **detail: object) -> None:
        """Note an event about a request or about the lease that came of it."""
        option = ask.options[0] if len(ask.options) == 1 else None
        resources = option.resources if option else tuple(name for each in ask.options for name in each.resources)
        self.events.append(
            Event(
                kind,
                self.now,
                ask.space,
                resources,
                ask.holder,
                ask.session,
                lease.id if lease else None,
                lease.fence if lease else 0,
                detail,
            )
        )
