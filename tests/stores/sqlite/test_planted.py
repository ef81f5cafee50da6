"""What somebody may have put where the files of the database belong: links, FIFOs, devices."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasehold import connect
from leasehold.config import paths
from leasehold.config import settings as config
from leasehold.errors import StoreError, StoreUnsuitable
from leasehold.guard.editors import hook
from leasehold.guard.editors.payloads import HookCall
from leasehold.stores.git import repository
from leasehold.stores.sqlite import SqliteStore, checkup, copying

if TYPE_CHECKING:
    from collections.abc import Callable

ENDS = ("", ".gate", "-wal", "-shm", "-journal")
STRANGER = 65_534


def plant_link(path: Path) -> None:
    path.symlink_to("../precious")


PLANTS: dict[str, Callable[[Path], None]] = {"a link": plant_link, "a FIFO": os.mkfifo, "a directory": Path.mkdir}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("end", ENDS)
def test_anything_in_place_of_a_file_is_refused_with_words(tmp_path: Path, end: str, plant: str) -> None:
    place = tmp_path / "open"
    place.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("dear")
    PLANTS[plant](place / f"locks.db{end}")
    with pytest.raises(StoreUnsuitable, match=r"no plain file|is a directory"):
        SqliteStore(str(place / "locks.db"))
    assert precious.read_text() == "dear"
    assert sorted(tmp_path.iterdir()) == [place, precious]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("end", ENDS)
def test_a_device_is_refused_with_words(tmp_path: Path, end: str) -> None:
    os.mknod(tmp_path / f"locks.db{end}", 0o20666, os.makedev(1, 3))
    with pytest.raises(StoreUnsuitable, match="no plain file"):
        SqliteStore(str(tmp_path / "locks.db"))


@pytest.mark.parametrize("end", [".gate", "-wal"])
def test_a_fifo_that_replaces_a_file_is_refused_with_words(tmp_path: Path, end: str) -> None:
    path = tmp_path / "locks.db"
    with connect(f"sqlite://{path}", holder="ann") as locks:
        assert locks.acquire("x", ttl=60)
    (tmp_path / f"locks.db{end}").unlink(missing_ok=True)
    os.mkfifo(tmp_path / f"locks.db{end}")
    with pytest.raises(StoreUnsuitable, match="no plain file"):
        connect(f"sqlite://{path}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file for another user")
@pytest.mark.parametrize("end", ENDS)
def test_a_file_of_another_user_is_refused_where_everyone_may_write(tmp_path: Path, end: str) -> None:
    """Its owner could change it at any time: grants, keys and the high-water mark."""
    place = tmp_path / "open"
    place.mkdir()
    planted = place / f"locks.db{end}"
    planted.touch()
    os.chown(planted, STRANGER, STRANGER)
    place.chmod(0o1777)
    with pytest.raises(StoreUnsuitable, match=r"another user \(uid 65534\), in a directory that everyone may write"):
        connect(f"sqlite://{place}/locks.db")
    place.chmod(0o770)  # a group that was given the directory shares its files
    if end != "-journal":
        with connect(f"sqlite://{place}/locks.db", holder="ann") as locks:
            assert locks.acquire("x", ttl=60)


def rollback_journal(database: bytes, page: int = 4096, nonce: int = 1) -> bytes:
    """A journal with which SQLite makes a database what this one is."""
    pages = [database[start : start + page] for start in range(0, len(database), page)]
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", len(pages), nonce, len(pages), 512, page)
    records = [
        struct.pack(">I", number) + each + struct.pack(">I", (nonce + sum(each[page - 200 : 0 : -200])) % 2**32)
        for number, each in enumerate(pages, start=1)
    ]
    return head.ljust(512, b"\0") + b"".join(records)


@pytest.mark.parametrize("marked", [True, False], ids=["", "without a gate"])
def test_a_rollback_journal_undoes_no_grant(tmp_path: Path, marked: bool) -> None:
    """SQLite obeys one that lies beside the database. It could have any content, also later times and fences."""
    path, other = tmp_path / "locks.db", tmp_path / "other.db"
    with connect(f"sqlite://{path}", holder="ann") as locks:
        assert locks.acquire("x", ttl=600)
    with connect(f"sqlite://{other}", holder="eve") as locks:
        for number in range(5):
            assert locks.acquire(f"r{number}", ttl=600)
    before, journal = path.read_bytes(), tmp_path / "locks.db-journal"
    journal.write_bytes(rollback_journal(other.read_bytes()))
    gate = tmp_path / "locks.db.gate"
    mark = gate.read_bytes()
    if not marked:
        gate.unlink()
    for attempt in (
        lambda: connect(f"sqlite://{path}"),
        lambda: connect(f"sqlite://{path}", accept_restore=True),
        lambda: copying.copy(str(path), str(tmp_path / "copy.db")),
        lambda: checkup.look(str(path)),
    ):
        with pytest.raises(StoreUnsuitable, match="is a rollback journal"):
            attempt()
    assert path.read_bytes() == before
    journal.unlink()
    gate.write_bytes(mark)
    with connect(f"sqlite://{path}", holder="bob") as locks:
        assert not locks.acquire("x", ttl=60)


def test_a_creation_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    """Only then is there a rollback journal of SQLite's own."""
    (tmp_path / "locks.db").write_bytes(b"\0" * 4096)
    (tmp_path / "locks.db.gate").touch()
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", 0, 1, 0, 512, 4096)
    (tmp_path / "locks.db-journal").write_bytes(head.ljust(512, b"\0"))
    with connect(f"sqlite://{tmp_path}/locks.db", holder="ann") as locks:
        assert locks.acquire("x", ttl=60)
    assert not (tmp_path / "locks.db-journal").exists()


def test_a_backup_is_not_written_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("dear")
    (tmp_path / "copy.db.part").symlink_to(precious)
    with connect(f"sqlite://{tmp_path}/locks.db", holder="ann") as locks:
        assert locks.acquire("x", ttl=60)
    assert copying.copy(str(tmp_path / "locks.db"), str(tmp_path / "copy.db")) > 0
    assert precious.read_text() == "dear"
    assert not (tmp_path / "copy.db").is_symlink()


def test_a_link_that_others_may_replace_is_not_followed(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    link = place / "locks.db"
    link.symlink_to(tmp_path / "precious.db")
    with pytest.raises(StoreUnsuitable, match="is a link"):
        connect(f"sqlite://{link}")
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "locks.db"
    link.symlink_to("real.db")
    tmp_path.chmod(0o700)
    with connect(f"sqlite://{link}", holder="ann") as locks, connect(f"sqlite://{tmp_path}/real.db") as same:
        assert locks.acquire("x", ttl=60)
        assert not same.acquire("x", ttl=60, holder="bob")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a link for another user")
def test_a_link_that_another_user_made_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    link = tmp_path / "theirs"
    link.symlink_to("mine")
    os.lchown(link, STRANGER, STRANGER)
    with pytest.raises(StoreUnsuitable, match="theirs is a link"):
        config.find(f"sqlite://{link}/locks.db")


def test_a_directory_that_is_not_there_is_created_only_if_the_url_says_so(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/mistyped/locks.db"
    with pytest.raises(StoreError, match=r"there is no directory .*/mistyped.*\?create=1"):
        connect(url)
    assert list(tmp_path.iterdir()) == []
    with connect(f"{url}?create=1", holder="ann") as locks:
        assert locks.acquire("x", ttl=60)
    with connect(url, holder="bob") as again:
        assert not again.acquire("x", ttl=60)
    assert (tmp_path / "mistyped").stat().st_mode & 0o777 == 0o700


def plant_state_link(state: Path) -> None:
    """Another user's link, where everybody may write."""
    (state.parent / "mine").mkdir()
    state.chmod(0o1777)
    (state / "leasehold").symlink_to("../mine")
    os.lchown(state / "leasehold", STRANGER, STRANGER)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a link for another user")
@pytest.mark.parametrize("names", [(), ("tokens",), ("local", "x.db"), ("hooks", "x"), ("git",)])
def test_state_is_not_kept_behind_a_link_of_another_user(tmp_path: Path, names: tuple[str, ...]) -> None:
    state = tmp_path / "state"
    state.mkdir()
    plant_state_link(state)
    with pytest.raises(StoreUnsuitable, match=r"is a link that another user made.*XDG_STATE_HOME"):
        paths.state_home({"XDG_STATE_HOME": str(state)}, *names)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("plant", PLANTS)
def test_the_secret_of_a_hook_is_read_from_a_private_file_only(tmp_path: Path, plant: str) -> None:
    occasion = HookCall("claude", "before", session="s", cwd=str(tmp_path))
    env = {"XDG_STATE_HOME": str(tmp_path)}
    first = hook.credential(occasion, env, "")
    assert hook.credential(occasion, env, "") == first
    (kept,) = [each for each in (tmp_path / "leasehold" / "hooks").iterdir() if not each.name.startswith("called-")]
    kept.unlink()
    (tmp_path / "leasehold" / "precious").write_text("known")
    PLANTS[plant](kept)
    with pytest.raises(StoreUnsuitable, match="no private file"):
        hook.credential(occasion, env, "")
    if plant != "a directory":
        kept.unlink()
        kept.write_text("known")
        kept.chmod(0o644)
        with pytest.raises(StoreUnsuitable, match="no private file"):
            hook.credential(occasion, env, "")


@pytest.mark.parametrize("plant", PLANTS)
def test_anything_in_place_of_the_mark_of_a_hook_is_refused_with_words(tmp_path: Path, plant: str) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    hooks = tmp_path / "leasehold" / "hooks"
    hooks.mkdir(parents=True, mode=0o700)
    (tmp_path / "leasehold" / "precious").write_text("dear")
    PLANTS[plant](hooks / "called-claude")
    with pytest.raises(StoreUnsuitable, match="called-claude cannot be written"):
        hook.credential(HookCall("claude", "before", session="s", cwd=str(tmp_path)), env, "")
    assert (tmp_path / "leasehold" / "precious").read_text() == "dear"


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_git_cache_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)
    repository.make(str(cache))  # empty, as a user may have made it
    assert cache.stat().st_mode & 0o777 == 0o700
    repository.make(str(cache))
    cache.chmod(mode)
    with pytest.raises(StoreUnsuitable, match="only you may write"):
        repository.make(str(cache))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a directory for another user")
def test_a_git_cache_of_another_user_is_refused(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    os.chown(cache, 65_534, 65_534)
    with pytest.raises(StoreUnsuitable, match="only you may write"):
        repository.make(str(cache))
