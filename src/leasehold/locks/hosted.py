"""The locks of a server: an engine that the event loop drives, and what a server needs beyond the verbs.

On a local store a commit blocks the loop while it lasts, which is faster than handing it to a thread as long as fsync
is fast (see ``pacing``); on a store behind a network a thread does it. Whatever only looks runs in a thread as well,
as it may take long.
"""

from __future__ import annotations

from asyncio import shield
from collections import deque
from typing import TYPE_CHECKING

from leasehold.domain.commands import Beat, Sweep
from leasehold.domain.outcomes import Refused
from leasehold.engine.drivers.loop import LoopDriver, PacedDriver
from leasehold.engine.engine import Engine
from leasehold.engine.waiters import BEATS
from leasehold.errors import InvalidInput, StoreError
from leasehold.locks import queries as reading
from leasehold.locks.aio import AsyncLocks
from leasehold.locks.local import LOOKS, finished, look
from leasehold.requests import calls, checks, lookups
from leasehold.requests import to_command as orders
from leasehold.stores import HistoryQuery

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    from leasehold.domain.api_keys import Key
    from leasehold.domain.events import Event
    from leasehold.domain.sessions import Session
    from leasehold.engine.pending import Pending
    from leasehold.requests.calls import Authority, Call, LossSource
    from leasehold.requests.checks import Settings
    from leasehold.stores.protocol import Store

    Watched: TypeAlias = HistoryQuery

PAGE = 500
"""Past events that are read at a time."""
FEW = 32
"""Past events that are read first, since there are rarely more to read."""
RECENT_MOST = 10_000
TERMS = 4_096
"""Checked arguments of so many holders are remembered."""
PROBED = 1.0
"""Seconds for which the result of a probe counts."""


class LoopAnswers:
    """Answers from an engine that the event loop drives."""

    def __init__(self, engine: Engine, driver: LoopDriver, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        self._driver = driver
        self._settings = settings
        self._loop = loop
        self._memory = checks.TermsCache(TERMS)

    def order(self, verb: str, asked: Mapping[str, Any], authority: Authority | None = None) -> orders.Order | Refused:
        """Return the command behind a call, or a refusal. Arguments that were checked before are not checked again."""
        try:
            return orders.order(verb, asked, self._settings, self.engine.key, self._memory, authority)
        except InvalidInput as error:
            return calls.refusal(error)

    async def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call. A task that is cancelled leaves the queue and holds nothing."""
        if call.verb in LOOKS:
            return await self._loop.run_in_executor(None, self._look, call)
        if call.verb == "gc":
            return await self._driver.ask(Sweep(()))
        order = self.order(call.verb, call.arguments, call.authority)
        if isinstance(order, Refused):
            return order
        return finished(await self._driver.ask(order.command, order.secret), order.secret, self.engine.store)

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost. A server holds none of its own by `lock`."""
        raise StoreError("the locks of a server do not hold leases in the background")

    def _look(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        try:
            return look(self.engine, self._settings, call)
        except InvalidInput as error:
            return calls.refusal(error)

    async def close(self) -> None:
        """Answer every waiting request, then close the store."""
        try:
            self._driver.close()
        finally:
            self.engine.store.close()


class AnswersTo:
    """Answers to one principal."""

    def __init__(self, answers: LoopAnswers, authority: Authority) -> None:
        self._answers = answers
        self._authority = authority

    async def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call."""
        return await self._answers.ask(call._replace(authority=self._authority))

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost."""
        return self._answers.losses()

    async def close(self) -> None:
        """Do nothing: the engine serves other principals, too."""


class Served:
    """The engine as a server uses it: the verbs, requests that outlive a connection, keys, and events."""

    def __init__(self, store: Store, settings: Settings, loop: asyncio.AbstractEventLoop, *, space: str) -> None:
        self._store = store
        self._engine = Engine(store, housekeeping=True)
        self._driver = (LoopDriver if store.capabilities.remote else PacedDriver)(self._engine, loop)
        self._driver.observing(self._observe)
        self._answers = LoopAnswers(self._engine, self._driver, settings, loop)
        self.locks = AsyncLocks(self._answers, holder="anonymous", space=space)
        self._watchers: list[Callable[[Sequence[Event]], None]] = []
        self._loop = loop
        self._probing: asyncio.Task[None] | None = None
        self._probed_until = 0.0
        self._engine.wake()  # housekeeping begins now, not with the first request

    def _observe(self, events: Sequence[Event]) -> None:
        for watcher in self._watchers:
            watcher(events)

    def watch(self, observe: Callable[[Sequence[Event]], None]) -> None:
        """Call this with the events of each committed batch of this process."""
        self._watchers = [*self._watchers, observe]

    def unwatch(self, observe: Callable[[Sequence[Event]], None]) -> None:
        """Stop calling this; also in the course of a call."""
        self._watchers = [each for each in self._watchers if each != observe]

    def measure(self, told: Callable[[int, float], None]) -> None:
        """Call this with the size and the seconds of each turn."""
        self._driver.measure = told

    def locks_for(self, authority: Authority | None) -> AsyncLocks:
        """Return the verbs as this principal calls them, or as anybody does where a server has no keys."""
        if authority is None:
            return self.locks
        return AsyncLocks(AnswersTo(self._answers, authority), holder=self.locks.holder, space=self.locks.space)

    def order(self, verb: str, asked: dict[str, Any], authority: Authority | None) -> orders.Order | Refused:
        """Return the command to `submit`, or a refusal."""
        return self._answers.order(verb, asked, authority)

    def submit(self, order: orders.Order, done: Callable[[Pending], None]) -> Pending:
        """Hand a command to the engine; the loop calls `done` after its commit, or at once if the engine is closed.

        `done` must not raise: it runs within a turn of the engine.
        """
        return self._driver.submit(order.command, order.secret, done)

    def enough(self) -> None:
        """Begin the next turn without a pause for more calls: a batch has submitted all of its own."""
        self._driver.enough()

    def abandon(self, pending: Pending) -> None:
        """Cancel an acquire whose client disconnected: leave the queue, and release what was granted."""
        self._engine.abandon(pending)

    @property
    def has_history(self) -> bool:
        """True if this store keeps a history."""
        return self._store.capabilities.history

    def queues(self) -> list[tuple[str, str]]:
        """Return the space and the first resource of each waiting request."""
        return [(ask.space, ask.options[0].resources[0]) for ask in self._engine.wanted()]

    def keys(self) -> tuple[Key, ...]:
        """Return every key that works, with the hash of its secret. It waits for the store: not for the event loop."""
        return reading.keys_of(self._store)

    def keys_and_time(self) -> tuple[tuple[Key, ...], int]:
        """Return `keys`, and the store's time after they were read."""
        return self.keys(), self.ping()

    def session(self, space: str, session: str) -> Session | None:
        """Return a live session, with the hash of its secret. It waits for the store: not for the event loop."""
        return reading.session_of(self._store, space, session)

    def ping(self) -> int:
        """Return the store's time, read without a transaction; raises if it does not answer. Not for the event loop."""
        return self._store.read(())[0]

    async def probe(self) -> None:
        """Return once the engine has written a heartbeat; raises if it cannot.

        Callers share a write, and its result counts for a moment.
        """
        is_over = self._probing is None or (self._probing.done() and self._loop.time() >= self._probed_until)
        if self._probing is None or is_over:
            self._probing = self._loop.create_task(self._write())
            self._probing.add_done_callback(lambda done: done.cancelled() or done.exception())  # callers raise it
        await shield(self._probing)

    async def _write(self) -> None:
        try:
            await self._driver.ask(Beat(self._engine.key, BEATS * self._store.capabilities.beat))
        finally:
            self._probed_until = self._loop.time() + PROBED

    def watched(self, space: object, resource: object, holder: object, kinds: tuple[str, ...] = ()) -> Watched:
        """Return the query for these events, checked."""
        asked = {"space": space, "resource": resource, "holder": holder, "lease": None, "kinds": kinds}
        return lookups.history_query({**asked, "since": None, "before": None, "limit": PAGE})

    def after(self, seq: int, query: Watched, most: int) -> tuple[tuple[Event, ...], bool]:
        """The next events after this one, the oldest first, a page at most; and whether some before them are left out.

        They are, if there are more than `most`: then the latest `most` count. Not for the event loop.
        """
        kept: deque[Event] = deque(maxlen=PAGE)
        count, before = 0, None
        while True:
            page = self._store.history(query._replace(before=before))
            found = [event for event in page if event.seq > seq]
            room = most - count
            kept.extend(found[:room])
            count += len(found[:room])
            if len(found) > room or len(page) < PAGE or page[-1].seq <= seq:
                return tuple(reversed(kept)), len(found) > room
            before = page[-1].seq

    def recent(self, last: int | None) -> Sequence[Event]:
        """The events after this one, newest first; at least the newest few if it is None. Not for the event loop."""
        found: list[Event] = []
        limit = FEW
        while True:
            page = self._store.history(HistoryQuery(before=found[-1].seq if found else None, limit=limit))
            found += [event for event in page if last is None or event.seq > last]
            if last is None or len(page) < limit or page[-1].seq <= last or len(found) >= RECENT_MOST:
                return found
            limit = PAGE

    def newest(self) -> int:
        """Return the number of the last event. Not for the event loop."""
        found = self._store.history(HistoryQuery(limit=1))
        return found[0].seq if found else 0

    def loss_mark(self) -> object:
        """Return a value that changes once another process may have ended a lease. Not for the event loop."""
        return self._store.loss_mark()

    def ended(self, leases: Sequence[str]) -> Sequence[str]:
        """Return those of these leases that are no longer held. Not for the event loop."""
        return reading.ended(self._store, leases)

    async def close(self) -> None:
        """Answer every waiting request, then close the store."""
        await self.locks.close()
