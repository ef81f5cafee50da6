"""A store on which everything goes wrong that can go wrong, whenever chance says so. It loses nothing by itself.

Wrap any store in a `FaultyStore`. With one seeded `random.Random` behind the `Luck` of all of them, a run goes wrong in
the same way each time. `Crash` ends a process: the code that drives the engine has to drop it, with all of its callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.errors import Conflict, OutcomeUnknown, StoreError, Unreachable
from leasehold.stores.protocol import Store, Transaction

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.stores import Capabilities, HistoryQuery

    Committed: TypeAlias = Callable[[int, Sequence[Put | Drop], Sequence[Event], int], None]

POLL = 250_000
"""How often an engine asks a faulty store for hints, in microseconds."""


class Weather(Noun):
    """How often each mishap strikes: a probability, each time that it could."""

    unreachable: float = 0.0
    """A transaction cannot begin, or something cannot be read."""
    conflict: float = 0.0
    """Somebody else was quicker: at a second load, or at the commit."""
    failed: float = 0.0
    """A commit fails, and it is certain that nothing was written."""
    unheard: float = 0.0
    """Nothing was written, but nobody can tell: the connection is gone."""
    lost_reply: float = 0.0
    """Everything was written, but nobody can tell: the connection is gone."""
    mute: float = 0.0
    """After one of these two, the store cannot be asked at once what became of it."""
    dies_before: float = 0.0
    """The process dies before its commit is written."""
    dies_after: float = 0.0
    """The process dies after its commit was written, before anybody is answered."""
    deaf: float = 0.0
    """A hint is lost."""


CALM = Weather()


class Crash(BaseException):
    """The process died here."""


class Luck:
    """Decides what goes wrong next. One for all stores of a simulation."""

    def __init__(self, chance: random.Random, weather: Weather = CALM) -> None:
        self.chance = chance
        self.weather = weather
        self.is_dark = False
        """True while the store cannot be reached."""
        self.struck: dict[str, int] = {}
        """The number of times that each mishap has struck."""

    def strikes(self, mishap: str) -> bool:
        """Return True if this goes wrong now."""
        odds = getattr(self.weather, mishap)
        if odds and self.chance.random() < odds:
            self.struck[mishap] = self.struck.get(mishap, 0) + 1
            return True
        return False


class FaultyStore(Store):
    """One process's way to a shared store."""

    def __init__(self, inner: Store, luck: Luck, committed: Committed) -> None:
        self._capabilities = inner.capabilities._replace(receipts=True, poll=POLL, remote=False)
        self.luck = luck
        self.failures = 0
        """The number of failures reported to callers."""
        self.committed = committed
        self._inner = inner
        self._is_mute = False

    @property
    def capabilities(self) -> Capabilities:
        """Return those of the wrapped store, with receipts."""
        return self._capabilities

    def begin(self) -> FaultyTransaction:
        """Start a transaction, if the store can be reached."""
        self._reach()
        return FaultyTransaction(self, self._inner.begin())

    def hint(self) -> bool:
        """Return True if another process has changed something, unless the hint was lost on its way."""
        return self._inner.hint() and not self.luck.strikes("deaf")

    def loss_mark(self) -> object:
        """Return a value that changes once another process may have ended a lease."""
        return self._inner.loss_mark()

    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return these records, if the store can be reached."""
        self._reach()
        return self._inner.read(keys)

    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Yield every record of this kind."""
        return self._inner.scan(kind)

    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Return past events."""
        return self._inner.history(query)

    def prune(self) -> int:
        """Remove old history."""
        return self._inner.prune()

    def close(self) -> None:
        """Do nothing: the store is shared, and the code that opened it closes it."""

    def lost(self, what: str) -> OutcomeUnknown:
        """Return the error of a connection that died during a commit."""
        self._is_mute = self.luck.strikes("mute")
        return OutcomeUnknown(f"injected: the connection died {what}")

    def _reach(self) -> None:
        if self._is_mute or self.luck.is_dark or self.luck.strikes("unreachable"):
            self._is_mute = False
            self.failures += 1
            raise Unreachable("injected: the store does not answer")


class FaultyTransaction(Transaction):
    """A transaction that may end in every way in which transactions end."""

    __slots__ = ("_inner", "_loads", "_store", "fence", "now", "opens_at")

    now: int
    fence: int
    opens_at: int

    def __init__(self, store: FaultyStore, inner: Transaction) -> None:
        self.now = inner.now
        self.fence = inner.fence
        self.opens_at = inner.opens_at
        self._store = store
        self._inner = inner
        self._loads = 0

    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """Return these records; a second load may find that another process was quicker."""
        self._loads += 1
        if self._loads > 1 and self._store.luck.strikes("conflict"):
            raise Conflict("injected: start over with these keys")
        return self._inner.load(keys)

    def due(self, limit: int) -> Sequence[str]:
        """Return the keys of records with something due."""
        return self._inner.due(limit)

    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,  # noqa: ARG002
    ) -> None:
        """Write it all, or fail before, or fail after. In any case it is over then."""
        try:
            self._commit(changes, events, fence)
        finally:
            self._inner.close()

    def _commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
        strikes = self._store.luck.strikes
        if strikes("dies_before"):
            raise Crash
        if strikes("conflict"):
            raise Conflict("injected: another process was quicker")
        if strikes("failed"):
            self._store.failures += 1
            raise StoreError("injected: the disk is full")
        if strikes("unheard"):
            raise self._store.lost("before the commit arrived")
        self._inner.commit(changes, events, fence)
        self._store.committed(self.now, changes, events, fence)
        if strikes("dies_after"):
            raise Crash
        if strikes("lost_reply"):
            raise self._store.lost("after the commit was written")

    def close(self) -> None:
        """Give the records up."""
        self._inner.close()
