"""Tokens and secrets: kept privately, handed over through files, never on a command line or in a listing."""

from __future__ import annotations

import json
from stat import S_IMODE
from typing import TYPE_CHECKING

import pytest

from leasehold.cli.entry.table import VERBS
from tests.kit.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.shell import Shell


def taken(shell: Shell, *words: str) -> str:
    """The token of a lease that was just taken."""
    token = shell.json("acquire", *words)["data"]["token"]
    assert isinstance(token, str)
    assert len(token) == 32
    return token


def test_tokens_are_kept_in_a_directory_of_ones_own(shell: Shell) -> None:
    token = taken(shell, "issue:42")
    folder = shell.state / "leasehold" / "tokens"
    assert S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert {S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert any(token in path.read_text() for path in files)
    shell.run("release", "issue:42")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["list"], ["inspect", "issue:42"], ["history"], ["doctor"], ["watch", "--count", "1"]]
)
def test_no_token_is_ever_listed(shell: Shell, words: list[str]) -> None:
    token = taken(shell, "issue:42")
    for more in ([], ["--json"]):
        done = shell.run(*words, *more)
        assert done.code == 0
        assert token not in done.out + done.err
        assert '"token"' not in done.out


def test_a_server_may_be_spelled_another_way_when_the_lease_is_released(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as server:
        assert shell.run("acquire", "issue:42", "--url", f"{server.url}/").code == 0
        assert shell.run("renew", "issue:42", "--url", server.url).code == 0
        assert shell.run("release", "issue:42", "--url", server.url.upper()).code == 0


def test_a_database_may_be_spelled_another_way_when_the_lease_is_released(shell: Shell) -> None:
    full = shell.home / "x.db"
    assert shell.run("acquire", "issue:42", "--url", "sqlite:./x.db").code == 0
    assert shell.run("renew", "issue:42", "--url", f"sqlite://{full}?retention_days=7").code == 0
    assert shell.run("release", "issue:42", "--url", f"SQLITE:///.{full}").code == 0


def test_no_option_takes_a_secret_itself() -> None:
    flags = {option.flag for verb in VERBS.values() for option in verb.options if option.metavar is not None}
    assert not flags & {"--token", "--secret", "--session", "--password"}
    assert {"--token-file", "--session-file"} <= flags


def test_a_token_kept_in_a_file_is_private_and_is_enough(shell: Shell) -> None:
    path = shell.home / "my token"
    path.write_text("x" * 500)
    path.chmod(0o644)
    assert shell.run("acquire", "issue:42", "--token-file", str(path)).code == 0
    assert S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text()) == 33
    assert not (shell.state / "leasehold" / "tokens").exists()
    assert shell.run("renew", "issue:42", "--token-file", str(path), holder="somebody").code == 0
    assert shell.run("release", "issue:42").code == 8
    assert shell.run("release", "issue:42", "--token-file", str(path)).code == 0


def test_a_token_comes_out_of_standard_output_and_goes_into_standard_input(shell: Shell) -> None:
    done = shell.run("acquire", "issue:42", "--token-file", "-")
    assert done.code == 0
    assert len(done.out) == 33
    assert done.err.startswith("Acquired issue:42")
    assert shell.run("renew", "issue:42", "--token-stdin", give=done.out).code == 0
    assert shell.run("release", "issue:42", "--token-file", "-", give=done.out).code == 0


def test_with_json_the_token_is_in_the_one_object(shell: Shell) -> None:
    done = shell.run("acquire", "issue:42", "--token-file", "-", "--json")
    token = done.said["data"]["token"]
    lease = done.said["data"]["lease"]["id"]
    assert shell.run("release", lease, "--token-stdin", give=token).code == 0


def test_the_token_finds_its_lease_among_those_of_others(shell: Shell) -> None:
    first = taken(shell, "docs", "--shared", "--token-file", str(shell.home / "t"))
    shell.run("acquire", "docs", "--shared", holder="bob")
    shell.run("acquire", "docs", "--shared", holder="eve")
    done = shell.run("release", "docs", "--token-stdin", holder="carol", give=first)
    assert done.code == 0
    assert sorted(shell.holders("docs")) == ["bob", "eve"]


def test_a_wrong_token_is_not_allowed(shell: Shell) -> None:
    taken(shell, "issue:42")
    for verb in ("renew", "release"):
        done = shell.run(verb, "issue:42", "--token-stdin", give="0" * 32 + "\n")
        assert done.code == 8
        assert "0" * 32 not in done.err
        assert "Next: see who holds it:\n  leasehold inspect issue:42" in done.err
    assert shell.holders("issue:42") == ["ada"]


@pytest.mark.parametrize("given", ["", "\n", "   \n"])
def test_an_empty_token_is_refused(shell: Shell, given: str) -> None:
    taken(shell, "issue:42")
    done = shell.run("release", "issue:42", "--token-stdin", give=given)
    assert done.code == 2
    assert "standard input is empty" in done.err


def test_a_file_that_cannot_be_read_is_refused(shell: Shell) -> None:
    done = shell.run("release", "issue:42", "--token-file", "/nowhere/token")
    assert done.code == 2
    assert "/nowhere/token cannot be read" in done.err


def test_what_cannot_be_kept_is_not_held_either(shell: Shell) -> None:
    done = shell.run("acquire", "issue:42", "--token-file", "/nowhere/token")
    assert done.code == 2
    assert "/nowhere/token cannot be written" in done.err
    assert shell.holders("issue:42") == []
    (shell.state / "leasehold" / "tokens").mkdir(mode=0o755)
    done = shell.run("acquire", "issue:42")
    assert done.code == 1
    assert "not private" in done.err
    assert shell.holders("issue:42") == []


def test_a_token_is_not_written_through_a_link_that_another_user_may_have_made(shell: Shell) -> None:
    shared, target = shell.home / "shared", shell.home / "target"
    shared.mkdir()
    shared.chmod(0o777)
    target.write_text("precious")
    (shared / "token").symlink_to(target)
    for words in (["acquire", "issue:42", "--token-file"], ["session", "start", "--session-file"]):
        done = shell.run(*words, str(shared / "token"))
        assert (done.code, "is a link that another user made or may replace" in done.err) == (2, True), done
    assert target.read_text() == "precious"
    assert shell.holders("issue:42") == []


def test_what_was_yours_before_stays_yours_if_the_new_token_cannot_be_kept(shell: Shell) -> None:
    shell.run("acquire", "issue:42")
    assert shell.run("acquire", "issue:42", "--token-file", "/nowhere/token").code == 2
    assert shell.run("release", "issue:42").code == 0


def test_a_session_is_handed_over_in_a_file_or_by_the_environment(shell: Shell) -> None:
    path = shell.home / "session"
    done = shell.run("session", "start", "--ttl", "5m", "--session-file", str(path))
    assert done.code == 0
    credential = path.read_text().strip()
    secret = credential.rpartition(".")[2]
    assert secret not in done.out
    assert S_IMODE(path.stat().st_mode) == 0o600
    assert shell.run("acquire", "a", "--session-file", str(path)).code == 0
    assert shell.run("acquire", "b", env={"LEASEHOLD_SESSION": credential}).code == 0
    assert shell.run("session", "heartbeat", "--session-file", "-", give=credential).code == 0
    listed = shell.run("session", "list", "--json")
    assert secret not in listed.out
    ended = shell.json("session", "end", "--session-file", str(path))
    assert sorted(ended["data"]["released"]) == ["a", "b"]


def test_a_secret_on_the_command_line_is_refused(shell: Shell) -> None:
    done = shell.run("session", "end", "s0123.secret")
    assert done.code == 2
    assert "does not belong on the command line" in done.err


def test_token_and_session_cannot_both_come_from_standard_input(shell: Shell) -> None:
    done = shell.run("release", "x", "--token-stdin", "--session-file", "-", give="a\nb\n")
    assert done.code == 2
    assert "standard input" in done.err


def test_the_answer_that_cannot_be_written_gives_the_lease_back(shell: Shell) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        process = shell.start("acquire", "issue:42", "--token-file", "-", stdout=full)
        _, said = process.communicate()
    assert process.returncode == 2
    assert "standard output cannot be written" in said
    assert shell.holders("issue:42") == []
    assert json.loads(shell.run("list", "--json").out)["data"]["leases"] == []
