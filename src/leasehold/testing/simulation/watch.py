"""Watch a simulation: compare the store with the beliefs of callers. It changes nothing.

It follows every commit and keeps a second copy of all records. `look` compares; a broken promise is a `Broken`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leasehold.domain import keys, records
from leasehold.domain.entries import EMPTY, Hold, Presence, Put, Waiter
from leasehold.domain.names import overlaps
from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.testing.checker import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from leasehold.domain.entries import Alternative, Drop, Record
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease

SERVED_WITHIN = 3 * SECOND // 2
"""A waiter that nobody is in the way of is served after this: 1.2 s, and some time until its engine's turn."""
TOLD_WITHIN = SECOND
"""After this time, a caller must know of a grant that was picked up, or have released it."""


class Broken(AssertionError):
    """A promise was broken."""


class Belief(Noun):
    """Somebody is sure to hold a lease until then: counted on its own clock, from before it asked."""

    lease: Lease
    who: str
    until: int


class Watch:
    """Everything that was committed, and everything that is believed."""

    def __init__(
        self, undisturbed_since: Callable[[str], int | None], could_tell_since: Callable[[Hold], int | None]
    ) -> None:
        """`undisturbed_since`: from when on the engine of this key ran and reached the store; None: it is dead.

        `could_tell_since`: from when on an undisturbed engine could have reported this lease; None: none has to.
        """
        self.undisturbed_since = undisturbed_since
        self.could_tell_since = could_tell_since
        self.now = 0
        self.fence = 0
        self.records: dict[str, Record] = {}
        self.events: list[Event] = []
        self.granted: set[str] = set()
        """Ids of all leases that there ever were."""
        self.latest: deque[str] = deque(maxlen=20)
        """The youngest of them."""
        self._beliefs: dict[str, Belief] = {}
        self._forced: set[str] = set()
        self._engines: dict[str, str] = {}
        """Which engine each waiter waits at, by their keys."""
        self._promised: dict[str, Hold] = {}
        """Leases that wait for their waiter's engine to come for them."""
        self._presence: dict[str, int] = {}
        self._lapsed: dict[str, int] = {}
        self._free_since: dict[str, int] = {}
        self._untold_since: dict[str, int] = {}

    # -------------------------------------------------------------------------------------- the truth

    def committed(self, now: int, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        """Follow what a store has written."""
        if now < self.now or fence < self.fence:
            raise Broken(f"time or fence went back: from {self.now}, {self.fence} to {now}, {fence}")
        self.now, self.fence = now, fence
        for change in changes:
            before = self.records.get(change.key, EMPTY)
            if isinstance(change, Put):
                self._note(change.key, change.entry)
            after = records.apply(before, change)
            if after == EMPTY:
                self.records.pop(change.key, None)
            else:
                self.records[change.key] = after
        for event in events:
            self.events.append(event._replace(seq=len(self.events) + 1))
            if event.lease is not None and event.kind == "granted":
                self.granted.add(event.lease)
                self.latest.append(event.lease)
            elif event.lease is not None and event.kind == "forced":
                self._forced.add(event.lease)
            elif event.lease in self._promised and event.kind == "cancelled":
                self._promise_ended(self._promised.pop(event.lease))

    def _note(self, key: str, entry: object) -> None:
        if isinstance(entry, Presence):
            until = self._presence.get(key)
            if until is not None and until < self.now:
                self._lapsed.setdefault(key, until)
            self._presence[key] = entry.until
        elif isinstance(entry, Waiter):
            self._engines[entry.id] = entry.engine
        elif isinstance(entry, Hold) and entry.ask is not None:
            if entry.ticket is not None:
                is_new = entry.id not in self._promised
                if is_new and self._presence.get(self._engines[entry.ticket], 0) <= self.now:
                    raise Broken(f"{entry.id} was granted to {entry.ticket}, whose engine was not heard of any more")
                self._promised[entry.id] = entry
            else:
                self._promise_ended(self._promised.pop(entry.id, None))

    def _promise_ended(self, hold: Hold | None) -> None:
        """Somebody came for a promise, or it lapsed: in time."""
        if hold is None or self.could_tell_since(hold) is None:
            return
        since = self.undisturbed_since(self._engines[str(hold.ticket)])
        if since is not None and min(self.now, hold.expires_at) - max(since, hold.acquired_at) > SERVED_WITHIN:
            raise Broken(f"{hold.ticket} was granted {hold.id}, but its engine did not come for it")

    def hold(self, lease: str) -> Hold | None:
        """Return the lease as the store has it now, if it lives."""
        found = self.records.get(keys.home(lease), EMPTY).holds.get(lease)
        return found if found is not None and not found.closed and found.expires_at > self.now else None

    # --------------------------------------------------------------------------------------- beliefs

    def believe(self, who: str, lease: Lease, until: int) -> None:
        """Note that its holder is sure of this lease until then (or longer, if it was sure of that before)."""
        if lease.id in self._forced or until <= self.now:
            return
        known = self._beliefs.get(lease.id)
        if known is not None:
            until = max(until, known.until)
        for id_, other in self._beliefs.items():
            if id_ != lease.id and self.is_believed(id_) and _clash(lease, other.lease):
                raise Broken(f"{who} has {lease.id}, while {other.who} is sure of {other.lease.id}: {lease.resources}")
        self._beliefs[lease.id] = Belief(lease, who, until)

    def is_believed(self, lease: str) -> bool:
        """Return True if its holder is still sure of this lease."""
        belief = self._beliefs.get(lease)
        return belief is not None and belief.until > self.now and lease not in self._forced

    def doubt(self, lease: str) -> None:
        """Nobody is sure of this lease any more."""
        self._beliefs.pop(lease, None)

    def look(self, now: int) -> None:
        """Compare what is believed with what the store has."""
        self.now = max(self.now, now)
        for id_, belief in tuple(self._beliefs.items()):
            if belief.until <= now or id_ in self._forced:
                del self._beliefs[id_]
            else:
                hold = self.hold(id_)
                if hold is None or hold.expires_at < belief.until:
                    raise Broken(f"{belief.who} is sure of {id_} until {belief.until}, but at {now} there is {hold}")

    # ------------------------------------------------------------------------------- nobody is forgotten

    def look_for_forgotten(self) -> None:
        """Check that no request waits for a free resource, and that every lease is known to a caller."""
        free = {
            waiter.id: since
            for record in self.records.values()
            for waiter in record.waiters
            if self._is_free(waiter) and (since := self.undisturbed_since(waiter.engine)) is not None
        }
        for id_, since in _for_how_long(self._free_since, free, self.now):
            if since > SERVED_WITHIN:
                raise Broken(f"nothing is in the way of {id_}, but it has to wait for {since} us")
        untold = {
            hold.id: since
            for record in self.records.values()
            for hold in record.holds.values()
            if hold.ask is not None
            and hold.ticket is None
            and self.hold(hold.id)
            and (since := self.could_tell_since(hold)) is not None
        }
        for id_, since in _for_how_long(self._untold_since, untold, self.now):
            if since > TOLD_WITHIN:
                raise Broken(f"{id_} was granted {since} us ago, and no caller knows of it: {self.hold(id_)}")

    def _is_free(self, waiter: Waiter) -> bool:
        """Return True if nothing that this waiter wants is held, and no other waiter is before it."""
        ask = waiter.ask
        return (
            ask is not None and waiter.deadline > self.now and any(self._is_empty(waiter, each) for each in ask.options)
        )

    def _is_empty(self, waiter: Waiter, option: Alternative) -> bool:
        here = [self.records.get(claim.node, EMPTY) for claim in option.claims]
        return all(
            all(hold.expires_at <= self.now for hold in record.holds.values())
            and (not record.waiters or record.waiters[0].id == waiter.id)
            for record in here
        )

    # ----------------------------------------------------------------------------------------- the end

    def judge(self, *, finished: bool) -> None:
        """Let the checker judge the whole history."""
        lapsed = {**self._presence, **self._lapsed}
        residue = self.records if finished else None
        found = check(self.events, finished=finished, residue=residue, dead_engines=lapsed)
        if found:
            told = "\n".join(f"{each.kind}: {each.message}" for each in found[:5])
            raise Broken(f"{len(found)} broken promises in the history:\n{told}")


def _for_how_long(seen: dict[str, int], still: dict[str, int], now: int) -> Iterator[tuple[str, int]]:
    """Return for how long each of these was seen while the engines responsible for it were undisturbed."""
    for id_ in [each for each in seen if each not in still]:
        del seen[id_]
    for id_, undisturbed_since in still.items():
        yield id_, now - max(seen.setdefault(id_, now), undisturbed_since)


def _clash(one: Lease, other: Lease) -> bool:
    """Return True if these two cannot be held at the same time. The checker counts slots."""
    if one.space != other.space or one.mode == other.mode == "shared":
        return False
    sharing = one.mode == other.mode == "slots" and one.slots == other.slots
    return any(overlaps(a, b) and not (sharing and a == b) for a in one.resources for b in other.resources)
