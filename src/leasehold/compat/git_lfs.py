"""The file-locking API of Git LFS in terms of `Locks`: a lock is a lease on a file. It neither listens nor prints.

A client keeps nothing of a lock but its id, which everybody may see. So the lease's context has the request_id of its
acquire, and an unlock is proved as a retry is: by the same principal.
"""

from __future__ import annotations

import json
import os

from leasehold.domain import names
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Granted, Held, Refused, Released
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.domain.leases import Lease
    from leasehold.steps import Steps

    Json = dict[str, Any]

TTL = "24h"
"""A client never renews, and people hold a file for hours."""
WORK = "git lfs lock"
PAGE = 100
_STATUS = {"not_allowed": 403, "too_many": 429, "invalid": 400}
_FORCED = "unlocked by force with git lfs unlock --force"
_REQUEST = "request_id"


class LfsReply(Noun):
    """The status and body of an answer."""

    status: int
    body: Json


class LfsCaller(Noun):
    """The caller, and the repository that it asks for."""

    holder: str
    space: str
    """A repository is a space."""
    principal: str | None = None

    def has(self, lease: Lease) -> bool:
        """True if this caller took the lease. Without keys, every caller of the same name did."""
        return (lease.holder, lease.principal) == (self.holder, self.principal)

    def asked(self, resource: str, request_id: str) -> Json:
        """Return the acquire behind a lock, the same each time."""
        return {
            "resources": resource,
            "ttl": TTL,
            "holder": self.holder,
            "space": self.space,
            "name": WORK,
            "context": {_REQUEST: request_id},
            "request_id": request_id,
        }


def acquire(caller: LfsCaller, path: object) -> Steps[LfsReply]:
    """Lock a file, or answer with the lock in the way."""
    if not isinstance(path, str):
        raise InvalidInput("path", "must be the path of a file, relative to the root of the repository")
    try:
        resource = names.path(path)
    except names.BadName as error:
        raise InvalidInput("path", error.message) from None
    outcome = yield "acquire", caller.asked(resource, f"lfs-{os.urandom(12).hex()}")
    if isinstance(outcome, Granted):
        return LfsReply(201, {"lock": _lock(outcome.lease, path)})
    if not isinstance(outcome, Held):
        return _refusal(outcome)
    first = outcome.blockers[0]
    lock = {"id": first.lease, "path": path, "locked_at": wire.rfc3339(first.since_us), "owner": {"name": first.holder}}
    return LfsReply(409, {"lock": lock, "message": sentence(outcome)})


def locks(caller: LfsCaller, query: Json) -> Steps[LfsReply]:
    """List the locks of the repository, those of one path or of one id if named."""
    found = yield from _files(caller)
    path, id_ = query.get("path"), query.get("id")
    wanted = [each for each in found if path in (None, each[1]) and id_ in (None, each[0].id)]
    page, more = _page(wanted, query)
    return LfsReply(200, {"locks": [_lock(*each) for each in page], **more})


def verify(caller: LfsCaller, query: Json) -> Steps[LfsReply]:
    """List the caller's locks, and those of others, which keep their files from being pushed."""
    page, more = _page((yield from _files(caller)), query)
    ours, theirs = ([_lock(*each) for each in page if caller.has(each[0]) is mine] for mine in (True, False))
    return LfsReply(200, {"ours": ours, "theirs": theirs, **more})


def _files(caller: LfsCaller) -> Steps[list[tuple[Lease, str]]]:
    """Return each lease on a file, with its path, the oldest first."""
    leases = yield "list", {"space": caller.space}
    listed = () if isinstance(leases, Refused) else leases
    pairs = ((lease, names.file_of(name)) for lease in listed for name in lease.resources)
    return [(lease, path) for lease, path in pairs if path is not None]


def _page(found: list[tuple[Lease, str]], query: Json) -> tuple[list[tuple[Lease, str]], Json]:
    cursor, limit = str(query.get("cursor") or "0"), str(query.get("limit") or PAGE)
    if not (cursor.isdecimal() and limit.isdecimal() and 0 < len(cursor) < 10 > len(limit)):
        raise InvalidInput("cursor", "must be the next_cursor of an answer, and limit a number")
    start, end = int(cursor), int(cursor) + max(1, min(int(limit), PAGE))
    return found[start:end], {"next_cursor": str(end)} if end < len(found) else {}


def release(caller: LfsCaller, id_: str, *, force: bool) -> Steps[LfsReply]:
    """Unlock a file that this caller locked; with `force`, for admins, that of another holder."""
    found = yield from _files(caller)
    lease, path = next((each for each in found if each[0].id == id_), (None, ""))
    if lease is None:
        return LfsReply(404, {"message": "there is no lock with this id: it was unlocked, or expired"})
    proof = (yield from _proof(caller, lease)) if caller.has(lease) else None
    if proof is not None:
        ended: Released | Refused = yield "release", {"lease": lease.id, "token": proof}
    elif force:
        ended = yield "force_release", {"target": lease.id, "by": None, "reason": _FORCED, "space": caller.space}
    else:
        return LfsReply(403, {"message": f"{path} is locked by {lease.holder}"})
    return _refusal(ended) if isinstance(ended, Refused) else LfsReply(200, {"lock": _lock(lease, path)})


def _proof(caller: LfsCaller, lease: Lease) -> Steps[str | None]:
    """Return a token of a lock that this caller took here; None for a lease that it took elsewhere."""
    told = json.loads(lease.context) if lease.context else None
    request_id = told.get(_REQUEST) if isinstance(told, dict) else None
    if lease.name != WORK or not isinstance(request_id, str):
        return None
    again = yield "acquire", caller.asked(lease.resources[0], request_id)
    return again.token if isinstance(again, Granted) and again.lease.id == lease.id else None


def _lock(lease: Lease, path: str) -> Json:
    return {
        "id": lease.id,
        "path": path,
        "locked_at": wire.rfc3339(lease.acquired_us),
        "owner": {"name": lease.holder},
    }


def _refusal(outcome: Any) -> LfsReply:  # noqa: ANN401 (any outcome but a yes)
    code = outcome.code if isinstance(outcome, Refused) else "held"
    return LfsReply(_STATUS.get(code, 409), {"message": sentence(outcome)})
