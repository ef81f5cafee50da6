"""A network file system is no place for locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.errors import StoreUnsuitable
from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite.files import refuse_network

if TYPE_CHECKING:
    from pathlib import Path

ROOT = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"


def mount(point: str, kind: str) -> str:
    return f"36 21 0:42 / {point} rw,noatime shared:7 master:3 - {kind} server:/export rw,vers=4\n"


NETWORKS = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "lustre", "ceph", "gfs2", "virtiofs", "fuse.sshfs", "fuse.s3fs")
LOCALS = ("ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "fuseblk", "fuse.gocryptfs", "apfs")


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_is_refused_with_the_mount_and_the_alternatives(tmp_path: Path, kind: str) -> None:
    with pytest.raises(StoreUnsuitable) as refusal:
        SqliteStore(str(tmp_path / "new" / "locks.db"), mounts=ROOT + mount(str(tmp_path), kind))
    assert f"({kind}, mounted at {tmp_path})" in str(refusal.value)
    assert "postgresql://" in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", LOCALS)
def test_a_local_disk_is_fine(tmp_path: Path, kind: str) -> None:
    store = SqliteStore(str(tmp_path / "locks.db"), mounts=ROOT + mount(str(tmp_path), kind))
    store.close()


def test_the_innermost_mount_counts() -> None:
    mounts = ROOT + mount("/home", "nfs4") + mount("/home/me/local", "ext4") + mount("/home/me/local/net", "cifs")
    refuse_network("/home/me/local", mounts)
    refuse_network("/home/me/local/x", mounts)
    refuse_network("/homework", mounts)
    refuse_network("/var", mounts)
    for network in ("/home", "/home/me", "/home/me/localnet", "/home/me/local/net/x"):
        with pytest.raises(StoreUnsuitable):
            refuse_network(network, mounts)


def test_the_mount_on_top_counts() -> None:
    refuse_network("/data", ROOT + mount("/data", "nfs") + mount("/data", "ext4"))
    with pytest.raises(StoreUnsuitable):
        refuse_network("/data", ROOT + mount("/data", "ext4") + mount("/data", "nfs"))


def test_a_root_on_the_network_is_refused() -> None:
    with pytest.raises(StoreUnsuitable, match="mounted at /"):
        refuse_network("/anywhere", mount("/", "nfs"))


def test_blanks_and_backslashes_in_mount_points() -> None:
    with pytest.raises(StoreUnsuitable):
        refuse_network("/my files/x", ROOT + mount("/my\\040files", "nfs"))
    with pytest.raises(StoreUnsuitable):
        refuse_network("/back\\slash/x", ROOT + mount("/back\\134slash", "nfs"))


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "net")
    with pytest.raises(StoreUnsuitable):
        refuse_network(str(tmp_path / "link"), ROOT + mount(str(tmp_path / "net"), "nfs"))


@pytest.mark.parametrize("mounts", ["", "nonsense\n", "1 2 3 4 / rw -\n", "\n\n"])
def test_what_cannot_be_read_is_not_held_against_anybody(mounts: str) -> None:
    refuse_network("/anywhere", mounts)


def test_this_very_machine_can_be_looked_at() -> None:
    refuse_network("/")


def test_a_directory_is_refused_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    with pytest.raises(StoreUnsuitable, match="is a directory; name a file in it"):
        SqliteStore(str(tmp_path / "locks"))
    assert [each.name for each in tmp_path.iterdir()] == ["locks"]
