"""The result of one check."""

from __future__ import annotations

from leasehold.domain.nouns import Noun


class Finding(Noun):
    """The result of one check."""

    topic: str
    ok: bool | None
    """True: passed. False: failed. None: a note, or not checked."""
    text: str
    advice: str = ""
    """The next step, if there is one."""
    command: str = ""
    """The command for it, if there is one."""
