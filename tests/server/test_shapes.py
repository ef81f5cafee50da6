"""What a server's quick way to shape an answer says is what ``wire`` says, and what OpenAPI describes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.domain.leases import Lease
from leasehold.domain.outcomes import Granted, Released, Renewed
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.server.api import answers
from leasehold.server.api import encoding as shapes
from leasehold.server.api.problems import encode
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    import msgspec

TIMES = st.integers(0, 4_000_000_000 * SECOND)
TEXTS = st.text(max_size=20)
LEASES = st.builds(
    Lease,
    TEXTS,
    TEXTS,
    st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
    TEXTS,
    st.none() | TEXTS,
    st.sampled_from(("exclusive", "shared", "slots")),
    st.integers(1, 100),
    st.integers(1, 2**53),
    TIMES,
    TIMES,
    TIMES | st.just(FOREVER),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.none() | st.dictionaries(TEXTS, st.integers(), max_size=3).map(json.dumps),
    TIMES,
)
OUTCOMES = (
    st.builds(Granted, LEASES, TEXTS, st.booleans(), st.sampled_from(((), ("mode", "holder"))))
    | st.builds(Released, TEXTS, st.booleans(), TEXTS, st.lists(TEXTS, max_size=3).map(tuple))
    | st.builds(Renewed, LEASES)
)


@given(OUTCOMES)
def test_an_answer_is_what_wire_says(outcome: Granted | Released | Renewed) -> None:
    assert encode(shapes.answer(outcome)) == encode(wire.answer(outcome))


@pytest.mark.parametrize(
    ("described", "told"),
    [
        (answers.Lease, wire.LEASE),
        (answers.Granted, (*wire.GRANTED, "unapplied")),
        (answers.Released, wire.RELEASED),
    ],
)
def test_the_fields_are_those_of_the_description(described: type[msgspec.Struct], told: tuple[str, ...]) -> None:
    assert described.__struct_fields__ == told
