"""Every field of every command, fuzzed: an answer, or a refusal that names the field and changes nothing."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from leasehold.domain.outcomes import Granted, Refused
from leasehold.domain.sessions import SessionStarted
from leasehold.engine.engine import Engine
from leasehold.errors import InvalidInput
from leasehold.locks.local import CallerDriver, EngineAnswers
from leasehold.locks.sync import Locks
from leasehold.requests import checks
from leasehold.requests import to_command as orders
from leasehold.requests.calls import refusal
from leasehold.requests.checks import Settings
from leasehold.stores.memory import Memory, MemoryStore
from leasehold.stores.sqlite import SqliteStore
from tests.domain.junk import CIRCULAR, DEEP, JUNK, ODD, deep

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.stores.protocol import Store

EXAMPLES = 2_000 if os.environ.get("LEASEHOLD_PROVE") == "1" else 40
NOT_FUZZED = {"lock", "lead", "guarded", "keys", "whoami", "gc", "close"}
"""The first two are made of acquire, renew and release; the others take nothing."""
SPELLED = {"resources": {"resources", "resource"}, "target": {"target", "resource"}}
"""Arguments whose refusal may name something nearer to the mistake."""


class Scene:
    """Somebody holds a lease, and somebody has a session."""

    def __init__(self, store: Store) -> None:
        engine = Engine(store)
        self.locks = Locks(EngineAnswers(engine, CallerDriver(engine), Settings()), holder="tester")
        held = self.locks.acquire("held", ttl=60, context={"a": 1})
        session = self.locks.start_session(ttl=60)
        assert isinstance(held, Granted)
        assert isinstance(session, SessionStarted)
        self.lease, self.token, self.session = held.lease.id, held.token, session.secret
        self.calls = 0

    def call(self, verb: str, **changed: object) -> object:
        """Call a verb with good arguments, but for those that are given here."""
        self.calls += 1
        try:
            answer: object = getattr(self.locks, verb)(**{**self.good(verb), **changed})
        except InvalidInput as error:
            return refusal(error)
        return answer

    def good(self, verb: str) -> dict[str, Any]:
        """The arguments that a verb cannot do without; nobody has to wait for what is acquired."""
        admin = {"by": "ops", "reason": "test"}
        held = {"lease": self.lease, "token": self.token}
        needed: dict[str, dict[str, Any]] = {
            "acquire": {"resources": f"free-{self.calls}", "ttl": 60},
            "renew": held,
            "release": held,
            "update": {**held, "context": {"b": 2}},
            "cancel": {"request_id": "r1"},
            "start_session": {"ttl": 60},
            "renew_session": {"session": self.session},
            "end_session": {"session": self.session},
            "force_release": {"target": "held", **admin},
            "steal": {"resources": "held", "ttl": 60, **admin},
            "clear": {"resource": "held", **admin},
            "report_trespass": {"lease": self.lease, "paths": "path:a", "by": "agent"},
            "plan": {"resources": f"free-{self.calls}", "ttl": 60},
            "extend": {"lease": self.lease, "ttl": 60, **admin},
            "note": {"resource": "held", "text": "why", "by": "ops"},
            "declare_pool": {"resource": "pool://held", "members": ["a"], "by": "ops"},
            "create_key": {"role": "agent", "name": "a key"},
            "rotate_key": {"key": "0123456789abcdef"},
            "revoke_key": {"key": "0123456789abcdef"},
            "inspect": {"resource": "held"},
        }
        return needed.get(verb, {})


VERBS = {
    name: [field for field in inspect.signature(verb).parameters if field != "self"]
    for name, verb in inspect.getmembers(Locks, inspect.isfunction)
    if not name.startswith("_") and name not in NOT_FUZZED
}
FIELDS = [(verb, field) for verb, fields in VERBS.items() for field in fields]


def in_memory() -> tuple[Scene, Memory]:
    memory = Memory(clock=lambda: 1_000_000_000)
    return Scene(MemoryStore(memory)), memory


def check(answer: object, field: str, junk: object) -> bool:
    """Whether it is a refusal of the argument itself; if it is any refusal, it has to say what is wrong."""
    if not isinstance(answer, Refused):
        return False
    assert answer.field
    assert answer.message
    assert answer.message.isprintable(), "what a caller sent must not come back as it was"
    assert len(answer.message) < 1_000
    if answer.code != "invalid":
        return False
    assert answer.field in SPELLED.get(field, {field}), f"{type(junk)} in {field} was blamed on {answer.field}"
    return True


def test_every_verb_is_fuzzed() -> None:
    assert len(VERBS) >= 17
    assert all(VERBS.values())


@pytest.mark.parametrize(("verb", "field"), FIELDS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(junk=JUNK)
def test_junk_gets_an_answer_and_changes_nothing(verb: str, field: str, junk: object) -> None:
    scene, memory = in_memory()
    before = (dict(memory.records), list(memory.events), memory.fence)
    if check(scene.call(verb, **{field: junk}), field, junk):
        assert (memory.records, memory.events, memory.fence) == before


@pytest.mark.parametrize(("verb", "field"), FIELDS)
def test_odd_values_get_an_answer_and_change_nothing(verb: str, field: str) -> None:
    scene, memory = in_memory()
    for junk in ODD:
        before = (dict(memory.records), list(memory.events), memory.fence)
        if check(scene.call(verb, **{field: junk}), field, junk):
            assert (memory.records, memory.events, memory.fence) == before


def test_odd_values_get_an_answer_from_sqlite_too(tmp_path: Path) -> None:
    scene = Scene(SqliteStore(str(tmp_path / "locks.db")))
    with scene.locks:
        for verb, field in FIELDS:
            for junk in ODD:
                check(scene.call(verb, **{field: junk}), field, junk)


REFUSED: dict[tuple[str, str], tuple[object, ...]] = {
    ("acquire", "ttl"): (0, -1, float("nan"), float("inf"), "abc", "1e12", 1e12, None, True, 0.001),
    ("acquire", "wait"): (-1, float("nan"), "abc", None, "25h"),
    ("acquire", "resources"): ("", [], None, 7, ["a", None], ["a"] * 65, "path:..", "a\n", "x" * 513),
    ("acquire", "mode"): ("", "EXCLUSIVE", 1),
    ("acquire", "slots"): (0, -1, True, 1.0, "2", 10_001, None),
    ("acquire", "any_of"): (None, 0, 1, "yes", []),
    ("acquire", "holder"): ("", " ", 7, "a\0", "x" * 257, "\ud800"),
    ("acquire", "session"): ("", "id", "id.", ".secret", 7),
    ("acquire", "space"): ("", 7, "x" * 129),
    ("acquire", "name"): ("", 7, "a\x1b[0m"),
    ("acquire", "context"): ({1, 2}, float("nan"), b"x", "x" * 16_385, deep(65), DEEP, CIRCULAR, "\ud800"),
    ("acquire", "reason"): ("", 7),
    ("acquire", "priority"): (None, True, 1.5, "1", 1_001, -1_001),
    ("acquire", "reentrant"): (None, 1, "yes"),
    ("acquire", "grace"): (-1, 61, None, "abc"),
    ("acquire", "on_expiry"): (None, "", "keep"),
    ("acquire", "request_id"): ("", 7, "x" * 129),
    ("acquire", "intent"): (None, 1),
    ("renew", "lease"): (None, "", 7, "l1", "w1-" + "0" * 32),
    ("renew", "token"): ("", 7),
    ("renew", "ttl"): (0, "abc", "25h"),
    ("release", "status"): (None, "", "done"),
    ("release", "error"): (7, b"x"),
    ("update", "context"): (None, {1, 2}),
    ("update", "merge"): (None, 1),
    ("cancel", "request_id"): (None, ""),
    ("force_release", "by"): (None, "", 7),
    ("force_release", "reason"): (None, "", 7),
    ("steal", "reason"): (None, ""),
    ("create_key", "role"): (None, "root"),
    ("graph", "limit"): (None, 0, True, 10_001),
    ("history", "limit"): (None, 0, True, 10_001),
    ("history", "kinds"): (None, "granted", [1], ["\ud800"], ["granted"] * 65),
    ("history", "since"): (-1, 1.5, True, 2**63),
}


@pytest.mark.parametrize(("verb", "field", "junk"), [(*where, junk) for where, bad in REFUSED.items() for junk in bad])
def test_this_is_refused_for_certain(verb: str, field: str, junk: object) -> None:
    scene, memory = in_memory()
    before = (dict(memory.records), list(memory.events), memory.fence)
    assert check(scene.call(verb, **{field: junk}), field, junk)
    assert (memory.records, memory.events, memory.fence) == before


def test_a_context_as_deep_as_it_may_be_can_still_be_merged() -> None:
    scene, _ = in_memory()
    for levels in range(1, 3_000, 7):
        context: dict[str, object] = {}
        for _ in range(levels):
            context = {"a": context}
        if isinstance(scene.call("update", context=context), Refused):
            break
        assert not isinstance(scene.call("update", context={"b": 1}, merge=True), Refused)
    else:
        pytest.fail("a context may be as deep as it likes")


def test_who_merges_is_told_which_side_is_no_object() -> None:
    scene, _ = in_memory()

    def said(context: object) -> str:
        refused = scene.call("update", context=context, merge=True)
        assert isinstance(refused, Refused)
        assert (refused.code, refused.field) == ("invalid", "context")
        return refused.message

    assert "the context given is not one" in said(5)
    assert not isinstance(scene.call("update", context=[1]), Refused)
    assert "the context held is not one" in said({"a": 1})
    assert "the context given is not one" in said([2])


def test_what_was_said_before_is_not_taken_for_what_only_equals_it() -> None:
    memory, settings_ = checks.TermsCache(2), Settings()

    def asked(which: Settings = settings_, **said: object) -> object:
        told = {"resources": "x", "ttl": 30, "holder": "ada", **said}
        try:
            order = orders.order("acquire", told, which, "e", memory)
        except InvalidInput as error:
            return error.field
        return order.field if isinstance(order, Refused) else order.command

    for _ in range(2):
        for holder in ("ada", "bob", "cyd", "ada"):  # more than it keeps
            assert not isinstance(asked(holder=holder, slots=1, reentrant=True), str)
            assert asked(holder=holder, slots=True) == "slots"
            assert asked(holder=holder, reentrant=1) == "reentrant"
    assert asked(holder=["ada"]) == "holder"  # nor can that be remembered
    assert asked(Settings(ttl_most=1_000_000)) == "ttl"
    assert not isinstance(asked(), str)
