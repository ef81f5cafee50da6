"""Bounds: bad input on any verb is refused by a refusal that names the field, and changes nothing (spec 8)."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.outcomes import Refused
from leasehold.testing.conformance.asking import LONG, Connect, leases_of, refused, take, wrong

if TYPE_CHECKING:
    from leasehold.locks.sync import Locks

NOT_TEXT = (1, 1.5, True, b"bytes", ["x"], {"x": 1})
BAD_TEXT = (*NOT_TEXT, "", " x", "x ", "a\nb", "\x00", "\x7f", "\ud800")
BAD_DURATION = (-1, math.nan, math.inf, -math.inf, "abc", "1e5", "", [1], b"1s", True, 1e300, 10**400)
BAD_FLAG: tuple[object, ...] = (None, 0, 1, "true", "yes", [])
BAD_LEASE = (*NOT_TEXT, None, "", "x", "l1", "l1-", "w1-" + "0" * 32, "l01-" + "0" * 32, "l1-" + "G" * 32)

ACQUIRE: dict[str, tuple[object, ...]] = {
    "resources": (None, 1, {"a": 1}, [], ["x"] * 65, b"r"),
    "resource": (["ok", 1], ["ok", None], ["ok", ["nested"]], "", ["ok", ""], ["a\nb"], "x" * 513),
    "ttl": (*BAD_DURATION, None, 0, 0.001, "25h"),
    "wait": (*(each for each in BAD_DURATION if each is not True), None, "25h"),
    "mode": ("", "EXCLUSIVE", "read", 1, ["shared"]),
    "slots": (None, 0, -1, 1.0, "2", True, 10_001, 10**30),
    "any_of": BAD_FLAG,
    "holder": (*BAD_TEXT, "x" * 257, "é" * 129),
    "session": (*BAD_TEXT, "nodot", ".x", "x.", "x" * 513),
    "space": (*BAD_TEXT, "x" * 129),
    "name": (*BAD_TEXT, "x" * 257),
    "context": ({1, 2}, b"x", {"a": math.nan}, {"a": object()}, "x" * 16_384, {("a",): 1}, "\ud800"),
    "reason": (*BAD_TEXT, "x" * 1025),
    "priority": (None, 1.5, "1", True, 1001, -1001),
    "reentrant": BAD_FLAG,
    "token": ("", " a", 7, True, [None], [""], ["a"] * 65, {"a": 1}),
    "grace": (*BAD_DURATION, None, 61, "2m"),
    "on_expiry": (None, "", "keep", 1),
    "request_id": (*BAD_TEXT, "x" * 129),
    "intent": BAD_FLAG,
    "trace": (*BAD_TEXT, "x" * 129),
    "host": (*BAD_TEXT, "x" * 256),
}
PROOF: dict[str, tuple[object, ...]] = {
    "token": (*BAD_TEXT, "x" * 257),
    "session": (*BAD_TEXT, "nodot", ".x", "x."),
    "admin": (*BAD_TEXT, "x" * 257),
}
BY = {"by": (None, *BAD_TEXT, "x" * 257), "reason": (None, *BAD_TEXT, "x" * 1025), "space": BAD_TEXT}
RESOURCE = (None, *NOT_TEXT, "", " x", "path:../x", "x" * 513)
BAD: dict[str, dict[str, tuple[object, ...]]] = {
    "acquire": ACQUIRE,
    "renew": {"lease": BAD_LEASE, "ttl": (*BAD_DURATION, 0, "25h"), **PROOF},
    "release": {"lease": BAD_LEASE, "status": (None, "", "done", 1), "error": (1, b"x", ["x"]), **PROOF},
    "update": {"lease": BAD_LEASE, "context": (None, *ACQUIRE["context"]), "merge": BAD_FLAG, **PROOF},
    "cancel": {
        "request_id": (None, *BAD_TEXT, "x" * 129),
        "holder": BAD_TEXT,
        "space": BAD_TEXT,
        **PROOF,
    },
    "start_session": {
        "ttl": ACQUIRE["ttl"],
        "holder": BAD_TEXT,
        "name": BAD_TEXT,
        "session": PROOF["session"],
        "space": BAD_TEXT,
    },
    "renew_session": {"session": (None, *PROOF["session"]), "space": BAD_TEXT, "admin": PROOF["admin"]},
    "end_session": {
        "session": (None, *PROOF["session"]),
        "space": BAD_TEXT,
        "admin": PROOF["admin"],
        "reason": (*BAD_TEXT, "x" * 1025),
    },
    "force_release": {"resource": RESOURCE, **BY},
    "steal": {
        "resources": ACQUIRE["resources"],
        "resource": ACQUIRE["resource"],
        "ttl": ACQUIRE["ttl"],
        "holder": ACQUIRE["holder"],
        "name": ACQUIRE["name"],
        "context": ACQUIRE["context"],
        **BY,
    },
    "clear": {"resource": RESOURCE, **BY},
    "report_trespass": {"lease": BAD_LEASE, "paths": ACQUIRE["resources"], "by": BY["by"]},
    "extend": {"lease": BAD_LEASE, "ttl": BAD_DURATION, "by": BY["by"], "reason": BY["reason"]},
    "declare_pool": {
        "resource": (*RESOURCE, "issue:1", "pool://r/1", "pool://r?label=x"),
        "members": (1, "a", ["a/b"], ["a,b"], [""], [1], ["a\n"], ["x" * 201], ["a"] * 1001),
        "by": BY["by"],
        "space": BAD_TEXT,
    },
    "note": {"resource": RESOURCE, "text": ("", 1, "x" * 1025), "by": BY["by"], "space": BAD_TEXT},
    "inspect": {"resource": RESOURCE, "space": BAD_TEXT},
    "graph": {"space": BAD_TEXT, "limit": (None, 0, -1, 10_001, "1", 1.5, True)},
    "sessions": {"space": BAD_TEXT},
    "create_key": {
        "role": (None, "", "root", 1, ["admin"]),
        "name": (None, *BAD_TEXT, "x" * 257),
        "space": BAD_TEXT,
        "prefixes": (None, 1, "path:src", [1], [None], [""], {"path:src": 1}),
        "by": (*BAD_TEXT, "x" * 257),
        "reason": (*BAD_TEXT, "x" * 1025),
    },
    "rotate_key": {
        "key": (None, *BAD_TEXT, "x" * 65, "lh_0123456789abcdef_secret"),
        "overlap": (*(each for each in BAD_DURATION if each is not True), None, "91d"),
        "by": (*BAD_TEXT, "x" * 257),
        "reason": (*BAD_TEXT, "x" * 1025),
    },
    "revoke_key": {
        "key": (None, *BAD_TEXT, "x" * 65, "lh_0123456789abcdef_secret"),
        "by": (*BAD_TEXT, "x" * 257),
        "reason": (*BAD_TEXT, "x" * 1025),
    },
    "plan": {
        "resources": ACQUIRE["resources"],
        "resource": ACQUIRE["resource"],
        "ttl": ACQUIRE["ttl"],
        "name": BAD_TEXT,
        "reason": ACQUIRE["reason"],
        "holder": ACQUIRE["holder"],
        "session": ACQUIRE["session"],
        "space": BAD_TEXT,
        "token": ACQUIRE["token"],
        "trace": ACQUIRE["trace"],
        "firm": BAD_FLAG,
        "wait": (None, 0, "abc", 5),
    },
    "plans": {"space": BAD_TEXT, "holder": BAD_TEXT, "resource": RESOURCE[1:]},
    "list": {"space": BAD_TEXT, "holder": BAD_TEXT, "resource": RESOURCE[1:]},
    "history": {
        "space": BAD_TEXT,
        "resource": RESOURCE[1:],
        "holder": BAD_TEXT,
        "lease": tuple(each for each in BAD_LEASE if each is not None),
        "kinds": (None, "granted", 1, [1], {"granted"}),
        "since": (-1, 1.5, "1", True),
        "before": (-1, 1.5, "1", True),
        "limit": (None, 0, -1, 10_001, "1", 1.5, True),
    },
}
"""For each verb and each field: what it must refuse, naming the field."""

PARAMETER = {
    "acquire": {"resource": "resources"},
    "steal": {"resource": "resources"},
    "plan": {"resource": "resources"},
    "force_release": {"resource": "target"},
}
"""Where the field that a refusal names is not called like the argument that it came by."""


def _sound(verb: str, lease: str, token: str) -> dict[str, object]:
    """Arguments with which the verb would do something."""
    arguments: dict[str, dict[str, object]] = {
        "acquire": {"resources": "new", "ttl": LONG},
        "renew": {"lease": lease, "token": token},
        "release": {"lease": lease, "token": token},
        "update": {"lease": lease, "token": token, "context": {"changed": True}},
        "cancel": {"request_id": "q"},
        "start_session": {"ttl": LONG},
        "renew_session": {"session": "run.x"},
        "end_session": {"session": "run.x"},
        "force_release": {"target": "r", "by": "ops", "reason": "why"},
        "steal": {"resources": "r", "ttl": LONG, "by": "ops", "reason": "why"},
        "clear": {"resource": "r", "by": "ops", "reason": "why"},
        "report_trespass": {"lease": lease, "paths": "path:a", "by": "agent"},
        "extend": {"lease": lease, "ttl": LONG, "by": "ops", "reason": "why"},
        "note": {"resource": "r", "text": "why", "by": "ops"},
        "declare_pool": {"resource": "pool://r", "members": ["a"], "by": "ops"},
        "inspect": {"resource": "r"},
        "graph": {},
        "sessions": {},
        "create_key": {"role": "agent", "name": "ci"},
        "rotate_key": {"key": "0" * 16},
        "revoke_key": {"key": "0" * 16},
        "list": {},
        "plan": {"resources": "new", "ttl": LONG},
        "plans": {},
        "history": {},
    }
    return arguments[verb]


def _state(locks: Locks) -> object:
    return (leases_of(locks), locks.history(), locks.keys())


BEYOND_SETTINGS = ("ttl", "25h")
"""Another installation may allow it, so it is refused, and no error."""


class Bounds:
    """Limits: nothing beyond them is accepted, and everything within them is."""

    @pytest.mark.parametrize("verb", BAD)
    def test_bounds_of_every_field(self, connect: Connect, verb: str) -> None:
        """Each bad value of each field: an error that names it, and never a change."""
        locks = connect(holder="alice")
        locks.start_session(ttl=LONG, session="run.x")
        granted = take(locks, "r", session="run.x", request_id="q")
        before = _state(locks)
        sound = _sound(verb, granted.lease.id, granted.token)
        for field, values in BAD[verb].items():
            parameter = PARAMETER.get(verb, {}).get(field, field)
            for value in values:
                call = partial(getattr(locks, verb), **{**sound, parameter: value})
                if (parameter, value) == BEYOND_SETTINGS:
                    refused(call(), "invalid", field)
                else:
                    assert wrong(field, call).message
        assert _state(locks) == before

    def test_bounds_are_wide_enough(self, connect: Connect) -> None:
        """A value just inside a limit is accepted."""
        locks = connect()
        take(
            locks,
            "r",
            ttl="24h",
            wait="24h",
            slots=10_000,
            holder="h" * 256,
            space="s" * 128,
            name="n" * 256,
            context="x" * 16_382,
            reason="ü" * 512,
            priority=-1000,
            grace="1m",
            request_id="q" * 128,
        )

    def test_bounds_of_an_error_text(self, connect: Connect) -> None:
        """An error may be long and of several lines: it is cut off, not refused."""
        locks = connect()
        granted = take(locks, "r")
        outcome = locks.release(granted.lease.id, granted.token, status="failed", error="é\n" * 10_000)
        assert not isinstance(outcome, Refused)
        assert leases_of(locks) == ()

    def test_bounds_markup_and_escapes_stay_what_they_are(self, connect: Connect) -> None:
        """Text that means something elsewhere means nothing here, and comes back as it went in."""
        locks = connect()
        nasty = '\'; DROP TABLE leases; -- <script>alert(1)</script> %s {0} \\ "quoted" \U0001f512'
        lease = take(locks, nasty, name=nasty, reason=nasty, context={nasty: nasty}, holder=nasty).lease
        assert leases_of(locks, resource=nasty, holder=nasty) == (lease,)
        assert (lease.resources, lease.name, lease.reason, lease.holder) == ((nasty,), nasty, nasty, nasty)
