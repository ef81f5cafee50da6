"""Keys and ids: the byte of the space by which an id finds its part of a store."""

from __future__ import annotations

import pytest

from leasehold.domain import keys

SPACES = [f"org/project-{number}" for number in range(2_000)]


def byte_of(key: str) -> str:
    return key[1:3]


class TestByteOfASpace:
    @pytest.mark.parametrize("space", ["default", "org/project", "é", *SPACES[:20]])
    def test_begins_every_key_of_the_space(self, space: str) -> None:
        actors = [
            keys.actor(space, "ada", None),
            keys.actor(space, "ada", "s1"),
            keys.actor(space, "ada", None, "team:1"),
        ]
        made = [
            *actors,
            *(keys.request(actor, "r1", "ada") for actor in actors),
            keys.node(space, "x"),
            keys.node(space, "y"),
        ]
        assert len({byte_of(key) for key in made}) == 1

    def test_begins_the_hash_in_ids(self) -> None:
        home = keys.node("default", "x")
        for id_ in (keys.lease_id(7, home), keys.waiter_id(8, home)):
            assert id_.partition("-")[2][:2] == byte_of(home)
            assert keys.home(id_) == home

    def test_spreads_spaces_evenly(self) -> None:
        counts = [0] * 256
        for space in SPACES:
            counts[int(byte_of(keys.node(space, "x")), 16)] += 1
        assert max(counts) < 30  # 8 on average
        assert sum(count > 0 for count in counts) > 250

    def test_is_the_same_after_thousands_of_other_spaces(self) -> None:
        before = keys.node("default", "x")
        for number in range(5_000):
            keys.node(f"another-{number}", "x")
        assert keys.node("default", "x") == before


def test_hashes_of_one_space_differ() -> None:
    nodes = {keys.node("default", f"name-{number}") for number in range(10_000)}
    assert len(nodes) == 10_000
    assert {len(node) for node in nodes} == {33}
