"""Write and read commits as files, without a git process for each. It knows no remote.

A record is one commit without parents and files; its message has everything. So no chain of commits grows, and
`git log` shows each record.
"""

# pathlib is slow, and this runs for every record
# ruff: noqa: PTH104, PTH110, PTH118, PTH123

from __future__ import annotations

import os
import zlib
from hashlib import sha1

from leasehold.domain.timestamps import SECOND
from leasehold.errors import StoreError
from leasehold.stores.git.command import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_EMPTY_TREE = b"tree 0\0"
_WHO = "Leasehold <leasehold@localhost>"


class Objects:
    """The objects of one private repository."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "objects")
        self._repository = directory
        self._tree = ""

    def write(self, message: str, at: int) -> str:
        """Write a commit with this message and time (microseconds); return its id."""
        if not self._tree:
            self._tree = self._put(_EMPTY_TREE)
        stamp = f"{at // SECOND} +0000"
        text = f"tree {self._tree}\nauthor {_WHO} {stamp}\ncommitter {_WHO} {stamp}\n\n{message}"
        body = text.encode("utf-8", "surrogatepass")
        return self._put(b"commit %d\0" % len(body) + body)

    def forget(self) -> None:
        """Write the empty tree again before the next commit: the repository was deleted."""
        self._tree = ""

    def _put(self, whole: bytes) -> str:
        """Write a loose object under its id, unless it is there. The rename makes it appear as a whole."""
        oid = sha1(whole, usedforsecurity=False).hexdigest()
        path = os.path.join(self._directory, oid[:2], oid[2:])
        if os.path.exists(path):
            return oid
        draft = f"{path}.{os.getpid()}"
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o400)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o400)
        with open(descriptor, "wb") as file:
            file.write(zlib.compress(whole, 1))
        os.rename(draft, path)
        return oid

    def read(self, oids: Iterable[str]) -> dict[str, str]:
        """Return the messages of these commits, by id."""
        wanted = list(dict.fromkeys(oids))
        found = {oid: text for oid in wanted if (text := self.read_loose(oid)) is not None}
        packed = [oid for oid in wanted if oid not in found]
        if packed:
            found.update(self._packed(packed))
        return found

    def read_loose(self, oid: str) -> str | None:
        """Return the message of this commit if it is a loose object, otherwise None."""
        try:
            with open(os.path.join(self._directory, oid[:2], oid[2:]), "rb") as file:
                return _message(zlib.decompress(file.read()))
        except FileNotFoundError:
            return None
        except zlib.error as error:
            raise StoreError(
                f"{oid} in {self._repository} is damaged; delete that directory, which is only a cache"
            ) from error

    def _packed(self, oids: list[str]) -> dict[str, str]:
        """Read packed commits, which a large fetch leaves, with one git process for all of them."""
        done = run(["--git-dir", self._repository, "cat-file", "--batch"], give="\n".join(oids) + "\n")
        data = done.out.encode("utf-8", "surrogateescape")
        found: dict[str, str] = {}
        for oid in oids:
            line, _, rest = data.partition(b"\n")
            size = line.rpartition(b" ")[2]
            if not size.isdigit():
                raise StoreError(f"a ref at the remote names {oid}, which is missing there: {os.fsdecode(line)}")
            length = int(size)
            found[oid] = _message(b"commit 0\0" + rest[:length] if b" commit " in line else b"")
            data = rest[length + 1 :]
        return found


def _message(whole: bytes) -> str:
    kind, _, body = whole.partition(b"\0")
    if not kind.startswith(b"commit "):
        return ""  # not written by Leasehold; parsing it raises the error
    return body.partition(b"\n\n")[2].decode("utf-8", "replace")
