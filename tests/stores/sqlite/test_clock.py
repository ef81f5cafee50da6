"""The store's time: untouched by steps of the wall clock, never backwards, and kind to survivors of a reboot."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from leasehold import connect
from leasehold.domain import keys
from leasehold.domain.entries import End, Hold, Poll, Presence, Put, Ref, Request
from leasehold.domain.rules.reboot import after_reboot
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.stores.sqlite import SqliteStore
from leasehold.stores.sqlite import clock as module_of_the_clock
from leasehold.stores.sqlite.clock import BootClock, WallClock, system_clock
from tests.kit.samples import MINUTE, SPACE, FakeClock, ask, commit, entries, hold, node, waiter

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.stores.sqlite.clock import Clock


def now(store: SqliteStore) -> int:
    transaction = store.begin()
    transaction.close()
    reading, _ = store.read([])
    assert reading == transaction.now
    return transaction.now


def test_it_starts_with_the_wall_clock(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    assert now(store) == clock.wall()
    clock.pass_time(7 * SECOND)
    assert now(store) == clock.wall()
    store.close()


@pytest.mark.parametrize("step", [-400 * 24 * 60 * MINUTE, -MINUTE, MINUTE, 400 * 24 * 60 * MINUTE])
def test_a_step_of_the_wall_clock_has_no_effect(path: Path, step: int) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    before = now(store)
    clock.step_wall(step)
    clock.pass_time(SECOND)
    assert now(store) == before + SECOND
    commit(store, Put("na", Ref("x")))
    store.close()
    clock.step_wall(step)
    clock.pass_time(SECOND)
    reopened = SqliteStore(str(path), clock=clock)
    assert now(reopened) == before + 2 * SECOND
    reopened.close()


def test_it_never_runs_backwards_not_even_with_a_clock_that_does(path: Path) -> None:
    class Backwards(FakeClock):
        def elapsed(self) -> int:
            return self.wall()

    clock = Backwards()
    store = SqliteStore(str(path), clock=clock)
    clock.pass_time(MINUTE)
    committed = commit(store, Put("na", Ref("x")))
    clock.step_wall(-10 * MINUTE)
    assert now(store) == committed
    clock.step_wall(20 * MINUTE)
    told = now(store)
    clock.step_wall(-20 * MINUTE)
    assert now(store) == told > committed
    store.close()
    reopened = SqliteStore(str(path), clock=clock)
    assert now(reopened) == committed
    reopened.close()


@pytest.mark.parametrize("down", [-300 * MINUTE, 10 * SECOND, 300 * MINUTE])
def test_after_a_reboot_survivors_get_a_full_ttl(path: Path, down: int) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    started = now(store)
    terms = ask("a", "b", ttl=30 * MINUTE)
    home = hold(1, "a", "b", now=started, of=terms)
    elsewhere = home._replace(ask=None)
    clock.pass_time(20 * MINUTE)
    last = commit(store, Put(node("a"), home), Put(node("b"), elsewhere), Put(home.actor, Ref(home.id)))
    store.close()
    clock.reboot(after=down)
    revived = SqliteStore(str(path), clock=clock)
    assert now(revived) == max(clock.wall(), last)
    ends = now(revived) + 30 * MINUTE
    assert entries(revived, node("a")) == {home.id: home._replace(expires_at=ends)}
    assert entries(revived, node("b")) == {home.id: elsewhere._replace(expires_at=ends)}
    assert entries(revived, home.actor) == {home.id: Ref(home.id)}
    revived.close()
    clock.pass_time(MINUTE)
    again = SqliteStore(str(path), clock=clock)  # the same boot: nothing is renewed a second time
    assert entries(again, node("a")) == {home.id: home._replace(expires_at=ends)}
    again.close()


def test_what_is_due_is_known_after_a_reboot(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    home = hold(1, "a", now=now(store))
    commit(store, Put(node("a"), home))
    store.close()
    clock.reboot(after=300 * MINUTE)
    revived = SqliteStore(str(path), clock=clock)
    transaction = revived.begin()
    assert transaction.due(10) == []
    transaction.close()
    clock.pass_time(30 * MINUTE)
    transaction = revived.begin()
    assert transaction.due(10) == [node("a")]
    transaction.close()
    revived.close()


def test_waits_end_with_the_machine(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    gone = waiter(5, "a")
    commit(
        store,
        Put(node("a"), gone),
        Put(node("b"), gone._replace(ask=None)),
        Put(gone.actor, Ref(gone.id)),
        Put(gone.actor, Poll("wish", (), 1, now(store) + MINUTE)),
        Put("qa", Request("request", gone.id, "", now(store) + MINUTE)),
        Put("ea", Presence("presence", now(store) + SECOND)),
    )
    store.close()
    clock.reboot(after=SECOND)
    revived = SqliteStore(str(path), clock=clock)
    assert entries(revived, node("a"), node("b"), gone.actor, "qa", "ea") == {}
    revived.close()


def test_more_entries_than_fit_into_one_piece(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    names = [str(number) for number in range(2_500)]
    started = now(store)
    homes = [hold(number, name, now=started) for number, name in enumerate(names, 1)]
    commit(store, *(Put(node(name), home) for name, home in zip(names, homes, strict=True)))
    store.close()
    clock.reboot(after=MINUTE)
    revived = SqliteStore(str(path), clock=clock)
    ends = now(revived) + 30 * MINUTE
    assert {each.expires_at for _, record in revived.scan("n") for each in record.holds.values()} == {ends}
    assert sum(1 for _ in revived.scan("n")) == 2_500
    revived.close()


# ------------------------------------------------------------------------------ the rule by itself

LAST, NOW = 1_000 * SECOND, 9_000 * SECOND
HELD = hold(1, "a", now=LAST - SECOND)


def revived(entry: Hold, ends: dict[str, int] | None = None) -> int:
    after = after_reboot(entry, LAST, NOW, ends or {})
    assert isinstance(after, Hold)
    assert after._replace(expires_at=0) == entry._replace(expires_at=0)
    return after.expires_at


def test_what_had_expired_is_not_revived() -> None:
    assert revived(HELD._replace(expires_at=LAST)) == LAST
    assert revived(HELD._replace(expires_at=LAST - 1)) == LAST - 1
    assert revived(HELD._replace(expires_at=LAST + 1)) == NOW + 30 * MINUTE


def test_a_closed_resource_stays_closed_as_long_again() -> None:
    closed = HELD._replace(closed=True, after=20 * SECOND, expires_at=LAST + SECOND)
    assert revived(closed) == NOW + 20 * SECOND
    assert revived(closed._replace(after=FOREVER, expires_at=FOREVER)) == FOREVER


def test_a_promise_to_a_dead_waiter_ends() -> None:
    assert revived(HELD._replace(ticket=waiter(1, "a").id, expires_at=NOW + SECOND)) == NOW
    assert revived(HELD._replace(ticket=waiter(1, "a").id, expires_at=LAST + SECOND)) == LAST + SECOND


def test_other_holds_follow_their_home() -> None:
    assert revived(HELD._replace(ask=None), {HELD.id: NOW + 5}) == NOW + 5
    assert revived(HELD._replace(ask=None)) == HELD.expires_at


def test_a_lease_does_not_outlive_its_session() -> None:
    terms = ask("a", session="s1")
    actor = keys.actor(SPACE, terms.holder, "s1")
    leased = hold(1, "a", now=LAST, of=terms)
    assert leased.actor == actor
    assert revived(leased, {actor: NOW + SECOND}) == NOW + SECOND
    assert revived(leased, {actor: NOW + 31 * MINUTE}) == NOW + 30 * MINUTE
    assert revived(leased) == NOW


def test_a_session_gets_a_full_ttl_unless_it_was_over() -> None:
    session = Session("session", SPACE, "s1", "coder-3", "", None, 5 * MINUTE, 1, LAST + 1)
    assert after_reboot(session, LAST, NOW, {}) == session._replace(expires_us=NOW + 5 * MINUTE)
    over = session._replace(expires_us=LAST)
    assert after_reboot(over, LAST, NOW, {}) == over


def test_ends_and_requests_are_kept_as_long_again() -> None:
    end = End("end-l1", "expired", LAST, LAST + 7)
    assert after_reboot(end, LAST, NOW, {}) == end._replace(until=NOW + 7)
    request = Request("request", HELD.id, "", LAST + 7)
    assert after_reboot(request, LAST, NOW, {}) == request._replace(until=NOW + 7)
    assert after_reboot(request._replace(became=None), LAST, NOW, {}) is not None
    assert after_reboot(request._replace(became="timeout"), LAST, NOW, {}) is not None


def test_a_session_and_its_leases_in_the_store(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(str(path), clock=clock)
    started = now(store)
    terms = ask("a", session="s1")
    leased = hold(1, "a", now=started, of=terms)
    session = Session("session", SPACE, "s1", terms.holder, "", None, 5 * MINUTE, started, started + 5 * MINUTE)
    commit(store, Put(node("a"), leased), Put(leased.actor, session), Put(leased.actor, Ref(leased.id)))
    store.close()
    clock.reboot(after=MINUTE)
    revived_store = SqliteStore(str(path), clock=clock)
    ends = now(revived_store) + 5 * MINUTE
    assert entries(revived_store, node("a"))[leased.id] == leased._replace(expires_at=ends)
    assert entries(revived_store, leased.actor)["session"] == session._replace(expires_us=ends)
    revived_store.close()


# --------------------------------------------------------------------------------- the real clocks


@pytest.mark.parametrize("clock", [system_clock(), WallClock(), BootClock("x")])
def test_the_clocks_of_this_machine(clock: Clock) -> None:
    assert clock.boot() == clock.boot() != ""
    first, second = clock.elapsed(), clock.elapsed()
    assert 0 < first <= second
    before, wall, after = time.time_ns() // 1_000, clock.wall(), time.time_ns() // 1_000
    assert before <= wall <= after


def test_linux_has_a_clock_that_cannot_be_set() -> None:
    assert isinstance(system_clock(), BootClock) == hasattr(time, "CLOCK_BOOTTIME")


@pytest.mark.parametrize(
    ("told", "ahead"),
    [
        ("monotonic           0         0\nboottime            0         0\n", 0),
        ("monotonic           5         0\nboottime       100000 500000000\n", 100_000_500_000),
        ("1 0 0\n7 -20 250000000\n", -19_750_000),
        ("", 0),
    ],
)
def test_the_clock_of_a_time_namespace_is_that_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, ahead: int
) -> None:
    offsets = tmp_path / "timens_offsets"
    offsets.write_text(told)
    plain = BootClock("x").elapsed()
    monkeypatch.setattr(module_of_the_clock, "_OFFSETS", str(offsets))
    assert 0 <= system_clock().elapsed() + ahead - plain < MINUTE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has time namespaces")
@pytest.mark.parametrize("ahead", ["100000", "-20"])
def test_a_container_with_a_clock_of_its_own_lets_nobody_in_early(tmp_path: Path, ahead: str) -> None:
    """A lease of 30 minutes is still held there, and what is acquired there ends when others think it does."""
    apart = ("unshare", "--time", f"--boottime={ahead}", f"--monotonic={ahead}")
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("NOT RUN: this user may not make a time namespace (unshare --time)")
    url = f"sqlite://{tmp_path}/locks.db"
    script = f"""
from leasehold import connect
with connect({url!r}, holder="bob") as locks:
    print(bool(locks.acquire("x", ttl=60)), bool(locks.acquire("y", ttl=1800)))
"""
    with connect(url, holder="ann") as locks:
        assert locks.acquire("x", ttl=1800)
        done = subprocess.run([*apart, sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["False", "True"]
        listed = locks.list()
        assert isinstance(listed, tuple)
        (ends,) = [each.expires_at for each in listed if each.resources == ("y",)]
        assert timedelta(minutes=20) < ends - datetime.now(UTC) < timedelta(minutes=31)
