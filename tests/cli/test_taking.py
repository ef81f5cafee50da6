"""acquire, renew, release, update: what they do, what they say, how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.shell import Shell, until
from tests.kit.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path


def test_acquire_says_what_was_taken_until_when_and_with_which_fence(shell: Shell) -> None:
    done = shell.call("acquire", "issue:42", "--ttl", "5m")
    assert done.code == 0
    assert done.err == ""
    for line in ("Acquired issue:42", "holder  ada", "(in 5m)", "fence   1", "leasehold release issue:42"):
        assert line in done.out


def test_release_needs_nothing_but_the_name(shell: Shell) -> None:
    shell.call("acquire", "issue:42")
    done = shell.call("release", "issue:42")
    assert (done.code, done.out) == (0, "Released issue:42 (completed)\n")
    assert shell.holders("issue:42") == []


def test_the_name_may_be_spelled_differently(shell: Shell) -> None:
    shell.call("acquire", "path:./src//a.py")
    assert shell.call("renew", "path:src/a.py").code == 0
    assert shell.call("release", "PATH:src/x/../a.py").code == 0


def test_a_refusal_tells_holder_work_since_until_queue_and_the_next_command(shell: Shell) -> None:
    shell.call("acquire", "issue:42", "--name", "fix the parser", "--reason", "it crashes")
    done = shell.call("acquire", "issue:42", holder="bob")
    assert done.code == 4
    assert done.out == ""
    for part in (
        "Held: issue:42",
        "holder       ada  (exclusive, issue:42)",
        "work         fix the parser: it crashes",
        "since        20",
        "until        20",
        "unless it is renewed or released",
        "queue        0 waiting; your place would be 1",
        "Next: go on with something else, or wait for it:\n  leasehold acquire issue:42 --wait 10m\n",
    ):
        assert part in done.err


def test_a_refusal_is_the_same_in_json(shell: Shell) -> None:
    shell.call("acquire", "issue:42", "--name", "fix the parser")
    said = shell.json("acquire", "issue:42", holder="bob")
    assert said["error"]["code"] == "held"
    assert said["error"]["holders"][0]["holder"] == "ada"
    assert said["error"]["holders"][0]["name"] == "fix the parser"
    assert said["error"]["queue"] == {"length": 1, "position": 1}


def test_a_wait_that_ends_in_vain_is_another_exit_code(shell: Shell) -> None:
    shell.call("acquire", "issue:42")
    done = shell.call("acquire", "issue:42", "--wait", "50ms", holder="bob")
    assert done.code == 5
    assert "Timed out: issue:42" in done.err
    assert shell.json("acquire", "issue:42", "--wait", "50ms", holder="bob")["error"]["code"] == "timeout"


def test_a_deadlock_is_told_with_its_cycle(shell: Shell) -> None:
    shell.call("acquire", "a")
    shell.call("acquire", "b", holder="bob")
    assert shell.call("acquire", "b").code == 4
    done = shell.call("acquire", "a", holder="bob")
    assert done.code == 6
    assert "Deadlock: " in done.err
    assert "leasehold list --mine" in done.err
    assert shell.json("acquire", "a", holder="bob")["error"]["code"] == "deadlock"


def test_your_own_is_refused_like_anybody_elses_unless_you_say_reentrant(shell: Shell) -> None:
    first = shell.json("acquire", "issue:42")["data"]
    refused = shell.call("acquire", "issue:42")
    assert refused.code == 4
    assert "Next: it is yours since 20" in refused.err
    assert "go on; or have the same lease extended:\n  leasehold acquire issue:42 --reentrant" in refused.err
    told = shell.json("acquire", "issue:42")["error"]
    assert (told["code"], told["yours"]) == ("held", True)
    assert told["message"].startswith("issue:42 is yours since 20")
    again = shell.call("acquire", "issue:42", "--reentrant")
    assert again.out.startswith("Extended issue:42")
    data = shell.json("acquire", "issue:42", "--reentrant")["data"]
    assert (data["lease"]["fence"], data["fresh"]) == (first["lease"]["fence"], False)
    assert shell.call("acquire", "issue:42", "--reentrant", holder="bob").code == 4
    assert shell.call("release", "issue:42").code == 0


def test_what_is_quarantined_is_for_people_to_open(shell: Shell) -> None:
    shell.call("acquire", "deploy", "--on-expiry", "quarantine")
    shell.call("force-release", "deploy", "--reason", "gone", holder="ops")
    done = shell.call("acquire", "deploy", holder="bob")
    assert done.code == 4
    assert "quarantined after ada" in done.err
    assert "until a person has opened it again" in done.err
    assert "leasehold history deploy" in done.err
    assert "clear" not in done.err


# ---------------------------------------------------------------------------------------- renew and lose


def test_renew_gives_a_full_ttl_again(shell: Shell) -> None:
    shell.call("acquire", "issue:42", "--ttl", "5m")
    assert "(in 5m)" in shell.call("renew", "issue:42").out
    assert shell.json("renew", "issue:42", "--ttl", "2h")["data"]["lease"]["ttl_seconds"] == 7200


def test_what_expired_is_lost_and_stays_so(shell: Shell) -> None:
    shell.call("acquire", "issue:42", "--ttl", "10ms")
    until(lambda: not shell.holders("issue:42"))
    done = shell.call("renew", "issue:42")
    assert done.code == 7
    assert "Lost: the lease is gone (expired)" in done.err
    assert "Next: acquire it again:\n  leasehold acquire issue:42" in done.err
    done = shell.call("renew", "issue:42")
    assert done.code == 7
    assert "Lost: the lease is gone (expired)" in done.err


def test_what_was_released_can_be_released_again(shell: Shell) -> None:
    granted = shell.json("acquire", "a", "b")["data"]["lease"]["id"]
    assert shell.json("release", "a")["data"]["released"]
    for target in ("a", "b", granted):
        said = shell.json("release", target)
        assert (said["ok"], said["data"]["lease"], said["data"]["released"]) == (True, granted, False)
        assert shell.json("renew", target)["error"]["code"] == "lost"
    assert shell.call("release", "a", holder="bob").code == 3  # who never had it


def test_what_was_taken_by_force_is_lost_and_says_by_whom(shell: Shell) -> None:
    shell.call("acquire", "issue:42")
    shell.call("force-release", "issue:42", "--reason", "wrong branch", holder="ops")
    said = shell.json("renew", "issue:42")
    assert said["error"]["code"] == "lost"
    assert "ops" in said["error"]["reason"]
    assert "wrong branch" in said["error"]["reason"]


def test_a_release_after_the_end_is_no_failure_and_spares_the_successor(shell: Shell) -> None:
    shell.call("acquire", "issue:42", "--ttl", "10ms")
    until(lambda: not shell.holders("issue:42"))
    shell.call("acquire", "issue:42", holder="bob")
    done = shell.call("release", "issue:42")
    assert done.code == 0
    assert "was not held any more (expired)" in done.out
    assert shell.holders("issue:42") == ["bob"]


def test_how_the_work_ended_is_in_the_history(shell: Shell) -> None:
    shell.call("acquire", "issue:42")
    shell.call("release", "issue:42", "--status", "failed", "--error", "tests are red")
    assert "failed, tests are red" in shell.call("history", "issue:42").out


def test_update_replaces_and_merges(shell: Shell) -> None:
    shell.call("acquire", "issue:42", "--context", '{"step": 1}')
    assert shell.call("update", "issue:42", "--context", '{"step": 2}').out == "Updated issue:42\n"
    said = shell.json("update", "issue:42", "--context", '{"by": "me"}', "--merge")
    assert said["data"]["lease"]["context"] == {"step": 2, "by": "me"}
    assert shell.call("update", "issue:42").code == 2


# ----------------------------------------------------------------------------------------- several at once


def test_several_resources_of_one_lease_are_released_once(shell: Shell) -> None:
    shell.call("acquire", "a", "b")
    done = shell.call("release", "a", "b")
    assert (done.code, done.out) == (0, "Released a (completed)\nReleased b (completed)\n")
    shell.call("acquire", "a", "path:b", "c")
    assert shell.call("release", "path:./b").out == "Released path:./b (completed), with the rest of its lease: a c\n"


def test_several_targets_make_one_object(shell: Shell) -> None:
    shell.call("acquire", "a")
    shell.call("acquire", "b")
    said = shell.json("renew", "a", "b")
    assert [each["target"] for each in said["data"]["results"]] == ["a", "b"]
    mixed = shell.call("release", "a", "never", "b", "--json")
    assert mixed.code == 3
    assert mixed.said["error"]["code"] == "not_found"
    assert [each["ok"] for each in mixed.said["error"]["results"]] == [True, False, True]


def test_the_first_that_is_free_is_taken_and_named(shell: Shell) -> None:
    shell.call("acquire", "device-1", holder="bob")
    done = shell.call("acquire", "device-1", "device-2", "--any-of")
    assert done.out.startswith("Acquired device-2\n")


def test_shared_and_slots(shell: Shell) -> None:
    assert shell.call("acquire", "docs", "--shared").code == 0
    assert shell.call("acquire", "docs", "--mode", "shared", holder="bob").code == 0
    assert shell.call("acquire", "docs", holder="eve").code == 4
    assert shell.call("acquire", "gpu", "--slots", "2").code == 0
    mismatch = shell.call("acquire", "gpu", "--slots", "3", holder="bob")
    assert mismatch.code == 4
    assert "leasehold inspect gpu" in mismatch.err


def test_an_exclusive_lease_has_no_slots(shell: Shell) -> None:
    for verb, command in (("acquire", []), ("run", ["--", "true"])):
        done = shell.call(verb, "gpu", "--mode", "exclusive", "--slots", "3", *command)
        assert done.code == 2
        assert "slots: an exclusive lease has one holder" in done.err
    assert shell.call("inspect", "gpu", "--json").said["data"]["leases"] == []


# ------------------------------------------------------------------------------------- what is not yours


def test_a_release_of_what_another_agent_holds_tells_who(shell: Shell, tmp_path: Path) -> None:
    shell.call("acquire", "issue:42", "--name", "fix the parser")
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "other"), "LEASEHOLD_URL": f"sqlite://{shell.database}"}
    done = shell.call("release", "issue:42", holder="bob", env=elsewhere)
    assert done.code == 8
    assert "issue:42 is held by ada (fix the parser) until 20" in done.err
    assert "its token is not kept here" in done.err
    assert "leasehold release issue:42 --token-file FILE" in done.err
    assert "force" not in done.err
    assert shell.holders("issue:42") == ["ada"]


@pytest.mark.parametrize("verb", ["release", "renew"])
def test_a_name_that_ones_own_lease_covers_leads_to_that_lease(shell: Shell, verb: str) -> None:
    shell.call("acquire", "path:src")
    done = shell.call(verb, "path:src/a.py")
    assert (done.code, shell.holders("path:src")) == (8, ["ada"])
    assert "path:src/a.py has no lease of its own: yours on path:src covers it until 20" in done.err
    assert done.err.endswith(f"\n  leasehold {verb} path:src\n")


def test_what_was_taken_here_under_another_name_is_recognised_at_a_terminal(shell: Shell) -> None:
    """Sub-agents that `--holder` tells apart have one process: the second would release the lease of the first."""
    shell.call("acquire", "issue:42")
    for verb in ("release", "renew"):
        done = shell.call(verb, "issue:42", holder="bob")
        assert done.code == 8
        assert "its token is that of another holder" in done.err
        assert "--holder ada" not in done.err
        with Terminal(shell, verb, "issue:42", holder="bob") as terminal:
            assert terminal.end() == 8
        assert f"leasehold {verb} issue:42 --holder ada" in terminal.shown
    said = shell.json("release", "issue:42", holder="bob")
    assert said["error"]["holders"][0]["holder"] == "ada"
    assert "token" not in said["error"]["holders"][0]


def test_what_nobody_holds_is_not_found(shell: Shell) -> None:
    for words in (["release", "x"], ["renew", "x"], ["update", "x", "--context", "1"]):
        done = shell.call(*words)
        assert done.code == 3
        assert "nobody holds x" in done.err
        assert "leasehold list" in done.err


def test_commands_that_are_suggested_repeat_who_and_where(shell: Shell) -> None:
    shell.call("acquire", "x y", "--space", "team")
    done = shell.call("acquire", "x y", "--space", "team", "--holder", "bob")
    assert "leasehold acquire 'x y' --holder bob --space team --wait 10m" in done.err
    assert "leasehold release -- -x" in shell.call("acquire", "--", "-x").out


@pytest.mark.parametrize("how", [[], ["--shared"], ["--slots", "2"], ["--any-of"], ["--slots", "3", "--any-of"]])
def test_a_suggestion_asks_for_the_same_thing(shell: Shell, how: list[str]) -> None:
    """Without its options it would be an exclusive lease on all of it."""
    shell.call("acquire", "x", "y", holder="bob")
    done = shell.call("acquire", "x", "y", *how)
    assert done.code == 4
    assert f"leasehold acquire x y {' '.join([*how, ''])}--wait 10m\n" in done.err
