"""Whether to go on waiting for a member that does not answer: whether it is there, and in touch with the others.

A slow disk makes every call slow, for seconds; then asking elsewhere helps nobody, and leaves a commit of which nobody
knows. So a member is given up only if it does not say how it is, either, or if a call to it may have been lost on its
way to a leader: there is none, or another one than before. It asks; what is given up, others decide.
"""

from __future__ import annotations

from leasehold.stores.etcd import http2, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

STATUS = "/etcdserverpb.Maintenance/Status"
SILENCE = 0.5
"""After so many seconds without an answer a member is asked how it is; and so long it has to say it."""
HEADER = 64
"""In so many bytes at the beginning of an answer it says from when it is."""


def is_worth_waiting(place: tuple[str, int], tls: ssl.SSLContext | None, token: str, before: bytes) -> bool:
    """Whether the answer of this member may still come; the last one of any began like this."""
    host, port = place
    asked = http2.head(STATUS, f"{host}:{port}", token, tls=tls is not None)
    try:
        connection = http2.Connection(host, port, SILENCE, tls)
        try:
            reply = connection.call(asked, b"")
        finally:
            connection.close()
    except OSError:
        return False
    if reply.status:  # it answers, although it does not want to say
        return True
    leader, term = messages.status(reply.message)
    return bool(leader) and term <= (messages.term(before) or term)
