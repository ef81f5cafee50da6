"""The number of lanes of a store changes: nothing is lost, no fence falls, and nobody goes on with the old number."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

import leasehold
from leasehold.config import settings
from leasehold.domain.outcomes import Granted, Held
from leasehold.errors import InvalidInput, StoreError, StoreUnsuitable
from leasehold.locks.connect import divide
from leasehold.routing.lanes import lane_of_space
from leasehold.stores.postgres.address import parse
from leasehold.testing.conformance.asking import take
from tests.kit import etcd, postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.locks.sync import Locks

SPACES = [f"team-{number}" for number in range(24)]


@pytest.fixture
def on_postgres() -> Iterator[str]:
    with postgres.schema(None) as url:
        yield url


@pytest.fixture(params=["PostgreSQL", "etcd"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty place, with an option, so that `&lanes=` may follow."""
    if request.param == "etcd":
        return f"{etcd.empty(None)}?keep_events=100000"
    return str(request.getfixturevalue("on_postgres"))


def change(url: str, lanes: int | None = None) -> tuple[int, int]:
    return divide(settings.find(url), lanes)


def held(locks: Locks) -> dict[str, Lease]:
    found = locks.list()
    assert isinstance(found, tuple)
    return {lease.id: lease._replace(as_of_us=0) for lease in found}


def told(locks: Locks, space: str) -> list[Event]:
    found = locks.history(space=space, limit=1_000)
    assert isinstance(found, tuple)
    return [event._replace(seq=0) for event in found]


@pytest.mark.parametrize("numbers", [(1, 4), (4, 1), (4, 2), (2, 5), (3, 1, 3), (16, 2, 16)], ids=str)
def test_everything_goes_with_its_space(url: str, numbers: tuple[int, ...]) -> None:
    chance = random.Random(str(numbers))
    with leasehold.connect(f"{url}&lanes={numbers[0]}", holder="ada") as locks:
        tokens = {}
        for number in range(60):
            granted = take(locks, f"r{number}", space=chance.choice(SPACES))
            tokens[granted.lease.id] = granted.token
        for id_ in chance.sample(sorted(tokens), 20):
            assert locks.release(id_, tokens.pop(id_))
        session = locks.start_session(ttl=600, space=SPACES[0])
        created = locks.create_key(role="agent", name="ci", space=SPACES[0])
        before, histories = held(locks), [told(locks, space) for space in SPACES]
    for lanes in numbers[1:]:
        change(url, lanes)
    with leasehold.connect(url, holder="ada") as ada, leasehold.connect(url, holder="bob") as bob:
        assert held(ada) == before
        assert [told(bob, space) for space in SPACES] == histories
        highest = max(lease.fence for lease in before.values())
        for id_, lease in before.items():
            name, space = lease.resources[0], lease.space
            assert isinstance(bob.acquire(name, ttl=60, space=space), Held)
            assert ada.renew(id_, tokens[id_])
            assert bob.release(id_, tokens[id_])
            assert take(bob, name, space=space).lease.fence > highest
        assert bob.end_session(session.secret, space=SPACES[0])  # type: ignore[union-attr] # it was started
        keys = bob.keys()
        assert [key.id for key in keys] == [created.key.id]  # type: ignore[union-attr] # it was created


def test_fences_rise_above_those_of_every_lane(url: str) -> None:
    """Also above those of a lane that is given up, whose names go elsewhere."""
    with leasehold.connect(f"{url}&lanes=4", holder="ada") as locks:
        fences = {}
        for number, space in enumerate(SPACES):
            for _ in range(1 + 5 * (number % 4)):
                granted = take(locks, "r", space=space)
                locks.release(granted.lease.id, granted.token)
                fences[space] = granted.lease.fence
    for lanes in (2, 1, 3):
        change(url, lanes)
        with leasehold.connect(url, holder="ada") as locks:
            for space, fence in fences.items():
                granted = take(locks, "r", space=space)
                locks.release(granted.lease.id, granted.token)
                assert granted.lease.fence > fence
                fences[space] = granted.lease.fence


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("cycles", [1, 60], ids=["a new one", "one that decides before its turn"])
def test_a_server_that_goes_on_is_refused(url: str, before: int, after: int, cycles: int) -> None:
    with leasehold.connect(f"{url}&lanes={before}", holder="ada") as stale:
        for space in SPACES[:8]:
            take(stale, "held", space=space)
            for _ in range(cycles):
                granted = take(stale, "r", space=space)
                stale.release(granted.lease.id, granted.token)
        assert change(url, after) == (before, after)
        with leasehold.connect(url, holder="bob") as fresh:
            for space in SPACES[:8]:
                for name in ("r", "held", "new"):
                    with pytest.raises(StoreUnsuitable):
                        stale.acquire(name, ttl=60, space=space)
                assert isinstance(fresh.acquire("held", ttl=60, space=space), Held)
                take(fresh, "r", space=space)


@pytest.mark.parametrize("cycles", [3, 60], ids=["a new one", "one that decides before its turn"])
def test_a_server_that_missed_two_changes_is_not_believed(url: str, cycles: int) -> None:
    """It finds its number again, and no other process has had a turn in its lane; but leases went and came back."""
    spaces = [f"s{n}" for n in range(300) if (lane_of_space(f"s{n}", 4), lane_of_space(f"s{n}", 3)) == (1, 2)][:6]
    with leasehold.connect(f"{url}&lanes=4", holder="ada") as stale:
        for space in spaces:
            for _ in range(cycles):
                granted = take(stale, "r", space=space)
                stale.release(granted.lease.id, granted.token)
        change(url, 3)
        with leasehold.connect(url, holder="bob") as between:
            for space in spaces:
                take(between, "r", space=space)
        change(url, 4)
        for space in spaces:
            assert isinstance(stale.acquire("r", ttl=60, space=space), Held)


def test_a_change_that_fails_changes_nothing(on_postgres: str) -> None:
    url = on_postgres
    with leasehold.connect(f"{url}&lanes=2", holder="ada") as locks:
        granted = [take(locks, "r", space=space) for space in SPACES]
        with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {parse(url).schema}_3")
            connection.execute(f"CREATE TABLE {parse(url).schema}_3.folded (somebody text)")
        with pytest.raises(StoreError):
            change(url, 4)
        assert change(url) == (2, 2)
        for each in granted:
            assert locks.renew(each.lease.id, each.token)
        assert isinstance(locks.acquire("another", ttl=60), Granted)


def test_the_same_number_changes_nothing(url: str) -> None:
    with leasehold.connect(f"{url}&lanes=2") as locks:
        assert change(url, 2) == (2, 2)
        take(locks, "r")


@pytest.mark.parametrize("lanes", [0, 17, -1])
def test_a_number_that_cannot_be_is_refused(url: str, lanes: int) -> None:
    with pytest.raises(InvalidInput):
        change(url, lanes)


def test_other_stores_say_what_to_do(tmp_path: object) -> None:
    assert change(f"sqlite:///{tmp_path}/locks.db") == (1, 1)
    with pytest.raises(InvalidInput, match="must be 1"):
        change(f"sqlite:///{tmp_path}/locks.db", 4)
    with pytest.raises(InvalidInput, match="where the store is"):
        change("http://127.0.0.1:1", 4)


def test_a_command_shows_and_changes_the_number(url: str) -> None:
    def run(*words: str) -> str:
        command = [sys.executable, "-m", "leasehold.cli", "lanes", "--url", url, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert run() == "4 lanes\n"
    assert run("2").splitlines()[0] == "2 lanes, before 4. Start every server of this store again:"
    assert json.loads(run("--json"))["data"] == {"lanes": 2, "before": 2}
