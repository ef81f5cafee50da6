"""What somebody may have put where the files of the database belong: links, FIFOs, devices."""

from __future__ import annotations

import os
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
from leasehold.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

ENDS = ("", ".gate", "-wal", "-shm")


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
    os.lchown(link, 65_534, 65_534)
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
    os.lchown(state / "leasehold", 65_534, 65_534)


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
    (kept,) = (tmp_path / "leasehold" / "hooks").iterdir()
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
