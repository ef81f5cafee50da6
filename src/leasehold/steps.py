"""Work written once as a generator and driven step by step, by plain code or by an event loop. It does no I/O itself.

Each step is yielded, and the driver sends back its answer or throws its failure. Three rooms use it:

- a store behind a network yields the `Answering` that it waits for, or None before it may wait for anything else;
- a conversation in ``compat`` yields a verb of `Locks` with its arguments, and is sent the outcome;
- `lock()` yields the same, or the seconds to pause.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")

    Steps: TypeAlias = Generator[Any, Any, T]
    """A step is what its driver can perform; the result is what the generator returns."""


def drive(steps: Steps[T], perform: Callable[[Any], Any]) -> T:
    """Perform each step and return the result. An exception of `perform` is thrown into the steps."""
    try:
        step = next(steps)
        while True:
            try:
                answer = perform(step)
            except BaseException as error:  # noqa: BLE001 (the steps decide what to make of it)
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_async(steps: Steps[T], perform: Callable[[Any], Awaitable[Any]]) -> T:
    """Await each step and return the result. An exception of `perform` is thrown into the steps."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await perform(step)
            except BaseException as error:  # noqa: BLE001 (the steps decide what to make of it)
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def through(steps: Steps[T]) -> T:
    """Return the result of a store's steps, waiting for each answer."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
