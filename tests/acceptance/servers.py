"""Three real servers on one store, and clients that go from one to the next with every request. No tests in here."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import leasehold
from leasehold.client.aio import AsyncHttpAnswers
from leasehold.client.messages import bases
from leasehold.client.sync import HttpAnswers
from leasehold.domain.entries import Drop
from leasehold.domain.keys import byte_of_space
from leasehold.engine.batch import is_networked
from leasehold.errors import Conflict
from leasehold.locks.connect import lanes_of
from leasehold.stores import SERVERS
from leasehold.stores.etcd import EtcdStore, messages
from leasehold.stores.postgres import PostgresStore
from tests.kit.serving import command_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any

    from leasehold.domain.entries import Record
    from leasehold.requests.calls import Call
    from leasehold.stores.protocol import Store

COMMAND = (sys.executable, "-m", "leasehold.cli", "serve", "--rate", "0")
OWNERS = ("--advertise", "auto")
"""Options of servers that own lanes, and hand requests on to the owners of others."""
OF_SERVERS = f"{byte_of_space(SERVERS):02x}"
AT_ONCE = 30
"""So many records go at a time, since etcd takes only so much at once."""
_turns = itertools.count()


class Servers:
    """Some servers on one store, from the outside."""

    def __init__(
        self, store: str, opened: Callable[[str], Store], processes: list[subprocess.Popen[str]], urls: list[str]
    ) -> None:
        self.store = store
        self.opened = opened
        self.processes = processes
        self.urls = urls

    @property
    def url(self) -> str:
        """All of them, as a client is told; each time another one comes first."""
        turn = next(_turns) % len(self.urls)
        return ",".join(self.urls[turn:] + self.urls[:turn])

    def left_over(self) -> dict[str, Record]:
        """Every record in the store, but for those of the servers' own leases."""
        with self.lanes() as lanes:
            found = {key: record for lane in lanes for kind in "naqe" for key, record in lane.scan(kind)}
        return {key: record for key, record in found.items() if key[0] == "e" or key[1:3] != OF_SERVERS}

    @contextmanager
    def lanes(self) -> Iterator[list[Store]]:
        """The store, and all of its lanes if it is divided."""
        with ExitStack() as stack:
            store = self.opened(self.store)
            stack.callback(store.close)
            opened = [store]
            if is_networked(store):
                opened += map(store.lane, lanes_of(store))
            for lane in opened[1:]:
                stack.callback(lane.close)
            yield opened


def _announced(process: subprocess.Popen[str], log: IO[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("Serving "):
        log.seek(0)
        raise AssertionError(f"a server did not start: {line} {log.read()}")
    return line.split()[1]


@contextmanager
def servers_on(
    store: str, opened: Callable[[str], Store], count: int = 3, *words: str, setting: str = ""
) -> Iterator[Servers]:
    """So many servers, each a process of its own, until the end of the block; `words` are options of each.

    `setting`: one of their constants is something else, `module.NAME = value`.
    """
    command = [*command_with(setting), "--rate", "0"] if setting else COMMAND
    settings = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(count)]
        processes = []
        for log in logs:
            port = () if "--port" in words else ("--port", "0")
            started = subprocess.Popen(
                [*command, "--store", store, *port, *words], stdout=subprocess.PIPE, stderr=log, text=True, env=settings
            )
            processes.append(stack.enter_context(started))
            stack.callback(started.kill)
        yield Servers(store, opened, processes, [*map(_announced, processes, logs)])


def forget_everything(servers: Servers) -> None:
    """An empty store under servers that go on; that these are alive stays known."""
    with servers.lanes() as lanes:
        for lane in lanes:
            _forget_lane(lane)


def _forget_lane(store: Store) -> None:
    while found := [(key, record) for kind in "naqk" for key, record in store.scan(kind)]:
        with suppress(Conflict):  # a server was quicker, with its heartbeat: again
            _forget(store, found[:AT_ONCE])
    if isinstance(store, EtcdStore):
        first = store.names.events(0)
        store.txn([], [messages.delete(first, first[:-16] + "g")], [], changes=True)  # digits are hexadecimal
    if isinstance(store, PostgresStore):
        with store.connections.looking() as connection:
            connection.execute(f"TRUNCATE {store.address.schema}.history")


def _forget(store: Store, found: list[tuple[str, Record]]) -> None:
    transaction = store.begin()
    try:
        transaction.load([key for key, _ in found])
        gone = [Drop(key, id_) for key, record in found for id_ in _ids(record)]
        transaction.commit(gone, [], transaction.fence)
    finally:
        transaction.close()


def _ids(record: Record) -> list[str]:
    return [*record.holds, *(waiter.id for waiter in record.waiters), *record.notes]


class WanderingAnswers(HttpAnswers):
    """Asks another server each time, and says the rest like any client."""

    def ask(self, call: Call) -> Any:  # noqa: ANN401
        self._first += 1
        return super().ask(call)

    def _follow(self, *_: object) -> None:
        """Stay: the next call goes to the next server."""


class AsyncWanderingAnswers(AsyncHttpAnswers):
    """The same for coroutines."""

    async def ask(self, call: Call) -> Any:  # noqa: ANN401
        self._first += 1
        return await super().ask(call)

    def _follow(self, *_: object) -> None:
        """Stay: the next call goes to the next server."""


def wandering(url: str, holder: str = "somebody", space: str = "default") -> leasehold.Locks:
    """Locks whose every request goes to the next server."""
    return leasehold.Locks(WanderingAnswers(bases(url)), holder=holder, space=space)


def async_wandering(url: str, holder: str = "somebody") -> leasehold.AsyncLocks:
    """The same for coroutines."""
    return leasehold.AsyncLocks(AsyncWanderingAnswers(bases(url)), holder=holder, space="default")
