"""A request_id that says it is sent for the first time: noted in its lease alone, until a second copy comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.outcomes import Cancelled, Granted, Held, Queued, Refused
from leasehold.domain.timestamps import SECOND
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.testing.asking import asking
from leasehold.testing.world import World

if TYPE_CHECKING:
    from leasehold.domain.entries import Hold

HERE = keys.engine("here")
THING = {"resources": "thing"}
CHOICE = {"resources": ["taken", "thing"], "any_of": True}
SEVERAL = {"resources": ["thing", "other"]}


class Scene:
    """Somebody's request, in as many copies as are needed."""

    def __init__(self, **asked: object) -> None:
        self.world = World()
        self.world.do(c.Beat(HERE, 3 * SECOND), HERE)
        self._asked = asked
        self.other = self.send("other", holder="bob", resources="taken", any_of=False, request_id=None)

    def send(self, token: str, **asked: object) -> object:
        asked = asking("thing", 30, "ann", request_id="r") | self._asked | asked
        return self.world.do(checks.acquire(asked, Settings(), token, HERE), HERE)

    def first(self, token: str = "one", **asked: object) -> object:
        return self.send(token, first=True, **asked)

    def granted(self, answer: object) -> Granted:
        assert isinstance(answer, Granted), answer
        return answer

    def release(self, lease: str, token: str) -> None:
        self.world.do(c.Release(lease, c.Proof(token=keys.secret_hash(token))), HERE)

    @property
    def notes(self) -> list[str]:
        return [key for key, record in self.world.records.items() if key.startswith("q") and record.notes]

    @property
    def holds(self) -> list[Hold]:
        return [
            hold for record in self.world.records.values() for hold in record.holds.values() if hold.holder == "ann"
        ]


@pytest.fixture(params=[THING, CHOICE, SEVERAL], ids=["one", "choice", "several"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(**request.param)


def test_it_is_granted_without_a_note(scene: Scene) -> None:
    scene.granted(scene.first())
    assert scene.notes == []


def test_a_copy_gets_the_same_lease_and_does_not_extend_it(scene: Scene) -> None:
    one = scene.granted(scene.first())
    scene.world.advance(SECOND)
    two = scene.granted(scene.send("two"))
    assert (two.lease.id, two.lease.fence, two.lease.expires_us) == (
        one.lease.id,
        one.lease.fence,
        one.lease.expires_us,
    )
    assert (one.fresh, two.fresh) == (True, False)
    scene.release(one.lease.id, "two")
    assert scene.holds == []


@pytest.mark.parametrize("late", [True, False], ids=["first", "second"])
def test_no_late_copy_is_granted_what_was_released(scene: Scene, late: bool) -> None:
    """Whichever of the two was under way for so long."""
    one = scene.granted(scene.first())
    scene.granted(scene.send("two"))
    scene.release(one.lease.id, "two")
    answer = scene.send("late", first=late)
    assert isinstance(answer, Refused)
    assert answer.code == "spent"
    assert scene.holds == []


def test_a_first_copy_that_comes_second_gets_the_same_lease(scene: Scene) -> None:
    two = scene.granted(scene.send("two"))
    one = scene.granted(scene.first())
    assert one.lease.id == two.lease.id
    scene.release(one.lease.id, "two")
    assert isinstance(scene.first("late"), Refused)


def test_another_request_of_the_same_holder_is_another_request(scene: Scene) -> None:
    scene.granted(scene.first())
    assert isinstance(scene.send("two", request_id="r2", resources="thing", any_of=False), Held)


def test_a_copy_asks_anew_when_the_lease_ran_out_before_anybody_was_told(scene: Scene) -> None:
    one = scene.granted(scene.first())
    scene.world.advance(31 * SECOND)
    two = scene.granted(scene.send("two"))
    assert two.fresh
    assert two.lease.fence > one.lease.fence
    assert isinstance(scene.send("three"), Granted)
    assert len({hold.id for hold in scene.holds}) == 1


def test_a_grant_that_nobody_heard_of_is_released_unless_a_copy_came(scene: Scene) -> None:
    one = scene.granted(scene.first())
    request = keys.request(keys.actor("default", "ann", None), "r", "ann")
    gone = c.GiveUp(one.lease.id, keys.secret_hash("one"), request)
    two = scene.granted(scene.send("two"))
    scene.world.do(gone, HERE)
    assert {hold.id for hold in scene.holds} == {two.lease.id}
    scene.release(two.lease.id, "two")

    other = Scene()
    lease = other.granted(other.first()).lease.id
    other.world.do(gone._replace(id=lease), HERE)
    assert other.holds == []
    assert other.granted(other.send("two")).fresh


def test_a_place_in_a_queue_is_noted(scene: Scene) -> None:
    queued = scene.first(resources="taken", any_of=False, wait=20)
    assert isinstance(queued, Queued)
    assert len(scene.notes) == 1
    again = scene.send("two", resources="taken", any_of=False, wait=20)
    assert isinstance(again, Queued)
    assert again.waiter == queued.waiter


def test_a_first_copy_that_comes_late_takes_no_place_from_a_later_one(scene: Scene) -> None:
    """Its caller has sent another copy since, which waits, or was promised the lease already."""
    asked = {"resources": "taken", "any_of": False, "wait": 20}
    waiting = scene.send("two", **asked)
    assert isinstance(waiting, Queued)
    elsewhere = keys.engine("elsewhere")

    def late() -> object:
        said = asking("taken", 30, "ann", request_id="r", wait=20, first=True)
        return scene.world.do(checks.acquire(said, Settings(), "late", elsewhere), elsewhere)

    for _ in range(2):
        answer = late()
        assert isinstance(answer, Refused)
        assert answer.code == "spent"
        proof = c.Proof(token=keys.secret_hash("other"))
        scene.world.do(c.Release(scene.granted(scene.other).lease.id, proof), elsewhere)
    assert scene.granted(scene.send("three", **asked)).lease.id == scene.holds[0].id


def test_it_can_be_withdrawn(scene: Scene) -> None:
    """The caller can cancel it, for good; its other leases stay."""
    one = scene.granted(scene.first())
    kept = scene.granted(scene.send("kept", resources="kept", any_of=False, request_id="k"))
    actor = keys.actor("default", "ann", None)
    guess = scene.world.do(c.Cancel(keys.request(actor, "r", "ann"), actor=actor), HERE)
    assert isinstance(guess, Refused)
    assert (guess.code, len(scene.holds)) == ("not_allowed", 1 + len(one.lease.resources))
    proof = c.Proof(token=keys.secret_hash("one"))
    for request, was in (("another", "unknown"), ("r", "granted"), ("r", "unknown")):
        outcome = scene.world.do(c.Cancel(keys.request(actor, request, "ann"), actor=actor, proof=proof), HERE)
        assert outcome == Cancelled(was)
    assert [hold.id for hold in scene.holds] == [kept.lease.id]
    assert one.lease.id not in {hold.id for hold in scene.holds}
    for late in (scene.first("late"), scene.send("later")):
        assert isinstance(late, Refused)
        assert late.code == "cancelled"
