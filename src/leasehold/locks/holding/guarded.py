"""`@locks.guarded(...)`: a function that runs under a lease named after its arguments. It only fills in names."""

from __future__ import annotations

import functools
import inspect
import string
from contextvars import ContextVar
from typing import TYPE_CHECKING

from leasehold.errors import InvalidInput
from leasehold.locks.holding.held import check_asked, check_on_lost, is_coroutine_function
from leasehold.requests import checks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.holding.held import HeldLease, P, R
    from leasehold.locks.sync import Locks

_current: ContextVar[HeldLease] = ContextVar("leasehold.current_lease")


def current_lease() -> HeldLease:
    """Return the lease of the innermost guarded function that is running. Raises `LookupError` outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no function that was decorated with @locks.guarded(...) is running here") from None


def guarded(
    locks: Locks, resources: str | Sequence[str], asked: Mapping[str, Any]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return the decorator for plain functions."""
    _check_options(locks, resources, asked)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _refuse_kind(function, is_async=False)
        names = NameTemplates(resources, function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with locks.lock(names.fill(args, kwargs), **asked) as held:
                before = _current.set(held)
                try:
                    return _done(function(*args, **kwargs), function)
                finally:
                    _current.reset(before)

        return call

    return decorate


def async_guarded(
    locks: AsyncLocks, resources: str | Sequence[str], asked: Mapping[str, Any]
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Return the decorator for coroutine functions."""
    _check_options(locks, resources, asked)

    def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        _refuse_kind(function, is_async=True)
        names = NameTemplates(resources, function)

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async with locks.lock(names.fill(args, kwargs), **asked) as held:
                before = _current.set(held)
                try:
                    return await function(*args, **kwargs)
                finally:
                    _current.reset(before)

        return call

    return decorate


def _check_options(locks: Locks | AsyncLocks, resources: object, asked: Mapping[str, Any]) -> None:
    """Raise where the decorator stands, not at the first call."""
    if callable(resources):
        name = _name_of(resources)
        raise TypeError(f"say what {name} is guarded by: write @locks.guarded('a-name'), not @locks.guarded alone")
    if not resources or not isinstance(resources, str | list | tuple):
        checks.resource_names(resources)  # raises: these are no names at all
    options = {key: value for key, value in asked.items() if key != "on_lost"}
    inspect.signature(locks.acquire).bind("", **options)
    check_asked(locks, {"resources": "a-name", **options})
    check_on_lost(asked.get("on_lost"))


def _refuse_kind(function: Callable[..., object], *, is_async: bool) -> None:
    name = _name_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator: it would run after its lease was released; use lock() inside of it")
    if is_coroutine_function(function) != is_async:
        needed = "leasehold.connect" if is_async else "leasehold.aconnect"
        kind = "a plain function" if is_async else "a coroutine function"
        raise TypeError(f"{name} is {kind}: guard it with the locks of {needed}")


def _done(result: R, function: Callable[..., object]) -> R:
    """Return what a plain function returned. Refuse a coroutine, which has yet to run, as from a wrapper around one."""
    if not inspect.iscoroutine(result):
        return result
    result.close()
    raise TypeError(
        f"{_name_of(function)} returned a coroutine, which would run after its lease was released; "
        "guard the coroutine function itself, with the locks of leasehold.aconnect"
    )


def _name_of(function: Callable[..., object]) -> str:
    is_named = inspect.isroutine(function) or inspect.isclass(function)
    return function.__qualname__ if is_named else repr(function)


class NameTemplates:
    """Templates of resource names, with fields for the parameters of one function."""

    def __init__(self, resources: str | Sequence[str], function: Callable[..., object]) -> None:
        self._signature = inspect.signature(function)
        self._is_one = isinstance(resources, str)
        templates = [resources] if isinstance(resources, str) else list(resources)
        self._parts = [list(self._parse(template)) for template in templates]
        for parts in self._parts:
            if not any(field for _, field in parts):  # the others are checked with each call
                checks.resource("".join(literal for literal, _ in parts))

    def fill(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str | list[str]:
        """Return the names for one call."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        names = [
            "".join(literal + (str(bound.arguments[field]) if field else "") for literal, field in parts)
            for parts in self._parts
        ]
        return names[0] if self._is_one else names

    def _parse(self, template: str) -> list[tuple[str, str]]:
        """Pairs of a literal and the field after it, "" if there is none."""
        try:
            pieces = list(string.Formatter().parse(template))
        except ValueError as error:
            raise InvalidInput("resources", f"{template!r}: {error}; write a brace itself as {{{{ or }}}}") from None
        for _, field, form, conversion in pieces:
            if field is not None:
                self._check_field(template, field, bool(form or conversion))
        return [(literal, field or "") for literal, field, _, _ in pieces]

    def _check_field(self, template: str, field: str, is_formatted: bool) -> None:
        parameter = self._signature.parameters.get(field)
        if is_formatted or parameter is None:
            known = ", ".join(f"{{{name}}}" for name in self._signature.parameters) or "none"
            raise InvalidInput(
                "resources", f"{template!r}: {{{field}}} must be a parameter's name and nothing else; there is {known}"
            )
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise InvalidInput("resources", f"{template!r}: {{{field}}} stands for any number of arguments")
