"""Our own private repository: a bare one that holds what was fetched and what is about to be pushed. It is a cache.

No clone of the user's is touched: not its index, not its working tree, not one of its refs.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH110, PTH118, PTH123

from __future__ import annotations

import fcntl
import os
import time

from leasehold.errors import StoreError

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfilemode = true\n"
_PAUSE = 0.004


def make(directory: str) -> None:
    """Create it, readable for its owner only, unless it is there."""
    try:
        if os.path.exists(os.path.join(directory, "HEAD")):
            return
        for part in ("objects", "refs"):
            os.makedirs(os.path.join(directory, part), 0o700, exist_ok=True)
        os.chmod(directory, 0o700)  # noqa: PTH101
        for name, text in (("config", _CONFIG), ("HEAD", "ref: refs/heads/none\n")):  # HEAD last: now it is whole
            draft = os.path.join(directory, f"{name}.{os.getpid()}")
            with open(draft, "w", encoding="ascii") as file:
                file.write(text)
            os.rename(draft, os.path.join(directory, name))  # noqa: PTH104
    except OSError as error:
        raise StoreError(
            f"{directory} cannot be used: {error.strerror}; set XDG_STATE_HOME to a directory of yours, or write "
            "?cache=DIRECTORY behind the URL"
        ) from error


class Turn:
    """One process at a time talks to the remote by way of this cache.

    It is not what makes us safe: the remote compares. But whoever would lose there may as well wait here.
    """

    def __init__(self, directory: str, patience: float) -> None:
        self._path = os.path.join(directory, "turn")
        self._patience = patience
        self._fd = -1

    def take(self) -> None:
        """Wait for it."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        end = time.monotonic() + self._patience
        while not self._try():
            if time.monotonic() > end:
                raise StoreError(
                    f"another process has been using {self._path} for {self._patience:.0f} s; is it stopped?"
                )
            time.sleep(_PAUSE)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def give(self) -> None:
        """It is the next one's."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
