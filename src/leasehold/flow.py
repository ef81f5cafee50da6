"""FireFlow's lock service, `acquire(key, ttl_ms, wait_ms)` and `release(key, lock_id)`, for coroutines and plain code.

It translates; what is behind it is any `Locks`: the embedded store, a team's database, a server.

    service = await FlowLockService.connect()
    got = await service.acquire("my-resource", 5000, 10000)
    if not got["acquired"]:
        raise TimeoutError("could not acquire the lock")
    try:
        ...  # the critical section
    finally:
        await service.release("my-resource", got["lockId"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.compat import fireflow
from leasehold.compat.steps import aask, ask, verbs_of
from leasehold.errors import InvalidInput
from leasehold.locks.connect import aconnect, connect

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from types import TracebackType
    from typing import Self

    from leasehold.compat.fireflow import LockAcquired, LockReleased
    from leasehold.config.settings import Choice
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks

__all__ = ["FlowLock", "FlowLockService", "SyncFlowLock", "SyncFlowLockService", "flow_lock", "sync_flow_lock"]


def _check_no_url(locks: object, service: str) -> None:
    """Raise InvalidInput where a URL was passed in the place of what `connect` returns."""
    if isinstance(locks, str):
        raise InvalidInput("locks", f"must be connected locks, not a URL: write {service}.connect(url)")


class FlowLockService:
    """Named locks for the critical sections of flows, for coroutines.

    Each lock has a holder of its own, since one service is shared by many flows. With `holder` (see `of`) all of them
    have that one, and of flows that wait for each other in a circle one gets `acquired: False` at once.
    """

    def __init__(self, locks: AsyncLocks, *, holder: str | None = None) -> None:
        _check_no_url(locks, type(self).__name__)
        self._locks = locks
        self._holder = holder

    @classmethod
    async def connect(cls, url: str | Choice | None = None, *, space: str | None = None) -> Self:
        """Return a service on the locks at this URL; by default as configured, or the embedded store."""
        return cls(await aconnect(url, space=space))

    def of(self, flow: str) -> FlowLockService:
        """Return the service for one flow, which is one holder in the search for deadlocks."""
        return FlowLockService(self._locks, holder=flow)

    async def acquire(self, lock_key: str, lock_ttl_ms: float, wait_timeout_ms: float) -> LockAcquired:
        """Take a lock, or wait for it: `{"acquired": bool, "lockId": str}`. A task that is cancelled holds nothing.

        Args:
            lock_key: any string: a file path, an entity's id.
            lock_ttl_ms: when it expires if nobody releases it; 10 ms to 24 h, never 0.
            wait_timeout_ms: how long to wait if another has it; 0 answers at once.
        """
        holder = self._holder or fireflow.new_holder(self._locks.holder)
        steps = fireflow.acquire(holder, self._locks.space, lock_key, lock_ttl_ms, wait_timeout_ms)
        return await aask(verbs_of(self._locks), steps)

    async def release(self, lock_key: str, lock_id: str) -> LockReleased:
        """Give a lock back: `{"released": bool}`; False if it had expired, or was released before."""
        return await aask(verbs_of(self._locks), fireflow.release(lock_key, lock_id))

    async def close(self) -> None:
        """Let go of the locks' connection; locks that are held stay held until they expire."""
        await self._locks.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class SyncFlowLockService:
    """`FlowLockService` for plain code."""

    def __init__(self, locks: Locks, *, holder: str | None = None) -> None:
        _check_no_url(locks, type(self).__name__)
        self._locks = locks
        self._holder = holder

    @classmethod
    def connect(cls, url: str | Choice | None = None, *, space: str | None = None) -> Self:
        """See `FlowLockService.connect`."""
        return cls(connect(url, space=space))

    def of(self, flow: str) -> SyncFlowLockService:
        """See `FlowLockService.of`."""
        return SyncFlowLockService(self._locks, holder=flow)

    def acquire(self, lock_key: str, lock_ttl_ms: float, wait_timeout_ms: float) -> LockAcquired:
        """See `FlowLockService.acquire`."""
        holder = self._holder or fireflow.new_holder(self._locks.holder)
        return ask(self._locks, fireflow.acquire(holder, self._locks.space, lock_key, lock_ttl_ms, wait_timeout_ms))

    def release(self, lock_key: str, lock_id: str) -> LockReleased:
        """See `FlowLockService.release`."""
        return ask(self._locks, fireflow.release(lock_key, lock_id))

    def close(self) -> None:
        """See `FlowLockService.close`."""
        self._locks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# ---------------------------------------------------------------------- acquire and release as separate steps

SERVICES, SERVICE, KEPT = "services", "flowLock", "flowLocks"
"""Where a flow's context has the service, and where the ids of its locks are kept between its steps."""


class _Steps:
    """The ids of a flow's locks, in its own context: the step that releases may run in another process."""

    def __init__(self, context: MutableMapping[str, Any]) -> None:
        self._context = context

    def _keep(self, lock_key: str, got: LockAcquired) -> str:
        if not got["acquired"]:
            raise TimeoutError(f"could not acquire {lock_key!r}: it is held by another")
        self._context.setdefault(KEPT, {})[lock_key] = got["lockId"]
        return got["lockId"]

    def _kept(self, lock_key: str) -> str:
        id_: str = self._context.get(KEPT, {}).get(lock_key, "")
        return id_

    def _forget(self, lock_key: str, done: LockReleased) -> bool:
        self._context.get(KEPT, {}).pop(lock_key, None)
        return done["released"]


class FlowLock(_Steps):
    """The locks of one flow, acquired in one step and released in another."""

    def __init__(self, context: MutableMapping[str, Any], service: FlowLockService) -> None:
        super().__init__(context)
        self._service = service

    async def acquire(self, lock_key: str, lock_ttl_ms: float, wait_timeout_ms: float) -> str:
        """Begin a critical section. Raises `TimeoutError` if the lock is not granted in time."""
        return self._keep(lock_key, await self._service.acquire(lock_key, lock_ttl_ms, wait_timeout_ms))

    async def release(self, lock_key: str) -> bool:
        """End the critical section. Return False if the lock had expired."""
        return self._forget(lock_key, await self._service.release(lock_key, self._kept(lock_key)))


class SyncFlowLock(_Steps):
    """`FlowLock` for plain code."""

    def __init__(self, context: MutableMapping[str, Any], service: SyncFlowLockService) -> None:
        super().__init__(context)
        self._service = service

    def acquire(self, lock_key: str, lock_ttl_ms: float, wait_timeout_ms: float) -> str:
        """See `FlowLock.acquire`."""
        return self._keep(lock_key, self._service.acquire(lock_key, lock_ttl_ms, wait_timeout_ms))

    def release(self, lock_key: str) -> bool:
        """See `FlowLock.release`."""
        return self._forget(lock_key, self._service.release(lock_key, self._kept(lock_key)))


def flow_lock(context: MutableMapping[str, Any]) -> FlowLock:
    """Return the locks of the flow with this context, by the service in `context["services"]["flowLock"]`.

    The ids are kept in `context["flowLocks"]`, as text, so that a context that is stored between steps keeps them.
    """
    return FlowLock(context, _service(context, FlowLockService))


def sync_flow_lock(context: MutableMapping[str, Any]) -> SyncFlowLock:
    """See `flow_lock`."""
    return SyncFlowLock(context, _service(context, SyncFlowLockService))


def _service(context: MutableMapping[str, Any], kind: type[Any]) -> Any:  # noqa: ANN401 (one of this kind)
    service = (context.get(SERVICES) or {}).get(SERVICE)
    if not isinstance(service, kind):
        raise InvalidInput(
            "context", f'has no lock service: put a {kind.__name__} into context["services"]["flowLock"]'
        )
    return service
