"""Principals: the callers that a server knows. ``permissions`` says what they may do."""

from __future__ import annotations

import msgspec

from leasehold.requests.calls import Authority  # noqa: TC001 (msgspec asks for the types of its fields)


class Principal(msgspec.Struct, frozen=True, gc=False):
    """A caller and its bounds."""

    name: str
    role: str
    """`admin`, `agent`, `viewer` or `session`."""
    space: str
    prefixes: tuple[str, ...] = ()
    id: str = ""
    """The id of the key, `session ` and that of the session, or `open`: its rate is counted under this."""
    session: str | None = None
    """`ID.SECRET`, if the caller is a session."""
    authority: Authority | None = None
    """Its identity for the rules; None on a server without keys, where no caller proves its identity."""
    principal: str = ""
    """The id of the principal, which stays while its keys rotate: shares are counted under it."""
    secret: str | None = None
    """The key as it was sent, which a request has with it that is handed on to another server."""

    def __repr__(self) -> str:
        return f"Principal({self.name!r}, {self.role!r}, {self.space!r}, id={self.id!r})"


OPEN = Principal(name="anonymous", role="admin", space="default", id="open")
"""Every caller of a server without keys."""
