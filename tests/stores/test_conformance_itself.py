"""The conformance suite itself: nothing is left out, nothing hides something else, and processes tell the truth."""

from __future__ import annotations

import inspect
import pickle
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.leases import Inspection
from leasehold.errors import BY_CODE, Closed, InvalidInput, LeaseholdError, StoreError, Unreachable
from leasehold.locks.sync import Locks
from leasehold.testing.conformance import TOPICS, Conformance
from leasehold.testing.conformance.asking import Asking, expect, leases_of, take, until
from leasehold.testing.conformance.bounds import BAD, PARAMETER
from leasehold.testing.processes import in_a_process
from tests.kit.nouns import NOUNS

if TYPE_CHECKING:
    from pathlib import Path

HARMLESS = {"close", "lock", "lead", "guarded", "gc", "keys", "whoami"}
"""Verbs without arguments of their own: what they are given they hand on to others."""


class TestSuite:
    def test_has_every_topic(self) -> None:
        files = {kind.__module__.rpartition(".")[2] for kind in Conformance.__mro__[1:-1]}
        assert files == set(TOPICS) - {"asking"}

    def test_names_no_test_twice(self) -> None:
        names = [name for kind in Conformance.__mro__ for name in vars(kind) if name.startswith("test_")]
        assert len(names) == len(set(names)) > 150

    def test_names_tests_after_their_topic(self) -> None:
        for kind in Conformance.__mro__[1:-1]:
            topic = kind.__module__.rpartition(".")[2]
            strays = [name for name in vars(kind) if name.startswith("test_") and f"_{topic}_" not in f"{name}_"]
            assert not strays

    def test_tries_bad_input_on_every_field_of_every_verb(self) -> None:
        verbs = {name for name, _ in inspect.getmembers(Locks, inspect.isfunction) if not name.startswith("_")}
        assert verbs - HARMLESS == set(BAD)
        for verb, fields in BAD.items():
            tried = {PARAMETER.get(verb, {}).get(field, field) for field in fields}
            assert tried == set(inspect.signature(getattr(Locks, verb)).parameters) - {"self"}


class TestPickles:
    @pytest.mark.parametrize("name", NOUNS)
    def test_of_every_noun(self, name: str) -> None:
        kind = NOUNS[name]
        noun = kind(*range(len(kind._fields)))
        again = pickle.loads(pickle.dumps(noun))
        assert again == noun
        assert type(again) is kind

    @pytest.mark.parametrize("kind", BY_CODE.values())
    def test_of_every_error(self, kind: type[LeaseholdError]) -> None:
        error = InvalidInput("field", "message") if kind is InvalidInput else kind("message")
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (kind, str(error))


class TestProcesses:
    def test_are_other_processes(self, tmp_path: Path) -> None:
        url = f"sqlite://{tmp_path}/locks.db"
        with in_a_process(leasehold.connect, url, holder="there") as there, leasehold.connect(url) as here:
            granted = take(there, "r", context={"a": [1]})
            assert leases_of(here) == (granted.lease,)
            assert there.pid > 0

    def test_that_cannot_open_say_why(self, tmp_path: Path) -> None:
        (tmp_path / "locks.db").write_bytes(b"this is not a database, and it is long enough to be sure of it" * 10)
        with pytest.raises(StoreError):
            in_a_process(leasehold.connect, f"sqlite://{tmp_path}/locks.db")
        with pytest.raises(InvalidInput, match="url"):
            in_a_process(leasehold.connect, "nowhere:x")

    def test_processes_that_are_closed_or_killed_do_not_answer(self, tmp_path: Path) -> None:
        url = f"sqlite://{tmp_path}/locks.db"
        closed, killed = (in_a_process(leasehold.connect, url) for _ in range(2))
        take(closed, "r")
        waiting: Asking[object] = Asking(lambda: killed.acquire("r", ttl=60, wait=60))
        until(lambda: expect(Inspection, closed.inspect("r")).waiting, "somebody waits")
        killed.kill()
        with pytest.raises(Unreachable):
            waiting.answer()
        closed.close()
        closed.close()
        with pytest.raises(Closed):
            closed.list()
        with pytest.raises(Closed):
            killed.list()
