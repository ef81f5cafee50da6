"""Failures, each with a stable code. A refusal is an answer (see ``domain.outcomes``), not an exception.

Only a `with lock(...)` block, which has nowhere else to put an answer, raises one: `NotAcquired`, `LeaseLost`.

::

    LeaseholdError            code "error"
    ├── InvalidInput          "invalid"          a caller's argument cannot be understood (also a ValueError)
    ├── StoreError            "store"            the store failed
    │   ├── Conflict          "conflict"         another writer was quicker; the engine decides again
    │   ├── OutcomeUnknown    "outcome_unknown"  it is unknown whether a commit happened
    │   ├── StoreBehind       "store_behind"     the database is older than the fences it has issued
    │   ├── StoreUnsuitable   "store_unsuitable" e.g. a network file system, a newer schema
    │   └── Unreachable       "unreachable"      the store does not answer
    ├── Closed                "closed"           these locks were closed meanwhile
    ├── NotAcquired           "not_acquired"     `lock()` got no lease: `outcome` says why
    ├── LeaseLost             "lost"             the lease of a `lock()` block is gone
    └── StaleFence            "stale_fence"      a later holder has been here (see ``fencing``)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.outcomes import Deadlock, Held, Refused, TimedOut


class LeaseholdError(Exception):
    """Something broke; `code` is stable, `str()` says what happened and what to do next."""

    code = "error"


class InvalidInput(LeaseholdError, ValueError):
    """A caller's argument cannot be understood; `field` names it."""

    code = "invalid"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class StoreError(LeaseholdError):
    """The store said no, or nothing."""

    code = "store"


class Conflict(StoreError):
    """Another process committed first and nothing was written: load again, decide again."""

    code = "conflict"


class OutcomeUnknown(StoreError):
    """The connection died during a commit: it may or may not have happened."""

    code = "outcome_unknown"


class StoreBehind(StoreError):
    """The database is older than the fences that it has given out: it was restored from a backup."""

    code = "store_behind"


class StoreUnsuitable(StoreError):
    """This place cannot keep locks safely: a network file system, a schema from the future."""

    code = "store_unsuitable"


class Unreachable(StoreError):
    """The store or server does not answer."""

    code = "unreachable"


CLOSED = "these locks are closed; connect again"
"""Of whatever is asked after that."""


class Closed(LeaseholdError):
    """These locks were closed while the request was under way, or before."""

    code = "closed"


class NotAcquired(LeaseholdError):
    """A `lock()` got no lease; `outcome` is the answer that `acquire` would have given."""

    code = "not_acquired"

    def __init__(self, outcome: Held | TimedOut | Deadlock | Refused, message: str) -> None:
        super().__init__(outcome, message)
        self.outcome = outcome
        self.message = message

    def __str__(self) -> str:
        return self.message


class LeaseLost(LeaseholdError):
    """The lease of a `lock()` block is gone, or can no longer be counted on: `lease` is its id, `reason` says why."""

    code = "lost"

    def __init__(self, lease: str, reason: str) -> None:
        super().__init__(lease, reason)
        self.lease = lease
        self.reason = reason

    def __str__(self) -> str:
        return f"the lease {self.lease} is lost ({self.reason}); stop working on it, or acquire it anew"


class StaleFence(LeaseholdError):
    """A write under an older lease: the resource has seen the fence `highest`, which is larger than `fence`."""

    code = "stale_fence"

    def __init__(self, fence: int, highest: int, what: str) -> None:
        super().__init__(fence, highest, what)
        self.fence = fence
        self.highest = highest
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.what} has seen fence {self.highest}, and {self.fence} is older: this lease was lost to a later "
            "holder; write nothing more under it"
        )


BY_CODE: dict[str, type[LeaseholdError]] = {
    error.code: error
    for error in (
        LeaseholdError,
        InvalidInput,
        StoreError,
        Conflict,
        OutcomeUnknown,
        StoreBehind,
        StoreUnsuitable,
        Unreachable,
        Closed,
    )
}
"""The classes by their codes, for errors that arrive over the wire. Errors of `lock()` never do."""
