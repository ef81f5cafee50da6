"""Release the lease as `failed` and end its session, after a `leasehold run` was killed.

The watchdog starts a fresh process for it: the watchdog is a fork, and no database or connection survives a fork.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from leasehold.config.identity import RUN, SESSION

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.cli.supervisor.lease import RunLease

CAUSE = "leasehold run was killed"
_COMMAND = (sys.executable, "-m", "leasehold.cli")


class FinalRelease:
    """The lease and session to release, prepared before the command starts."""

    def __init__(self, context: Context, run_lease: RunLease) -> None:
        self._lease = run_lease.lease.id
        self._token = run_lease.token
        self._session = run_lease.session
        self._env = {
            **{name: value for name, value in os.environ.items() if name not in (SESSION, RUN)},
            "LEASEHOLD_URL": context.choice.url,
            "LEASEHOLD_SPACE": context.space,
        }
        if context.values["max_skew"] is not None:
            self._env["LEASEHOLD_MAX_SKEW"] = context.values["max_skew"]

    def send(self) -> None:
        """Try once each. If the store cannot be reached, the lease expires within the TTL of the run."""
        self._do("release", self._lease, "--token-stdin", "--status", "failed", "--error", CAUSE)
        if self._session.is_own:
            self._do("session", "end", env={SESSION: self._session.credential})

    def _do(self, *words: str, env: dict[str, str] | None = None) -> None:
        subprocess.run(  # noqa: S603 (our own command line)
            [*_COMMAND, *words],
            env=self._env | (env or {}),
            input=self._token,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
