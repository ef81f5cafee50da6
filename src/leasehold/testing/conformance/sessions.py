"""Sessions: the life of one agent run, and what ends with it (spec 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasehold.domain.outcomes import Cancelled, Granted, Held, Lost, Released
from leasehold.domain.sessions import SessionEnded, SessionRenewed, SessionStarted
from leasehold.testing.conformance.asking import (
    LONG,
    PATIENCE,
    Asking,
    Connect,
    expect,
    holders_of,
    inspection,
    leases_of,
    queue_of,
    refused,
    release,
    take,
    timeless,
    until,
    wait_for,
)

if TYPE_CHECKING:
    from leasehold.locks.sync import Locks


def _start(locks: Locks, ttl: float = LONG, **options: str) -> str:
    return expect(SessionStarted, locks.start_session(ttl=ttl, **options)).secret


def id_of(secret: str) -> str:
    """Return the session's id, which is no secret."""
    return secret.partition(".")[0]


class Sessions:
    """Leases that live and end together."""

    def test_sessions_begin(self, connect: Connect) -> None:
        """With an id of their own, a secret, a holder and an end."""
        alice = connect(holder="alice")
        one = expect(SessionStarted, alice.start_session(ttl="10m", name="nightly"))
        two = expect(SessionStarted, alice.start_session(ttl="10m"))
        assert (one.session.holder, one.session.name) == ("alice", "nightly")
        assert one.session.expires_us == one.session.started_us + 600_000_000
        assert one.secret.startswith(f"{one.session.session}.")
        assert one.session.session != two.session.session
        assert one.secret.rpartition(".")[2] not in repr(one.session)

    def test_sessions_hold_leases(self, connect: Connect) -> None:
        """A lease says whose session it is of."""
        alice = connect(holder="alice")
        started = expect(SessionStarted, alice.start_session(ttl=LONG))
        lease = take(alice, "r", session=started.secret).lease
        assert (lease.session, lease.holder) == (started.session.session, "alice")

    def test_sessions_act_in_their_own_name(self, connect: Connect) -> None:
        """With the secret of a session, leases and waits are listed under the session's holder."""
        alice, bob, carol = connect(holder="alice"), connect(holder="bob"), connect(holder="carol")
        secret = _start(alice)
        assert take(bob, ["a", "path:src/x"], session=secret).lease.holder == "alice"
        assert holders_of(carol, "path:src") == holders_of(carol, "a") == ["alice"]
        assert [each.holder for each in expect(Held, carol.acquire("a", ttl=LONG)).blockers] == ["alice"]
        granted = take(carol, "c")
        waiting = Asking(lambda: bob.acquire("c", ttl=LONG, wait=LONG, session=secret))
        until(lambda: queue_of(carol, "c") == ["alice"], "the session is in the queue")
        release(carol, granted)
        assert expect(Granted, waiting.answer()).lease.holder == "alice"
        assert take(bob, "mine").lease.holder == "bob"

    def test_sessions_are_listed(self, connect: Connect) -> None:
        """The living ones, the oldest first, by space; never their secrets."""
        here, there = connect(holder="alice", space="here"), connect(holder="bob", space="there")
        one, two, three = _start(here), _start(here), _start(there)
        here.end_session(one)
        listed = expect(tuple, here.sessions())
        assert [each.session for each in listed] == [id_of(two), id_of(three)]
        assert [each.holder for each in expect(tuple, here.sessions(space="there"))] == ["bob"]
        assert not any(secret.rpartition(".")[2] in repr(listed) for secret in (two, three))

    def test_sessions_that_end_release_everything(self, connect: Connect) -> None:
        """All leases are released and all queues are left, in one step; waiters are served."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        secret = _start(alice)
        leases = [take(alice, name, session=secret) for name in ("a", "b")]
        kept = take(alice, "kept")
        take(alice, "c", holder="carol")
        waiting = wait_for(alice, "c", session=secret)
        served = wait_for(bob, "a")
        ended = expect(SessionEnded, alice.end_session(secret))
        assert ended.ended
        assert sorted(ended.released) == ["a", "b"]
        refused(waiting.answer(), "session_over", "session")
        expect(Granted, served.answer())
        assert queue_of(bob, "c") == []
        assert kept.lease in leases_of(bob)
        assert not expect(Released, alice.release(leases[1].lease.id, leases[1].token)).released

    def test_sessions_end_once(self, connect: Connect) -> None:
        """A second time there is nothing to end, and that is no error."""
        alice = connect(holder="alice")
        secret = _start(alice)
        assert expect(SessionEnded, alice.end_session(secret)).ended
        assert not expect(SessionEnded, alice.end_session(secret)).ended

    def test_sessions_that_expire_release_everything(self, connect: Connect) -> None:
        """No heartbeat: its leases end with it, however long their own TTL, and its waits as well."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        take(bob, "wanted", holder="carol")
        secret = _start(alice, ttl=3)
        lease = take(alice, "r", session=secret).lease
        assert lease.expires_us - lease.acquired_us <= 3_000_000
        waiting = wait_for(alice, "wanted", session=secret)
        granted = expect(Granted, bob.acquire("r", ttl=LONG, wait=PATIENCE))
        assert granted.lease.fence > lease.fence
        refused(waiting.answer(), "session_over", "session")
        until(lambda: queue_of(bob, "wanted") == [], "the session's waiter is gone")
        expect(Lost, alice.renew_session(secret))

    def test_sessions_heartbeat_renews_all(self, connect: Connect) -> None:
        """One call: the session and each of its leases have a full TTL again."""
        alice = connect(holder="alice")
        started = expect(SessionStarted, alice.start_session(ttl=60))
        before = [take(alice, name, session=started.secret, ttl=30).lease for name in ("a", "path:src/x")]
        other = take(alice, "other").lease
        renewed = expect(SessionRenewed, connect().renew_session(started.secret))
        assert renewed.session.expires_us > started.session.expires_us
        assert {lease.id for lease in renewed.leases} == {lease.id for lease in before}
        ends = {lease.id: lease.expires_us for lease in renewed.leases}
        assert all(ends[lease.id] > lease.expires_us for lease in before)
        assert leases_of(alice) == (*map(timeless, renewed.leases), other)

    def test_sessions_heartbeat_keeps_all_alive(self, connect: Connect) -> None:
        """Far beyond the first TTL everything is still held."""
        alice = connect(holder="alice")
        started = expect(SessionStarted, alice.start_session(ttl=2))
        leases = [take(alice, name, session=started.secret, ttl=2).lease for name in ("a", "b")]

        def beyond() -> bool:
            renewed = expect(SessionRenewed, alice.renew_session(started.secret))
            assert len(renewed.leases) == 2
            return renewed.leases[0].expires_us > leases[0].expires_us + 2_500_000

        until(beyond, "the session has outlived its first TTL")
        assert {lease.id for lease in leases_of(alice)} == {lease.id for lease in leases}

    def test_sessions_bound_their_leases(self, connect: Connect) -> None:
        """A renewed lease does not outlive its session either."""
        alice = connect(holder="alice")
        started = expect(SessionStarted, alice.start_session(ttl=60))
        granted = take(alice, "r", session=started.secret, ttl=30)
        alice.renew(granted.lease.id, granted.token, ttl="1h")
        assert inspection(alice, "r").leases[0].expires_us == started.session.expires_us

    def test_sessions_need_their_secret(self, connect: Connect) -> None:
        """The id alone, or a guess, gets nothing."""
        alice, eve = connect(holder="alice"), connect(holder="eve")
        secret = _start(alice)
        guess = secret.partition(".")[0] + ".guess"
        lease = take(alice, "r", session=secret).lease
        refused(eve.acquire("x", ttl=LONG, session=guess), "not_allowed", "session")
        refused(eve.renew_session(guess), "not_allowed", "token")
        refused(eve.end_session(guess), "not_allowed", "token")
        assert leases_of(alice) == (lease,)

    @pytest.mark.parametrize("ending", ["ended", "never was"])
    def test_sessions_that_are_not_there(self, connect: Connect, ending: str) -> None:
        """Nothing can be taken in their name."""
        alice = connect(holder="alice")
        secret = _start(alice) if ending == "ended" else "s1.never"
        alice.end_session(secret)
        refused(alice.acquire("r", ttl=LONG, session=secret), "session_over", "session")
        expect(Lost, alice.renew_session(secret))
        assert leases_of(alice) == ()

    def test_sessions_have_an_id_of_their_own(self, connect: Connect) -> None:
        """While one is alive its id cannot be taken; afterwards it can."""
        alice = connect(holder="alice")
        assert _start(alice, session="run-7.hush") == "run-7.hush"
        refused(alice.start_session(ttl=LONG, session="run-7.other"), "conflict", "session")
        take(alice, "r", session="run-7.hush")
        alice.end_session("run-7.hush")
        assert _start(alice, session="run-7.other") == "run-7.other"
        refused(alice.acquire("r", ttl=LONG, session="run-7.hush"), "not_allowed", "session")
        take(alice, "r", session="run-7.other")

    def test_sessions_that_are_started_again_are_the_same(self, connect: Connect) -> None:
        """With the same secret by the same holder: a retry whose first answer was lost changes nothing."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        first = expect(SessionStarted, alice.start_session(ttl="10m", name="nightly", session="run-7.hush"))
        lease = take(alice, "r", session="run-7.hush").lease
        again = expect(SessionStarted, alice.start_session(ttl="10m", name="nightly", session="run-7.hush"))
        assert again == first
        assert leases_of(alice) == (lease,)
        started = expect(tuple, alice.history(kinds=("session_started",)))
        assert len(started) == connect.capabilities.history
        refused(bob.start_session(ttl="10m", name="nightly", session="run-7.hush"), "conflict", "session")

    def test_sessions_live_in_a_space(self, connect: Connect) -> None:
        """The same id in another space is another session."""
        here, there = connect(space="here"), connect(space="there")
        _start(here, session="run.one")
        _start(there, session="run.two")
        here.end_session("run.one")
        take(there, "r", session="run.two")

    def test_sessions_of_one_holder_are_different_actors(self, connect: Connect) -> None:
        """Re-entrance and request ids belong to the session, not to the name that its holder goes by."""
        alice = connect(holder="alice")
        one, two = _start(alice), _start(alice)
        first = take(alice, "r", session=one, request_id="q")
        assert take(alice, "r", session=one, reentrant=True).lease.id == first.lease.id
        assert not isinstance(alice.acquire("r", ttl=LONG, session=two, reentrant=True), Granted)
        assert not isinstance(alice.acquire("r", ttl=LONG, session=two, request_id="q"), Granted)
        release(alice, first)

    def test_sessions_of_two_holders_in_one_session_never_meet(self, connect: Connect) -> None:
        """Neither replays nor cancels what the other one asked for."""
        alice, bob = connect(holder="alice"), connect(holder="bob")
        secret = _start(alice)
        first = take(alice, "r", session=secret, request_id="q")
        assert not isinstance(bob.acquire("r", ttl=LONG, session=secret, request_id="q"), Granted)
        assert expect(Cancelled, bob.cancel("q", session=secret)).was == "unknown"
        assert take(alice, "r", session=secret, request_id="q").lease.fence == first.lease.fence

    def test_sessions_can_be_ended_by_an_admin(self, connect: Connect) -> None:
        """An admin needs only its id."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        secret = _start(alice)
        take(alice, "r", session=secret)
        assert expect(SessionEnded, ops.end_session(secret.partition(".")[0], admin="ops")).ended
        assert leases_of(ops) == ()

    def test_sessions_ended_by_an_admin_end_like_forced_leases(self, connect: Connect) -> None:
        """The old holder learns by whom and why; what asked for a quarantine gets one."""
        alice, ops = connect(holder="alice"), connect(holder="ops")
        secret = expect(SessionStarted, alice.start_session(ttl=LONG)).secret
        plain, careful = take(alice, "a", session=secret), take(alice, "b", session=secret, on_expiry="quarantine")
        ops.end_session(secret.partition(".")[0], admin="ops", reason="it hangs")
        for granted in (plain, careful):
            lost = expect(Lost, alice.renew(granted.lease.id, granted.token))
            assert lost.reason.startswith("forced by ")
            assert lost.reason.endswith(": it hangs")
        take(ops, "a")
        expect(Held, ops.acquire("b", ttl=LONG))
