"""History: every change is listed, newest first, and can be asked for by what it was about (spec 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Collected, Deadlock, Held, Refused, TimedOut
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    SHORT,
    Asking,
    Connect,
    expect,
    inspection,
    needs_history,
    release,
    take,
    take_once_free,
    wait_for,
)

if TYPE_CHECKING:
    from typing import Any

    from leasehold.domain.events import Event
    from leasehold.locks.sync import Locks


def _events(locks: Locks, **query: Any) -> tuple[Event, ...]:
    events = locks.history(**query)
    assert not isinstance(events, Refused), events
    return events


def _kinds(locks: Locks, **query: Any) -> list[str]:
    """Return the events, oldest first."""
    return [event.kind for event in reversed(_events(locks, **query))]


class History:
    """Return the kind and the holder of each event."""

    def test_history_of_a_lease(self, connect: Connect) -> None:
        """From its grant to its release, with what it was for."""
        needs_history(connect)
        alice = connect(holder="alice")
        granted = take(alice, "r", name="build", reason="nightly", context={"n": 1})
        alice.renew(granted.lease.id, granted.token)
        alice.update(granted.lease.id, granted.token, context={"n": 2})
        release(alice, granted)
        events = _events(alice, lease=granted.lease.id)
        assert [event.kind for event in events] == ["released", "updated", "renewed", "granted"]
        assert {(each.holder, each.resources, each.fence) for each in events} == {
            ("alice", ("r",), granted.lease.fence)
        }
        assert events[0].detail["context"] == '{"n":2}'
        assert [event.seq for event in events] == sorted({event.seq for event in events}, reverse=True)
        assert [event.at_us for event in events] == sorted((event.at_us for event in events), reverse=True)

    def test_history_is_kept_when_what_is_old_goes(self, connect: Connect) -> None:
        """Clearing up ends, others are served meanwhile, and what is not old stays."""
        needs_history(connect)
        alice, bob = connect(holder="alice"), connect(holder="bob")
        granted = take(alice, "r")
        clearing = Asking(alice.gc)
        release(alice, granted)
        release(bob, take(bob, "r"))
        assert expect(Collected, clearing.answer()).forgotten == 0
        assert _kinds(alice, resource="r") == ["granted", "released", "granted", "released"]

    def test_history_of_a_wait(self, connect: Connect) -> None:
        """Queued, then granted or timed out or cancelled."""
        needs_history(connect)
        alice, bob = connect(holder="alice"), connect(holder="bob")
        held = take(alice, "r")
        expect(Held, bob.acquire("r", ttl=LONG))
        expect(TimedOut, bob.acquire("r", ttl=LONG, wait=SHORT))
        cancelled = wait_for(bob, "r", request_id="q1")
        bob.cancel("q1")
        cancelled.answer()
        served = wait_for(bob, "r")
        release(alice, held)
        served.answer()
        told = [kind for kind in _kinds(alice, holder="bob") if kind != "renewed"]
        assert told == ["refused", "queued", "timeout", "queued", "cancelled", "queued", "granted"]

    def test_history_of_unclean_ends(self, connect: Connect) -> None:
        """Expired, forced with a name and a reason, quarantined, cleared."""
        needs_history(connect)
        alice = connect(holder="alice")
        take(alice, "r", ttl=SHORT, name="n")
        take_once_free(alice, "r", on_expiry="quarantine")
        alice.force_release("r", by="ops", reason="hangs")
        alice.clear("r", by="ops", reason="looked")
        told = _events(alice, resource="r")
        kinds = [event.kind for event in reversed(told) if event.kind != "refused"]
        assert kinds == ["granted", "expired", "granted", "forced", "quarantined", "cleared"]
        by_kind = {event.kind: event.detail for event in told}
        assert (by_kind["forced"]["by"], by_kind["forced"]["why"]) == ("ops", "hangs")
        assert (by_kind["cleared"]["by"], by_kind["cleared"]["why"]) == ("ops", "looked")
        assert by_kind["expired"]["name"] == "n"

    def test_history_of_a_deadlock(self, connect: Connect) -> None:
        """With the way round."""
        needs_history(connect)
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(alice, "a")
        take(bob, "b")
        wait_for(alice, "b")
        cycle = expect(Deadlock, bob.acquire("a", ttl=LONG, wait=PATIENCE)).cycle
        (event,) = _events(alice, kinds=["deadlock"])
        assert event.holder == "bob"
        assert event.detail["cycle"] == list(cycle)

    def test_history_of_sessions(self, connect: Connect) -> None:
        """Begun, renewed, ended, and what was released with it."""
        needs_history(connect)
        alice = connect(holder="alice")
        alice.start_session(ttl=LONG, session="run.x", name="nightly")
        take(alice, "r", session="run.x")
        alice.renew_session("run.x")
        alice.end_session("run.x")
        told = _events(alice, holder="alice")
        kinds = [event.kind for event in reversed(told)]
        assert kinds == ["session_started", "granted", "renewed", "released", "session_ended"]
        assert {event.session for event in told} == {"run"}

    def test_history_by_what_it_is_about(self, connect: Connect) -> None:
        """By space, resource (in any spelling), holder, lease and kind, and all of these together."""
        needs_history(connect)
        alice, bob = connect(holder="alice"), connect(holder="bob", space="other")
        one = take(alice, ["path:src/a", "b"]).lease
        two = take(alice, "c").lease
        three = take(bob, "c").lease
        assert [event.lease for event in _events(alice)] == [three.id, two.id, one.id]
        assert [event.lease for event in _events(alice, resource="path:./src//a")] == [one.id]
        assert [event.lease for event in _events(alice, resource="b")] == [one.id]
        assert [event.lease for event in _events(alice, resource="c")] == [three.id, two.id]
        assert [event.lease for event in _events(alice, resource="c", space="other")] == [three.id]
        assert [event.lease for event in _events(alice, holder="alice", kinds=["granted"])] == [two.id, one.id]
        assert _events(alice, holder="alice", kinds=["released", "expired"]) == ()
        assert [event.lease for event in _events(alice, lease=two.id)] == [two.id]

    def test_history_by_page(self, connect: Connect) -> None:
        """Events come in pages, each from where the last one ended, and since a moment."""
        needs_history(connect)
        alice = connect(holder="alice")
        leases = [take(alice, f"r{place}").lease for place in range(7)]
        pages: list[tuple[Event, ...]] = [_events(alice, limit=3)]
        while pages[-1]:
            pages.append(_events(alice, limit=3, before=pages[-1][-1].seq))
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        told = [event.lease for page in pages for event in page]
        assert told == [lease.id for lease in reversed(leases)]
        since = _events(alice, since=leases[4].acquired_us)
        assert {event.lease for event in since} >= {lease.id for lease in leases[4:]}
        assert all(event.at_us >= leases[4].acquired_us for event in since)
        assert _events(alice, since=inspection(alice, "r0").now_us + 60_000_000) == ()

    def test_history_is_the_same_for_everybody(self, connect: Connect) -> None:
        """Whichever connection asks, also one that is opened later."""
        needs_history(connect)
        alice = connect(holder="alice")
        release(alice, take(alice, "r"))
        told = _events(alice)
        assert [event.kind for event in told] == ["released", "granted"]
        assert _events(connect(holder="late")) == told
