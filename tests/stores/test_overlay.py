"""Changes that are not in the tables yet: their net effect, and a record with them laid over it."""

from __future__ import annotations

import random

from leasehold.domain.entries import EMPTY, Drop, Put, Receipt, Ref
from leasehold.domain.records import apply, build, pack, unpack
from leasehold.stores.cache import Overlay, entries_of

A, B, C, D = "na", "nb", "nc", "nd"


def test_changes_come_to_what_is_left_of_them() -> None:
    overlay = Overlay()
    with_r1 = {A: EMPTY._replace(notes={"r1": Ref("r1")}), B: EMPTY}
    overlay.add([Put(A, Ref("r1")), Put(A, Ref("r2")), Put(B, Ref("r1")), Put(C, Ref("r1"))], with_r1)
    assert overlay.fresh == {(A, "r2"), (B, "r1")}, "what is not known may be in the table"
    overlay.add([Drop(A, "r1"), Drop(A, "r2"), Drop(B, "r1"), Drop(C, "r1"), Drop(D, "r1")], {})
    assert list(overlay.all()) == [(A, "r1", None), (C, "r1", None), (D, "r1", None)]
    overlay.add([Put(A, Ref("r1")), Put(B, Ref("r1"))], {A: EMPTY, B: EMPTY})
    assert overlay.changed[A]["r1"] == Ref("r1")
    assert overlay.fresh == {(B, "r1")}, "what was dropped in here is still in the table"


def test_a_record_with_its_changes_is_the_record_as_it_is_now() -> None:
    chance = random.Random(25)
    for _ in range(200):
        tables = {key: build([Ref(id_) for id_ in "rst" if chance.random() < 0.5]) for key in (A, B)}
        now, overlay, packed = dict(tables), Overlay(), Overlay(unpack)
        for number in range(8):
            key, id_ = chance.choice((A, B)), chance.choice("rstu")
            change = Put(key, Receipt(id_, f"{number}", number)) if chance.random() < 0.5 else Drop(key, id_)
            overlay.add([change], now if chance.random() < 0.5 else {})
            packed.lay(key, id_, pack(change.entry) if isinstance(change, Put) else None)
            now[key] = apply(now[key], change)
        for key in (A, B):
            assert build(overlay.over(key, entries_of(tables[key]))) == now[key]
            assert build(packed.over(key, entries_of(tables[key]))) == now[key]
        packed.forget(A)
        assert packed.over(A, entries_of(tables[A])) == entries_of(tables[A])
