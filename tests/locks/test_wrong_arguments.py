"""A wrong argument raises where it was made, before anything is asked of anybody."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.errors import InvalidInput
from leasehold.locks.aio import AsyncLocks
from leasehold.locks.sync import Locks
from tests.requests.test_bad_input import FIELDS, REFUSED, SPELLED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasehold.requests.calls import Call

NOWHERE = "http://127.0.0.1:1"
"""Nobody listens there: whatever asked would be told so."""
BEYOND_SETTINGS = [("acquire", "ttl", 1e12), ("renew", "ttl", "25h")]
WRONG = [(verb, field, junk) for (verb, field), bad in REFUSED.items() for junk in bad]
LEASE = "l1-" + "0" * 32


def good(verb: str) -> dict[str, Any]:
    """The arguments that a verb cannot do without."""
    admin = {"by": "ops", "reason": "test"}
    held = {"lease": LEASE, "token": "a-token"}
    needed: dict[str, dict[str, Any]] = {
        "acquire": {"resources": "job", "ttl": 60},
        "renew": held,
        "release": held,
        "update": {**held, "context": {"b": 2}},
        "cancel": {"request_id": "r1"},
        "start_session": {"ttl": 60},
        "renew_session": {"session": "s1.secret"},
        "end_session": {"session": "s1.secret"},
        "force_release": {"target": "job", **admin},
        "steal": {"resources": "job", "ttl": 60, **admin},
        "clear": {"resource": "job", **admin},
        "create_key": {"role": "agent", "name": "a key"},
        "rotate_key": {"key": "0123456789abcdef"},
        "revoke_key": {"key": "0123456789abcdef"},
        "inspect": {"resource": "job"},
    }
    return needed.get(verb, {})


def certain() -> list[Any]:
    """What is wrong under any settings."""
    return [case for case in WRONG if case[::2] != ("renew", "25h")]


@pytest.mark.parametrize(("verb", "field", "junk"), certain())
def test_a_client_raises_before_it_connects(verb: str, field: str, junk: object) -> None:
    with leasehold.connect(NOWHERE, holder="ada") as locks, pytest.raises(InvalidInput) as caught:
        getattr(locks, verb)(**{**good(verb), field: junk})
    assert caught.value.field in SPELLED.get(field, {field})
    assert isinstance(caught.value, ValueError)


def test_so_does_one_for_coroutines() -> None:
    async def main() -> None:
        async with await leasehold.aconnect(NOWHERE, holder="ada") as locks:
            for verb, field, junk in certain():
                with pytest.raises(InvalidInput) as caught:
                    await getattr(locks, verb)(**{**good(verb), field: junk})
                assert caught.value.field in SPELLED.get(field, {field})

    asyncio.run(main())


class Deaf:
    """Fails the test if it is asked anything."""

    def ask(self, call: Call) -> object:
        raise AssertionError(call)

    def close(self) -> None:
        pass


def told(verb: Callable[..., Any], **given: object) -> None:
    """Call it. A coroutine takes its arguments when it is awaited."""
    answer = verb(**given)
    if inspect.iscoroutine(answer):
        asyncio.run(answer)


@pytest.mark.parametrize("kind", [Locks, AsyncLocks])
def test_an_unknown_argument_is_a_type_error(kind: Any) -> None:  # noqa: ANN401 (either class)
    locks = kind(Deaf(), holder="ada")
    for verb in {verb for verb, _ in FIELDS}:
        with pytest.raises(TypeError, match="colour"):
            told(getattr(locks, verb), **good(verb), colour="red")
    with pytest.raises(TypeError, match="colour"):
        locks.lock("job", colour="red")
    with pytest.raises(TypeError, match="colour"):
        locks.lead("job", colour="red")
    with pytest.raises(TypeError, match="colour"):
        locks.guarded("job", colour="red")


CONNECTING = [
    *(("holder", junk) for junk in ("", " x", "a\nb", "x" * 257, 5)),
    *(("space", junk) for junk in ("", "a\nb", "x" * 257, 5)),
    *(("api_key", junk) for junk in ("two words", "schlüssel", 5)),
    *(("timeout", junk) for junk in ("soon", 0, -1, True)),
]


@pytest.mark.parametrize(("field", "junk"), CONNECTING)
def test_a_connection_is_refused_where_it_is_made(field: str, junk: Any) -> None:  # noqa: ANN401 (any junk)
    with pytest.raises(InvalidInput) as caught:
        leasehold.connect(NOWHERE, **{field: junk})
    assert caught.value.field == field
    with pytest.raises(InvalidInput) as caught:
        asyncio.run(leasehold.aconnect(NOWHERE, **{field: junk}))
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["holder", "space"])
def test_so_is_one_of_a_store_which_is_not_created(field: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        leasehold.connect(f"sqlite://{tmp_path}/locks.db", **{field: ""})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [Locks, AsyncLocks])
def test_a_lock_is_refused_where_it_is_written(kind: Any) -> None:  # noqa: ANN401 (either class)
    locks = kind(Deaf(), holder="ada", space="default", ttl=60)
    for verb, field, junk in certain():
        if verb == "acquire" and field != "resources" and (field, junk) != ("ttl", None):
            for write in (locks.lock, locks.guarded):
                with pytest.raises(InvalidInput) as caught:
                    write("job", **{field: junk})
                assert caught.value.field in SPELLED.get(field, {field})
    with pytest.raises(TypeError, match="on_lost"):
        locks.lock("job", on_lost=5)
