"""The lane of a space, of an id and of a call: everything of a space is in one lane, wherever it is looked for."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.domain import keys, names
from leasehold.domain.entries import EXCLUSIVE
from leasehold.errors import InvalidInput
from leasehold.requests.verbs import NAMES, verb
from leasehold.routing.lanes import SEVERAL, every_lane, lane_of_call, lane_of_id, lane_of_space, numbered, place_of
from leasehold.stores.layout import CONTROL, LANES_MOST
from tests.routing.test_joining import event

SPACES = ("default", "org/project", "é", *(f"team-{number}" for number in range(40)))
OF_THE_SERVER = frozenset(name for name in NAMES if name == "batch" or name.endswith(("_run", "_runs")))
"""Verbs that a server makes of others, and streams."""
STREAMS = frozenset(("events", "losses"))


@pytest.mark.parametrize(("space", "byte"), [("default", 0xA4), ("org/project", 0x32), ("é", 0x73)])
def test_the_byte_of_a_space_never_changes(space: str, byte: int) -> None:
    """Another one would look for the locks of existing stores in other lanes."""
    assert keys.byte_of_space(space) == byte


@pytest.mark.parametrize("lanes", [2, 3, 4, LANES_MOST])
@pytest.mark.parametrize("space", SPACES)
def test_ids_lead_to_the_lane_of_their_space(space: str, lanes: int) -> None:
    lane = lane_of_space(space, lanes)
    assert lane in every_lane(lanes)
    assert lane != CONTROL
    for name in ("x", "path:src/a.py", "repo:deploy", "github://acme/app/issues/42"):
        for claim in names.claims(space, name, EXCLUSIVE, ()):
            assert lane_of_id(keys.lease_id(7, claim.node), lanes) == lane
            assert lane_of_id(keys.waiter_id(7, claim.node), lanes) == lane


def arguments(name: str, space: str | None, lease: str) -> dict[str, Any]:
    given: dict[str, Any] = dict.fromkeys(argument.name for argument in verb(name).arguments)
    return {**given, "space": space, "lease": lease, "target": "x"}


class TestEveryVerb:
    VERBS = tuple(name for name in NAMES if name not in OF_THE_SERVER | STREAMS)

    @pytest.mark.parametrize("name", VERBS)
    def test_goes_to_the_lane_of_its_space_or_lease(self, name: str) -> None:
        for space in SPACES:
            lease = keys.lease_id(7, keys.node(space, "x"))
            lane = lane_of_call(name, arguments(name, space, lease), 4)
            if name in ("keys", "create_key", "rotate_key", "revoke_key", "whoami"):
                assert lane == CONTROL
            elif name in ("history", "gc"):
                assert lane == SEVERAL
            else:
                assert lane == lane_of_space(space, 4)

    @pytest.mark.parametrize("name", ["list", "graph", "sessions", "history", "gc"])
    def test_that_looks_at_every_space_asks_every_lane(self, name: str) -> None:
        assert lane_of_call(name, arguments(name, None, ""), 4) == SEVERAL

    def test_that_ends_a_lease_by_its_id_finds_it_in_any_space(self) -> None:
        for space in SPACES:
            target = keys.lease_id(7, keys.node(space, "x"))
            assert lane_of_call("force_release", {"target": target, "space": "another"}, 4) == lane_of_space(space, 4)

    @pytest.mark.parametrize(
        ("name", "given", "field"),
        [
            ("acquire", {"space": None}, "space"),
            ("renew", {"lease": "l7-zz"}, "lease"),
            ("inspect", {"space": 7}, "space"),
        ],
    )
    def test_refuses_what_no_lane_has(self, name: str, given: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            lane_of_call(name, given, 4)
        assert caught.value.field == field


def test_numbers_of_events_tell_their_lane() -> None:
    places = [(lane, seq) for lane in every_lane(16) for seq in range(1, 50)]
    shown = {numbered(event(lane, seq, 0), lane).seq: (lane, seq) for lane, seq in places}
    assert len(shown) == 17 * 49
    assert all(place_of(seq) == place for seq, place in shown.items())
