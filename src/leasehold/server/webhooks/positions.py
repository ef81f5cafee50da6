"""How far each webhook got in the history, in a small file that survives a restart. Not for the event loop."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.routing.cursors import cursor_of, text_of

if TYPE_CHECKING:
    from leasehold.routing.cursors import Cursor

_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW
"""Another user may have put a symbolic link there."""


class Positions:
    """The file: for each hook its place in the history: the events up to there need not be sent again.

    A place is one number, as text; in a divided store one for each lane.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._known = self._read()
        self._writing = threading.Lock()

    def _read(self) -> dict[str, str]:
        try:
            found = _load(self._path)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise LeaseholdError(
                f"{self._path}, which records what webhooks were sent, cannot be read ({error}); repair or remove it"
            ) from None
        if not isinstance(found, dict) or not all(
            isinstance(place, str) and place_of(place) for place in found.values()
        ):
            raise LeaseholdError(f"{self._path} does not record which webhooks were sent; repair or remove it")
        return found

    def get(self, hook: str) -> Cursor | None:
        """Return the position of a hook, or None for a new one, which begins with the next event."""
        known = self._known.get(hook)
        return None if known is None else place_of(known)

    def set(self, hook: str, place: Cursor) -> None:
        """Save a position durably: the new file replaces the old one in one step."""
        with self._writing:  # several hooks share the file
            self._known = {**self._known, hook: text_of(place)}
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


def place_of(text: str) -> Cursor | None:
    """Return the place that this text stands for, however many lanes there were; None if it stands for none."""
    return cursor_of(text, text.count("."))


def _load(path: Path) -> object:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | _SAFELY), encoding="utf-8") as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no plain file")
        return json.load(file)
