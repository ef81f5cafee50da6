"""Drive a conversation with `Locks`: call each verb it yields, and send it the outcome.

Plain code and coroutines share each conversation, which is written once (see ``leasehold.steps``).
"""

from __future__ import annotations

from leasehold.errors import InvalidInput
from leasehold.requests.calls import refusal
from leasehold.steps import drive, drive_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeAlias, TypeVar

    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks
    from leasehold.steps import Steps

    T = TypeVar("T")
    Asked: TypeAlias = tuple[str, dict[str, Any]]
    """A verb of `Locks` and its arguments."""


def ask(locks: Locks, steps: Steps[T]) -> T:
    """Return the result of a conversation. An argument that is refused is answered with the refusal."""

    def call(step: Asked) -> object:
        verb, asked = step
        try:
            answer: object = getattr(locks, verb)(**asked)
        except InvalidInput as error:
            return refusal(error)
        return answer

    return drive(steps, call)


async def aask(asking: Callable[[str, dict[str, Any]], Awaitable[Any]], steps: Steps[T]) -> T:
    """Await the result of a conversation. `asking` may check a call before it makes it."""

    async def call(step: Asked) -> object:
        try:
            answer: object = await asking(*step)
        except InvalidInput as error:
            return refusal(error)
        return answer

    return await drive_async(steps, call)


def verbs_of(locks: AsyncLocks) -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
    """Return a function that calls a verb of these locks."""

    def asking(verb: str, asked: dict[str, Any]) -> Awaitable[Any]:
        answer: Awaitable[Any] = getattr(locks, verb)(**asked)
        return answer

    return asking
