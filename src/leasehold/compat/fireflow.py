"""FireFlow's named locks in terms of `Locks`: any string is a key, times are milliseconds, a lock's id opens it.

It neither connects nor keeps anything: ``leasehold.flow`` has the services that a flow is given.
"""

from __future__ import annotations

import os
from hashlib import sha256
from math import isfinite
from urllib.parse import quote

from leasehold.domain import keys, names
from leasehold.domain.outcomes import Granted, Refused, Released
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from leasehold.steps import Steps

    class LockAcquired(TypedDict):
        """The answer of `acquire`."""

        acquired: bool
        lockId: str

    class LockReleased(TypedDict):
        """The answer of `release`."""

        released: bool


NAMESPACE = "flow:"
_ESCAPED, _DIGESTED = "%", "#"
"""Marks after the namespace for a key that cannot be a name: its bytes escaped, or its beginning and a digest."""
_FIELDS = {"ttl": "lock_ttl_ms", "wait": "wait_timeout_ms", "resource": "lock_key"}
_HEAD = 100


def name_of(key: object) -> str:
    """Return the resource of a key. Keys are compared as written, and different ones never share a name.

    The TypeScript client has the same rule, so that flows in both languages exclude each other.
    """
    if not isinstance(key, str):
        raise InvalidInput("lock_key", f"must be text, not a value of type {type(key).__name__}")
    if not key:
        raise InvalidInput("lock_key", "must not be empty: flows that forgot their key would all share one lock")
    octets = key.encode("utf-8", "surrogatepass")
    if _is_plain(key) and len(octets) <= names.MAX_NAME - len(NAMESPACE):
        return NAMESPACE + key
    escaped = quote(octets, safe="")
    if len(NAMESPACE) + 1 + len(escaped) <= names.MAX_NAME:
        return f"{NAMESPACE}{_ESCAPED}{escaped}"
    return f"{NAMESPACE}{_DIGESTED}{escaped[:_HEAD]}~{sha256(octets).hexdigest()}"


def _is_plain(key: str) -> bool:
    """True if the key can be a part of a name unchanged: printable text without marks."""
    if not key or key.startswith((_ESCAPED, _DIGESTED, "//")) or key[-1].isspace():
        return False
    return not any(
        each < " " or "\x7f" <= each < "\xa0" or each in "\u2028\u2029" or "\ud800" <= each <= "\udfff" for each in key
    )


def _seconds(value: object, field: str, least: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidInput(field, "must be a number of milliseconds")
    if value < least:
        raise InvalidInput(
            field, f"must be at least {least}: a lock always expires" if least else "must not be negative"
        )
    return value / 1000


def new_holder(base: str) -> str:
    """Return a holder for one lock alone: flows that share a service are different holders."""
    return f"{base.encode()[:200].decode('utf-8', 'ignore')}/{os.urandom(6).hex()}"


def acquire(holder: str, space: str, key: object, ttl_ms: object, wait_ms: object) -> Steps[LockAcquired]:
    """Acquire the lock, waiting at most so long."""
    asked = {
        "resources": name_of(key),
        "ttl": _seconds(ttl_ms, "lock_ttl_ms", 1),
        "wait": _seconds(wait_ms, "wait_timeout_ms", 0),
        "holder": holder,
        "space": space,
    }
    outcome = yield "acquire", asked
    if isinstance(outcome, Granted):
        return {"acquired": True, "lockId": f"{outcome.lease.id}.{outcome.token}.{_mark(asked['resources'])}"}
    if isinstance(outcome, Refused):
        if outcome.code == "invalid":
            raise InvalidInput(_FIELDS.get(outcome.field, outcome.field), outcome.message)
        raise LeaseholdError(sentence(outcome))
    return {"acquired": False, "lockId": ""}


def _mark(name: object) -> str:
    """Return the mark in an id that binds it to its key."""
    return sha256(str(name).encode()).hexdigest()[:16]


def release(key: object, lock_id: object) -> Steps[LockReleased]:
    """Release exactly this lock; one that is gone, or was never this key's, is no error."""
    name = name_of(key)
    parts = lock_id.split(".") if isinstance(lock_id, str) else []
    lease, token, mark = parts if len(parts) == 3 else ("", "", "")
    if not (keys.is_lease_id(lease) and token and mark == _mark(name)):
        return {"released": False}
    outcome: Released | Refused = yield "release", {"lease": lease, "token": token}
    return {"released": isinstance(outcome, Released) and outcome.released}
