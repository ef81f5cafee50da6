"""A remote that was wiped or restored from a backup: fences that were given out are not given out again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.outcomes import Granted
from leasehold.stores.git import head as heads
from tests.kit.remotes import bare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasehold import Locks


def opened(remote: Path, cache: str = "cache") -> Locks:
    return leasehold.connect(f"git+file://{remote}?cache={remote.parent}/{cache}", holder="ada")


def fences(locks: Locks, *resources: str) -> list[int]:
    taken = [locks.acquire(resource, ttl=600) for resource in resources]
    assert all(isinstance(each, Granted) for each in taken), taken
    return [each.lease.fence for each in taken if isinstance(each, Granted)]


def wipe(remote: Path, _backup: Path) -> None:
    shutil.rmtree(remote)
    bare(remote)


def restore(remote: Path, backup: Path) -> None:
    shutil.rmtree(remote)
    shutil.copytree(backup, remote)


def after_a_loss(remote: Path, lose: Callable[[Path, Path], None]) -> int:
    """Lose what was granted last; the largest fence that was given out."""
    backup = remote.parent / "backup.git"
    with opened(remote) as locks:
        fences(locks, "a")
        shutil.copytree(remote, backup)
        given = fences(locks, "b", "c", "d")
    lose(remote, backup)
    return max(given)


@pytest.mark.parametrize("lose", [wipe, restore])
def test_who_has_seen_more_goes_on_above_it(remote: Path, lose: Callable[[Path, Path], None]) -> None:
    largest = after_a_loss(remote, lose)
    with opened(remote) as locks:
        first, second = fences(locks, "e", "f")
    assert first > largest + heads.SKIP // 2, "others may have been given more than was seen here"
    assert second == first + 1, "once it is at the remote, it is counted as ever"
    with opened(remote, "another") as locks:
        assert fences(locks, "g") == [second + 1], "and by everybody"


@pytest.mark.parametrize("lose", [wipe, restore])
def test_a_process_that_lives_through_it_notices_as_well(remote: Path, lose: Callable[[Path, Path], None]) -> None:
    backup = remote.parent / "backup.git"
    with opened(remote) as locks:
        fences(locks, "a")
        shutil.copytree(remote, backup)
        (largest,) = fences(locks, "b")
        lose(remote, backup)
        assert fences(locks, "c")[0] > largest


def test_looking_alone_changes_nothing(remote: Path) -> None:
    largest = after_a_loss(remote, wipe)
    with opened(remote) as locks:
        for _ in range(3):
            assert locks.list() == ()
        assert largest < fences(locks, "e")[0] <= largest + heads.SKIP + 1


def test_what_was_only_seen_counts_too(remote: Path) -> None:
    with opened(remote) as locks:
        (largest,) = fences(locks, "a")
    with opened(remote, "onlooker") as onlooker:
        onlooker.list()
    wipe(remote, remote)
    with opened(remote, "onlooker") as onlooker:
        assert fences(onlooker, "a")[0] > largest


def test_no_fence_is_left_out_without_a_loss(remote: Path) -> None:
    given: list[int] = []
    for cache in ("one", "two", "one"):
        with opened(remote, cache) as locks:
            given += fences(locks, f"r{len(given)}", f"s{len(given)}")
    assert given == [1, 2, 3, 4, 5, 6]
