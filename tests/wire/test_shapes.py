"""The encoders and decoders that are written by hand, for speed, agree with the table of shapes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from leasehold.client import decoding
from leasehold.domain.leases import Lease
from leasehold.domain.outcomes import Granted, Released, Renewed
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.server.api import dispatch
from leasehold.server.api.problems import encode
from leasehold.wire import shapes as wire
from leasehold.wire import table

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
    assert encode(dispatch._quickly_encoded(outcome)) == encode(wire.answer(outcome))


def test_the_encoder_of_leases_that_is_written_by_hand_agrees_with_the_table() -> None:
    made = wire._of_shape(table.shape("ListedLease"))

    @given(LEASES)
    def same(lease: Lease) -> None:
        assert {**wire.lease(lease), **wire.encoded("ListedLease", lease)} == made(lease, 0)

    same()


def test_the_decoder_of_leases_that_is_written_by_hand_agrees_with_the_table() -> None:
    made = decoding._of_shape(table.shape("ListedLease"), {})

    @given(LEASES)
    def same(lease: Lease) -> None:
        told = json.loads(json.dumps(wire.encoded("ListedLease", lease)))
        assert decoding.lease(told) == made(told)

    same()
