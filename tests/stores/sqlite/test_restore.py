"""Fences survive a restore from a backup: a database that is behind is refused, and there is a way out."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

from leasehold.domain.entries import Put
from leasehold.errors import StoreBehind
from leasehold.stores.sqlite import SqliteStore
from tests.kit.samples import MINUTE, FakeClock, commit, entries, hold, node

if TYPE_CHECKING:
    from pathlib import Path


def fence(store: SqliteStore) -> int:
    transaction = store.begin()
    transaction.close()
    return transaction.fence


def remove_database(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def back_up(path: Path) -> Path:
    """A backup as SQLite makes it, while the database is in use."""
    target = path.with_name("backup.db")
    source, copy = apsw.Connection(str(path)), apsw.Connection(str(target))
    with copy.backup("main", source, "main") as backup:
        backup.step()
    copy.close()
    source.close()
    return target


def restore(path: Path, backup: Path) -> None:
    remove_database(path)
    shutil.copy(backup, path)


@pytest.fixture
def behind(path: Path, clock: FakeClock) -> Path:
    """A database that was restored: of ten fences it knows three, and one lease."""
    store = SqliteStore(str(path), clock=clock)
    transaction = store.begin()
    lease = hold(1, "a", now=transaction.now)
    transaction.commit([Put(node("a"), lease)], [], transaction.fence + 3)
    transaction.close()
    backup = back_up(path)
    commit(store, Put(node("b"), hold(9, "b", now=transaction.now)), fences=7)
    assert fence(store) == 11
    store.close()
    restore(path, backup)
    return path


def test_a_restored_database_is_refused_with_the_way_out(behind: Path, clock: FakeClock) -> None:
    for _ in range(2):
        with pytest.raises(StoreBehind) as refusal:
            SqliteStore(str(behind), clock=clock)
        assert "restored from a backup" in str(refusal.value)
        assert "accept_restore=True" in str(refusal.value)


def test_accepting_it_goes_on_above_all_fences_and_gives_a_full_ttl(behind: Path, clock: FakeClock) -> None:
    clock.pass_time(10 * MINUTE)
    store = SqliteStore(str(behind), clock=clock, accept_restore=True)
    assert fence(store) == 11 + 1_000_000
    transaction = store.begin()
    transaction.close()
    leases = entries(store, node("a"))
    assert [lease.expires_at for lease in leases.values()] == [transaction.now + 30 * MINUTE]  # type: ignore[union-attr]
    assert transaction.opens_at == transaction.now + 30 * MINUTE, "the longest TTL that was ever granted"
    assert entries(store, node("b")) == {}
    store.close()
    again = SqliteStore(str(behind), clock=clock)  # and from now on it is like any other
    assert fence(again) == 11 + 1_000_000
    again.close()


def test_accepting_what_is_not_behind_changes_nothing(path: Path, clock: FakeClock) -> None:
    store = SqliteStore(str(path), clock=clock)
    commit(store, fences=4)
    store.close()
    again = SqliteStore(str(path), clock=clock, accept_restore=True)
    assert fence(again) == 5
    again.close()


def test_a_database_that_was_deleted_is_refused_and_does_not_give_its_fences_again(path: Path) -> None:
    store = SqliteStore(str(path))
    commit(store, fences=41)
    store.close()
    remove_database(path)
    for _ in range(2):
        with pytest.raises(StoreBehind, match="the database is gone"):
            SqliteStore(str(path))
    assert not path.exists(), "so that SQLite cannot take a log that is put back first for one of nothing"
    fresh = SqliteStore(str(path), accept_restore=True)
    assert fence(fresh) > 42
    fresh.close()


@pytest.mark.parametrize("content", [None, b"", b"123", b"garbage\n", b"\xff" * 100, b"00000000000000000007\n"])
def test_a_damaged_or_missing_mark_is_refused_until_it_is_accepted(path: Path, content: bytes | None) -> None:
    store = SqliteStore(str(path))
    commit(store, fences=6)
    store.close()
    gate = path.with_name("locks.db.gate")
    gate.unlink()
    if content is not None:
        gate.write_bytes(content)
    with pytest.raises(StoreBehind, match="gate file was removed or damaged"):
        SqliteStore(str(path))
    again = SqliteStore(str(path), accept_restore=True)
    assert fence(again) == 7 + 1_000_000
    transaction = again.begin()
    transaction.close()
    assert transaction.opens_at >= transaction.now + 29 * MINUTE
    again.close()
    SqliteStore(str(path)).close()


def test_a_mark_that_fell_behind_in_a_crash_is_no_harm(path: Path) -> None:
    store = SqliteStore(str(path))
    commit(store, fences=2)
    before = path.with_name("locks.db.gate").read_bytes()
    commit(store, fences=4)
    path.with_name("locks.db.gate").write_bytes(before)
    again = SqliteStore(str(path))
    assert fence(again) == 7
    commit(again, fences=1)
    again.close()
    store.close()
    assert path.with_name("locks.db.gate").read_bytes().startswith(b"00000000000000000008 ")


def test_a_change_without_a_fence_is_missed_as_well(path: Path, clock: FakeClock) -> None:
    """A backup from before a renewal would end the lease while its holder works."""
    store = SqliteStore(str(path), clock=clock)
    now = commit(store, Put(node("a"), hold(1, "a", now=clock.wall())), fences=1)
    backup = back_up(path)
    clock.pass_time(MINUTE)
    commit(store, Put(node("a"), hold(1, "a", now=now + MINUTE)))
    store.close()
    restore(path, backup)
    with pytest.raises(StoreBehind, match="made after its last one"):
        SqliteStore(str(path), clock=clock)


def test_a_restore_into_an_open_database_is_noticed(path: Path) -> None:
    store = SqliteStore(str(path))
    commit(store, fences=1)
    backup = back_up(path)
    commit(store, fences=1)
    source, target = apsw.Connection(str(backup)), apsw.Connection(str(path))
    with target.backup("main", source, "main") as copying:
        copying.step()
    source.close()
    target.close()
    with pytest.raises(StoreBehind, match="connect again"):
        store.begin()
    store.close()


def test_another_database_copied_over_an_open_one_is_noticed(path: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    stranger = SqliteStore(str(foreign))
    commit(stranger, fences=1_000)
    store = SqliteStore(str(path))
    source, target = apsw.Connection(str(foreign)), apsw.Connection(str(path))
    with target.backup("main", source, "main") as copying:
        copying.step()
    source.close()
    target.close()
    stranger.close()
    with pytest.raises(StoreBehind, match="another database"):
        store.begin()
    store.close()
