"""The session of a `leasehold run`, to which its command and all processes of the command belong.

The run starts the session, acquires its lease in it, exports it to the command, and ends it with the lease. A session
that the caller gave is used instead, and outlives the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.cli.supervisor.watchdog import now
from leasehold.config import identity
from leasehold.domain import durations
from leasehold.domain.outcomes import Refused, Renewed
from leasehold.domain.sessions import SessionRenewed
from leasehold.domain.timestamps import SECOND

if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.domain.outcomes import Lost

TTL = "60s"
"""The default TTL of a run. It is short because the run renews all the time, and others wait for it after a crash."""
_BEATS = 3
"""Heartbeats in one TTL, while the run waits for its lease."""


def ttl_of(context: Context) -> str | float:
    """Return the TTL as given; otherwise the default, or what is configured if that is shorter."""
    given: str | float | None = context.values["ttl"]
    if given is not None:
        context.seconds("ttl")  # refuses what is no duration
        return given
    configured = context.choice.ttl
    return TTL if durations.parse(configured) > durations.parse(TTL) else configured


class RunSession:
    """The session in which a run holds its lease."""

    def __init__(self, context: Context, credential: str, *, is_own: bool) -> None:
        self.credential = credential
        self._context = context
        self.is_own = is_own
        self._beat_at = now()
        self._every = durations.parse(_life(context)) / SECOND / _BEATS

    def keep(self) -> None:
        """Send a heartbeat if one is due: a session must not end while the run still waits."""
        if self.is_own and now() >= self._beat_at + self._every:
            self._beat_at = now()
            self._context.locks.renew_session(self.credential)

    def renew(self, lease: str, token: str) -> Renewed | Lost | Refused:
        """Renew the lease of the run, and with it the leases that its command took in the session."""
        if self.is_own:
            beat = self._context.locks.renew_session(self.credential)
            own = [each for each in beat.leases if each.id == lease] if isinstance(beat, SessionRenewed) else []
            if own:
                return Renewed(own[0])
        return self._context.locks.renew(lease, token)  # the answer says why it is lost, if it is

    def end(self) -> None:
        """End the session, which releases what the command still holds. A session that the caller gave goes on."""
        if self.is_own:
            self._context.locks.end_session(self.credential)

    def exported(self) -> dict[str, str]:
        """Return the environment variables that make the command part of the session."""
        if self.is_own:
            return identity.marked(self.credential, self._context.choice.url, self._context.space)
        return {identity.SESSION: self.credential}


def open_session(context: Context) -> RunSession | Refused:
    """Return the session that the caller gave, or start one. A run within a run has a session of its own."""
    given = context.session
    if given is not None and not context.is_of_run:
        return RunSession(context, given, is_own=False)
    begun = context.locks.start_session(ttl=_life(context), name=context.values["name"])
    if isinstance(begun, Refused):
        return begun
    return RunSession(context, begun.secret, is_own=True)


def _life(context: Context) -> str | float:
    """Return the session's TTL: that of the lease, but never so short that it expires while the run waits."""
    own = ttl_of(context)
    least = min(durations.parse(TTL), context.choice.rules().ttl_most)
    return own if durations.parse(own) > least else durations.format(least)
