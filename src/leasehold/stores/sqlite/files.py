"""The files of a database: create them for their owner, or for a group (see ``file_modes``), and never on a network."""

# Pathlib costs a one-shot process more than all of this.
# ruff: noqa: PTH110, PTH112, PTH116, PTH120, PTH123

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISREG, S_IWOTH

from leasehold.domain.nouns import Noun
from leasehold.errors import StoreError, StoreUnsuitable
from leasehold.stores.sqlite.gate import Gate

_MOUNTS = "/proc/self/mountinfo"

# fmt: off
_NETWORK = frozenset((
    "9p", "acfs", "afs", "beegfs", "ceph", "cephfs", "cifs", "coda", "davfs", "fhgfs", "gfs", "gfs2", "glusterfs",
    "gpfs", "kafs", "lustre", "mfs", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2",
    "smb", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
))
_NETWORK_FUSE = (
    "afp", "alluxio", "beegfs", "blobfuse", "ceph", "curlftpfs", "davfs", "gcsfuse", "geesefs", "gluster", "goofys",
    "grpcfuse", "hadoop", "httpfs", "ipfs", "juicefs", "mfs", "moosefs", "nfs", "osxfs", "rclone", "s3", "seaweedfs",
    "smb", "sshfs", "vmhgfs", "weed",
)
# fmt: on
"""How network file systems in user space are named after `fuse.`; others are unknown."""


class OpenOptions(Noun):
    """How a database is opened."""

    accept_restore: bool
    busy_ms: int
    """Milliseconds to wait for a program that locks the database without a turn at the gate."""
    mounts: str | None
    """Replaces ``/proc/self/mountinfo`` in tests."""
    is_one_shot: bool = False
    """Do not copy the log into the database file at the end, which would cost each command several fsyncs."""
    creates_directory: bool = False


def make_place(path: str, options: OpenOptions) -> Gate:
    """Create the files that are missing, readable for their owner only: names of leases show what people work on."""
    directory = os.path.dirname(path)
    refuse_network(directory, options.mounts)
    try:
        if not os.path.isdir(directory):
            _make_directory(directory, options)
        known = check_files(path)
        if known:
            return Gate(path + ".gate", known)
        from leasehold.stores.sqlite.file_modes import mode_of_files  # noqa: PLC0415 (rare)

        mode = mode_of_files(directory)
        gate = Gate(path + ".gate", mode)
        _refuse_rest(path, gate, options.accept_restore)
        _create(path, mode)
    except OSError as error:
        from leasehold.stores.sqlite.failures import explained  # noqa: PLC0415 (rare)

        raise explained(path, error) from error
    return gate


def _make_directory(directory: str, options: OpenOptions) -> None:
    if not options.creates_directory:
        raise StoreError(
            f"there is no directory {directory}: create it, correct the path, or end the URL with ?create=1"
        )
    from leasehold.stores.sqlite.file_modes import make_directory  # noqa: PLC0415 (rare)

    make_directory(directory)


def check_files(path: str) -> int:
    """Return the mode of the database, 0 if there is none. Refuse files that another user may have put there."""
    found, own = 0, (0, os.geteuid())
    for end in ("", ".gate", "-wal", "-shm", "-journal"):
        try:
            status = os.lstat(path + end)
        except FileNotFoundError:
            continue
        if S_ISDIR(status.st_mode) and not end:
            raise StoreUnsuitable(f"{path} is a directory; name a file in it, such as {path}/leasehold.db")
        if not S_ISREG(status.st_mode):
            raise StoreUnsuitable(
                f"{path}{end} is no plain file but a link, directory, FIFO or device: remove it, or give another path"
            )
        if status.st_uid not in own and os.stat(os.path.dirname(path) or ".").st_mode & S_IWOTH:
            raise StoreUnsuitable(
                f"{path}{end} belongs to another user (uid {status.st_uid}), in a directory that everyone may write: "
                "remove it, or share a directory with a group instead"
            )
        if not end:
            found = status.st_mode & 0o666
        elif end == "-journal":
            _refuse_journal(path)
    return found


def _refuse_journal(path: str) -> None:
    """Refuse a rollback journal: only a database that is being created has one. Later, SQLite would undo grants."""
    if os.path.exists(path + ".gate"):
        gate = Gate(path + ".gate")
        mark, is_new = gate.mark(), gate.is_new()
        gate.close()
        if is_new or (mark is not None and mark.fence == 1):
            return
    raise StoreUnsuitable(
        f"{path}-journal is a rollback journal, which no database of Leasehold has: SQLite would undo changes with it. "
        "Remove it, or give another path"
    )


def _refuse_rest(path: str, gate: Gate, accept_restore: bool) -> None:
    """Refuse to create a database where one is gone: SQLite would delete its log, which may be all that is left."""
    mark = gate.mark()
    if mark is not None and mark.fence > 1 and not accept_restore:
        from leasehold.stores.sqlite.failures import behind  # noqa: PLC0415 (rare)

        gate.close()
        raise behind(path, "the database is gone, and its .gate file is still there")


def _create(path: str, mode: int) -> None:
    """Create an empty file. An existing one is not opened: closing it would drop SQLite's locks in this process."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return  # another process was quicker
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def refuse_network(directory: str, mounts: str | None = None) -> None:
    """Raise `StoreUnsuitable` if the directory is on a network file system.

    `mounts` is the text of ``/proc/self/mountinfo``. Without one (outside of Linux) nothing is refused.
    """
    if mounts is None:
        mounts = _read_mounts()
    point, kind = _mount_of(os.path.realpath(directory), mounts)
    if kind[5:].startswith(_NETWORK_FUSE) if kind.startswith("fuse.") else kind in _NETWORK:
        raise StoreUnsuitable(
            f"{directory} is on a network file system ({kind}, mounted at {point}), where locks between machines do "
            "not hold. Use a directory on a local disk (sqlite:///path), or a server: https://…, postgresql://…, etcd://…"
        )


def _read_mounts() -> str:
    try:
        with open(_MOUNTS, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


def _mount_of(path: str, mounts: str) -> tuple[str, str]:
    """Return mount point and file system type of the mount that this path is on."""
    best, kind = "", ""
    for line in mounts.split("\n"):
        fields = line.split(" ")
        if "-" not in fields[6:-1]:
            continue
        point = _unescape(fields[4])
        # Of mounts on the same point the last one is on top.
        if len(point) >= len(best) and (path == point or path.startswith(point.rstrip("/") + "/")):
            best, kind = point, fields[fields.index("-", 6) + 1]
    return best, kind


def _unescape(point: str) -> str:
    if "\\" not in point:
        return point
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point
