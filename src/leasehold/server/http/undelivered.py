"""What can be known of an answer that was written: whether whoever asked can have heard it. It changes nothing.

A grant that was written and not read belongs to nobody. Two signs are good enough to give it back:

- the other side hung up before all of it had arrived there: some of it is still waiting to be sent, or to be
  acknowledged by the other side's kernel;
- the other side reset the connection soon after, without having asked anything else. That is what a kernel does when a
  program ends, or closes the connection, with something unread.

What cannot be known is whether a program that closed the connection properly did anything with what it had read, nor
what became of one whose machine or network went away without a word: there the lease runs out by itself.
"""

from __future__ import annotations

import fcntl
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from typing import Protocol

    class Answered(Protocol):
        """What was answered."""

        def take_back(self) -> None:
            """It was not heard: what was given is given back."""


SOON = 5.0
"""A reset that comes later than this says nothing about the last answer: an idle connection may be cut by anybody."""
PATIENCE = 1.0
"""Whoever asks again with the same request_id within so many seconds keeps what it was given."""


def is_on_its_way(transport: asyncio.Transport) -> bool:
    """Whether some of what was written has not arrived at the other side."""
    if transport.get_write_buffer_size():
        return True
    line = transport.get_extra_info("socket")
    if line is None or line.fileno() < 0:
        return False
    (queued,) = struct.unpack("i", fcntl.ioctl(line.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    return bool(queued)
