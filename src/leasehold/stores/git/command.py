"""Run git with a time-out, and without environment variables that would lead it to another repository."""

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
"""Variables that git sets for its hooks. Inherited, they would lead us to the repository that the hook runs for."""
GRACE = 5.0
"""Seconds that git has to exit after SIGTERM."""
SHOWN = 2_000
"""Characters of git's error output that our messages contain."""


class Finished(Noun):
    """The result of a run of git."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """Return git's error output in one line, without its hints."""
        lines = [line.strip() for line in self.err[-SHOWN:].splitlines()]
        kept = [
            line
            for line in lines
            if line and not line.startswith(("hint:", "warning: fetch normally", "but that", "flag"))
        ]
        return " / ".join(kept) or f"git ended with {self.code}"


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for git: no other repository, no prompts, messages in English."""
    kept = {name: value for name, value in env.items() if name not in _ELSEWHERE}
    kept.pop("LANGUAGE", None)
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def run(
    words: Sequence[str], *, give: str = "", env: Mapping[str, str] | None = None, timeout: float = 60.0
) -> Finished:
    """Run git until it exits. Raise `Unreachable` if that takes longer than `timeout` seconds."""
    known = os.environ if env is None else env
    try:
        # A session of its own: an interrupt of ours must not end a push, whose outcome would be unknown then. And ssh,
        # if it needs a password or a host confirmed, finds no terminal and fails at once instead of timing out.
        process = subprocess.Popen(  # noqa: S603 (the words are ours)
            ["git", *words],  # noqa: S607 (as the user's PATH has it)
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(known),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise StoreUnsuitable("git was not found on PATH; install it, or use another store") from None
    try:
        out, err = process.communicate(give.encode("utf-8", "surrogateescape"), timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        verb = next((word for word in words if word in ("fetch", "push", "cat-file", "config", "remote")), "")
        raise Unreachable(f"git {verb} did not answer within {timeout:g} s: the remote cannot be reached") from None
    except BaseException:
        _end(process)
        raise
    return Finished(process.returncode, out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and its child processes, and wait for them.

    If the remote is a path, the server's side is among them: SIGTERM gives it time to remove its lock files.
    """
    for way in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):  # it has exited meanwhile
            os.killpg(process.pid, way)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=GRACE if way == signal.SIGTERM else None)
            return
