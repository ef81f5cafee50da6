"""One of three members of etcd killed or cut off during load: no overlap, no lost grant, and everybody gets on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasehold.model import Renewed
from leasehold.stores.etcd import EtcdStore
from leasehold.testing.conformance.asking import take, until
from leasehold.testing.etcd import QUICK, Etcd
from tests.acceptance.servers import servers_on, wandering
from tests.faults.crowd import Load

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.testing.etcd import Member

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
TURNS = 3


def _kill(member: Member, load: Load) -> None:
    member.kill()
    load.goes_on(TURNS)
    member.start()
    until(member.is_healthy, "it is back")


def _cut_off(member: Member, load: Load) -> None:
    """It neither answers nor hangs up, as behind a partition."""
    member.pause()
    try:
        load.goes_on(TURNS)
    finally:
        member.go_on()
    until(member.is_healthy, "it is back")


@pytest.mark.parametrize("fault", [_kill, _cut_off])
def test_a_member_is_lost_during_load(fault: Callable[[Member, Load], None]) -> None:
    with (
        Etcd(*QUICK, members=3) as cluster,
        servers_on(cluster.url, EtcdStore, 2) as servers,
        wandering(servers.url, "keeper") as locks,
        Load(servers.url) as load,
    ):
        kept = take(locks, "kept")
        for member in cluster.members if IS_PROOF else cluster.members[:1]:
            load.goes_on(TURNS)
            fault(member, load)
            load.goes_on(TURNS)
        assert isinstance(locks.renew(kept.lease.id, kept.token), Renewed)
    load.was_safe()
    load.was_told()
