"""Check a member that does not answer: whether it is alive and has the same leader as before.

With a slow disk every member takes seconds; failing over would only leave a commit with an unknown outcome. So a member
counts as failed only if it does not report its status either, or if the call may have been lost on its way to a leader:
the member has none, or a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.stores.etcd import messages
from leasehold.stores.etcd.grpc import GrpcConnection

if TYPE_CHECKING:
    import ssl

STATUS = "/etcdserverpb.Maintenance/Status"
SILENCE = 0.5
"""Seconds without an answer after which a member is asked for its status, and seconds that it has to report it."""
TRANSIENT = (4, 14)
"""gRPC status codes of a member that cannot answer now: deadline exceeded, unavailable."""
HEADER = 64
"""Bytes at the beginning of an answer that are sure to contain its response header."""


def member_trouble(place: tuple[str, int], tls: ssl.SSLContext | None, token: str, before: int) -> tuple[str, int]:
    """Say why this member will not answer ("" if it still may), and its raft term (0 if it does not report one).

    `before` is the raft term at the time of the call.
    """
    host, port = place
    try:
        connection = GrpcConnection(host, port, SILENCE, tls)
        try:
            reply = connection.call(STATUS, b"", token)
        finally:
            connection.close()
    except OSError as error:
        return f"it does not report its status, either ({error})", 0
    if reply.status:  # it refuses to say, but it is alive
        return "", 0
    leader, term = messages.status(reply.message)
    if not leader:
        return "it has no leader: it does not reach the majority of the members", term
    return "it has another leader than before" if term > (before or term) else "", term
