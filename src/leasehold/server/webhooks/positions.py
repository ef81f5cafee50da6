"""How far each webhook got in the history, in a small file that survives a restart. Not for the event loop."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from stat import S_ISREG

from leasehold.errors import LeaseholdError

_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW
"""Another user may have put a symbolic link there."""


class Positions:
    """The file: for each hook the number of the last event that need not be sent again."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._known = self._read()
        self._writing = threading.Lock()

    def _read(self) -> dict[str, int]:
        try:
            found = _load(self._path)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise LeaseholdError(
                f"{self._path}, which records what webhooks were sent, cannot be read ({error}); repair or remove it"
            ) from None
        if not isinstance(found, dict) or not all(type(seq) is int for seq in found.values()):
            raise LeaseholdError(f"{self._path} does not record which webhooks were sent; repair or remove it")
        return found

    def get(self, hook: str) -> int | None:
        """Return the position of a hook, or None for a new one, which begins with the next event."""
        return self._known.get(hook)

    def set(self, hook: str, seq: int) -> None:
        """Save a position durably: the new file replaces the old one in one step."""
        with self._writing:  # several hooks share the file
            self._known = {**self._known, hook: seq}
            try:
                self._write()
            except OSError as error:
                raise LeaseholdError(f"{self._path} cannot be written: {error.strerror}") from error

    def _write(self) -> None:
        beside = self._path.with_name(self._path.name + ".new")
        beside.unlink(missing_ok=True)  # of a process that was killed meanwhile, or planted
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(self._known, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _load(path: Path) -> object:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | _SAFELY), encoding="utf-8") as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no plain file")
        return json.load(file)
