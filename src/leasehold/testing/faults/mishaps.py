"""Mishaps of a site, and how each is undone. A mishap begins, lasts for a while, and ends; one at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.testing.faults import dials, nginx
from leasehold.testing.faults.apart import APART, Apart
from leasehold.testing.faults.namespaces import Host
from leasehold.testing.faults.proxy import FaultyProxy, breaking
from leasehold.testing.faults.sites import EtcdSite, PostgresSite

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import TypeAlias

    from leasehold.testing.faults.sites import Site
    from leasehold.testing.faults.teams import Team

    Mishaps: TypeAlias = dict[str, Callable[["Targets"], Callable[[], None]]]

HOUR = 3_600.0


class Targets(Noun):
    """The parts that a mishap may strike."""

    site: Site
    teams: list[Team]
    chance: random.Random


def kill_clients(targets: Targets) -> Callable[[], None]:
    """SIGKILL a process of clients, and start another one in its place."""
    team = targets.chance.choice(targets.teams)
    team.kill()
    return team.start


def stop_clients(targets: Targets) -> Callable[[], None]:
    """SIGSTOP a process of clients, for longer than a TTL."""
    team = targets.chance.choice(targets.teams)
    team.program.stop()
    return team.program.go_on


def kill_server(targets: Targets) -> Callable[[], None]:
    """SIGKILL a server, and start it again on its port."""
    server = targets.chance.choice(targets.site.servers)
    server.program.kill()
    return server.start


def stop_server(targets: Targets) -> Callable[[], None]:
    """SIGSTOP a server."""
    server = targets.chance.choice(targets.site.servers)
    server.program.stop()
    return server.program.go_on


def _way(way: str) -> Callable[[Targets], Callable[[], None]]:
    def strike(targets: Targets) -> Callable[[], None]:
        return breaking(targets.chance.choice(targets.site.servers).proxy, way)

    strike.__doc__ = f"Let a server's proxy go the way `{way}`."
    return strike


def behind_nginx(targets: Targets) -> Callable[[], None]:
    """Lead the clients of a server through nginx, on new connections."""
    server = targets.chance.choice(targets.site.servers)
    before = nginx.Nginx(targets.site.folder, server.port)
    server.proxy.lead_to(before.port)

    def back() -> None:
        server.proxy.lead_to(server.port)
        before.kill()

    return back


def _store_way(way: str) -> Callable[[Targets], Callable[[], None]]:
    def strike(targets: Targets) -> Callable[[], None]:
        return breaking(targets.chance.choice(targets.site.store_proxies), way)

    strike.__doc__ = f"Let a proxy between the servers and their store go the way `{way}`."
    return strike


def _wire(part: str, way: str) -> Callable[[Targets], Callable[[], None]]:
    def strike(targets: Targets) -> Callable[[], None]:
        assert isinstance(targets.site, Apart)
        return breaking(targets.chance.choice(targets.site.parts[part]), way)

    strike.__doc__ = f"Let the wire of a {part}'s host go the way `{way}`."
    return strike


def step_clocks(targets: Targets) -> Callable[[], None]:
    """Set the wall clock of the servers, or of the clients, an hour ahead or back."""
    dial = targets.site.dials[targets.chance.choice(["server", "client"])]
    dial.step(targets.chance.choice([HOUR, -HOUR]))
    return partial(dial.step, 0)


def rate_of_clocks(targets: Targets) -> Callable[[], None]:
    """Let all clocks of the servers, or of the clients, run a tenth faster or slower."""
    dial = targets.site.dials[targets.chance.choice(["server", "client"])]
    dial.run_at(targets.chance.choice([1.1, 0.9]))
    return partial(dial.run_at, 1.0)


def full_disk(targets: Targets) -> Callable[[], None]:
    """Let every write of SQLite fail, in the server and in the clients beside it."""
    targets.site.dials["server"].set_disk(dials.DISK_FULL)
    return partial(targets.site.dials["server"].set_disk, dials.DISK_WELL)


def failing_syncs(targets: Targets) -> Callable[[], None]:
    """Let every fsync of SQLite's fail, in the server and in the clients beside it."""
    targets.site.dials["server"].set_disk(dials.DISK_FAILS_SYNCS)
    return partial(targets.site.dials["server"].set_disk, dials.DISK_WELL)


def crash_postgres(targets: Targets) -> Callable[[], None]:
    """End PostgreSQL as a crash does, and start it again."""
    assert isinstance(targets.site, PostgresSite)
    targets.site.crash_store()
    return targets.site.start_store


def promote_standby(targets: Targets) -> Callable[[], None]:
    """Lose PostgreSQL for good, and promote its synchronous standby."""
    assert isinstance(targets.site, PostgresSite)
    targets.site.fail_over(targets.site.prepare_standby())
    return _nothing


def _nothing() -> None:
    """Undo nothing: what was lost stays lost."""


def kill_member(targets: Targets) -> Callable[[], None]:
    """SIGKILL a member of etcd, and start it again with its data."""
    assert isinstance(targets.site, EtcdSite)
    cluster = targets.site.etcd
    member = targets.chance.choice(cluster.members)
    member.kill()

    def back() -> None:
        member.start()
        cluster.heal()

    return back


def replace_member(targets: Targets) -> Callable[[], None]:
    """Lose a member of etcd with its data, and put a new one in its place."""
    assert isinstance(targets.site, EtcdSite)
    member = targets.chance.choice(targets.site.etcd.members)
    member.kill()
    return partial(targets.site.etcd.replace, member)


def cut_off_member(targets: Targets) -> Callable[[], None]:
    """Cut a member of etcd off from the others, while servers still reach it."""
    assert isinstance(targets.site, EtcdSite)
    targets.site.etcd.cut_off(targets.chance.choice(targets.site.etcd.members), silently=targets.chance.random() < 0.5)
    return targets.site.etcd.heal


def pause_store(targets: Targets) -> Callable[[], None]:
    """SIGSTOP every process of the store."""
    targets.site.pause_store()
    return targets.site.continue_store


def suspend(targets: Targets) -> Callable[[], None]:
    """Stop everything that is ours, as when a machine sleeps; time goes on."""
    programs = [*(team.program for team in targets.teams), *(server.program for server in targets.site.servers)]
    has_store = bool(targets.site.store_proxies)
    for program in programs:
        program.stop()
    if has_store:
        targets.site.pause_store()

    def wake() -> None:
        if has_store:
            targets.site.continue_store()
        for program in programs:
            program.go_on()

    return wake


BREAKS = [way for way in FaultyProxy.WAYS if way not in ("pass", "drop-once")]
OF_CLIENTS: Mishaps = {"kill clients": kill_clients, "stop clients": stop_clients, "suspend": suspend}
OF_SERVERS: Mishaps = {
    "kill server": kill_server,
    "stop server": stop_server,
    **{f"clients: {way}": _way(way) for way in BREAKS},
    **({"clients: behind nginx": behind_nginx} if nginx.PROGRAM else {}),
    "clock step": step_clocks,
    "clock rate": rate_of_clocks,
}
OF_STORES_BEHIND_A_NETWORK: Mishaps = {
    "pause store": pause_store,
    **{f"store: {way}": _store_way(way) for way in BREAKS},
}
MISHAPS: dict[str, Mishaps] = {
    "sqlite": {**OF_CLIENTS, **OF_SERVERS, "full disk": full_disk, "failing syncs": failing_syncs},
    "postgres": {
        **OF_CLIENTS,
        **OF_SERVERS,
        **OF_STORES_BEHIND_A_NETWORK,
        "crash of PostgreSQL": crash_postgres,
        "promoted standby": promote_standby,
    },
    "etcd": {
        **OF_CLIENTS,
        **OF_SERVERS,
        **OF_STORES_BEHIND_A_NETWORK,
        "kill member": kill_member,
        "replace member": replace_member,
        "cut off member": cut_off_member,
    },
    "git": OF_CLIENTS,
}
"""By store, what strikes it in a mixed run."""
OF_NETWORKS: dict[str, Mishaps] = {
    store: {f"wire of a {part}: {way}": _wire(part, way) for part in site.hosts for way in Host.WAYS[1:]}
    for store, site in APART.items()
}
"""By store, what strikes it if each of its parts is a host of its own."""
