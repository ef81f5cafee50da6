"""What one step sees and what it has changed so far. Pure: it collects, somebody else commits."""

from __future__ import annotations

from leasehold.domain import records
from leasehold.domain.entries import Drop, Put
from leasehold.domain.events import Event
from leasehold.domain.nouns import new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final, TypeAlias

    from leasehold.domain.entries import Entry, Hold, LeaseRequest, Record
    from leasehold.domain.leases import Lease

    Records: TypeAlias = Mapping[str, Record]
    """What was loaded so far, by key."""


NOTHING: Final[dict[str, Record]] = {}
_new: Final = new
_Put: Final = Put
_Drop: Final = Drop
_Event: Final = Event


def resources_of(ask: LeaseRequest) -> tuple[str, ...]:
    """Everything that this request names, in any of its options."""
    return tuple([name for option in ask.options for name in option.resources])


class Missing(Exception):
    """The step needs records that were not loaded."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__(keys)
        self.keys = keys


class Draft:
    """Records as this step has changed them, with the changes and events that lead there."""

    __slots__ = (
        "_loaded",
        "_newer",
        "changed",
        "changes",
        "dirty",
        "engine",
        "events",
        "fence",
        "now",
        "opens_at",
        "picked_up",
    )

    def __init__(
        self,
        loaded: Records,
        now: int,
        fence: int,
        engine: str,
        opens_at: int = 0,
        newer: dict[str, Record] = NOTHING,
    ) -> None:
        self._loaded: dict[str, Record] = loaded if isinstance(loaded, dict) else dict(loaded)
        self._newer = newer
        """What steps before this one have made of some of them."""
        self.now = now
        self.fence = fence
        self.engine = engine
        self.opens_at = opens_at
        """Nothing new is granted before this time: the store may have lost leases that still count."""
        self.changed: dict[str, Record] = {}
        self.changes: dict[tuple[str, str], Put | Drop] = {}
        """By record and entry: a later change of the same entry makes the earlier one moot."""
        self.events: list[Event] = []
        self.dirty: dict[str, None] = {}
        """Nodes where something was given up, so that somebody may be served; in order."""
        self.picked_up: list[tuple[str, Lease]] = []
        """Waiters of this very engine that were granted their lease in this step."""

    def record(self, key: str) -> Record:
        """The record as it is now; ends the step with `Missing` if it was not loaded."""
        found = self.changed.get(key)
        if found is None:
            found = self._newer.get(key)
            if found is None:
                found = self._loaded.get(key)
                if found is None:
                    raise Missing((key,))
        return found

    def require(self, keys: list[str]) -> None:
        """Ask for all of these at once, rather than one by one."""
        known = (self.changed, self._newer, self._loaded)
        missing = [key for key in keys if not any(key in each for each in known)]
        if missing:
            raise Missing(tuple(missing))

    def number(self) -> int:
        """The next number: a fence, or a place in the order of arrival."""
        number = self.fence
        self.fence = number + 1
        return number

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry, replacing the one of the same id."""
        self.changed[key] = records.put(self.record(key), entry)
        self.changes[key, entry.id] = _new(_Put, (key, entry))

    def drop(self, key: str, id_: str) -> None:
        """Remove exactly this entry."""
        self.changed[key] = records.drop(self.record(key), id_)
        gone = _new(_Drop, (key, id_))
        self.changes[gone] = gone  # it says just what it is filed under

    def discard(self, key: str, id_: str) -> None:
        """The same, if it is there: what is not there is no change."""
        if id_ in self.record(key).notes:
            self.drop(key, id_)

    def tell(self, kind: str, ask: LeaseRequest, lease: Hold | None = None, **detail: object) -> None:
        """Note an event about a request or about the lease that came of it."""
        self.note(kind, ask, lease, detail)

    def note(self, kind: str, ask: LeaseRequest, lease: Hold | None, detail: dict[str, object]) -> None:
        """The same, for whoever has the details in a dict already."""
        options = ask.options
        resources = options[0].resources if len(options) == 1 else resources_of(ask)
        id_: str | None = None
        fence = 0
        if lease is not None:
            id_ = lease.id
            fence = lease.fence
        if ask.principal is not None:
            detail["principal"] = ask.principal
            detail["key"] = ask.key
        told = (kind, self.now, ask.space, resources, ask.holder, ask.session, id_, fence, detail, 0)
        self.events.append(_new(_Event, told))
