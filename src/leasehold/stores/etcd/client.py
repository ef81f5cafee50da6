"""The client of one store in etcd, which all of its lanes share: connections, clock, watch and joint commits."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from typing import TYPE_CHECKING

from leasehold.stores.etcd import messages, rows
from leasehold.stores.etcd.calls import EtcdCalls
from leasehold.stores.etcd.clock import Timekeeper, clock_of
from leasehold.stores.etcd.gateway import Gateway
from leasehold.stores.etcd.joint import JointCommits
from leasehold.stores.etcd.members import Members
from leasehold.stores.etcd.watching import Watcher

if TYPE_CHECKING:
    from leasehold.stores.etcd.address import EtcdAddress
    from leasehold.stores.etcd.watching import KeyNews

SETTLED = 2.0
"""Seconds after which an open store starts to follow the clock; a one-shot command is done by then."""


class EtcdClient:
    """One process's access to a store. The last lane that leaves closes it."""

    def __init__(self, address: EtcdAddress) -> None:
        self.id = os.urandom(8).hex()
        """Id of this process, written into `meta`: by it, a commit of this process is known from one of another."""
        self._address = address
        self.clock = clock_of(address.members)
        self.members = Members(address)
        self.gateway = Gateway(self.members, self.clock.narrow)
        greeting = messages.range_request(rows.KeyNames(address.prefix).meta, keys_only=True)
        self.calls = EtcdCalls(self.members, self.gateway.authenticate, greeting)
        self.commits = JointCommits(self.calls)
        self._opened = time.monotonic()
        self._lock = allocate_lock()
        self._users = 0
        self._watcher: Watcher | None = None
        self._timekeeper: Timekeeper | None = None

    def join(self) -> None:
        """Count one more lane."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Count one lane less; without any, close all connections and threads."""
        with self._lock:
            self._users -= 1
            is_last = not self._users
        if is_last:
            self._close()

    def keep_time(self) -> None:
        """Follow the members' clock once the store has been open for a while."""
        if self._timekeeper is None and time.monotonic() > self._opened + SETTLED:
            with self._lock:
                if self._timekeeper is None:
                    self._timekeeper = Timekeeper(self.clock, self.gateway.ask_the_time)

    def news_of(self, key: str, lanes: int) -> KeyNews:
        """Return the news of a lane, by its key `meta`. The first call watches all lanes, over one connection."""
        with self._lock:
            if self._watcher is None:
                addresses = [self._address.of_lane(lane) for lane in range(lanes + 1 if lanes > 1 else 1)]
                keys = [rows.KeyNames(address.prefix).meta for address in addresses]
                self._watcher = Watcher(self.gateway, keys, self.id)
                self.members.moved = self._watcher.move
            return self._watcher.news[key]

    def _close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        self.calls.close()
        self.gateway.close()
        if self._timekeeper is not None:
            self._timekeeper.close()
