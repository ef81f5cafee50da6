"""What a store is: a dumb keeper of records. It decides nothing about who gets a lease.

A store loads the records it is asked for, exclusively; tells the time; writes changes atomically and
durably; and hints when somebody else has changed something. Everything that could be called a rule
(what has expired, who is next) is in ``leasehold.domain.rules``. To write a store of your own, implement these
protocols and run the suite in ``leasehold.testing.conformance`` against it.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Protocol, TypeGuard

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event

    class Transaction(Protocol):
        """One atomic change under way. Left without `commit`, it changes nothing.

        Those below are all that a store needs. It may have more, each of which is asked for only where it is there:

        - `opens_at`: the rules grant nothing new before that time of its clock. Of a store that can lose leases which
          still count (a standby that was promoted).
        - `committing(changes, events, fence)`: what `commit` does, step by step (see ``stepwise``), so that an event
          loop need not wait for the answer. Of one behind a network.
        - `confirming()`: the same where there is nothing to commit. Of one that may hand out what it only remembers:
          no answer is given before this has said that it was true; otherwise it raises `Conflict`.
        - `foresee(records)`: told before the commit what its changes make of these records, so that one that remembers
          them need not work it out. A receipt is not in there.
        - `part` and `write_ahead(changes, events)`: after every `part` commands (0: never) it is given what is decided,
          to be written while the rest is being decided. `commit` is then told only what came after.
        """

        @property
        def now(self) -> int:
            """The store's clock, read once the records are ours (microseconds); never runs backwards."""

        @property
        def fence(self) -> int:
            """The next unused number; it may move up with a `load`. `commit` is told the first that is still unused."""

        def load(self, keys: Iterable[str]) -> Mapping[str, Record]:
            """At least the records of these keys, ours alone until the end. May be called again.

            A record that there is not is `model.EMPTY`. Others may be in the mapping too if they are ours.
            Raises `Conflict` if that is only possible by starting over; the engine then does, with the
            keys of both calls in the first one.
            """

        def due(self, limit: int) -> Sequence[str]:
            """Keys of at most this many records with an entry whose `rules.due` has come."""

        def commit(self, changes: Sequence[Put | Drop], events: Sequence[Event], fence: int) -> None:
            """Make all of this durable, or nothing of it.

            Raises `Conflict` if somebody else changed a loaded record meanwhile (nothing was written),
            and `OutcomeUnknown` if it cannot be told whether it was written.
            """

        def close(self) -> None:
            """Give the records up: also after `commit`, when there is nothing left to undo. May be called again."""

    class Answering(Protocol):
        """An answer that is on its way."""

        def fileno(self) -> int:
            """The socket that it comes by."""

        def is_answered(self) -> bool:
            """Take in what has come, without waiting. Whether all of it is here: then the next step does not wait."""

    class Store(Protocol):
        """Where the records are."""

        @property
        def capabilities(self) -> Capabilities:
            """What it can do."""

        def begin(self) -> Transaction:
            """Start a transaction; blocks until it is this caller's turn.

            A store that has `committing` also has `ready(keys)`: whether one on these records could begin and be
            decided now, without waiting for anything.
            """

        def hint(self) -> bool:
            """Whether somebody else may have changed something since the last call. Cheap; only a hint.

            A store that is told of changes may also have `tell_hints(told)`: it then calls `told()`, from any thread,
            as soon as there is a hint. One that knows may have `others()`, which takes no hint away and never waits: a
            value that differs from an earlier one if somebody else, or nobody knows who, may have committed in between;
            None while it cannot tell.
            """

        def loss_mark(self) -> object:
            """Differs from an earlier answer once another process may have ended a lease. Cheap, from any thread.

            Only a hint, for holders: see `model.LOSS_KINDS`. It takes no hint away from `hint`. The first call may
            start to listen.
            """

        def read(self, keys: Iterable[str]) -> tuple[int, Mapping[str, Record]]:
            """The time and these records, as of one moment, without keeping anybody out."""

        def scan(self, kind: str) -> Iterator[tuple[str, Record]]:
            """Every record whose key starts with this letter, as of one moment."""

        def history(self, query: HistoryQuery) -> Sequence[Event]:
            """Past events, newest first."""

        def prune(self) -> int:
            """Forget some of the history beyond its retention; how many events went. 0: there is nothing left.

            One call is one short step, since nobody else is served meanwhile: a long history takes several.
            """

        def close(self) -> None:
            """Give everything back. Idempotent."""

    class ObservingStore(Store, Protocol):
        """One without a clock of its own: it counts a lease from when this process's user first saw it."""

        def watched(self, lease: str) -> Watched | None:
            """What is known of a lease that was read; None if it never was."""


def observes(store: Store) -> TypeGuard[ObservingStore]:
    """Return True if the store counts leases from when it first saw them."""
    return store.capabilities.observes


class Capabilities(Noun):
    """What a store honestly can do; the docs table is generated from this."""

    name: str
    durable: str
    """In words: what an acknowledged grant survives."""
    fifo: bool
    """Whether waiters are served strictly in order of arrival."""
    history: bool
    wakeup: str
    """In words: how a waiter of another process learns of its grant."""
    receipts: bool
    """Whether the outcome of a commit can stay unknown, so that the engine leaves a receipt in it."""
    poll: int
    """How often the engine should ask for a `hint` while somebody waits, in microseconds."""
    beat: int = 500_000
    """How often an engine says that its waiters live, in microseconds; they count as alive three times as long."""
    remote: bool = False
    """Whether each load waits for a network: then records are asked for together, and a server runs it in a thread."""
    batch: int = 1_024
    """At most this many commands a transaction: others wait while it lasts."""
    observes: bool = False
    """Whether it is an `ObservingStore`."""


class Watched(Noun):
    """Since when an observer has watched a lease, on the observer's clock."""

    since: int
    recorded_until: int | None
    """When the lease expires by its writer's wall clock; None where the observer trusts wall clocks already."""


class HistoryQuery(Noun):
    """Which past events are wanted."""

    space: str | None = None
    resource: str | None = None
    holder: str | None = None
    lease: str | None = None
    kinds: tuple[str, ...] = ()
    since: int | None = None
    """Not older than this time of the store's clock."""
    before: int | None = None
    """Only events with a smaller `seq`: to page on."""
    limit: int = 100

    def wants(self, event: Event) -> bool:
        """Whether this event is one of them, for stores that look through theirs."""
        return (
            (self.space is None or event.space == self.space)
            and (self.resource is None or self.resource in event.resources)
            and (self.holder is None or event.holder == self.holder)
            and (self.lease is None or event.lease == self.lease)
            and (not self.kinds or event.kind in self.kinds)
            and (self.since is None or event.at_us >= self.since)
            and (self.before is None or event.seq < self.before)
        )
