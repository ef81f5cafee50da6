"""Ways to take a lease from its holder. No tests in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.domain.outcomes import Cleared, Granted, Released
from leasehold.domain.sessions import SessionEnded, SessionStarted

if TYPE_CHECKING:
    from leasehold.locks.sync import Locks

NAME = "deploy://taken"
WAYS = ("force-release", "steal", "session", "session by an admin", "quarantine")


class Taking:
    """One lease on `NAME`, and how it will be taken."""

    def __init__(self, way: str, ops: Locks) -> None:
        self.way = way
        self.options: dict[str, Any] = {}
        """What the holder acquires it with."""
        self._ops = ops
        self._token = ""
        self._lease = ""
        self.session = ""
        if way.startswith("session"):
            started = ops.start_session(ttl="24h", holder="a")
            assert isinstance(started, SessionStarted), started
            self.session = self.options["session"] = started.secret
        if way == "quarantine":
            self.options["on_expiry"] = "quarantine"

    def take(self) -> None:
        """Take it away."""
        if self.way == "steal":
            granted = self._ops.steal(NAME, ttl=60, by="ops", reason="test", holder="thief")
            assert isinstance(granted, Granted), granted
            self._lease, self._token = granted.lease.id, granted.token
        elif self.way == "session":
            ended = self._ops.end_session(self.session)
            assert isinstance(ended, SessionEnded), ended
            assert ended.ended
        elif self.way == "session by an admin":
            ended = self._ops.end_session(self.session.partition(".")[0], admin="ops", reason="test")
            assert isinstance(ended, SessionEnded), ended
            assert ended.ended
        else:
            released = self._ops.force_release(NAME, by="ops", reason="test")
            assert isinstance(released, Released), released
            assert released.released

    def clean_up(self) -> None:
        """Leave the name free for the next one."""
        if self.way == "steal":
            assert isinstance(self._ops.release(self._lease, self._token), Released)
        if self.way == "quarantine":
            assert isinstance(self._ops.clear(NAME, by="ops", reason="test"), Cleared)
