"""Find out if a client can have received an answer that was written to its connection. It changes nothing.

A grant that was written and not read belongs to nobody. Two signs are good enough to release it:

- the client disconnected before all of it had arrived: some of it is still waiting to be sent, or to be acknowledged by
  the client's kernel;
- the client had waited, and reset the connection soon after the grant, without another request. A kernel does so when a
  program ends, or closes the connection, with something unread.

The second sign is no proof: anything on the way may reset a connection, too. So it counts only for requests that had
waited, and only until the lease is renewed (``rules.waiting.give_up``): clients renew what they waited for first.

No sign says if a program that closed the connection properly used what it had read, or what became of a
client whose machine or network failed silently: that lease expires by itself.
"""

from __future__ import annotations

import fcntl
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

SOON = 5.0
"""A later reset says nothing about the last answer: anything between may cut an idle connection."""
WAITED = 0.05
"""Seconds after which a request has waited. A quicker grant was read at once, or is left to its TTL."""
PATIENCE = 1.0
"""A client that retries with the same request_id within so many seconds keeps its grant."""


def is_on_its_way(transport: asyncio.Transport) -> bool:
    """True if some of what was written has not arrived at the client."""
    if transport.get_write_buffer_size():
        return True
    line = transport.get_extra_info("socket")
    if line is None or line.fileno() < 0:
        return False
    (queued,) = struct.unpack("i", fcntl.ioctl(line.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    return bool(queued)
