"""Locks of Terraform's and OpenTofu's `http` backend in terms of `Locks`. It neither listens nor prints.

A client sends the same lock info when it locks and when it unlocks, and never renews. The lock's ID is the request_id,
so the unlock is proved as a retry is: by the same principal, holder and lock info. A lock that expires is quarantined,
since nobody knows how far its run got.
"""

from __future__ import annotations

import json

from leasehold.domain import names
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Granted, Held, Refused, Released
from leasehold.domain.timestamps import FOREVER
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.domain.leases import Blocker, Inspection, Lease
    from leasehold.steps import Steps

    Json = dict[str, Any]

NAMESPACE = "terraform:"
TTL = "2h"
"""So long does a lock live unless the address says otherwise. A run that takes longer loses its lock."""
LOCKED, CONFLICT, FORBIDDEN, TOO_MANY = 423, 409, 403, 429
_STATUS = {"not_allowed": FORBIDDEN, "too_many": TOO_MANY, "invalid": 400}
_FORCED = "unlocked by force with terraform force-unlock"


class TerraformReply(Noun):
    """The status and body of an answer."""

    status: int
    body: Json


class TerraformLock(Noun):
    """One lock that a client asks for."""

    name: str
    info: Json
    """As the client sent it: at least an `ID`."""
    space: str
    ttl: float | str = TTL

    @property
    def resource(self) -> str:
        """The name of its resource."""
        return NAMESPACE + self.name

    def asked(self) -> Json:
        """Return the acquire behind it, the same each time."""
        who, reason = self.info.get("Who"), self.info.get("Info")
        return {
            "resources": self.resource,
            "ttl": self.ttl,
            "space": self.space,
            "holder": who if isinstance(who, str) and who else None,
            "name": _line(f"terraform {self.info.get('Operation') or 'run'}"),
            "reason": _line(reason) if isinstance(reason, str) and reason.strip() else None,
            "context": self.info,
            "on_expiry": "quarantine",
            "request_id": self.info["ID"],
        }


def _line(text: str) -> str:
    return " ".join(names.shown(text).split())[:200]


def lock_info(body: object) -> Json:
    """Return the lock info of a request. Raises `InvalidInput` for anything else."""
    if not isinstance(body, dict) or not isinstance(body.get("ID"), str) or not body["ID"]:
        raise InvalidInput("ID", "the body must be lock info, as Terraform and OpenTofu send it: JSON with an ID")
    return body


def acquire(lock: TerraformLock) -> Steps[TerraformReply]:
    """Lock, or answer with the lock info of the holder."""
    outcome = yield "acquire", lock.asked()
    if isinstance(outcome, Granted):
        return TerraformReply(200, lock.info)
    if isinstance(outcome, Held):
        return TerraformReply(LOCKED, (yield from _holder(lock, outcome.blockers)))
    return _refusal(outcome)


def _holder(lock: TerraformLock, blockers: tuple[Blocker, ...]) -> Steps[Json]:
    """Return the lock info of the lock in the way, made up where its holder is no Terraform."""
    seen: Inspection | Refused = yield "inspect", {"resource": lock.resource, "space": lock.space}
    leases = () if isinstance(seen, Refused) else seen.leases
    info = next((told for lease in leases if (told := _info_of(lease)) is not None), None)
    return info if info is not None else _made_up(lock, blockers[0])


def _info_of(lease: Lease) -> Json | None:
    told = json.loads(lease.context) if lease.context else None
    return told if isinstance(told, dict) and isinstance(told.get("ID"), str) else None


def _made_up(lock: TerraformLock, blocker: Blocker) -> Json:
    """Return lock info whose ID has the reason, too: a refused client shows nothing else of it (Terraform 1.11)."""
    info = blocker.reason or ""
    why = f"{blocker.holder}: {info}" if info else blocker.holder
    if blocker.state in ("grace", "quarantined"):
        why = f"closed, as {blocker.holder} ended uncleanly"
        ends = "until it is cleared" if blocker.until_us == FOREVER else "for a while"
        info = f"the last lock ended uncleanly, so the state is closed {ends}: look at it, then leasehold clear"
    return {
        "ID": f"{blocker.lease} ({_line(why)})",
        "Operation": blocker.name or blocker.state,
        "Info": info,
        "Who": blocker.holder,
        "Version": "",
        "Created": wire.rfc3339(blocker.since_us),
        "Path": lock.name,
    }


def release(lock: TerraformLock) -> Steps[TerraformReply]:
    """Unlock exactly the lock with this ID."""
    seen: Inspection | Refused = yield "inspect", {"resource": lock.resource, "space": lock.space}
    if isinstance(seen, Refused):
        return _refusal(seen)
    mine = next((lease for lease in seen.leases if (_info_of(lease) or {}).get("ID") == lock.info["ID"]), None)
    if mine is None:
        return TerraformReply(
            CONFLICT, {"error": f"{lock.name} is not locked with this ID: it was unlocked or expired"}
        )
    again = yield "acquire", lock.asked()
    if not isinstance(again, Granted) or again.lease.id != mine.id:
        return TerraformReply(FORBIDDEN, {"error": f"the lock with this ID is another's: {sentence(again)}"})
    released: Released | Refused = yield "release", {"lease": mine.id, "token": again.token}
    return TerraformReply(200, {}) if isinstance(released, Released) else _refusal(released)


def force(name: str, space: str) -> Steps[TerraformReply]:
    """Unlock whatever lock there is, and open a closed state: `force-unlock` sends no lock info. For admins."""
    asked = {"by": None, "reason": _FORCED, "space": space}
    released = yield "force_release", {"target": NAMESPACE + name, **asked}
    if isinstance(released, Refused):
        return _refusal(released)
    yield "clear", {"resource": NAMESPACE + name, **asked}
    return TerraformReply(200, {})


def _refusal(outcome: Any) -> TerraformReply:  # noqa: ANN401 (any outcome but a yes)
    code = outcome.code if isinstance(outcome, Refused) else "held"
    return TerraformReply(_STATUS.get(code, CONFLICT), {"error": sentence(outcome)})
