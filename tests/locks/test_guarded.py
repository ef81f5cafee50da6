"""`@locks.guarded(...)`: functions that run under a lease named after their arguments."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain.outcomes import Held
from leasehold.errors import InvalidInput, LeaseLost, NotAcquired
from tests.kit.holders import TTL, Losses, async_until, last_end, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks


pytestmark = pytest.mark.usefixtures("eager")


def held_now() -> tuple[str, ...]:
    lease = leasehold.current_lease()
    lease.ensure()
    return lease.resources


# ----------------------------------------------------------------------------------------------------- names


def test_the_name_comes_from_the_arguments(locks: Locks) -> None:
    @locks.guarded("deploy://{service}")
    def deploy(service: str, version: int = 1) -> tuple[tuple[str, ...], int]:
        return held_now(), version

    assert deploy("api") == (("deploy://api",), 1)
    assert deploy(version=3, service="web") == (("deploy://web",), 3)
    assert locks.list() == ()
    assert last_end(locks) == ("completed", None)


def test_defaults_count_and_values_become_text(locks: Locks) -> None:
    @locks.guarded("job:{number}-{stage}", ttl=60)
    def run(number: int, *, stage: object = None) -> tuple[str, ...]:
        return held_now()

    assert run(7) == ("job:7-None",)
    assert run(7, stage=1.5) == ("job:7-1.5",)


def test_several_names(locks: Locks) -> None:
    @locks.guarded(["account:{source}", "account:{target}", "ledger"], ttl=60, reason="transfer")
    def move(source: int, target: int) -> tuple[str, ...]:
        assert leasehold.current_lease().lease.reason == "transfer"
        return held_now()

    assert move(1, 2) == ("account:1", "account:2", "ledger")


def test_braces_are_doubled(locks: Locks) -> None:
    @locks.guarded("set:{{{name}}}/{{}}", ttl=60)
    def run(name: str) -> tuple[str, ...]:
        return held_now()

    assert run("{x}") == ("set:{{x}}/{}",), "what an argument says is not a template"


def test_methods(locks: Locks) -> None:
    class Service:
        name = "api"

        def __str__(self) -> str:
            return self.name

        @locks.guarded("deploy://{self}/{region}", ttl=60)
        def deploy(self, region: str) -> tuple[str, ...]:
            return held_now()

    assert Service().deploy("eu") == ("deploy://api/eu",)


@pytest.mark.parametrize(
    "template",
    [
        "deploy://{sevice}",
        "{}",
        "{0}",
        "{service.name}",
        "{service[0]}",
        "{service!r}",
        "{service:>9}",
        "{rest}",
        "{more}",
    ],
)
def test_a_field_that_is_no_parameter_is_an_error_where_it_is_written(locks: Locks, template: str) -> None:
    def deploy(service: str, *rest: str, **more: str) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(InvalidInput, match="resources: ") as caught:
        locks.guarded(["fine", template])(deploy)
    assert repr(template) in str(caught.value)


@pytest.mark.parametrize("names", ["", "path:/etc", " x", [], ["a", "path:../b"], 3, None, [3], {"a"}, b"a"])
def test_a_name_that_can_never_be_one_is_an_error_where_it_is_written(locks: Locks, names: Any) -> None:  # noqa: ANN401
    with pytest.raises((InvalidInput, TypeError)):

        @locks.guarded(names)
        def work(service: str) -> None: ...


@pytest.mark.parametrize("template", ["{service", "service}", "{{service}"])
def test_braces_that_do_not_match(locks: Locks, template: str) -> None:
    def deploy(service: str) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(InvalidInput, match=r"write a brace itself as \{\{ or \}\}"):
        locks.guarded(template)(deploy)


def test_a_name_that_turns_out_bad_is_refused(locks: Locks) -> None:
    @locks.guarded("path:{where}", ttl=60)
    def edit(where: str) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(InvalidInput, match="resource: "):
        edit("../../etc/passwd")
    with pytest.raises(TypeError, match="where"):
        edit()  # type: ignore[call-arg]


# ----------------------------------------------------------------------------------------------- the function


def test_it_looks_like_the_function(locks: Locks) -> None:
    def deploy(service: str, *, dry: bool = False) -> int:
        """Bring it out."""
        return 7

    guarded = locks.guarded("deploy://{service}")(deploy)
    assert guarded.__name__ == "deploy"
    assert guarded.__doc__ == "Bring it out."
    assert inspect.signature(guarded) == inspect.signature(deploy)
    assert guarded("api", dry=True) == 7


def test_a_recursive_function_holds_each_of_its_leases(locks: Locks) -> None:
    seen: list[tuple[str, ...]] = []

    @locks.guarded("level:{depth}", ttl=60)
    def descend(depth: int) -> None:
        if depth:
            descend(depth - 1)
        seen.append(held_now())

    descend(2)
    assert seen == [("level:0",), ("level:1",), ("level:2",)]
    with pytest.raises(LookupError, match="guarded"):
        leasehold.current_lease()


def test_held_by_another_holder(locks: Locks, url: str) -> None:
    @locks.guarded("x", ttl=60)
    def run() -> None:
        raise AssertionError("it must not run")

    with leasehold.connect(url, holder="b") as other, other.lock("x", ttl=60):
        with pytest.raises(NotAcquired) as caught:
            run()
        assert isinstance(caught.value.outcome, Held)


def test_what_it_raises_is_raised(locks: Locks) -> None:
    @locks.guarded("x", ttl=60)
    def run() -> None:
        raise ValueError("no such service")

    with pytest.raises(ValueError, match="no such service"):
        run()
    assert last_end(locks) == ("failed", "ValueError: no such service")


def test_a_loss_is_told(locks: Locks) -> None:
    losses = Losses()

    @locks.guarded("x", ttl=TTL, on_lost=losses)
    def run() -> None:
        locks.force_release("x", by="ops", reason="hotfix")
        until(lambda: losses)

    with pytest.raises(LeaseLost, match="hotfix"):
        run()
    assert losses == ["forced by ops: hotfix"]


def test_an_unknown_option_is_an_error_where_it_is_written(locks: Locks) -> None:
    options: dict[str, Any] = {"colour": "red"}
    with pytest.raises(TypeError, match="colour"):
        locks.guarded("x", **options)


def test_functions_of_the_wrong_kind(locks: Locks) -> None:
    async def coroutine() -> None:
        raise AssertionError("it must not run")

    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match=r"leasehold\.aconnect"):
        locks.guarded("x")(coroutine)
    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="is a generator"):
            locks.guarded("x")(function)


class Callback:
    """What can be called, and has to be awaited."""

    async def __call__(self, reason: str = "") -> None:
        raise AssertionError("it must not run")


def test_work_that_would_run_after_the_release(locks: Locks) -> None:
    with pytest.raises(TypeError, match=r"leasehold\.aconnect"):
        locks.guarded("x")(Callback())

    @locks.guarded("x")
    def wrapped() -> object:
        return Callback()()

    with pytest.raises(TypeError, match="returned a coroutine"):
        wrapped()
    assert last_end(locks)[0] == "failed"


def test_an_on_lost_that_nobody_would_await(locks: Locks) -> None:
    on_lost: Any = Callback()
    with pytest.raises(TypeError, match="on_lost"):
        locks.guarded("x", on_lost=on_lost)
    with pytest.raises(TypeError, match="on_lost"):
        locks.lock("x", ttl=60, on_lost=on_lost.__call__)


# ----------------------------------------------------------------------------------------------- coroutines


def test_objects_that_are_called_like_coroutine_functions(url: str) -> None:
    class Deploy:
        async def __call__(self, service: str) -> tuple[str, ...]:
            return held_now()

    async def main() -> None:
        async with await leasehold.aconnect(url, holder="a") as locks:
            assert await locks.guarded("deploy://{service}")(Deploy())("api") == ("deploy://api",)
            on_lost: Any = Callback()
            with pytest.raises(TypeError, match="on_lost"):
                locks.lock("x", ttl=60, on_lost=on_lost)

    asyncio.run(main())


def test_coroutine_functions(url: str) -> None:
    async def main() -> None:
        async with await leasehold.aconnect(url, holder="a") as locks:
            await _names_and_errors(locks)
            await _side_by_side(locks)
            await _loss(locks)

    asyncio.run(main())


async def _names_and_errors(locks: AsyncLocks) -> None:
    @locks.guarded("deploy://{service}", ttl=60)
    async def deploy(service: str) -> tuple[str, ...]:
        """Bring it out."""
        await asyncio.sleep(0)
        return held_now()

    assert await deploy("api") == ("deploy://api",)
    assert inspect.iscoroutinefunction(deploy)
    assert deploy.__doc__ == "Bring it out."
    with pytest.raises(LookupError):
        leasehold.current_lease()

    def plain() -> None:
        raise AssertionError("it must not run")

    with pytest.raises(TypeError, match=r"leasehold\.connect"):
        locks.guarded("x")(plain)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        locks.guarded("{nothing}")(deploy)


async def _side_by_side(locks: AsyncLocks) -> None:
    """Each task sees its own lease."""
    arrived: list[int] = []

    @locks.guarded("part:{number}", ttl=60)
    async def work(number: int) -> tuple[str, ...]:
        arrived.append(number)
        await async_until(lambda: len(arrived) == 3)
        return held_now()

    assert list(await asyncio.gather(work(1), work(2), work(3))) == [("part:1",), ("part:2",), ("part:3",)]


async def _loss(locks: AsyncLocks) -> None:
    @locks.guarded("x", ttl=TTL)
    async def work() -> None:
        await locks.force_release("x", by="ops", reason="hotfix")
        await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="hotfix"):
        await work()
