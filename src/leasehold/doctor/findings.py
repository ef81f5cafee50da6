"""What an examination finds, one thing at a time."""

from __future__ import annotations

from leasehold.domain.nouns import Noun


class Finding(Noun):
    """One thing that was looked at."""

    topic: str
    ok: bool | None
    """True: all is well. False: something must be mended. None: worth knowing, or it was not checked."""
    text: str
    advice: str = ""
    """What to do, if anything."""
    command: str = ""
    """The command for it, if there is one."""
