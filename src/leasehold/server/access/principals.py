"""Who asks, in a few words. What they may do is in ``permissions``."""

from __future__ import annotations

import msgspec

from leasehold.requests.calls import Authority  # noqa: TC001 (msgspec asks for the types of its fields)


class Principal(msgspec.Struct, frozen=True, gc=False):
    """Who asks, and within which bounds."""

    name: str
    role: str
    """`admin`, `agent`, `viewer` or `session`."""
    space: str
    prefixes: tuple[str, ...] = ()
    id: str = ""
    """What its rate is counted under: the id of the key or of the session."""
    session: str | None = None
    """`ID.SECRET`, if it is a session that asks."""
    authority: Authority | None = None
    """What the rules are told of it; None: nobody has to prove who asks."""
    principal: str = ""
    """The id of the principal, which stays while its keys rotate: what is shared is counted under it."""


OPEN = Principal(name="anonymous", role="admin", space="default", id="open")
"""Whoever asks a server that asks for nothing."""
