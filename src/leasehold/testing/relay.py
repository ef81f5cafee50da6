"""Relays on loopback between the members of a cluster: one can be cut off from the others, and clients still reach it.

Each member tells the others the address of its relay, so all that they say to each other comes through here. It must
not look into that, but for who begins a connection. Nothing of the machine is changed, and nobody needs to be root.
"""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SELF = "127.0.0.1"
MOST = 1 << 16
_caller = re.compile(rb"^x-peerurls:.*:(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
"""The header that names the caller of a connection: the port of its own relay."""


class Relays:
    """One for each of these ports; `ports` are where they listen, in the same order."""

    def __init__(self, goals: Sequence[int]) -> None:
        self._goals = goals
        self._listening = [socket.create_server((SELF, 0)) for _ in goals]
        self.ports = [each.getsockname()[1] for each in self._listening]
        self._changed = threading.Condition()
        self._alone: int | None = None
        self._is_silent = False
        self._is_closed = False
        self._lines: set[_RelayedConnection] = set()
        for number, listening in enumerate(self._listening):
            _start(partial(self._let_in, number, listening))

    def cut_off(self, number: int, *, silently: bool = False) -> None:
        """Cut this member off from the others.

        Their connections end, and new ones fail; or, silently, none ends and nothing gets through. Data
        under way then arrives late, as in a network, if both sides still want it after `heal`.
        """
        with self._changed:
            self._alone, self._is_silent = number, silently
            lines = tuple(self._lines)
        for line in lines:
            if not silently and self._parts(line):
                line.end()

    def heal(self) -> None:
        """As before."""
        with self._changed:
            self._alone = None
            self._changed.notify_all()

    def lets_pass(self, line: _RelayedConnection) -> bool:
        """Return True if data may pass. While a silent cut lasts, wait instead of returning False."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or not (self._parts(line) and self._is_silent))
            return not (self._is_closed or self._parts(line))

    def _parts(self, line: _RelayedConnection) -> bool:
        """Return True if the cut is between these two, or could be, because the caller is unknown."""
        return self._alone is not None and (line.goal == self._alone or line.caller in (self._alone, None))

    def _let_in(self, number: int, listening: socket.socket) -> None:
        while True:
            try:
                made, _ = listening.accept()
            except OSError:  # closed
                return
            line = _RelayedConnection(self, number, made)
            with self._changed:
                self._lines.add(line)
            _start(line.serve)

    def connect(self, number: int) -> socket.socket:
        """Connect to the member itself."""
        return socket.create_connection((SELF, self._goals[number]), 5)

    def number_of(self, head: bytes) -> int | None:
        """Return the caller, by the head of its first request."""
        found = _caller.search(head)
        port = int(found[1]) if found else 0
        return self.ports.index(port) if port in self.ports else None

    def forget(self, line: _RelayedConnection) -> None:
        """Forget a connection that has ended."""
        with self._changed:
            self._lines.discard(line)

    def close(self) -> None:
        """End everything. Idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            lines = tuple(self._lines)
        for listening in self._listening:
            _shut_down(listening)
            listening.close()
        for line in lines:
            line.end()


class _RelayedConnection:
    """One connection, from a caller to a goal."""

    def __init__(self, relays: Relays, goal: int, made: socket.socket) -> None:
        self._relays = relays
        self.goal = goal
        self.caller: int | None = None
        self._near = made
        self._far: socket.socket | None = None

    def serve(self) -> None:
        """Copy until one side closes the connection."""
        with self._near, suppress(OSError):
            head = self._head()
            self.caller = self._relays.number_of(head)
            if head and self._relays.lets_pass(self):
                with self._relays.connect(self.goal) as far:
                    far.settimeout(None)
                    self._far = far
                    far.sendall(head)
                    back = _start(partial(self._carry, far, self._near))
                    self._carry(self._near, far)
                    back.join()
        self._relays.forget(self)

    def _head(self) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            data = self._near.recv(MOST)
            if not data:
                return b""
            head += data
        return head

    def _carry(self, source: socket.socket, goal: socket.socket) -> None:
        with suppress(OSError):  # one side has closed it
            while data := source.recv(MOST):
                if not self._relays.lets_pass(self):
                    break
                goal.sendall(data)
        self.end()

    def end(self) -> None:
        """Close both connections."""
        _shut_down(self._near)
        if self._far is not None:
            _shut_down(self._far)


def _start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="relay", daemon=True)
    thread.start()
    return thread


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # it is gone already
        sock.shutdown(socket.SHUT_RDWR)
