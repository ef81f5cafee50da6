"""Sites whose clients, servers and stores are hosts of their own, joined by wires instead of proxies; see `namespaces`.

Servers listen beyond loopback, so they want a key, as in production.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from leasehold.domain.api_keys import KeyCreated
from leasehold.testing.etcd import Etcd
from leasehold.testing.faults.namespaces import Host, Network
from leasehold.testing.faults.sites import COMPACTED, WHOLE_HISTORY, EtcdSite, PostgresSite, Site, SqliteSite
from leasehold.testing.postgres import Postgres

if TYPE_CHECKING:
    from typing import Self


class Apart(Site):
    """A site with so many hosts of each part."""

    hosts: ClassVar[dict[str, int]] = {"client": 2, "server": 2, "store": 1}
    embedded = False

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, list[Host]] = {}

    def __enter__(self) -> Self:
        try:
            network = self._stack.enter_context(Network())
            self.parts = {part: [network.host() for _ in range(count)] for part, count in self.hosts.items()}
        except BaseException:
            self.close()
            raise
        return super().__enter__()

    def host_of(self, part: str, number: int) -> Host:
        """Return the host on which this one of the clients or servers runs."""
        return self.parts[part][number % len(self.parts[part])]

    def make_key(self) -> None:
        """Create the key that the clients show."""
        with self.judge() as locks:
            created = locks.create_key(role="admin", name="clients")
            assert isinstance(created, KeyCreated), created
            self.key = created.credential


class SqliteApart(Apart, SqliteSite):
    """A server with its file, and its clients."""

    hosts: ClassVar[dict[str, int]] = {"client": 2, "server": 1}

    def open_store(self) -> None:
        """Make the file."""
        super().open_store()
        self.make_key()


class PostgresApart(Apart, PostgresSite):
    """PostgreSQL and two servers."""

    def open_store(self) -> None:
        """Start PostgreSQL on its host."""
        (host,) = self.parts["store"]
        with host.inside():
            self.postgres = self._stack.enter_context(Postgres(address=host.address))
        self.own = f"{self.postgres.url}?retention_rows={WHOLE_HISTORY}"
        self.store = f"{self.own}&pause=1s"
        self.make_key()


class EtcdApart(Apart, EtcdSite):
    """Three members and two servers."""

    hosts: ClassVar[dict[str, int]] = {"client": 2, "server": 2, "store": 3}

    def open_store(self) -> None:
        """Start each member on its host."""
        addresses = [host.address for host in self.parts["store"]]
        self.etcd = Etcd(*COMPACTED, members=3, addresses=addresses)
        self._stack.callback(self.etcd.remove)
        for member, host in zip(self.etcd.members, self.parts["store"], strict=True):
            with host.inside():
                member.start()
        self.etcd.heal()
        self.own = self.store = f"{self.etcd.url}?keep_events={WHOLE_HISTORY}"
        self.make_key()


APART = {site.name: site for site in (SqliteApart, PostgresApart, EtcdApart)}
