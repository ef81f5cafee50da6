"""Running git: with nothing inherited that would lead it to another repository, and never for longer than allowed."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

from leasehold.domain.nouns import Noun
from leasehold.errors import StoreUnsuitable, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ELSEWHERE = frozenset(
    (
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    )
)
"""What a hook of git has in its environment, and what would lead us into the repository that the hook runs for."""
GRACE = 5.0
"""So many seconds git has to end when it is told to."""
TOLD = 2_000
"""So much of what git complains about is handed on."""


class Finished(Noun):
    """How a run of git ended."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """What git said about it, without its hints, in one line."""
        lines = [line.strip() for line in self.err[-TOLD:].splitlines()]
        kept = [
            line
            for line in lines
            if line and not line.startswith(("hint:", "warning: fetch normally", "but that", "flag"))
        ]
        return " / ".join(kept) or f"git ended with {self.code}"


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """What git gets to see: no other repository, no questions to nobody, messages that we can read."""
    kept = {name: value for name, value in env.items() if name not in _ELSEWHERE}
    kept.pop("LANGUAGE", None)
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def run(
    words: Sequence[str], *, give: str = "", env: Mapping[str, str] | None = None, timeout: float = 60.0
) -> Finished:
    """Run git to its end. Raises `Unreachable` if it takes longer than `timeout` seconds."""
    known = os.environ if env is None else env
    try:
        # A session of its own: an interrupt of ours must not end a push of which we then could not tell what it did.
        # And whoever would ask somebody on our terminal (ssh, about a host or for a password) is not stopped there
        # until our patience ends, but finds no terminal, and says what it wanted.
        process = subprocess.Popen(  # noqa: S603 (the words are ours)
            ["git", *words],  # noqa: S607 (as the user's PATH has it)
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(known),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise StoreUnsuitable("there is no git on PATH: install it, or keep the locks elsewhere") from None
    try:
        out, err = process.communicate(give.encode("utf-8", "surrogateescape"), timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        raise Unreachable(
            f"git {_verb(words)} did not answer within {timeout:g} s: the remote cannot be reached"
        ) from None
    except BaseException:
        _end(process)
        raise
    return Finished(process.returncode, out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "replace"))


def _verb(words: Sequence[str]) -> str:
    return next((word for word in words if word in ("fetch", "push", "cat-file", "config", "remote")), "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all that it has started, and wait for it.

    With a remote by path that may be the server's side, too: it gets the time to take its lock files away.
    """
    for way in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.killpg(process.pid, way)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=GRACE if way == signal.SIGTERM else None)
            return
