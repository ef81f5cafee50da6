"""Read the locks of grite itself in this repository, below `refs/grite/locks/`. They are never written.

They count as held by others until they expire, by the clock that grite goes by: this machine's wall clock.
"""

from __future__ import annotations

import json
import subprocess
import time

from leasehold.compat.grite import GriteLock
from leasehold.domain import names
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REFS = "refs/grite/locks/"
_FILE = "lock.json"


def live(common: str) -> list[GriteLock]:
    """Return the locks in this git directory that have not expired. An unreadable one is left out: it holds nothing."""
    listed = _git(common, ["for-each-ref", "--format=%(objectname)", REFS])
    ids = listed.decode("ascii").split()
    if not ids:
        return []
    bodies = _git(common, ["cat-file", "--batch"], "".join(f"{oid}:{_FILE}\n" for oid in ids).encode())
    now = time.time_ns() // 1_000
    locks = [lock for body in _blobs(bodies) if (lock := _lock(body, now)) is not None]
    return [lock for lock in locks if lock.left > 0]


def _git(common: str, words: Sequence[str], give: bytes = b"") -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 (the words are ours)
            ["git", "--git-dir", common, *words],  # noqa: S607 (as the user's PATH has it)
            input=give,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return b""  # without git there is no grite either
    if done.returncode:
        raise LeaseholdError(
            f"grite's locks in {common} cannot be read: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.stdout


def _blobs(data: bytes) -> Iterator[bytes]:
    """Split the output of `cat-file --batch` by object; a missing object is a line without a size."""
    while data:
        line, _, data = data.partition(b"\n")
        size = line.rpartition(b" ")[2]
        if size.isdigit():
            yield data[: int(size)]
            data = data[int(size) + 1 :]


def _lock(body: bytes, now: int) -> GriteLock | None:
    try:
        told = json.loads(body)
        resource = names.parse(told["resource"])
        expires_at = int(told["expires_unix_ms"]) * 1_000
        return GriteLock(resource, str(told["owner"]), str(told["nonce"]), expires_at, expires_at - now)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, names.BadName):
        return None
