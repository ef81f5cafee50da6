"""How far each webhook got in the history, in a small file that survives a restart. Not for the event loop."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from leasehold.errors import LeaseholdError


class Places:
    """The file: for each hook the number of the last event that it needs not be told again."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._known = self._read()
        self._writing = threading.Lock()

    def _read(self) -> dict[str, int]:
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise LeaseholdError(
                f"{self._path}, which remembers what webhooks were sent, cannot be read ({error}); mend or remove it"
            ) from None
        if not isinstance(found, dict) or not all(type(seq) is int for seq in found.values()):
            raise LeaseholdError(f"{self._path} does not say which webhooks were sent; mend or remove it")
        return found

    def get(self, hook: str) -> int | None:
        """Where it got; None: nobody knows, so it begins with what happens next."""
        return self._known.get(hook)

    def set(self, hook: str, seq: int) -> None:
        """Remember, durably: what is written replaces the file in one step."""
        with self._writing:  # several hooks share the file
            self._known = {**self._known, hook: seq}
            try:
                self._write()
            except OSError as error:
                raise LeaseholdError(f"{self._path} cannot be written: {error.strerror}") from error

    def _write(self) -> None:
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w") as file:
            json.dump(self._known, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
