"""Whether to go on waiting for a member that does not answer: whether it is there, and in touch with the others.

A slow disk makes every call slow, for seconds; then asking elsewhere helps nobody, and leaves a commit of which nobody
knows. So a member is given up only if it does not say how it is, either, or if a call to it may have been lost on its
way to a leader: there is none, or another one than before. It asks; what is given up, others decide.
"""

from __future__ import annotations

from leasehold.stores.etcd import messages
from leasehold.stores.etcd.grpc import GrpcConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

STATUS = "/etcdserverpb.Maintenance/Status"
SILENCE = 0.5
"""After so many seconds without an answer a member is asked how it is; and so long it has to say it."""
TRANSIENT = (4, 14)
"""gRPC codes of a member that cannot answer now: deadline exceeded, unavailable."""
HEADER = 64
"""In so many bytes at the beginning of an answer it says from when it is."""


def member_trouble(place: tuple[str, int], tls: ssl.SSLContext | None, token: str, before: int) -> tuple[str, int]:
    """Why not to wait on for the answer of this member, in words; nothing, if it may still come.

    And how often it says that a leader was elected, 0 if it does not say; when it was asked, that was `before`.
    """
    host, port = place
    try:
        connection = GrpcConnection(host, port, SILENCE, tls)
        try:
            reply = connection.call(STATUS, b"", token)
        finally:
            connection.close()
    except OSError as error:
        return f"it does not say how it is, either ({error})", 0
    if reply.status:  # it answers, although it does not want to say
        return "", 0
    leader, term = messages.status(reply.message)
    if not leader:
        return "it has no leader, as it does not reach most of the members", term
    return "it has another leader than before" if term > (before or term) else "", term
