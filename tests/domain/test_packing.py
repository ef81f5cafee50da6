"""Every entry survives packing, with its exact types, through whatever encodes arrays."""

from __future__ import annotations

import json

import apsw
from hypothesis import given
from hypothesis import strategies as st

from leasehold.domain.entries import Hold, LeaseRequest, Ref
from leasehold.domain.records import pack, unpack
from tests.kit.samples import any_entry, ask, hold


def types_of(value: object) -> object:
    """The shape of a value: its type and those of all it contains."""
    if isinstance(value, tuple | list):
        return (type(value), tuple(types_of(each) for each in value))
    return type(value)


@given(any_entry)
def test_jsonb_returns_the_same_entry(entry: Hold) -> None:
    again = unpack(apsw.jsonb_decode(apsw.jsonb_encode(pack(entry))))
    assert again == entry
    assert types_of(again) == types_of(entry)


@given(any_entry)
def test_json_returns_the_same_entry(entry: Hold) -> None:
    again = unpack(json.loads(json.dumps(pack(entry))))
    assert again == entry
    assert types_of(again) == types_of(entry)


@given(any_entry)
def test_unpack_leaves_its_argument_alone(entry: Hold) -> None:
    packed = json.loads(json.dumps(pack(entry)))
    before = json.dumps(packed)
    unpack(packed)
    assert json.dumps(packed) == before


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_survives(text: str) -> None:
    entry = Ref(text)
    assert unpack(apsw.jsonb_decode(apsw.jsonb_encode(pack(entry)))) == entry


def test_rows_from_before_a_new_field_are_understood() -> None:
    entry = hold(1, "a", now=5)
    old = pack(entry)[:-2]  # as if `ticket` and `closed` had been added since
    assert unpack(old) == entry


def test_a_claim_from_before_a_new_field_is_understood() -> None:
    packed = json.loads(json.dumps(pack(hold(1, "a", now=5))))
    terms = packed[1 + Hold._fields.index("ask")]
    claim = terms[LeaseRequest._fields.index("options")][0][1][0]
    del claim[-1]  # as if `of` had been added since
    assert unpack(packed) == hold(1, "a", now=5, of=ask("a"))
