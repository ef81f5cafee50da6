"""Answers from the lanes of a divided store: each is opened when it is first needed. They decide nothing."""

from __future__ import annotations

from _thread import allocate_lock
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from leasehold.routing.joining import conversation, driven
from leasehold.routing.lanes import SEVERAL, lane_of_call, lane_of_id
from leasehold.stores.layout import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any

    from leasehold.domain.leases import Lease
    from leasehold.locks.aio import AsyncAnswers
    from leasehold.requests.calls import Answers, Call, LossSource


class Hinting(Protocol):
    """Answers that can also say which leases may be lost."""

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost."""


T = TypeVar("T", bound=Hinting)


class Lanes(Generic[T]):
    """The answers of each lane, as far as they were needed."""

    def __init__(self, control: T, open_lane: Callable[[int], T], lanes: int) -> None:
        self.lanes = lanes
        """How many there are besides the control lane."""
        self._open_lane = open_lane
        self._opening = allocate_lock()
        self._opened: dict[int, T] = {CONTROL: control}

    def opened(self, lane: int) -> T | None:
        """Return the answers of this lane, or None if it is not open."""
        return self._opened.get(lane)

    def __getitem__(self, lane: int) -> T:
        """Return the answers of this lane. The first call opens it, and waits for the store."""
        with self._opening:
            if lane not in self._opened:
                self._opened[lane] = self._open_lane(lane)
            return self._opened[lane]

    def losses(self) -> LossSource:
        """Return the source of hints that held leases of any lane may be lost."""
        return LaneLosses(lambda lane: self[lane].losses(), self.lanes)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the lanes that are open, the control lane first."""
        return iter([*self._opened.values()])


class LaneAnswers:
    """For plain code."""

    def __init__(self, lanes: Lanes[Answers]) -> None:
        self._lanes = lanes

    def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call."""
        lanes = self._lanes
        lane = lane_of_call(call.verb, call.arguments, lanes.lanes)
        if lane != SEVERAL:
            return lanes[lane].ask(call)
        return driven(conversation(call, lanes.lanes), lambda lane, asked: lanes[lane].ask(asked))

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost."""
        return self._lanes.losses()

    def close(self) -> None:
        """Answer every waiting request, then close every lane, also if one of them fails."""
        with ExitStack() as closing:
            for each in self._lanes:
                closing.callback(each.close)


class AsyncLaneAnswers:
    """For coroutines. A thread opens a lane: that waits for the store."""

    def __init__(self, lanes: Lanes[AsyncAnswers]) -> None:
        self._lanes = lanes

    async def ask(self, call: Call) -> Any:  # noqa: ANN401 (see `calls.Answers`)
        """Return the answer to this call. A task that is cancelled leaves the queue and holds nothing."""
        lane = lane_of_call(call.verb, call.arguments, self._lanes.lanes)
        if lane != SEVERAL:
            return await (await self._lane(lane)).ask(call)
        talk, answer = conversation(call, self._lanes.lanes), None
        try:
            while True:
                lane, asked = talk.send(answer)
                answer = await (await self._lane(lane)).ask(asked)
        except StopIteration as end:
            return end.value

    async def _lane(self, lane: int) -> AsyncAnswers:
        opened = self._lanes.opened(lane)
        if opened is not None:
            return opened
        from asyncio import get_running_loop  # noqa: PLC0415 (not for plain code)

        return await get_running_loop().run_in_executor(None, self._lanes.__getitem__, lane)

    def losses(self) -> LossSource:
        """Return the source of hints that a held lease may be lost."""
        return self._lanes.losses()

    async def close(self) -> None:
        """Answer every waiting request, then close every lane, also if one of them fails."""
        async with AsyncExitStack() as closing:
            for each in self._lanes:
                closing.push_async_callback(each.close)


class LaneLosses:
    """Hints from the lanes of the leases that are held."""

    def __init__(self, open_source: Callable[[int], LossSource], lanes: int) -> None:
        self._open_source = open_source
        self._lanes = lanes
        self._sources: dict[int, LossSource] = {}

    def look(self, leases: Mapping[str, Lease], seconds: float) -> Collection[str]:
        """Look in each lane; only the first waits."""
        held: dict[int, dict[str, Lease]] = {}
        for id_, lease in leases.items():
            held.setdefault(lane_of_id(id_, self._lanes), {})[id_] = lease
        lost: list[str] = []
        for lane, here in held.items():
            if lane not in self._sources:
                self._sources[lane] = self._open_source(lane)
            lost += self._sources[lane].look(here, seconds)
            seconds = 0
        return lost

    def close(self) -> None:
        """Close the source of each lane."""
        with ExitStack() as closing:
            for source in self._sources.values():
                closing.callback(source.close)
