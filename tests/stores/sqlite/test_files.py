"""Files of one database, copied at different times and put together: right as a whole, or refused. Never a mixture."""

from __future__ import annotations

import shutil
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.entries import Put, Ref
from leasehold.domain.outcomes import Granted, Refused, Renewed
from leasehold.domain.timestamps import SECOND
from leasehold.errors import StoreBehind, StoreError
from leasehold.stores.sqlite import SqliteStore
from tests.kit.samples import FakeClock, commit, node, seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasehold.domain.entries import Entry

    Life = Callable[[Path, FakeClock], None]
    State = tuple[int, dict[str, Entry]]

KEYS = [node(f"{number:03d}") for number in range(60)]
FILES = ("", "-wal", ".gate")
BEFORE, AFTER, ABSENT = "before", "after", "absent"


def one_shots(path: Path, clock: FakeClock, number: int, times: int) -> None:
    """Commands come and go; each changes records all over the database."""
    for time in range(times):
        with closing(SqliteStore(str(path), clock=clock, is_one_shot=True)) as store:
            change(store, clock, f"{number}-{time}")


def change(store: SqliteStore, clock: FakeClock, tag: str) -> None:
    clock.pass_time(SECOND)
    at = (sum(tag.encode()) * 7) % 20
    commit(store, *(Put(key, Ref(f"{tag}-{key}" + "x" * 300)) for key in KEYS[at::20]), fences=1)


def stop(path: Path, clock: FakeClock, number: int) -> None:
    """A server runs for a little while, and stops."""
    with closing(SqliteStore(str(path), clock=clock)) as store:
        change(store, clock, f"{number}-stop")


def same_log(path: Path, clock: FakeClock) -> None:
    """What comes between the two times of the copies: nothing but commits."""


def clean_stop(path: Path, clock: FakeClock) -> None:
    stop(path, clock, 5)


def emptied(path: Path, clock: FakeClock) -> None:
    """So many commands that one of them empties the log."""
    one_shots(path, clock, 6, 60)


def begun_anew(path: Path, clock: FakeClock) -> None:
    """A server that does not stop, and is killed."""
    with closing(SqliteStore(str(path), clock=clock, is_one_shot=True)) as store:
        for time in range(10):
            change(store, clock, f"7-{time}")
        database = store._database
        database.log.limit = database.log.fold_limit = 1
        database.log.checkpoint_mode = 0
        for time in range(2):
            change(store, clock, f"8-{time}")
        assert database.log.mark.log == 1, "copied, and there to be written over"
        database.log.limit = database.log.fold_limit = 10_000
        change(store, clock, "9-0")
        assert database.log.mark.log == 0
        assert database.log.mark.frames < 20


LIVES: tuple[Life, ...] = (same_log, clean_stop, emptied, begun_anew)
ENDS = ("killed", "stopped")


def copy(path: Path, to: Path) -> None:
    to.mkdir()
    for each in path.parent.iterdir():
        if each.is_file():
            shutil.copy(each, to / each.name)


def state(path: Path, clock: FakeClock, *, accept: bool = False) -> State:
    with closing(SqliteStore(str(path), clock=clock, accept_restore=accept, is_one_shot=True)) as store:
        assert store._database.connection.execute("PRAGMA integrity_check").get == "ok"
        return store._database.meta.fence, seen(store, *KEYS)


def state_or_refusal(path: Path, clock: FakeClock, *, accept: bool = False) -> State | StoreError:
    try:
        return state(path, clock, accept=accept)
    except StoreError as refusal:
        return refusal


class Copies:
    """Two copies of a database's files, and what each of them says."""

    def __init__(self, tmp_path: Path, life: Life, end: str) -> None:
        self.clock = FakeClock()
        home = tmp_path / "home"
        home.mkdir()
        path = home / "locks.db"
        one_shots(path, self.clock, 1, 12)
        self.places = {BEFORE: tmp_path / BEFORE, AFTER: tmp_path / AFTER}
        copy(path, self.places[BEFORE])
        life(path, self.clock)
        one_shots(path, self.clock, 3, 4)
        if end == "stopped":
            stop(path, self.clock, 4)
        copy(path, self.places[AFTER])
        self.states = {when: self._state(tmp_path / f"look-{when}", when) for when in self.places}
        assert self.states[BEFORE] != self.states[AFTER]
        self.alone = [self._alone(tmp_path / f"alone-{when}", when) for when in self.places]

    def _state(self, place: Path, when: str) -> State:
        place.mkdir()
        return state(self.put(place, when, when, when), self.clock)

    def _alone(self, place: Path, when: str) -> dict[str, Entry]:
        """What the database says without its log, though that may be behind."""
        place.mkdir()
        return state(self.put(place, when, ABSENT, ABSENT), self.clock, accept=True)[1]

    def put(self, place: Path, *times: str) -> Path:
        """Database, log and gate as they were at these times; the log's index comes along with the database."""
        for suffix, when in zip((*FILES, "-shm"), (*times, times[0]), strict=True):
            source = self.places.get(when, place) / f"locks.db{suffix}"
            if when != ABSENT and source.exists():
                shutil.copy(source, place / source.name)
        return place / "locks.db"


@pytest.fixture(scope="module", params=product(LIVES, ENDS), ids=lambda each: f"{each[0].__name__}-{each[1]}")
def copies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return Copies(tmp_path_factory.mktemp("copies"), *request.param)


@pytest.mark.parametrize("times", list(product((BEFORE, AFTER, ABSENT), repeat=3)), ids="-".join)
def test_files_of_different_times_fit_together_or_are_refused(
    copies: Copies, tmp_path: Path, times: tuple[str, str, str]
) -> None:
    path = copies.put(tmp_path, *times)
    found = state_or_refusal(path, copies.clock)
    if isinstance(found, StoreError):
        # Of files without a gate that knows them, SQLite may say that they are damaged.
        is_damaged = times[2] == ABSENT and "damaged" in str(found)
        assert is_damaged or "doctor --accept-restore" in str(found)
        assert times != (AFTER, AFTER, AFTER)
        assert times != (BEFORE, BEFORE, BEFORE), "the whole of it: nobody can tell"
        return
    if times[0] == times[2] == ABSENT:
        assert found == (1, {}), "a new one"
    elif times[2] == AFTER:
        assert found == copies.states[AFTER]
    else:
        assert times[2] == BEFORE
        assert found[1] in (copies.states[BEFORE][1], copies.states[AFTER][1], *copies.alone)


@pytest.mark.parametrize("times", list(product((BEFORE, AFTER, ABSENT), repeat=3)), ids="-".join)
def test_what_was_refused_can_be_accepted_with_fences_above_all_and_a_pause(
    copies: Copies, tmp_path: Path, times: tuple[str, str, str]
) -> None:
    path = copies.put(tmp_path, *times)
    if not isinstance(state_or_refusal(path, copies.clock), StoreBehind):
        return
    accepted = state_or_refusal(path, copies.clock, accept=True)
    if isinstance(accepted, StoreError):
        assert "do not belong together" in str(accepted) or "damaged" in str(accepted)
        return
    assert accepted[0] > copies.states[AFTER][0]
    assert state(path, copies.clock)[0] == accepted[0], "from now on it is like any other"


@pytest.mark.parametrize("how", ["database alone", "older both", "log alone"])
def test_a_lease_that_may_still_be_held_is_not_granted_again(tmp_path: Path, how: str) -> None:
    """The story: a clean stop, a copy that was put back, and two who think that they have the same."""
    home = tmp_path / "home"
    home.mkdir()
    path = home / "leasehold.db"
    url = f"sqlite://{path}"
    with leasehold.connect(url, holder="zoe", threaded=False) as locks:
        locks.acquire("warm", ttl=60)
    copy(path, tmp_path / "backup")
    with leasehold.connect(url, holder="ada") as locks:
        theirs = locks.acquire("deploy://api", ttl=3_600)
        assert isinstance(theirs, Granted)
    if how != "log alone":
        path.unlink()
        shutil.copy(tmp_path / "backup" / path.name, path)
    if how != "database alone":
        shutil.copy(tmp_path / "backup" / f"{path.name}-wal", home)
    for threaded in (True, False):
        with pytest.raises(StoreBehind, match="doctor --accept-restore"):
            leasehold.connect(url, holder="bob", threaded=threaded)
    with leasehold.connect(url, holder="bob", accept_restore=True) as locks:
        refused = locks.acquire("deploy://api", ttl=60)
        assert isinstance(refused, Refused)
        assert refused.code == "paused"
        assert "another 3600 s" in refused.message or "another 3599 s" in refused.message


def test_a_clean_stop_leaves_everything_in_the_one_file(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/leasehold.db"
    with leasehold.connect(url, holder="ada") as locks:
        granted = locks.acquire("deploy://api", ttl=3_600)
        assert isinstance(granted, Granted)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["leasehold.db", "leasehold.db.gate"]
    with leasehold.connect(url, holder="bob") as locks:
        assert isinstance(locks.renew(granted.lease.id, granted.token), Renewed)


def test_closing_empties_the_log_though_other_processes_continue(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/leasehold.db"
    with leasehold.connect(url) as second:
        second.acquire("b", ttl=60)
        with leasehold.connect(url) as first:
            first.acquire("a", ttl=60)
        assert (tmp_path / "leasehold.db-wal").stat().st_size == 0


def test_the_last_of_several_leaves_no_log(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/leasehold.db"
    with leasehold.connect(url) as first, leasehold.connect(url) as second:
        first.acquire("a", ttl=60)
        second.acquire("b", ttl=60)
    assert not (tmp_path / "leasehold.db-wal").exists()
