"""A conversation with `Locks`, written once: it says which verb comes next, and somebody else asks it.

So there are no hand-kept twins for the command line (which blocks) and the server (which awaits).
"""

from __future__ import annotations

from leasehold.errors import InvalidInput
from leasehold.requests.calls import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from typing import Any, TypeAlias, TypeVar

    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks

    T = TypeVar("T")
    Asked: TypeAlias = tuple[str, dict[str, Any]]
    """A verb of `Locks` and its arguments."""
    Steps: TypeAlias = Generator[Asked, Any, T]


def ask(locks: Locks, steps: Steps[T]) -> T:
    """Ask each of these verbs, and give what the conversation comes to."""
    answer = None
    try:
        while True:
            verb, asked = steps.send(answer)
            try:
                answer = getattr(locks, verb)(**asked)
            except InvalidInput as error:
                answer = refusal(error)
    except StopIteration as end:
        outcome: T = end.value
        return outcome


async def aask(asking: Callable[[str, dict[str, Any]], Awaitable[Any]], steps: Steps[T]) -> T:
    """The same for coroutines; `asking` may look at a call before it makes it."""
    answer = None
    try:
        while True:
            verb, asked = steps.send(answer)
            try:
                answer = await asking(verb, asked)
            except InvalidInput as error:
                answer = refusal(error)
    except StopIteration as end:
        outcome: T = end.value
        return outcome


def verbs_of(locks: AsyncLocks) -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
    """Make each call as it is."""

    def asking(verb: str, asked: dict[str, Any]) -> Awaitable[Any]:
        answer: Awaitable[Any] = getattr(locks, verb)(**asked)
        return answer

    return asking
