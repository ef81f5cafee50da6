"""`lock()` for coroutines: an `async with` block under a lease that a task in the background keeps alive."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError, LeaseLost, StoreError, Unreachable
from leasehold.locks.holding.held import STOPPED, check_asked, check_on_lost, leave, take
from leasehold.locks.holding.losses import watch_of
from leasehold.locks.holding.renewal import LOOK_AGAIN, steady
from leasehold.locks.holding.sync import IN_USE, NOT_HELD, refuse_fork
from leasehold.steps import drive_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import TracebackType
    from typing import Any, Self

    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.holding.held import HeldLease, OnLost, R
    from leasehold.steps import Steps


class AsyncLock:
    """A lock that acquires at the start of an `async with`, renews meanwhile, and releases at its end.

    When the lease is lost, the task in the block is cancelled, and the block ends with `LeaseLost`. Other
    cancellations pass through as they are. It may be used again after that, by one block at a time.
    """

    def __init__(self, locks: AsyncLocks, on_lost: OnLost | None, asked: Mapping[str, Any]) -> None:
        check_on_lost(on_lost)
        check_asked(locks, asked)
        self._locks = locks
        self._on_lost = on_lost
        self._asked = asked
        self._block: Block | None = None
        self._is_entered = False

    async def acquire(self) -> HeldLease:
        """As entering the block: raises `NotAcquired` if the answer is no. It is renewed until `release`."""
        return await self.__aenter__()

    async def release(self) -> None:
        """As leaving the block, with the exception that is being handled, if any."""
        await self.__aexit__(None, sys.exception(), None)

    async def __aenter__(self) -> HeldLease:
        if self._is_entered:
            raise RuntimeError(IN_USE)
        self._is_entered = True
        try:
            held = await perform(take(self._asked), self._locks)
            self._block = Block(self._locks, held, self._on_lost)
            self._block.guard(asyncio.current_task())
        except BaseException:
            self._is_entered = False
            raise
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block, self._block = self._block, None
        if block is None:
            raise RuntimeError(NOT_HELD)
        try:
            await block.end(error)
        finally:
            self._is_entered = False


class Block:
    """One lease with the task that renews it, and the task that is cancelled if the lease is lost."""

    def __init__(self, locks: AsyncLocks, held: HeldLease, on_lost: OnLost | None) -> None:
        self._locks = locks
        self._held = held
        self._on_lost = on_lost
        self._is_ending = False
        self._did_cancel = False
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._loop = asyncio.get_running_loop()
        self._sleep: asyncio.Future[None] | None = None
        """Ends the pause between two renewals."""
        self._keeping = self._loop.create_task(self._keep(), name=f"leasehold-renewal-{held.id}")
        locks._entered[held.id] = locks._entered.get(held.id, 0) + 1
        self._losses = watch_of(locks)
        self._losses.add(held.lease, self._hint)

    # ------------------------------------------------------------------------------------ the task in it

    def guard(self, task: asyncio.Task[Any] | None) -> None:
        """Cancel this task if the lease is lost; at its next step if the lease is lost already."""
        self._task = task
        self._cancelling = task.cancelling() if task is not None else 0
        if self._keeping.done() and self._held.tenure.is_known_lost:
            self._cancel(str(self._held.lost))

    def unguard(self, error: BaseException | None) -> bool:
        """Cancel the task no longer. Return True if `error` is the cancellation that this block caused, and no other.

        As `asyncio.timeout` does: if other code cancelled the task, too, that cancellation must go on.
        """
        task, self._task = self._task, None
        if not self._did_cancel or task is None:
            return False
        self._did_cancel = False
        return task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)

    def _cancel(self, reason: str) -> None:
        if self._task is not None:
            self._did_cancel = True
            self._task.cancel(f"the lease {self._held.id} is lost: {reason}")

    # --------------------------------------------------------------------------------- in the background

    async def _keep(self) -> None:
        tenure = self._held.tenure
        await asyncio.sleep(0)  # never within the block's own step: a cancellation there could outlive the block
        while (reason := tenure.reason) is None:
            if tenure.pause() <= 0:
                await self._renew()
            await self._pause(max(0.0, min(tenure.pause(), tenure.remaining(), LOOK_AGAIN)))
        self._tell(reason)

    async def _pause(self, seconds: float) -> None:
        """`asyncio.sleep`, which a hint ends."""
        self._sleep = sleep = self._loop.create_future()
        timer = self._loop.call_later(seconds, _end, sleep)
        try:
            await sleep
        finally:
            timer.cancel()
            self._sleep = None

    def _hint(self) -> None:
        """Called by the watching thread: the lease may be lost."""
        try:
            self._loop.call_soon_threadsafe(self._doubt)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _doubt(self) -> None:
        self._held.tenure.doubt()
        if self._sleep is not None:
            _end(self._sleep)

    async def _renew(self) -> None:
        tenure, sent = self._held.tenure, steady()
        try:
            async with asyncio.timeout(tenure.remaining()):
                answer = await self._locks.renew(self._held.id, self._held.token)
        except TimeoutError:
            tenure.fail(Unreachable("the store does not answer"))
        except StoreError as error:
            tenure.fail(error)
        except Exception as error:  # noqa: BLE001 (reported to the holder, as the cause of its loss)
            tenure.lose(f"it cannot be renewed: {error}", error)
        else:
            tenure.learn(answer, sent)

    def _tell(self, reason: str) -> None:
        if self._is_ending:
            return
        self._cancel(reason)
        if self._on_lost is not None:
            try:
                self._on_lost(reason)
            except Exception as error:  # noqa: BLE001 (reported as any callback's is)
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "on_lost of a lease failed", "exception": error})

    # ------------------------------------------------------------------------------------------- the end

    async def end(self, error: BaseException | None) -> None:
        """Stop, join, release; what this block itself cancelled ends as `LeaseLost`."""
        self._is_ending = True
        is_ours = self.unguard(error)
        if self._held.is_forked:
            refuse_fork(self._held, error)
            return
        self._losses.remove(self._held.id, self._hint)
        interrupted = await self._join()
        script = leave(
            self._held,
            error if interrupted is None else interrupted,
            release=self._is_last(),
            stopped=(*STOPPED, asyncio.CancelledError),
        )
        interrupted = await self._release(script) or interrupted
        if interrupted is not None:
            raise interrupted
        if is_ours and self._held.lost is not None:
            raise LeaseLost(self._held.id, self._held.lost) from (self._held.tenure.cause or error)

    async def _join(self) -> asyncio.CancelledError | None:
        """Stop the renewal; hands back a cancellation that came meanwhile, since the release comes first."""
        self._keeping.cancel()
        try:
            await asyncio.wait([self._keeping])
        except asyncio.CancelledError as interrupted:
            return interrupted
        return None

    async def _release(self, script: Steps[None]) -> asyncio.CancelledError | None:
        """Release it, also if this task is cancelled meanwhile; hands back that cancellation.

        In a task of its own: a release that is cancelled with its block would leave the lease until it expires. A
        second cancellation ends the wait for the store, too.
        """
        releasing = asyncio.get_running_loop().create_task(perform(script, self._locks))
        interrupted: asyncio.CancelledError | None = None
        while not releasing.done():
            try:
                await asyncio.wait([releasing])
            except asyncio.CancelledError as cancelled:
                if interrupted is not None:
                    releasing.cancel()
                    raise
                interrupted = cancelled
        try:
            releasing.result()
        except LeaseholdError as error:
            if interrupted is None:
                raise
            interrupted.add_note(str(error))
        return interrupted

    def _is_last(self) -> bool:
        """Return True if no other block holds the same lease (re-entrancy)."""
        entered = self._locks._entered
        entered[self._held.id] -= 1
        if entered[self._held.id]:
            return False
        del entered[self._held.id]
        return True


class AsyncTerm:
    """One term of leadership. `async with term:` cancels its body when the leader is deposed, and goes on after it."""

    def __init__(self, lease: HeldLease, block: Block) -> None:
        self.lease = lease
        """The lease of this term: `lost` tells whether the leader was deposed, and `ensure()` raises if so."""
        self._block = block

    @property
    def fence(self) -> int:
        """The number of this term: larger than that of every term before."""
        return self.lease.fence

    async def __aenter__(self) -> Self:
        self._block.guard(asyncio.current_task())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Suppress the cancellation of a body whose leader was deposed, so that the loop campaigns again."""
        return self._block.unguard(error)


def async_terms(locks: AsyncLocks, terms: Mapping[str, Any]) -> AsyncIterator[AsyncTerm]:
    """As `terms`, for coroutines. Wrong arguments raise here, before the loop begins."""
    asked = dict(terms)
    on_lost: OnLost | None = asked.pop("on_lost", None)
    check_on_lost(on_lost)
    check_asked(locks, asked)
    return _campaign(locks, on_lost, asked)


async def _campaign(locks: AsyncLocks, on_lost: OnLost | None, asked: Mapping[str, Any]) -> AsyncIterator[AsyncTerm]:
    while True:
        with suppress(LeaseLost):
            held = await perform(take(asked), locks)
            block = Block(locks, held, on_lost)
            try:
                yield AsyncTerm(held, block)
            finally:
                await block.end(sys.exception())


def _end(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)


async def perform(script: Steps[R], locks: AsyncLocks) -> R:
    """Run a script on these locks."""

    async def do(step: tuple[str, Mapping[str, Any]] | float) -> object:
        if isinstance(step, tuple):
            verb, asked = step
            answer: object = await getattr(locks, verb)(**asked)
            return answer
        await asyncio.sleep(step)
        return None

    return await drive_async(script, do)
