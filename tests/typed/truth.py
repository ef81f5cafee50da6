"""What `if` makes of an outcome: the same for mypy, for pyright, for Python and for a module that mypyc compiled.

Both checkers read this strictly, then `main` runs twice: as it stands, and compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from leasehold.domain.api_keys import Key, KeyCreated, KeyRevoked, KeyRotated
from leasehold.domain.leases import Blocker, Lease, Queue
from leasehold.domain.outcomes import (
    Cancelled,
    Cleared,
    Collected,
    Deadlock,
    Granted,
    Held,
    Lost,
    Noted,
    Planned,
    PoolDeclared,
    Queued,
    Refused,
    Released,
    Renewed,
    TimedOut,
    TrespassReported,
    Updated,
)
from leasehold.domain.plans import Plan
from leasehold.domain.sessions import Session, SessionEnded, SessionRenewed, SessionStarted

if TYPE_CHECKING:
    from leasehold.domain.outcomes import Acquired, Outcome

LEASE = Lease("l1-a", "default", ("r",), "ada", None, "exclusive", 1, 7, 60, 0, 60, None, None, None, 0)
BLOCKERS: tuple[Blocker, ...] = ()
SESSION = Session("session", "default", "s1", "ada", "", None, 60, 0, 60)
PLAN = Plan("p1-a", "default", ("r",), "ada", None, None, None, 60, 0, 60, 0)
KEY = Key("k1", "agent", "default", "ada", (), "", 0)

TRUE: tuple[Outcome, ...] = (
    Granted(LEASE, "secret", fresh=True),
    Renewed(LEASE),
    Updated(LEASE),
    Released("l1-a", released=True, reason="completed"),
    Cancelled("waiting"),
    SessionStarted(SESSION, "s1.secret"),
    SessionRenewed(SESSION, ()),
    SessionEnded("s1", ended=True, released=()),
    Cleared(("r",), cleared=True),
    TrespassReported("l1-x", reported=True),
    Noted("r", "back in five minutes"),
    Planned(PLAN, "token"),
    PoolDeclared("pool://gpu", ("gpu-1",)),
    KeyCreated(KEY, "lh_k1_secret"),
    KeyRotated(KEY, "lh_k2_secret", KEY),
    KeyRevoked("k1", revoked=True),
    Collected(0, 0),
)
FALSE: tuple[Outcome, ...] = (
    Held(("r",), BLOCKERS, Queue(0, 1), 1),
    TimedOut(("r",), BLOCKERS, Queue(0, 1), 1),
    Deadlock(("r",), ("ada", "r")),
    Queued("w1-a", Queue(0, 1)),
    Lost("l1-a", "expired"),
    Released("l1-a", released=False, reason="expired"),
    SessionEnded("s1", ended=False, released=("l1-a",)),
    Cleared(("r",), cleared=False),
    TrespassReported("l1-x", reported=False),
    KeyRevoked("k1", revoked=False),
    Refused("invalid", "ttl", "is no duration"),
)


def taken(outcome: Acquired) -> str:
    """The usual question."""
    if outcome:
        assert_type(outcome, Granted)
        return outcome.lease.id
    assert_type(outcome, Held | TimedOut | Deadlock | Refused)
    return "" if isinstance(outcome, Refused) else outcome.resources[0]


def refused(outcome: Acquired) -> str:
    """The same the other way around."""
    if not outcome:
        assert_type(outcome, Held | TimedOut | Deadlock | Refused)
        return type(outcome).__name__
    assert_type(outcome, Granted)
    return outcome.token


def renewed(outcome: Renewed | Lost | Refused) -> int:
    """With `and`, `or` and a conditional expression."""
    fence = outcome.lease.fence if outcome else 0
    is_ours = bool(outcome and outcome.lease.holder == "ada")
    return fence if is_ours or not outcome else -1


def updated(outcome: Updated | Lost | Refused) -> str:
    """Until it is true."""
    while not outcome:
        assert_type(outcome, Lost | Refused)
        return type(outcome).__name__
    assert_type(outcome, Updated)
    return outcome.lease.id


def released(outcome: Released | Refused) -> str:
    """True once; false afterwards, and of a refusal."""
    if outcome:
        assert_type(outcome, Released)
        return outcome.lease
    if isinstance(outcome, Released):
        return outcome.reason
    assert_type(outcome, Refused)
    return outcome.code


def ended(outcome: SessionEnded | Refused, key: KeyRevoked | Refused, cleared: Cleared | Refused) -> bool:
    """As of a release."""
    if outcome and key and cleared:
        assert_type(outcome, SessionEnded)
        return outcome.ended and key.revoked and cleared.cleared
    return False


def started(outcome: SessionStarted | Refused) -> str:
    """A session, or none."""
    return outcome.secret if outcome else outcome.message


def main() -> None:
    """Every branch, with every outcome."""
    assert [type(each).__name__ for each in TRUE if not each] == []
    assert [type(each).__name__ for each in FALSE if each] == []
    granted = Granted(LEASE, "secret", fresh=True)
    held = Held(("r",), BLOCKERS, Queue(0, 1), 1)
    late = TimedOut(("r",), BLOCKERS, Queue(0, 1), 1)
    no = Refused("invalid", "ttl", "is no duration")
    assert (taken(granted), taken(held), taken(late), taken(no)) == ("l1-a", "r", "r", "")
    assert (refused(granted), refused(late), refused(Deadlock(("r",), ()))) == ("secret", "TimedOut", "Deadlock")
    assert (renewed(Renewed(LEASE)), renewed(Lost("l1-a", "expired")), renewed(no)) == (7, 0, 0)
    assert (updated(Updated(LEASE)), updated(Lost("l1-a", "expired"))) == ("l1-a", "Lost")
    once, twice = Released("l1-a", released=True, reason=""), Released("l1-a", released=False, reason="expired")
    assert (released(once), released(twice), released(no)) == ("l1-a", "expired", "invalid")
    over, key = SessionEnded("s1", ended=True, released=()), KeyRevoked("k1", revoked=True)
    clear = Cleared(("r",), cleared=True)
    assert ended(over, key, clear)
    assert not ended(over, KeyRevoked("k1", revoked=False), clear)
    assert not ended(no, key, clear)
    assert (started(SessionStarted(SESSION, "s1.secret")), started(no)) == ("s1.secret", "is no duration")


if __name__ == "__main__":
    main()
