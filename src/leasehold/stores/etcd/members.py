"""Which member of etcd is asked at present, and how to be let in there. It asks nobody."""

from __future__ import annotations

import ssl

from leasehold.errors import StoreError, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasehold.stores.etcd.address import Address

TIMEOUT = 5.0
"""So long may a member take that is there; then the next one is asked."""
CONNECT = 1.0
"""So long it may take to be let in where there are others to ask."""


class Members:
    """The members, one of which is asked until it does not answer."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.turn = 0
        """Goes up with each that did not answer: whoever is connected since another turn connects again."""
        self.moved: Callable[[], None] = _nobody
        """Called when another one is to be asked, by whoever found out."""

    def __len__(self) -> int:
        return len(self.address.members)

    @property
    def present(self) -> tuple[str, int]:
        """Host and port of the one to ask."""
        return self.address.members[self.turn % len(self)]

    def next(self, after: int) -> None:
        """The one of this turn does not answer. Several threads may find out: only the first goes on."""
        if self.turn == after:
            self.turn += 1
            self.moved()

    def silent(self, troubles: Iterable[object]) -> Unreachable:
        """None of them answers: what is told to whoever asked."""
        why = "; ".join(map(str, troubles))
        advice = "see that most of its members run and reach each other"
        return Unreachable(f"no member of etcd at {self.address.place} answers: {why}; {advice}")

    @property
    def patience(self) -> float:
        """So many seconds it may take to be let in."""
        if self.address.connect_timeout is not None:
            return self.address.connect_timeout
        return CONNECT if len(self) > 1 else TIMEOUT

    def tls(self, *protocols: str) -> ssl.SSLContext | None:
        """On what terms to connect; None: in the clear."""
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


def _nobody() -> None:
    """Nobody wants to know."""
