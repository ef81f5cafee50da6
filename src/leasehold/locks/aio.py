"""The verbs of ``locks.sync`` for coroutines: the same functions, whose answers are awaited."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import TimedOut
from leasehold.locks.sync import LEADER, CallDefaults, Locks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from types import TracebackType
    from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar, Unpack, overload

    from leasehold.domain.outcomes import Acquired, Planned, Refused
    from leasehold.locks.arguments import Defaults, Duration, Names, Wait
    from leasehold.locks.holding.aio import AsyncLock, AsyncTerm
    from leasehold.locks.holding.held import AcquireOptions, LockTerms, OnLost, P, R
    from leasehold.locks.holding.losses import LossWatch
    from leasehold.locks.planning import PlanOptions
    from leasehold.requests.calls import Call, LossSource

    A = ParamSpec("A")
    T = TypeVar("T")
    Awaited: TypeAlias = Coroutine[Any, Any, T]

    class AsyncAnswers(Protocol):
        """An engine or a server that answers the calls of coroutines."""

        def ask(self, call: Call) -> Awaitable[Any]:
            """Return the answer to this call."""

        def losses(self) -> LossSource:
            """Return the source of hints that a held lease may be lost."""

        async def close(self) -> None:
            """Answer every waiting request and close the store."""


def for_coroutines(verb: Callable[Concatenate[Locks, A], T]) -> Callable[Concatenate[AsyncLocks, A], Awaited[T]]:
    """Return a verb of `Locks` that awaits its answer, as `AsyncAnswers` give one."""

    @wraps(verb)
    async def awaited(self: AsyncLocks, /, *args: A.args, **given: A.kwargs) -> T:
        answer: Any = verb(self, *args, **given)  # type: ignore[arg-type] # its `_answers` are awaited
        outcome: T = await answer
        return outcome

    return awaited


class AsyncLocks(CallDefaults):
    """The verbs of `Locks`, for coroutines. Get one from `leasehold.aconnect`.

    A task that is cancelled in `acquire` leaves the queue and holds nothing.
    """

    def __init__(self, answers: AsyncAnswers, **defaults: Unpack[Defaults]) -> None:
        super().__init__(**defaults)
        self._answers = answers
        self._losses: LossWatch | None = None
        self._entered: dict[str, int] = {}  # how many blocks hold each lease: several after a re-entrant `lock`

    acquire = for_coroutines(Locks.acquire)

    async def _acquire(self, call: Call, *, waits_for_ever: bool) -> Acquired:
        outcome: Acquired = await self._answers.ask(call)
        while waits_for_ever and isinstance(outcome, TimedOut):
            outcome = await self._answers.ask(call)
        return outcome

    def lock(
        self,
        resources: Names,
        *,
        ttl: Duration | None = None,
        wait: Wait = 0,
        on_lost: OnLost | None = None,
        **options: Unpack[AcquireOptions],
    ) -> AsyncLock:
        """As `Locks.lock`, for `async with`; if the lease is lost, the task in the block is cancelled."""
        from leasehold.locks.holding.aio import AsyncLock  # noqa: PLC0415 (not for those who do without)

        return AsyncLock(
            self, on_lost, {"resources": resources, "ttl": self.ttl if ttl is None else ttl, "wait": wait, **options}
        )

    def lead(self, resources: Names, *, ttl: Duration = 15, **options: Unpack[LockTerms]) -> AsyncIterator[AsyncTerm]:
        """As `Locks.lead`, for `async for`; `async with term:` in it cancels its body when you are deposed."""
        from leasehold.locks.holding.aio import async_terms  # noqa: PLC0415 (see `lock`)

        options.setdefault("name", LEADER)
        return async_terms(self, {"resources": resources, "ttl": ttl, "wait": True, **options})

    def guarded(
        self, resources: Names, *, ttl: Duration | None = None, wait: Wait = 0, **options: Unpack[LockTerms]
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """As `Locks.guarded`, for coroutine functions."""
        from leasehold.locks.holding.guarded import async_guarded  # noqa: PLC0415 (see `lock`)

        return async_guarded(self, resources, {"ttl": self.ttl if ttl is None else ttl, "wait": wait, **options})

    renew = for_coroutines(Locks.renew)
    release = for_coroutines(Locks.release)
    update = for_coroutines(Locks.update)
    cancel = for_coroutines(Locks.cancel)
    start_session = for_coroutines(Locks.start_session)
    renew_session = for_coroutines(Locks.renew_session)
    end_session = for_coroutines(Locks.end_session)
    force_release = for_coroutines(Locks.force_release)
    steal = for_coroutines(Locks.steal)
    clear = for_coroutines(Locks.clear)
    report_trespass = for_coroutines(Locks.report_trespass)
    extend = for_coroutines(Locks.extend)
    note = for_coroutines(Locks.note)
    inspect = for_coroutines(Locks.inspect)
    list = for_coroutines(Locks.list)
    history = for_coroutines(Locks.history)
    graph = for_coroutines(Locks.graph)
    sessions = for_coroutines(Locks.sessions)
    create_key = for_coroutines(Locks.create_key)
    keys = for_coroutines(Locks.keys)
    rotate_key = for_coroutines(Locks.rotate_key)
    whoami = for_coroutines(Locks.whoami)
    revoke_key = for_coroutines(Locks.revoke_key)
    gc = for_coroutines(Locks.gc)

    plans = for_coroutines(Locks.plans)
    declare_pool = for_coroutines(Locks.declare_pool)

    if TYPE_CHECKING:

        @overload
        async def plan(
            self,
            resources: Names,
            *,
            ttl: Duration,
            firm: Literal[False] = False,
            wait: Wait = True,
            **terms: Unpack[PlanOptions],
        ) -> Planned | Refused: ...

        @overload
        async def plan(
            self,
            resources: Names,
            *,
            ttl: Duration,
            firm: Literal[True],
            wait: Wait = True,
            **terms: Unpack[PlanOptions],
        ) -> Acquired: ...

        async def plan(self, resources: Names, **terms: Any) -> Planned | Acquired:
            """As `Locks.plan`."""
            raise NotImplementedError
    else:
        plan = for_coroutines(Locks.plan)

    async def close(self) -> None:
        """Answer every waiting request and close the store.

        Raises `StoreError` if the waiters could not leave their queues: the store then drops them within 2 s.
        """
        await self._answers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
