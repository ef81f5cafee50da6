"""The locks of a server: an engine that the event loop drives, and what a server needs beyond the verbs.

On a local store a commit blocks the loop while it lasts, which is faster than handing it to a thread as long as fsync
is fast (see ``pacing``); on a store behind a network a thread does it. Whatever only looks runs in a thread as well,
as it may take long.
"""

from __future__ import annotations

from asyncio import gather, shield
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from leasehold.domain import keys
from leasehold.domain.commands import Acquire, Beat, GiveUp, RenewSession, Sweep
from leasehold.domain.outcomes import Refused
from leasehold.engine.batch import is_networked
from leasehold.engine.engine import Engine
from leasehold.engine.loop_driver import Fleet, LoopDriver, PacedDriver
from leasehold.engine.pending import Pending
from leasehold.engine.waiters import BEATS
from leasehold.errors import InvalidInput, StoreError
from leasehold.locks import queries as reading
from leasehold.locks.aio import AsyncLocks
from leasehold.locks.local import LOOKS, finished, look
from leasehold.requests import calls, checks, lookups
from leasehold.requests import to_command as orders
from leasehold.routing.answers import AsyncLaneAnswers, Lanes
from leasehold.routing.history import PAGE, HistoryOfLanes
from leasehold.routing.lanes import SEVERAL, lane_of_call, lane_of_id, lane_of_space
from leasehold.routing.owning import Ownership
from leasehold.stores import SERVERS
from leasehold.stores.layout import CONTROL

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, TypeAlias

    from leasehold.domain.api_keys import Key
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Inspection
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.sessions import Session
    from leasehold.locks.aio import AsyncAnswers
    from leasehold.requests.calls import Authority, Call, LossSource
    from leasehold.requests.checks import Settings
    from leasehold.stores import HistoryQuery
    from leasehold.stores.protocol import Store

    Watched: TypeAlias = HistoryQuery

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

    def __init__(self, answers: AsyncAnswers, authority: Authority) -> None:
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


class ServedLane:
    """A lane of a store, or a whole one, with the engine that serves it."""

    def __init__(self, store: Store, settings: Settings, loop: asyncio.AbstractEventLoop, fleet: Fleet) -> None:
        self.store = store
        self.engine = Engine(store, housekeeping=True)
        self.driver = (LoopDriver if store.capabilities.remote else PacedDriver)(self.engine, loop, fleet)
        self.answers = LoopAnswers(self.engine, self.driver, settings, loop)

    async def write(self) -> None:
        """Write a heartbeat; raises if that fails."""
        await self.driver.ask(Beat(self.engine.key, BEATS * self.store.capabilities.beat))


class Served:
    """The engines as a server uses them: the verbs, requests that outlive a connection, keys, and events.

    There is one engine, or one for each lane of a divided store; then the first is the control lane's, which has the
    keys.
    """

    def __init__(
        self, stores: Sequence[Store], settings: Settings, loop: asyncio.AbstractEventLoop, *, space: str
    ) -> None:
        self.pools = settings.pools
        """The members of each pool that the server's configuration declares, each with its labels after it."""
        fleet = Fleet()
        self._lanes = [ServedLane(store, settings, loop, fleet) for store in stores]
        self._control = self._lanes[0]
        self._divided = len(stores) - 1
        """The number of lanes besides the control lane; 0: the store is not divided."""
        if self._divided and is_networked(self._control.store):
            self._control.store.commit_together(fleet.is_turn_ahead)
        self._by_engine = {lane.engine.key: lane for lane in self._lanes}
        self._history = HistoryOfLanes([lane.store for lane in self._lanes])
        self._answers: AsyncAnswers = self._control.answers
        if self._divided:
            lanes: Lanes[AsyncAnswers] = Lanes(self._control.answers, lambda n: self._lanes[n].answers, self._divided)
            self._answers = AsyncLaneAnswers(lanes)
        self.locks = AsyncLocks(self._answers, holder="anonymous", space=space)
        self._watchers: list[tuple[Callable[[Sequence[Event]], None], frozenset[str] | None]] = []
        """Each with the kinds of events that concern it; None: all."""
        self._loop = loop
        self._written = self._lanes
        """The lanes that no other server owns: a write to its lane would cost that server what it remembers."""
        self._probing: asyncio.Future[list[None]] | None = None
        self._probed_until = 0.0
        for lane in self._lanes:
            lane.driver.observing(self._observe_control if lane is self._control else self._observe)
            lane.engine.wake()  # housekeeping begins now, not with the first request

    def _observe_control(self, events: Sequence[Event]) -> None:
        told = [event for event in events if event.space != SERVERS]
        if told:
            self._observe(told)

    def _observe(self, events: Sequence[Event]) -> None:
        for observe, kinds in self._watchers:
            if kinds is None or not kinds.isdisjoint([event.kind for event in events]):
                observe(events)

    def watch(self, observe: Callable[[Sequence[Event]], None], kinds: frozenset[str] | None = None) -> None:
        """Call this with the events of each committed batch of this process that has one of these kinds."""
        self._watchers = [*self._watchers, (observe, kinds)]

    def unwatch(self, observe: Callable[[Sequence[Event]], None]) -> None:
        """Stop calling this; also in the course of a call."""
        self._watchers = [each for each in self._watchers if each[0] != observe]

    def measure(self, told: Callable[[int, float], None]) -> None:
        """Call this with the size and the seconds of each turn."""
        for lane in self._lanes:
            lane.driver.measure = told

    def locks_for(
        self, authority: Authority | None, around: Callable[[AsyncAnswers], AsyncAnswers] | None = None
    ) -> AsyncLocks:
        """Return the verbs as this principal calls them, or as anybody does where a server has no keys.

        `around` may have another server answer some calls.
        """
        answers = self._answers if authority is None else AnswersTo(self._answers, authority)
        if around is not None:
            answers = around(answers)
        elif authority is None:
            return self.locks
        return AsyncLocks(answers, holder=self.locks.holder, space=self.locks.space)

    def order(self, verb: str, asked: dict[str, Any], authority: Authority | None) -> orders.Order | Refused:
        """Return the command to `submit`, or a refusal. The verb is one that a single lane answers."""
        if not self._divided:
            return self._control.answers.order(verb, asked, authority)
        try:
            lane = lane_of_call(verb, asked, self._divided)
        except InvalidInput as error:
            return calls.refusal(error)
        order = self._lanes[lane].answers.order(verb, asked, authority)
        if not isinstance(order, Refused):
            order.lane = lane
        return order

    def submit(self, order: orders.Order, done: Callable[[Pending], None]) -> Pending:
        """Hand a command to its engine; the loop calls `done` after its commit, or at once if the engine is closed.

        `done` must not raise: it runs within a turn of the engine.
        """
        return self._lanes[order.lane].driver.submit(order.command, order.secret, done)

    def lane_of(self, verb: str, asked: Mapping[str, Any]) -> int:
        """Return the lane that answers a call; `SEVERAL` for a call of several lanes, and for one that is wrong."""
        if not self._divided:
            return CONTROL
        try:
            return lane_of_call(verb, asked, self._divided)
        except InvalidInput:
            return SEVERAL

    def cancel(self, asked: Mapping[str, Any], request_id: str, secret: str, authority: Authority | None) -> None:
        """Cancel an acquire that another server may have granted, or may still receive: its answer was lost."""
        of = {name: asked[name] for name in ("holder", "session", "space")}
        order = self.order("cancel", {**of, "request_id": request_id, "token": secret}, authority)
        if not isinstance(order, Refused):
            pending = Pending(order.command)
            pending.is_internal = True
            self._lanes[order.lane].engine.enter(pending)

    def release_unread(self, lease: str, token: str) -> None:
        """Release a lease that another server granted to a client that has disconnected; a retry of its keeps it."""
        lane = self._lanes[lane_of_id(lease, self._divided)] if self._divided else self._control
        gives_up = Pending(GiveUp(lease, keys.secret_hash(token), None))
        gives_up.is_internal = True
        lane.engine.enter(gives_up)

    def ownership(self, address: str) -> Ownership:
        """Return who owns each lane; nobody does before its first heartbeat."""
        lanes = [number for number, _ in enumerate(self._lanes)][bool(self._divided) :]
        locks = AsyncLocks(self._control.answers, holder=address, space=SERVERS)
        return Ownership(locks, self._renew_quietly, self._look_at_servers, lanes, address)

    async def _renew_quietly(self, session: str) -> Outcome:
        id_, proof = checks.credential(session)[0], checks.proof(session=session)
        return await self._control.driver.ask(RenewSession(keys.actor(SERVERS, "", id_), proof, is_quiet=True))

    async def _look_at_servers(self, names: Sequence[str]) -> Sequence[Inspection]:
        look = partial(reading.inspect_each, self._control.store, checks.Settings(), names, SERVERS)
        return await self._loop.run_in_executor(None, look)

    def enough(self) -> None:
        """Begin the next turn without a pause for more calls: a batch has submitted all of its own."""
        for lane in self._lanes:
            lane.driver.enough()

    def abandon(self, pending: Pending) -> None:
        """Cancel an acquire whose client disconnected: leave the queue, and release what was granted."""
        if isinstance(pending.command, Acquire):
            self._by_engine[pending.command.engine].engine.abandon(pending)

    @property
    def is_shared(self) -> bool:
        """True if several servers may use this store at once."""
        return self._control.store.capabilities.remote

    def own(self, owned: Callable[[int], bool], elsewhere: Collection[int]) -> None:
        """Leave it to the owners of these other lanes to sweep them."""
        self._written = []
        for number, lane in enumerate(self._lanes):
            is_ours = number not in elsewhere or owned(number)
            lane.engine.keep_house(is_ours)
            self._written += [lane] * is_ours

    @property
    def has_history(self) -> bool:
        """True if this store keeps a history."""
        return self._control.store.capabilities.history

    def queues(self) -> list[tuple[str, str]]:
        """Return the space and the first resource of each waiting request."""
        return [(ask.space, ask.options[0].resources[0]) for lane in self._lanes for ask in lane.engine.wanted()]

    def keys(self) -> tuple[Key, ...]:
        """Return every key that works, with the hash of its secret. It waits for the store: not for the event loop."""
        return reading.keys_of(self._control.store)

    def keys_and_time(self) -> tuple[tuple[Key, ...], int]:
        """Return `keys`, and the store's time after they were read."""
        return self.keys(), self._control.store.read(())[0]

    def session(self, space: str, session: str) -> Session | None:
        """Return a live session, with the hash of its secret. It waits for the store: not for the event loop."""
        lane = self._lanes[lane_of_space(space, self._divided)] if self._divided else self._control
        return reading.session_of(lane.store, space, session)

    def ping(self) -> int:
        """Return the store's time, read without a transaction; raises if a lane does not answer. Not for the loop."""
        return max(lane.store.read(())[0] for lane in self._lanes)

    async def probe(self) -> None:
        """Return once each engine has written a heartbeat, but for lanes of other servers; raises if one cannot.

        Callers share a write, and its result counts for a moment.
        """
        is_over = self._probing is None or (self._probing.done() and self._loop.time() >= self._probed_until)
        if self._probing is None or is_over:
            self._probing = gather(*[lane.write() for lane in self._written])
            self._probing.add_done_callback(self._probed)
        await shield(self._probing)

    def _probed(self, probing: asyncio.Future[list[None]]) -> None:
        self._probed_until = self._loop.time() + PROBED
        _ = probing.cancelled() or probing.exception()  # callers raise it

    def watched(self, space: object, resource: object, holder: object, kinds: tuple[str, ...] = ()) -> Watched:
        """Return the query for these events, checked."""
        asked = {"space": space, "resource": resource, "holder": holder, "lease": None, "kinds": kinds}
        return lookups.history_query({**asked, "since": None, "before": None, "limit": PAGE})

    @property
    def history(self) -> HistoryOfLanes:
        """The history as it grows. Not for the event loop."""
        return self._history

    def loss_mark(self) -> object:
        """Return a value that changes once another process may have ended a lease. Not for the event loop."""
        return tuple(lane.store.loss_mark() for lane in self._lanes)

    def ended(self, leases: Sequence[str]) -> Sequence[str]:
        """Return those of these leases that are no longer held. Not for the event loop."""
        if not self._divided:
            return reading.ended(self._control.store, leases)
        lanes: dict[int, list[str]] = {}
        for lease in leases:
            lanes.setdefault(lane_of_id(lease, self._divided), []).append(lease)
        return [id_ for lane, here in lanes.items() for id_ in reading.ended(self._lanes[lane].store, here)]

    async def close(self) -> None:
        """Answer every waiting request, then close the store; every lane, also if one of them fails."""
        async with AsyncExitStack() as closing:
            for lane in self._lanes:
                closing.push_async_callback(lane.answers.close)
