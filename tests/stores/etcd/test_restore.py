"""An etcd that was restored from a real snapshot: no fence is given out a second time, whatever a server remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.entries import Put, Ref
from leasehold.errors import Conflict
from leasehold.stores.etcd import EPOCH, EtcdStore
from leasehold.testing.conformance.asking import leases_of, take
from leasehold.testing.etcd import QUICK, Etcd

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cluster() -> Iterator[Etcd]:
    with Etcd(*QUICK) as started:
        yield started


def test_who_comes_after_a_restore_gets_a_larger_fence(cluster: Etcd) -> None:
    with leasehold.connect(cluster.url, holder="ada") as locks:
        kept = take(locks, "before")
        snapshot = cluster.save()
        lost = take(locks, "after")
    cluster.restore(snapshot, "another")
    with leasehold.connect(cluster.url, holder="bob") as locks:
        assert [lease.id for lease in leases_of(locks)] == [kept.lease.id]
        assert take(locks, "after").lease.fence >= EPOCH > lost.lease.fence


@pytest.mark.parametrize("looks_first", [True, False])
def test_a_server_that_knows_just_what_the_snapshot_has_notices_too(cluster: Etcd, *, looks_first: bool) -> None:
    """What it compares has not changed since: only others, who are lost with what they did, had gone on from there."""
    with leasehold.connect(cluster.url, holder="ada") as one, leasehold.connect(cluster.url, holder="bob") as two:
        take(one, "before")
        snapshot = cluster.save()
        lost = [take(two, name).lease.fence for name in ("a", "b", "c")]
        cluster.restore(snapshot, "another")
        if looks_first:  # over a new connection, which is then there to write
            assert [lease.resources for lease in leases_of(one)] == [("before",)]
        first = take(one, "d").lease.fence
        assert first >= EPOCH > max(lost)
        assert take(two, "e").lease.fence > first  # once is enough


def test_nothing_is_written_over_a_new_connection_before_it_has_told_whose_it_is(cluster: Etcd) -> None:
    one, two = EtcdStore(cluster.url), EtcdStore(cluster.url)
    try:
        _put(one, "x")
        snapshot = cluster.save()
        _put(two, "lost")
        cluster.restore(snapshot, "another")
        one.calls._members.next(one.calls._members.turn)  # so that it hangs up, and finds out nothing by a broken line
        with pytest.raises(Conflict, match="restored"):
            _put(one, "y")
        assert set(one.read(["na"])[1]["na"].notes) == {"x"}
        assert _put(one, "y") >= EPOCH
    finally:
        one.close()
        two.close()


def _put(store: EtcdStore, id_: str) -> int:
    transaction = store.begin()
    try:
        transaction.load(["na"] if store.replica.is_blank else [])
        transaction.commit([Put("na", Ref(id_))], [], transaction.fence + 1)
        return transaction.fence
    finally:
        transaction.close()
