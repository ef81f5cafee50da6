"""A member of etcd that lives, and that clients reach, but not the others: nobody is told anything wrong by it."""

from __future__ import annotations

import itertools
import os
import re
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.entries import Put, Ref
from leasehold.domain.outcomes import Granted, Held, Renewed
from leasehold.errors import Conflict, OutcomeUnknown, Unreachable
from leasehold.stores.etcd import EtcdStore, calls, gateway
from leasehold.testing.checker import check
from leasehold.testing.conformance.asking import (
    LONG,
    expect,
    holders_of,
    leases_of,
    release,
    take,
    take_once_free,
    until,
    wait_for,
)
from leasehold.testing.etcd import QUICK, Etcd
from tests.acceptance.servers import servers_on, wandering
from tests.faults.crowd import Load
from tests.faults.scene import history
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from leasehold.testing.etcd import Member

IS_PROOF = bool(os.environ.get("LEASEHOLD_PROVE"))
ROUNDS = 5 if IS_PROOF else 1
TURNS = 3
SOON = 5
"""Within so many seconds everybody gets on: the TTL of a short lease, and two more."""
ROLES = pytest.mark.parametrize("role", ["leader", "follower"])
KINDS = pytest.mark.parametrize("silently", [False, True], ids=["hung up", "silent"])
WHY = re.compile("has no leader.*reach each other")
_numbers = itertools.count()


class Place:
    """Somewhere in a cluster with nothing in it yet, for one test."""

    def __init__(self, cluster: Etcd) -> None:
        self.cluster = cluster
        self._prefix = f"t{next(_numbers)}"

    def member(self, role: str) -> Member:
        """The leader, or one that is not."""
        return self.cluster.one_that(leads=role == "leader")

    def others(self, than: Member) -> list[Member]:
        """All but this one."""
        return [member for member in self.cluster.members if member is not than]

    def url(self, first: Member, *, only: bool = False) -> str:
        """The URL that names this member first, or alone."""
        known = f"etcd://127.0.0.1:{first.port}" if only else self.cluster.url_from(first)
        return f"{known}/{self._prefix}"

    def locks(self, first: Member, holder: str) -> leasehold.Locks:
        """An engine that asks this member first."""
        return leasehold.connect(self.url(first), holder=holder)

    @contextmanager
    def cut_off(self, member: Member, *, silently: bool = False) -> Iterator[None]:
        """The member is alone meanwhile."""
        self.cluster.cut_off(member, silently=silently)
        try:
            yield
        finally:
            self.cluster.heal()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Etcd]:
    with Etcd(*QUICK, members=3, severable=True) as started:
        yield started


@pytest.fixture
def place(cluster: Etcd) -> Place:
    return Place(cluster)


def _is_done(call: Callable[[], object]) -> bool:
    """Whether it was: members may take their time to elect a leader, and another client may have been quicker."""
    try:
        call()
    except (Conflict, OutcomeUnknown, Unreachable):
        return False
    return True


# ----------------------------------------------------------------------------------------------- load


def _engine(url: str, holder: str) -> leasehold.Locks:
    return leasehold.connect(url, holder=holder)


@contextmanager
def _engines(place: Place) -> Iterator[Load]:
    """Workers each with an engine of its own, which asks another member first."""
    with Load(*map(place.url, place.cluster.members), connect=_engine, ttl=LONG) as load:
        yield load


@contextmanager
def _servers(place: Place) -> Iterator[Load]:
    """The same with three servers, each asking another member first, and workers that stay with one of them."""
    with ExitStack() as stack:
        started = [stack.enter_context(servers_on(place.url(member), EtcdStore, 1)) for member in place.cluster.members]
        yield stack.enter_context(Load(*(each.url for each in started), connect=wandering, ttl=LONG))


def _is_cut_off(place: Place, load: Load, role: str, *, silently: bool) -> float:
    """One member, and then it is back. How many seconds it took until everybody had got on."""
    load.goes_on(TURNS)
    with place.cut_off(place.member(role), silently=silently):
        begun = time.monotonic()
        load.goes_on(TURNS)
        took = time.monotonic() - begun
    load.goes_on(TURNS)
    return took


def _nothing_is_lost_or_left(place: Place, load: Load, keeper: leasehold.Locks) -> None:
    """What anybody was told to have, the store knows of; and nothing is there that nobody knows of."""
    events = history(keeper)
    assert {*load.leases} <= {event.lease for event in events if event.kind == "granted"}
    engines = {str(event.detail["engine"]) for event in events if event.kind == "queued"}
    assert check(events, dead_engines=dict.fromkeys(engines, 0)) == []  # who is cut off may be passed
    assert [lease.resources for lease in leases_of(keeper)] == [("kept",)]


def _stands(place: Place, over: AbstractContextManager[Load], role: str, *, silently: bool) -> None:
    alone = place.member(role)
    with place.locks(alone, "keeper") as keeper:
        kept = take(keeper, "kept", ttl=LONG)
        with over as load:
            took = _is_cut_off(place, load, role, silently=silently)
        assert isinstance(keeper.renew(kept.lease.id, kept.token), Renewed)
        load.was_safe()
        load.was_told()
        _nothing_is_lost_or_left(place, load, keeper)
    assert took < SOON or not IS_PROOF  # with the short settings the machine may be busy with something else


@ROLES
@KINDS
def test_a_member_is_cut_off_during_load(cluster: Etcd, role: str, silently: bool) -> None:
    for _ in range(ROUNDS):
        place = Place(cluster)
        _stands(place, _engines(place), role, silently=silently)


@pytest.mark.parametrize(
    ("role", "silently"),
    [*itertools.product(("leader", "follower"), (False, True))] if IS_PROOF else [("leader", True)],
)
def test_a_member_is_cut_off_during_load_on_servers(place: Place, role: str, silently: bool) -> None:
    _stands(place, _servers(place), role, silently=silently)


# ------------------------------------------------------------------------------------- what is told


@KINDS
def test_a_waiter_at_a_member_that_is_cut_off_is_served(place: Place, silently: bool) -> None:
    """Somebody else gives it back where there is a leader: the waiter's own engine hears nothing of that."""
    alone = place.member("follower")
    with place.locks(place.others(alone)[0], "near") as near, place.locks(alone, "far") as far:
        held = take(near, "x")
        waiting = wait_for(far, "x")
        with place.cut_off(alone, silently=silently):
            release(near, held)
            granted = expect(Granted, waiting.answer())
            assert [lease.id for lease in leases_of(near)] == [granted.lease.id]
        release(far, granted)
        assert leases_of(near) == ()


@ROLES
def test_the_cache_of_a_member_that_is_cut_off_is_not_used(place: Place, role: str) -> None:
    alone = place.member(role)
    with place.locks(place.others(alone)[0], "near") as near, place.locks(alone, "far") as far:
        held = take(near, "x")
        expect(Held, far.acquire("x", ttl=LONG))
        with place.cut_off(alone):
            until(lambda: _is_done(lambda: near.release(held.lease.id, held.token)), "it is given back")
            until(lambda: _is_done(lambda: expect(Granted, far.acquire("x", ttl=LONG))), "it is taken")
            assert holders_of(near, "x") == ["far"]


@pytest.mark.parametrize("role", ["leader", "follower"] if IS_PROOF else ["leader"])
def test_a_client_of_one_member_only_gets_no_stale_answer(
    place: Place, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = place.member(role)
    with (
        place.locks(place.others(alone)[0], "near") as near,
        leasehold.connect(place.url(alone, only=True), holder="far") as far,
        _stores(place.url(alone, only=True)) as (store,),
    ):
        held = take(near, "x")
        expect(Held, far.acquire("x", ttl=LONG))
        _confirm(store)
        with place.cut_off(alone):
            until(lambda: _is_done(lambda: near.release(held.lease.id, held.token)), "it is given back")
            until(lambda: "leader" not in alone.status(), "it knows that it is alone")
            with monkeypatch.context() as hurried:
                hurried.setattr(calls, "TIMEOUT", 0.4)
                for ask in (lambda: far.acquire("x", ttl=LONG), lambda: far.inspect("x"), lambda: _confirm(store)):
                    with pytest.raises((Unreachable, OutcomeUnknown), match=WHY):
                        ask()
        expect(Granted, far.acquire("x", ttl=LONG))


def test_without_a_majority_each_request_fails_with_the_reason(place: Place) -> None:
    alone = place.member("leader")
    gone, left = place.others(alone)
    with place.locks(left, "ada") as locks:
        kept = take(locks, "x")
        with place.cut_off(alone):
            gone.kill()
            try:
                for ask in (lambda: locks.acquire("y", ttl=LONG), lambda: locks.inspect("x")):
                    with pytest.raises((Unreachable, OutcomeUnknown), match=WHY):
                        ask()
            finally:
                gone.start()
        assert isinstance(locks.renew(kept.lease.id, kept.token), Renewed)
        until(lambda: [lease.id for lease in leases_of(locks)] == [kept.lease.id], "nothing is left of what failed")


def test_a_client_that_authenticates_does_so_at_another_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is cut off cannot do that: it is not waited for until it says so itself, after 7 s."""
    monkeypatch.setattr(gateway, "TIMEOUT", 3_600.0)
    with Etcd(*QUICK, members=3, severable=True) as cluster:
        etcd.let_in_users(cluster)
        alone = Place(cluster).member("follower")
        url = cluster.url_from(alone).replace("//", "//ada:secret@")
        with _stores(url) as (store,):
            cluster.cut_off(alone)
            with pytest.raises(Unreachable, match="it has no leader"):
                store.gateway.authenticate()
        with leasehold.connect(url, holder="ada") as locks:
            take(locks, "x")


# ---------------------------------------------------------------------------- what is late, or is not heard


def _put(store: EtcdStore, id_: str) -> None:
    turn = store.begin()
    try:
        turn.load(["na"])
        turn.commit([Put("na", Ref(id_))], [], turn.fence + 1)
    finally:
        turn.close()


def _confirm(store: EtcdStore) -> None:
    """That what it remembers is true."""
    turn = store.begin()
    try:
        turn.load(["na"])
        turn.commit([], [], turn.fence)
    finally:
        turn.close()


@contextmanager
def _stores(*urls: str) -> Iterator[list[EtcdStore]]:
    with ExitStack() as stack:
        opened = [EtcdStore(url) for url in urls]
        for store in opened:
            stack.callback(store.close)
        yield opened


def test_a_commit_that_arrives_after_it_was_given_up_is_not_carried_out(place: Place) -> None:
    """A member hands a commit on to its leader, but that is held up until somebody has asked what became of it."""
    alone = place.member("follower")
    with _stores(place.url(alone), place.url(place.others(alone)[0])) as (one, two):
        _put(one, "x")  # so that nothing has to be asked before the next commit
        with place.cut_off(alone, silently=True):
            with pytest.raises(OutcomeUnknown):
                _put(one, "late")
            assert set(one.read(["na"])[1]["na"].notes) == {"x"}
        until(lambda: _is_done(lambda: _put(two, "y")), "whatever was under way is there")
        assert set(two.read(["na"])[1]["na"].notes) == {"x", "y"}


def test_a_grant_that_arrives_after_its_outcome_was_unknown_is_released(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller got an unknown outcome and has gone away; then the commit is carried out, as nothing prevented it."""
    alone = place.member("follower")
    with (
        place.locks(place.others(alone)[0], "near") as near,
        leasehold.connect(place.url(alone, only=True), holder="far") as far,
    ):
        release(far, take(far, "x"))
        with place.cut_off(alone, silently=True), monkeypatch.context() as hurried:
            hurried.setattr(calls, "TIMEOUT", 0.8)
            with pytest.raises((OutcomeUnknown, Unreachable)):
                far.acquire("x", ttl=LONG)
        granted = take_once_free(near, "x")
        assert [lease.id for lease in leases_of(near)] == [granted.lease.id]


@ROLES
def test_no_store_goes_on_watching_a_member_that_is_cut_off(place: Place, role: str) -> None:
    alone = place.member(role)
    with _stores(place.url(alone), place.url(place.others(alone)[0])) as (one, two):
        until(lambda: not one.hint(), "it listens")
        with place.cut_off(alone):
            until(lambda: _is_done(lambda: _put(one, "x")), "it has found another member")
            until(lambda: not one.hint(), "it listens to another one")
            until(lambda: _is_done(lambda: _put(two, "y")), "so has the other")
            until(one.hint, "it hears of others")
