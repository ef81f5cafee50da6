"""Keys in the rules and the stores: one of each id, dropped exactly, and kept over a reboot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.api_keys import Key, KeyCreated, KeyRevoked
from leasehold.domain.entries import EMPTY
from leasehold.domain.outcomes import Refused
from leasehold.domain.records import build, due
from leasehold.domain.rules import Step, step
from leasehold.domain.rules.reboot import after_reboot
from leasehold.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

KEY = Key("k1", "agent", "team", "ci", ("path:",), "hash", 5, "k1")


def decide(command: c.Command, *there: Key) -> Step:
    records = {keys.key(id_): EMPTY for id_ in ("k1", "k2")}
    records.update({keys.key(key.id): build([key]) for key in there})
    done = step(records, command, 5, 1)
    assert isinstance(done, Step)
    return done


def test_a_key_is_added_once() -> None:
    add = c.AddKey("k1", "agent", "team", "ci", ("path:",), "hash")
    done = decide(add)
    assert done.outcome == KeyCreated(KEY._replace(secret=""), "")
    assert done.changed[keys.key("k1")].notes == {"k1": KEY}
    assert [event.kind for event in done.events] == ["key_created"]
    assert "hash" not in str(done.events)
    again = decide(add._replace(role="admin"), KEY)
    assert isinstance(again.outcome, Refused)
    assert (again.outcome.code, list(again.changes)) == ("conflict", [])


def test_exactly_this_key_goes() -> None:
    done = decide(c.RevokeKey("k1"), KEY, KEY._replace(id="k2"))
    assert done.outcome == KeyRevoked("k1", revoked=True)
    assert list(done.changed) == [keys.key("k1")]
    missing = decide(c.RevokeKey("k1"))
    assert (missing.outcome, list(missing.changes)) == (KeyRevoked("k1", revoked=False), [])


def test_a_key_neither_expires_nor_goes_down_with_the_machine() -> None:
    assert due(KEY) is None
    assert after_reboot(KEY, 1, 2, {}) == KEY


def test_the_verbs(tmp_path: Path) -> None:
    with leasehold.connect(f"sqlite:///{tmp_path / 'x.db'}") as locks:
        made = locks.create_key(role="viewer", name="ann")
        assert isinstance(made, KeyCreated)
        assert made.credential.startswith(f"lh_{made.key.id}_")
        assert locks.keys() == (made.key,)
        assert made.key.secret == ""
        for wrong in ({"role": "god"}, {"name": ""}, {"prefixes": "path:"}, {"space": ""}):
            with pytest.raises(InvalidInput, match=f"^{next(iter(wrong))}: "):
                locks.create_key(**{"role": "viewer", "name": "x", **wrong})
        assert locks.revoke_key(made.key.id) == KeyRevoked(made.key.id, revoked=True)
        assert locks.keys() == ()
