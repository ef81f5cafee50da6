"""Why a lease is gone: told as long as it is remembered, and never told wrongly."""

from __future__ import annotations

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.outcomes import Granted, Lost, Released
from leasehold.domain.rules.ending import ENDS_KEPT, FORGOTTEN
from leasehold.domain.timestamps import SECOND
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.testing.asking import asking
from leasehold.testing.world import World

PROOF = c.Proof(token=keys.secret_hash("token"))


class Readers:
    """A crowd that reads the same thing."""

    def __init__(self, number: int) -> None:
        self.world = World()
        self.leases = [self.take(f"reader {place}") for place in range(number)]

    def take(self, holder: str) -> str:
        asked = asking("report", 30, holder, mode="shared")
        granted = self.world.do(checks.acquire(asked, Settings(), "token", ""))
        assert isinstance(granted, Granted), granted
        return granted.lease.id

    def release(self, lease: str) -> Released:
        answer = self.world.do(c.Release(lease, PROOF))
        assert isinstance(answer, Released), answer
        return answer

    def reason(self, lease: str) -> str:
        answer = self.world.do(c.Renew(lease, PROOF, None))
        assert isinstance(answer, Lost), answer
        return answer.reason


def test_of_a_crowd_is_told_or_not_known_but_never_wrong() -> None:
    readers = Readers(ENDS_KEPT + 3)
    readers.world.advance(60 * SECOND)
    assert [readers.reason(lease) for lease in readers.leases] == [FORGOTTEN] * 3 + ["expired"] * ENDS_KEPT
    assert readers.release(readers.leases[0]).reason == FORGOTTEN


def test_of_a_release_is_known_before_there_are_too_many() -> None:
    readers = Readers(ENDS_KEPT)
    readers.release(readers.leases[0])
    readers.world.advance(60 * SECOND)
    assert [readers.reason(lease) for lease in readers.leases] == ["released"] + ["expired"] * (ENDS_KEPT - 1)


def test_of_who_came_after_the_crowd_is_known() -> None:
    readers = Readers(ENDS_KEPT + 3)
    readers.world.advance(60 * SECOND)
    late = readers.take("late")
    assert readers.release(late).released
    assert readers.release(late).reason == "released"
