"""The members of etcd, which of them is current, and how to connect to it. No I/O."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from leasehold.errors import StoreError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasehold.stores.etcd.address import EtcdAddress

TIMEOUT = 5.0
"""Seconds that a healthy member may take for an answer; then the next one is called."""
CONNECT = 1.0
"""Seconds that connecting may take if there are other members."""


class Members:
    """The members. One is current until it does not answer."""

    def __init__(self, address: EtcdAddress) -> None:
        self.address = address
        self.count = len(address.members)
        self.turn = 0
        """Incremented by each fail-over: connections of an earlier turn are dropped."""
        self.moved: Callable[[], None] = _ignore
        """Called after each fail-over, by the thread that failed over."""

    @property
    def present(self) -> tuple[str, int]:
        """Host and port of the current member."""
        return self.address.members[self.turn % self.count]

    def next(self, after: int) -> None:
        """Fail over from the member of this turn. Several threads may ask for it: only the first has an effect."""
        if self.turn == after:
            self.turn += 1
            self.moved()

    def silent(self, troubles: Iterable[object]) -> Unreachable:
        """Return the error for a call that no member answered."""
        why = "; ".join(map(str, troubles))
        advice = "see that most of its members run and reach each other"
        return Unreachable(f"no member of etcd at {self.address.place} answers: {why}; {advice}")

    @property
    def patience(self) -> float:
        """Seconds that connecting may take."""
        if self.address.connect_timeout is not None:
            return self.address.connect_timeout
        return CONNECT if self.count > 1 else TIMEOUT

    def tls(self, *protocols: str) -> ssl.SSLContext | None:
        """Return the TLS context for these ALPN protocols, or None without TLS."""
        if not self.address.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.address.ca)
            if self.address.cert is not None:
                context.load_cert_chain(self.address.cert, self.address.key)
        except OSError as error:
            raise StoreError(f"the certificates for etcd cannot be used: {error}") from None
        context.set_alpn_protocols(protocols)
        return context


def _ignore() -> None:
    """Do nothing: no watcher has to move."""
