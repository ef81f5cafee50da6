"""Every promise holds through HTTP as well: the whole suite with clients of a real server, plain and asynchronous."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain import durations
from leasehold.stores.sqlite import SqliteStore
from leasehold.testing.conformance import Conformance, Connections
from leasehold.testing.conformance.graphs import Graphs
from leasehold.testing.conformance.retries import Retries
from leasehold.testing.conformance.waiting import Waiting
from tests.kit.serving import create_key
from tests.kit.warm import warm_serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasehold.requests.checks import Settings

PROVE = bool(os.environ.get("LEASEHOLD_PROVE"))


class Servers:
    """A server on one database, and others on the same one where an installation has decided otherwise."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._default: str | None = None
        self._others: dict[str, str] = {}
        """The URL of each, by its configuration."""

    def url(self, settings: Settings | None) -> str:
        """What an installation allows is decided where the server runs, not by its clients."""
        if settings is None:
            if self._default is None:
                self._default = self._start(self._folder)
            return self._default
        schemes = ", ".join(f'"{scheme}"' for scheme in sorted(settings.hierarchical))
        longest = durations.format(settings.ttl_most)
        decided = f'ttl_max = "{longest}"\nttl = "1m"\nhierarchical = [{schemes}]\n'
        if decided not in self._others:
            place = self._folder / f"installation-{len(self._others)}"
            place.mkdir()
            (place / "leasehold.toml").write_text(decided)
            self._others[decided] = self._start(place)
        return self._others[decided]

    def _start(self, place: Path) -> str:
        store = f"sqlite:///{self._folder / 'locks.db'}"
        return self._stack.enter_context(warm_serving(place, "--rate", "0", "--store", store))


@contextmanager
def connections(folder: Path, connect: Callable[..., Any]) -> Iterator[Connections]:
    """Through servers that are started when they are needed."""
    with ExitStack() as stack:
        servers = Servers(folder, stack)

        def opened(settings: Settings | None = None, **options: Any) -> Any:  # noqa: ANN401 (some locks)
            return connect(servers.url(settings), **options)

        with Connections(opened, SqliteStore.capabilities) as found:
            yield found


class TestThroughHttp(Conformance):
    # Without keys, every client of the server is its admin, and needs no proof: see TestAsAnAgent.
    test_entitled_is_nobody_with_a_wrong_proof = None  # type: ignore[assignment]

    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        with connections(tmp_path, leasehold.connect) as found:
            yield found


class TestAsAnAgent:
    test_entitled_is_nobody_with_a_wrong_proof = Conformance.test_entitled_is_nobody_with_a_wrong_proof

    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        key = create_key(tmp_path, "agent")
        with connections(tmp_path, lambda url, **more: leasehold.connect(url, api_key=key, **more)) as found:
            yield found


# ------------------------------------------------------------------------------ the asynchronous client


class Awaited:
    """Asynchronous locks, as plain code sees them: each call is a task of an event loop in a thread."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop", daemon=True)
        self._thread.start()
        self._locks = self._run(leasehold.aconnect(url, **options))
        self.holder, self.space = self._locks.holder, self._locks.space

    def _run(self, work: Any) -> Any:  # noqa: ANN401 (a coroutine and what it gives)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __getattr__(self, verb: str) -> Any:  # noqa: ANN401 (a verb)
        return lambda *args, **asked: self._run(getattr(self._locks, verb)(*args, **asked))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._locks.close())
        self._run(_leave_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _leave_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class SomeTopics(Waiting, Retries, Graphs):
    """Where the two clients differ in how they wait and ask again."""


class TestThroughAsyncHttp(Conformance if PROVE else SomeTopics):  # type: ignore[misc] # chosen when it is run
    test_entitled_is_nobody_with_a_wrong_proof = None

    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        with connections(tmp_path, Awaited) as found:
            yield found
