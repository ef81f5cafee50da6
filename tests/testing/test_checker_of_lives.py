"""The checker finds what is wrong with the lives of leases and of waits, in histories written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain.entries import EMPTY, Hold, Poll, Record, Ref, Request, Waiter
from leasehold.domain.timestamps import FOREVER
from leasehold.testing.checker import Malformed, check, residue_of
from tests.testing.story import Story, waiter

if TYPE_CHECKING:
    from leasehold.domain.entries import Note

# ------------------------------------------------------------------------------------------- leases


@pytest.mark.parametrize("kind", ["renewed", "updated", "released", "forced"])
def test_nothing_happens_to_a_lease_after_its_expiry(kind: str) -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then(kind, 100, ann, expires_at=200)
    assert story.kinds() == {"life"}


@pytest.mark.parametrize("kind", ["renewed", "updated", "released", "expired", "forced", "cancelled"])
@pytest.mark.parametrize("end", ["released", "forced"])
def test_nothing_happens_to_a_lease_after_its_end(kind: str, end: str) -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then(end, 50, ann)
    story.then(kind, 60 if kind not in ("expired", "cancelled") else 100, ann, expires_at=200, expired_at=100)
    assert story.kinds() == {"life"}


@pytest.mark.parametrize("kind", ["renewed", "released", "expired", "forced", "quarantined", "cleared"])
def test_nothing_happens_to_a_lease_that_was_never_granted(kind: str) -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then(kind, 50, ann, expires_at=200, expired_at=50)
    assert {each.kind for each in check(story.events[1:])} == {"life"}


def test_a_loss_that_never_was_is_noticed() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("lost", 50, ann, reason="expired")
    assert story.kinds() == {"life"}


def test_a_lost_lease_may_be_reported() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("expired", 100, ann, expired_at=100)
    story.then("lost", 150, ann, reason="expired")
    assert story.kinds() == set()


def test_a_lease_is_granted_once() -> None:
    story = Story()
    story.grant(0, "ann", "a")
    story.grant(200, "ann", "a")
    assert story.kinds() == {"life"}


def test_a_lease_is_not_granted_for_longer_than_its_ttl() -> None:
    story = Story()
    story.grant(0, "ann", "a", ttl=100, expires_at=101)
    assert story.kinds() == {"life"}


@pytest.mark.parametrize(("at", "expired_at"), [(99, 100), (99, 99), (120, 110), (120, 90)])
def test_expiry_is_neither_reported_early_nor_as_of_another_time(at: int, expired_at: int) -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("expired", at, ann, expired_at=expired_at)
    assert story.kinds() == {"life"}


def test_a_promise_is_not_cancelled_early() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("cancelled", 99, ann)
    assert story.kinds() == {"life"}


def test_a_release_names_the_lease_and_not_its_successor() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("released", 50, ann, fence=ann.fence + 1)
    assert story.kinds() == {"life"}


def test_only_a_closed_resource_is_cleared() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("released", 50, ann)
    story.then("cleared", 60, ann)
    assert story.kinds() == {"life"}


# ------------------------------------------------------------------------------ closed after accidents


@pytest.mark.parametrize("end", ["expired", "forced"])
@pytest.mark.parametrize(("terms", "kind"), [({"grace": 50}, "grace"), ({"quarantine": True}, "quarantine")])
@pytest.mark.parametrize("name", ["path:src", "path:src/a.py", "path:.", "repo:x"])
@pytest.mark.parametrize("mode", ["X", "S"])
def test_nothing_is_granted_where_an_accident_closed_it(
    end: str, terms: dict[str, int], kind: str, name: str, mode: str
) -> None:
    story = Story()
    ann = story.grant(0, "ann", "path:src", "b", mode="S", **terms)
    story.then(end, 100 if end == "expired" else 99, ann, expired_at=100)
    story.grant(140, "bob", name, mode=mode)
    assert story.kinds() == {kind}


def test_a_grace_counts_from_the_expiry_even_if_it_was_noticed_later() -> None:
    story = Story()
    story.grant(0, "ann", "a", grace=50)
    story.grant(149, "bob", "a")
    assert story.kinds() == {"grace"}


def test_a_quarantine_does_not_end_by_itself() -> None:
    story = Story()
    ann = story.grant(0, "ann", "a")
    story.then("forced", 50, ann)
    story.then("quarantined", 50, ann)
    assert story.kinds() == {"life"}  # nobody had asked for it
    story = Story()
    ann = story.grant(0, "ann", "a", quarantine=True)
    story.then("expired", 100, ann, expired_at=100)
    story.grant(10**9, "bob", "a")
    assert story.kinds() == {"quarantine"}


# -------------------------------------------------------------------------------------------- waits


def test_every_wait_ends() -> None:
    story = Story()
    story.queue(0, "ann", "a")
    assert story.kinds() == set()
    assert story.kinds(finished=True) == {"wait"}


@pytest.mark.parametrize("kind", ["timeout", "cancelled", "deadlock"])
def test_a_wait_ends_once(kind: str) -> None:
    story = Story()
    ann = story.queue(0, "ann", "a", wait=5)
    story.leave("cancelled", 1, ann)
    story.leave(kind, 7, ann)
    assert story.kinds() == {"wait"}


def test_a_waiter_that_left_is_never_granted() -> None:
    story = Story()
    ann = story.queue(0, "ann", "a")
    story.leave("cancelled", 1, ann)
    story.grant(2, "ann", "a", waiter=waiter("ann"))
    assert story.kinds() == {"wait"}


def test_a_waiter_past_its_deadline_is_never_granted() -> None:
    story = Story()
    story.queue(0, "ann", "a", wait=5)
    story.grant(5, "ann", "a", waiter=waiter("ann"))
    assert story.kinds() == {"wait"}


def test_a_timeout_is_not_reported_early() -> None:
    story = Story()
    story.leave("timeout", 4, story.queue(0, "ann", "a", wait=5))
    assert story.kinds() == {"wait"}


@pytest.mark.parametrize(
    ("holder", "names", "mode"), [("bob", "ab", "X"), ("ann", "a", "X"), ("ann", "abc", "X"), ("ann", "ab", "S")]
)
def test_a_waiter_gets_what_it_waited_for(holder: str, names: str, mode: str) -> None:
    story = Story()
    story.queue(0, "ann", "a", "b")
    story.grant(1, holder, *names, mode=mode, waiter=waiter("ann"))
    assert story.kinds() == {"wait"}


@pytest.mark.parametrize(("names", "kinds"), [("a", set()), ("b", set()), ("ab", {"wait"}), ("c", {"wait"})])
def test_any_of_gets_one_of_its_choices(names: str, kinds: set[str]) -> None:
    story = Story()
    story.queue(0, "ann", "a", "b", any_of=True)
    story.grant(1, "ann", *names, waiter=waiter("ann"))
    assert story.kinds() == kinds


@pytest.mark.parametrize(("again", "mode"), [(False, "X"), (True, "S")])
def test_no_request_queues_twice_in_one_place(again: bool, mode: str) -> None:
    story = Story()
    story.queue(0, "ann", "a")
    story.queue(1, "ann", "a", again=again, mode=mode)
    assert story.kinds() == {"wait"}


def test_only_a_queued_request_leaves_or_is_served_or_asks_again() -> None:
    story = Story()
    ann = story.queue(0, "ann", "a")
    story.leave("cancelled", 1, ann)
    assert {each.kind for each in check(story.events[1:])} == {"wait"}
    assert check(story.events[1:], whole=False) == []
    story = Story()
    story.queue(0, "ann", "a", again=True)
    assert story.kinds() == {"wait"}


# ------------------------------------------------------------------------------------------ residue


def test_no_lease_is_left_over() -> None:
    story = Story()
    story.grant(0, "ann", "a")
    assert story.kinds() == set()
    assert story.kinds(finished=True) == {"residue"}


@pytest.mark.parametrize("left", ["lease", "waiter"])
def test_a_session_leaves_nothing_behind(left: str) -> None:
    story = Story()
    if left == "lease":
        story.grant(0, "ann", "a", session="s")
    else:
        story.queue(0, "ann", "a", session="s")
    story.tell("session_ended", 5, "ann", (), session="s")
    assert story.kinds() == {"residue"}


def test_no_record_is_left_over() -> None:
    hold = Hold("l1-a", "X", 1, "aann", "ann", 1, 0, FOREVER, 0)
    place = Waiter("w2-a", (0, 2), "X", 1, "abob", "bob", "e", 0, FOREVER)
    notes: dict[str, Note] = {
        "l1-a": Ref("l1-a"),
        "wish": Poll("wish", (), 1, 5),
        "request": Request("request", None, "", 5),
    }
    records = {"na": Record({hold.id: hold}, (place,), {}), "aann": Record({}, (), notes), "nb": EMPTY}
    assert {each.message.split(" is left")[0] for each in residue_of(records)} == {
        "Hold l1-a",
        "Waiter w2-a",
        "Ref l1-a",
        "Poll wish",
    }
    assert {each.kind for each in check([], residue=records)} == {"residue"}


# ---------------------------------------------------------------------------------------- malformed


def test_events_that_are_no_history_are_refused() -> None:
    story = Story()
    story.grant(0, "ann", "a", expires_at="soon")
    with pytest.raises(Malformed, match=r"event 1 .granted. does not tell its expires_at"):
        story.kinds()
