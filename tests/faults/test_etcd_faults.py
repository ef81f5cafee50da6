"""One of three members of etcd killed or cut off during load: no overlap, no lost grant, and everybody gets on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.entries import Put, Ref
from leasehold.domain.outcomes import Renewed
from leasehold.errors import Conflict, OutcomeUnknown
from leasehold.stores.etcd import EtcdStore, calls
from leasehold.testing.conformance.asking import take, until
from leasehold.testing.etcd import QUICK, Etcd
from tests.acceptance.servers import servers_on, wandering
from tests.faults.crowd import Load

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.testing.etcd import Member

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
TURNS = 3
PANIC = "unexpected error during txn"
"""Before 3.5.5 a member dies if somebody who only looks gives up waiting for it (etcd issue 14110), as happens to one
that was paused. Its operator starts it again."""


def _wait_for(member: Member) -> None:
    def is_back() -> bool:
        if member.has_ended() and PANIC in member.said():
            member.kill()  # which clears up after it
            member.start()
        return member.is_healthy()

    try:
        until(is_back, "it is back")
    except AssertionError as error:
        error.add_note(member.trouble())
        raise


def _kill(member: Member, load: Load) -> None:
    member.kill()
    load.goes_on(TURNS)
    member.start()
    _wait_for(member)


def _cut_off(member: Member, load: Load) -> None:
    """From everybody: it neither answers nor hangs up. Cut off from the other members alone: `test_etcd_parted`."""
    member.pause()
    try:
        load.goes_on(TURNS)
    finally:
        member.go_on()
    _wait_for(member)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not answer is given an hour, unless it is found out otherwise that it is not there."""
    monkeypatch.setattr(calls, "TIMEOUT", 3_600.0)


def _put(store: EtcdStore, id_: str) -> list[OutcomeUnknown]:
    """As an engine does it, which finds out what became of a commit of which nobody knows. Why nobody did."""
    try:
        turn = store.begin()
        try:
            turn.load(["na"])
            turn.commit([Put("na", Ref(id_))], [], turn.fence + 1)
        finally:
            turn.close()
    except Conflict:
        return _put(store, id_)
    except OutcomeUnknown as unknown:
        is_there = id_ in store.read(["na"])[1]["na"].notes
        return [unknown, *([] if is_there else _put(store, id_))]
    return []


@pytest.mark.usefixtures("patient")
@pytest.mark.timeout(120)
def test_a_member_that_does_not_answer_at_all_is_passed_by_early() -> None:
    with Etcd(*QUICK, members=3) as cluster:
        silent = cluster.one_that(leads=False)
        one, two = EtcdStore(cluster.url_from(silent)), EtcdStore(cluster.url)
        try:
            _put(one, "a")
            until(lambda: not one.hint(), "it listens")
            silent.pause()
            _put(one, "b")
            assert one.client.members.present != ("127.0.0.1", silent.port)
            until(lambda: not one.hint(), "it listens to another one")
            _put(two, "c")
            until(one.hint, "it hears of others again")
            assert set(one.read(["na"])[1]["na"].notes) == {"a", "b", "c"}
        finally:
            silent.go_on()
            one.close()
            two.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("fault", ["pause", "kill"])
def test_a_request_lost_with_a_leader_is_repeated_at_once(fault: str) -> None:
    """The member that was asked is well, but has handed it on to one that is not there any more."""
    with Etcd(*QUICK, members=3) as cluster:
        leader = cluster.one_that(leads=True)
        asked = next(member for member in cluster.members if member is not leader)
        store = EtcdStore(cluster.url_from(asked))
        try:
            _put(store, "a")
            getattr(leader, fault)()
            doubts = _put(store, "b")
            assert not any("etcd did not say" in str(each) for each in doubts)  # it says so itself after 7 s
            assert set(store.read(["na"])[1]["na"].notes) == {"a", "b"}
        finally:
            store.close()


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
