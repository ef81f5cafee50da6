"""Going on from our own last push without asking the remote: it saves a fetch, and never makes an answer stale."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.entries import Put, Ref
from leasehold.domain.outcomes import Granted, Held, Lost, Released, Renewed
from leasehold.errors import Conflict
from leasehold.stores import git as store
from leasehold.stores.git.address import GitAddress
from leasehold.testing.conformance.asking import expect
from tests.kit.remotes import bare, runs, spying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold import Locks


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Locks, Locks]]:
    """Two machines; each goes on from its own last push for as long as it likes."""
    monkeypatch.setattr(store, "TRUST", 3_600.0)
    remote = bare(tmp_path / "remote.git")
    both = [
        leasehold.connect(f"git+file://{remote}?cache={tmp_path}/{name}", holder=name, threaded=False)
        for name in ("ada", "bob")
    ]
    yield both[0], both[1]
    for locks in both:
        locks.close()


def take(locks: Locks, resource: str) -> Granted:
    taken = locks.acquire(resource, ttl=600)
    assert isinstance(taken, Granted), taken
    return taken


def test_it_saves_the_fetch(pair: tuple[Locks, Locks], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = spying(tmp_path / "spy")
    monkeypatch.setenv("PATH", f"{spy}:{os.environ['PATH']}")
    ada, _ = pair
    first = take(ada, "path:src/a")
    assert len(runs(spy)) == 2
    take(ada, "path:src/b")
    assert isinstance(ada.renew(first.lease.id, first.token), Renewed)
    assert isinstance(ada.release(first.lease.id, first.token), Released)
    assert len(runs(spy)) == 3, "a push each"


def test_what_others_have_taken_meanwhile_is_theirs(pair: tuple[Locks, Locks]) -> None:
    ada, bob = pair
    take(ada, "mine")
    take(bob, "path:src/a")
    for name in ("path:src/a", "path:src", "path:src/a/deeper", "repo:all"):
        assert isinstance(ada.acquire(name, ttl=60), Held), name
    assert take(ada, "path:src/b").lease.fence == 3


def test_what_was_taken_away_meanwhile_is_lost(pair: tuple[Locks, Locks]) -> None:
    ada, bob = pair
    held, kept = take(ada, "a"), take(ada, "b")
    bob.force_release("a", by="ops", reason="test")
    assert isinstance(ada.renew(held.lease.id, held.token), Lost)
    take(ada, "c")
    assert isinstance(ada.renew(kept.lease.id, kept.token), Renewed)


def test_what_was_released_elsewhere_is_released(pair: tuple[Locks, Locks]) -> None:
    ada, bob = pair
    held = take(ada, "a")
    assert bob.release(held.lease.id, held.token) == Released(held.lease.id, True, "completed", ("a",))
    ended = ada.release(held.lease.id, held.token)
    assert isinstance(ended, Released)
    assert not ended.released


def test_a_lease_of_which_we_never_heard_is_found(pair: tuple[Locks, Locks]) -> None:
    """Nothing is written for a lease that is not there: so the answer must not rest on what we saw last."""
    ada, bob = pair
    take(ada, "a")
    held = take(bob, "b")
    ended = ada.release(held.lease.id, held.token)
    assert isinstance(ended, Released)
    assert ended.released


def test_looking_always_asks_the_remote(pair: tuple[Locks, Locks]) -> None:
    ada, bob = pair
    take(ada, "a")
    take(bob, "b")
    assert len(expect(tuple, ada.list())) == 2
    assert [lease.holder for lease in ada.inspect("b").leases] == ["bob"]  # type: ignore[union-attr]


def test_fences_stay_in_one_order(pair: tuple[Locks, Locks]) -> None:
    fences = [take(pair[turn % 2], f"r{turn}").lease.fence for turn in range(6)]
    assert fences == sorted(set(fences))


def test_what_was_assumed_and_not_written_has_to_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one batch one command may write while another only reads what was never seen."""
    monkeypatch.setattr(store, "TRUST", 3_600.0)
    keeper = store.GitStore(GitAddress(str(bare(tmp_path / "remote.git")), str(tmp_path / "cache")))

    def write(key: str, *read: str) -> None:
        transaction = keeper.begin()
        try:
            transaction.load([key, *read])
            transaction.commit([Put(key, Ref("x"))], (), transaction.fence)
        finally:
            transaction.close()

    written, other, unknown = (f"a{number:032x}" for number in range(3))
    write(written)
    with pytest.raises(Conflict):
        write(other, unknown)
    write(other, unknown)
    keeper.close()
