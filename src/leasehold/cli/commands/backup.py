"""backup and restore: copy an embedded store while it is in use, and check that a copy can be restored."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from leasehold.cli.context import accepted
from leasehold.domain.names import shown
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.locks.connect import back_up, connect
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.locks.sync import Locks


def backup(context: Context) -> int:
    """Copy the store into a file, then check the copy."""
    file = context.values["file"]
    size = back_up(context.choice, file)
    data = {"file": file, "bytes": size, **_rehearse(file)}
    return context.end(None, f"Backed up to {shown(file)} ({size} bytes): {_summary(data)}", data)


def restore(context: Context) -> int:
    """Check that a backup can be restored, on a copy of it."""
    file = context.values["file"]
    if not context.values["check"]:
        raise InvalidInput("check", "is missing: this only checks a backup; docs/how-to/backup.md restores it")
    data = {"file": file, "bytes": _size(file), **_rehearse(file)}
    return context.end(None, f"{shown(file)} can be restored: {_summary(data)}", data)


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError as error:
        raise InvalidInput("file", f"{shown(file)} cannot be read: {error.strerror or error}") from None


def _rehearse(file: str) -> dict[str, object]:
    """Restore a copy of the backup, as a restore would, and return what it has."""
    with tempfile.TemporaryDirectory(prefix="leasehold-restore-") as folder:
        copy = Path(folder) / "leasehold.db"
        try:
            shutil.copyfile(file, copy)
            if not copy.read_bytes()[:16].startswith(b"SQLite format 3"):
                raise InvalidInput("file", f"{shown(file)} is no backup: it is not an SQLite database")
            with connect(f"sqlite://{copy}", accept_restore=True) as locks:
                return _content(locks)
        except OSError as error:
            raise LeaseholdError(f"{shown(file)} cannot be checked: {error.strerror or error}") from None


def _content(locks: Locks) -> dict[str, object]:
    newest = accepted(locks.history(limit=1))
    return {
        "leases": len(accepted(locks.list())),
        "sessions": len(accepted(locks.sessions())),
        "keys": len(accepted(locks.keys())),
        "newest": wire.rfc3339(newest[0].at_us) if newest else None,
    }


def _summary(data: dict[str, object]) -> str:
    counts = ", ".join(f"{data[name]} {name}" for name in ("leases", "sessions", "keys"))
    return f"{counts}; the newest event is of {data['newest'] or 'never'}"
