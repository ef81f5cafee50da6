"""The contract between the engine and a store. A store keeps records and decides nothing about who gets a lease.

A store loads the records it is asked for, exclusively; tells the time; writes changes atomically and durably; and hints
when another process has changed something. Every rule (what has expired, who is next) is in ``leasehold.domain.rules``.

To write a store, subclass `Store` and `Transaction`, or `NetworkStore` and `NetworkTransaction` if each access waits
for a network. Methods that are not abstract have a default that suits a store with nothing to add. Then run the suite
in ``leasehold.testing.conformance``. docs/how-to/write-a-store.md has all of this on one page, with an example.
"""

from __future__ import annotations

from abc import abstractmethod

from leasehold.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.steps import Steps
    from leasehold.stores import Capabilities, HistoryQuery, Watched
    from leasehold.stores.layout import Layout
else:
    from abc import ABC as Protocol  # noqa: N811 (`typing` would take a one-shot command longer than its transaction)


class Transaction(Protocol):
    """One atomic change under way. If it is closed without `commit`, it changes nothing."""

    __slots__ = ()

    @property
    @abstractmethod
    def now(self) -> int:
        """The store's clock in microseconds, read while the records are held exclusively. It never runs backwards."""

    @property
    @abstractmethod
    def fence(self) -> int:
        """The next unused fence. It may rise with a `load`. Pass `commit` the first fence that is still unused."""

    @property
    def opens_at(self) -> int:
        """Time before which the rules grant nothing new: of a store that may have lost leases, as after a fail-over."""
        return 0

    @abstractmethod
    def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
        """Return at least the records of these keys, held exclusively until the end. May be called again.

        A record that does not exist is `EMPTY`. The mapping may contain other records if they are held, too. Raise
        `Conflict` if the transaction has to start over: the engine then does, and loads the keys of all calls at once.
        """

    @abstractmethod
    def due(self, limit: int) -> Sequence[str]:
        """Return keys of at most this many records with an entry whose `records.due` has passed, oldest first."""

    @abstractmethod
    def commit(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> None:
        """Make all of this durable, or none of it.

        `after` may hold each changed record as it will be, except for a receipt: a store that caches records need not
        apply the changes itself. If it is given, no entry is changed twice. Raise `Conflict` if another process changed
        a loaded record (nothing was written), and `OutcomeUnknown` if the store cannot know whether it was written.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the records, also after `commit`. Idempotent."""


class Store(Protocol):
    """A keeper of records. Transactions come from one thread at a time, all other calls from any thread."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Return what this store can do."""

    @abstractmethod
    def begin(self) -> Transaction:
        """Start a transaction. Block until it is this caller's turn."""

    @abstractmethod
    def hint(self) -> bool:
        """Return True if another process may have changed something since the last call. Cheap, and only a hint."""

    def listen(self, engine: str, told: Callable[[], None]) -> bool:
        """Have `told` called, from any thread, soon after a process calls `wake` for the engine of this key.

        Return False if this is not possible, or not yet. Then, and whenever a call is lost, the engine learns of its
        grants by `hint`.
        """
        return False

    def wake(self, engines: Sequence[str]) -> None:
        """Wake these engines of other processes: this one has committed that waits of theirs are over. Never raises."""
        return

    @abstractmethod
    def loss_mark(self) -> object:
        """Return a value that changes once another process may have ended a lease. Cheap, and only a hint.

        Holders watch it, to notice a lost lease soon (see `LOSS_KINDS`). It takes no hint away from `hint`.
        """

    @abstractmethod
    def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
        """Return the time and these records as of one moment, without excluding a transaction."""

    @abstractmethod
    def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
        """Return every record whose key starts with this letter, with its key, as of one moment."""

    @abstractmethod
    def history(self, query: HistoryQuery) -> Sequence[Event]:
        """Return past events, newest first."""

    @abstractmethod
    def prune(self) -> int:
        """Delete some history beyond its retention, and return how many events that was; 0: nothing is left to delete.

        One call takes one short step, because nobody else is served meanwhile.
        """

    @abstractmethod
    def close(self) -> None:
        """Release everything. Idempotent."""


class ObservingStore(Store, Protocol):
    """A store without a clock of its own. It counts a lease from the moment when this process's user first saw it."""

    @abstractmethod
    def watched(self, lease: str) -> Watched | None:
        """Return since when a lease is watched; None if it was never read."""


class Answering(Protocol):
    """An answer that is on its way. A step of a network transaction."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the socket by which it comes."""

    @abstractmethod
    def is_answered(self) -> bool:
        """Read what has arrived, without waiting. Return True once the next step does not have to wait."""


class NetworkTransaction(Transaction, Protocol):
    """A transaction whose end can be left to an event loop until it is answered.

    Its steps yield an `Answering`, or None before they may wait for something else (see ``leasehold.steps``).
    """

    __slots__ = ()

    def committing(
        self,
        changes: Sequence[Put | Drop],
        events: Sequence[Event],
        fence: int,
        after: Mapping[str, Record] | None = None,
    ) -> Steps[None]:
        """Do what `commit` does, step by step."""
        yield None
        self.commit(changes, events, fence, after)

    @abstractmethod
    def confirming(self) -> Steps[None]:
        """Confirm step by step that what was loaded is true, where there is nothing to commit. Otherwise `Conflict`.

        No caller is answered before. For a store that may load what it only remembers.
        """


class NetworkStore(Store, Protocol):
    """A store behind a network. Its capabilities say `remote`."""

    @abstractmethod
    def begin(self) -> NetworkTransaction:
        """Start a transaction. Block until it is this caller's turn."""

    def ready(self, keys: Sequence[str]) -> bool:
        """Return True if a transaction on these records could begin and decide now, without waiting for anything."""
        return False

    @property
    def layout(self) -> Layout:
        """The number of this lane, and how many there are, as every transaction confirms it. By default it is whole."""
        from leasehold.stores.layout import Layout  # noqa: PLC0415 (not for a one-shot command on a local store)

        return Layout()

    def lane(self, number: int) -> NetworkStore:
        """Open a lane of this store, which is divided. Other threads may use this store meanwhile."""
        raise StoreError(f"there is no lane {number}: this store is not divided")

    def commit_together(self, are_others_coming: Callable[[], bool]) -> None:
        """Note that this thread's event loop drives all lanes: the store may write commits of several lanes at once.

        Then a lane may wait with its commit for others: while `are_others_coming` is true, one is about to decide.
        """
        return

    def divide(self, lanes: int) -> int:
        """Change the number of lanes, and return the number before. All processes that use the store are refused then.

        A store that cannot do that at once is closed until it is done, and goes on when the change is repeated.
        """
        raise StoreError(
            f"the number of lanes of a store in {self.capabilities.name} cannot be changed. Create another one: give "
            f"another place in the URL, with lanes={lanes}"
        )
