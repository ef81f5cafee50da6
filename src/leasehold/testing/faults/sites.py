"""A store with its servers, and proxies between all of them: everything that a fault may strike, and the way back.

=============  =======================================================================================
`sqlite`       processes on one file, among them a server with clients of its own
`postgres`     PostgreSQL and two servers
`etcd`         three members and two servers
`git`          processes on one bare repository
=============  =======================================================================================

Clients reach servers, and servers reach PostgreSQL, through proxies. A site must decide nothing about leases.
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import leasehold
from leasehold.testing.etcd import Etcd
from leasehold.testing.faults.dials import Dials
from leasehold.testing.faults.programs import Program, signal_family
from leasehold.testing.faults.proxy import FaultyProxy, ProxyThread
from leasehold.testing.lending import free_port
from leasehold.testing.postgres import Postgres

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from leasehold.testing.faults.namespaces import Host

PATIENCE = 60.0
WHOLE_HISTORY = 1_000_000_000
"""Events that each store has to keep: the judges need all of them."""
COMPACTED = ("--auto-compaction-mode=periodic", "--auto-compaction-retention=1m")
"""As the docs advise operators of etcd."""
ARMED = "leasehold.testing.faults.armed"


class ServerProgram:
    """One server on a port of its own, and the proxy that its clients use."""

    def __init__(self, site: Site, number: int, store: str) -> None:
        self.port = free_port()
        self.dials = site.dials["server"]
        self._host = site.host_of("server", number)
        words = [ARMED, str(site.folder / "server.dials"), "leasehold.cli", "serve", "--rate", "0"]
        words += ["--port", str(self.port), "--store", store]
        words += ["--host", self._host.address] if self._host else []
        self.program = Program(words, site.folder / f"server-{number}.log", host=self._host)
        self.proxy = FaultyProxy(site.proxies, self.port)

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.program.start()
        self.program.announced()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{self._host.address}:{self.port}" if self._host else f"http://127.0.0.1:{self.proxy.port}"


class Site:
    """The processes that run for one store. Subclasses start their store in `open_store`, and return its URL."""

    name = ""
    servers_count = 2
    embedded = False
    """True if clients may open the store themselves."""
    records_events = True

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="leasehold-faults-"))
        self.dials = {host: Dials.create(self.folder / f"{host}.dials") for host in ("server", "client")}
        self.proxies = ProxyThread()
        self.servers: list[ServerProgram] = []
        self.store_proxies: list[FaultyProxy] = []
        self.store = ""
        """The URL of the store for servers."""
        self.own = ""
        """The URL of the store for the judges, past all proxies."""
        self.key = ""
        """The credential that clients show."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self.open_store()
            for number in range(self.servers_count):
                server = ServerProgram(self, number, self.store)
                self.servers.append(server)
                self._stack.callback(server.program.kill)
                server.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open_store(self) -> None:
        """Start the store, and set its URLs."""
        raise NotImplementedError

    def host_of(self, part: str, number: int) -> Host | None:  # noqa: ARG002 (see `apart`)
        """Return the host on which this one of the clients or servers runs; None: on this machine as it is."""
        return None

    def urls(self) -> list[tuple[str, str]]:
        """Return the dials and the URL of each group of clients."""
        every = [server.url for server in self.servers]
        turned = [("client", ",".join(every[at:] + every[:at])) for at in range(len(every))]
        return [*turned, ("server", self.store)] if self.embedded else turned

    def judge(self) -> leasehold.Locks:
        """Return locks on the store itself."""
        return leasehold.connect(self.own, holder="judge")

    def pause_store(self) -> None:
        """Stop the processes of the store."""
        raise NotImplementedError

    def continue_store(self) -> None:
        """Continue the processes of the store."""
        raise NotImplementedError

    def close(self) -> None:
        """End everything, and leave nothing behind but what was recorded."""
        self._stack.close()
        self.proxies.close()


class SqliteSite(Site):
    """Processes on one file."""

    name = "sqlite"
    servers_count = 1
    embedded = True

    def open_store(self) -> None:
        """Name the file; the first that opens it makes it."""
        self.store = self.own = f"sqlite://{self.folder}/locks.db?retention_rows={WHOLE_HISTORY}"


class PostgresSite(Site):
    """PostgreSQL and two servers."""

    name = "postgres"

    def open_store(self) -> None:
        """Start PostgreSQL, durable as in production, and a proxy before it."""
        self.postgres = self._stack.enter_context(Postgres())
        proxy = FaultyProxy(self.proxies, self.postgres.port)
        self.store_proxies.append(proxy)
        self.own = f"{self.postgres.url}?retention_rows={WHOLE_HISTORY}"
        self.store = f"{self.own.replace(f':{self.postgres.port}/', f':{proxy.port}/')}&pause=1s"

    def crash_store(self) -> None:
        """End PostgreSQL as a crash does."""
        self.postgres.stop(signal.SIGQUIT)

    def start_store(self) -> None:
        """Start it again."""
        self.postgres.start()

    def prepare_standby(self) -> Postgres:
        """Start a standby without which nothing is acknowledged any more, and wait until it has everything."""
        import psycopg  # noqa: PLC0415 (the other stores do without)

        standby = self._stack.enter_context(self.postgres.standby())
        with psycopg.connect(self.postgres.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            seen = "SELECT true FROM pg_stat_replication WHERE sync_state = 'sync' AND flush_lsn >= "
            end = time.monotonic() + PATIENCE
            while connection.execute(f"{seen}pg_current_wal_flush_lsn()").fetchone() is None:
                if time.monotonic() > end:
                    raise RuntimeError("the standby does not follow")
                time.sleep(0.02)
        return standby

    def fail_over(self, standby: Postgres) -> None:
        """Lose the primary, promote this standby, and lead all connections there."""
        import psycopg  # noqa: PLC0415 (as above)

        self.postgres.stop(signal.SIGQUIT)
        with psycopg.connect(standby.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        self.postgres, self.own = standby, f"{standby.url}?retention_rows={WHOLE_HISTORY}"
        (proxy,) = self.store_proxies
        proxy.lead_to(standby.port)

    def pause_store(self) -> None:
        """Stop PostgreSQL and its backends."""
        assert self.postgres.process is not None
        signal_family(self.postgres.process.pid, signal.SIGSTOP)

    def continue_store(self) -> None:
        """Continue them."""
        assert self.postgres.process is not None
        signal_family(self.postgres.process.pid, signal.SIGCONT)


class EtcdSite(Site):
    """Three members and two servers."""

    name = "etcd"

    def open_store(self) -> None:
        """Start three members that can be cut off from each other, durable as in production."""
        self.etcd = self._stack.enter_context(Etcd(*COMPACTED, members=3, severable=True))
        self.store_proxies += [FaultyProxy(self.proxies, member.port) for member in self.etcd.members]
        members = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.store_proxies)
        self.own, self.store = (f"{each}?keep_events={WHOLE_HISTORY}" for each in (self.etcd.url, f"etcd://{members}"))

    def pause_store(self) -> None:
        """Stop all members."""
        for member in self.etcd.members:
            member.pause()

    def continue_store(self) -> None:
        """Continue them."""
        for member in self.etcd.members:
            member.go_on()


class GitSite(Site):
    """Processes on one bare repository."""

    name = "git"
    servers_count = 0
    embedded = True
    records_events = False

    def open_store(self) -> None:
        """Make the repository."""
        remote = self.folder / "remote.git"
        words = ["git", "init", "--quiet", "--bare", str(remote)]
        subprocess.run(words, check=True, capture_output=True)  # noqa: S603 (our own words)
        self.store = self.own = f"git+file://{remote}"


SITES = {site.name: site for site in (SqliteSite, PostgresSite, EtcdSite, GitSite)}


def listed(history: str) -> list[int]:
    """Return the numbers in a guarded list."""
    return [int(each) for each in re.findall(r"\d+", history)]
