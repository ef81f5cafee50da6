"""What a refusal says to do next can be done: the command it names, typed as it stands, is the one that helps."""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING

import pytest

from tests.kit.serving import create_key, serving
from tests.kit.shell import ROOT, Done, Shell

if TYPE_CHECKING:
    from pathlib import Path


def suggested(done: Done, before: str) -> list[str]:
    """The words of the command on the line after these words, where it stands alone so that it can be copied whole."""
    lines = done.err.splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.startswith(("Next: ", "Then ")) and before in line]
    assert lines[place].endswith(f"{before}:"), lines[place]
    assert lines[place + 1].startswith("  leasehold "), lines[place + 1]
    return shlex.split(lines[place + 1])[1:]


# --------------------------------------------------------------------------------------- your own is in the way


def test_of_several_names_only_those_that_are_yours_are_to_be_released(shell: Shell) -> None:
    shell.call("acquire", "b")
    refused = shell.call("acquire", "a", "b")
    assert refused.code == 4
    assert suggested(refused, "or release it first") == ["release", "b"]
    assert shell.call("acquire", "a", "b", "--mode", "shared").code == 4
    assert shell.call("release", "b").code == 0
    assert shell.call("acquire", "a", "b").code == 0


def test_what_covers_the_name_is_told_by_its_own_name(shell: Shell) -> None:
    shell.call("acquire", "path:src")
    refused = shell.call("acquire", "path:src/a.py")
    assert refused.code == 4
    assert "what is in the way is yours since 20" in refused.err
    assert "go on under path:src if that is enough, or release it first" in refused.err
    assert shell.call(*suggested(refused, "or release it first")).code == 0
    assert shell.call("acquire", "path:src/a.py").code == 0


def test_who_is_in_its_own_way_beside_others_is_told_to_give_that_back_first(shell: Shell) -> None:
    shell.call("acquire", "issue:1")
    shell.call("acquire", "issue:2", holder="bob")
    refused = shell.call("acquire", "repo:all")
    assert refused.code == 4
    assert suggested(refused, "release that first") == ["release", "issue:1"]
    assert suggested(refused, "Then wait for the rest") == ["acquire", "repo:all", "--wait", "10m"]


def test_what_is_quarantined_is_looked_up_by_its_own_name(shell: Shell) -> None:
    shell.call("acquire", "b", "--on-expiry", "quarantine")
    shell.call("force-release", "b", "--reason", "gone", holder="ops")
    refused = shell.call("acquire", "a", "b", holder="bob")
    assert refused.code == 4
    assert suggested(refused, "and see what happened") == ["history", "b"]


@pytest.mark.parametrize(("taken", "said"), [("--shared", "a shared lease"), ("--slots 2", "one of its slots")])
def test_a_reader_that_wants_to_write_is_not_told_to_go_on(shell: Shell, taken: str, said: str) -> None:
    shell.call("acquire", "x", *taken.split())
    for more in ("", "--wait 10m", "--reentrant"):
        refused = shell.call("acquire", "x", *more.split())
        assert f"but only as {said}" in refused.err
        assert "go on" not in refused.err
        assert suggested(refused, "before you ask for more") == ["release", "x"]
        told = shell.json("acquire", "x", *more.split())["error"]["message"]
        assert told.endswith(f", but only as {said}: release that before you ask for more")


def test_a_program_that_is_in_its_own_way_is_not_told_to_wait(shell: Shell) -> None:
    shell.call("acquire", "path:src")
    for wait in ("0", "20ms"):
        told = shell.json("acquire", "path:src/a.py", "--wait", wait)["error"]
        assert told["message"].startswith("path:src/a.py is yours since 20")
        assert told["message"].endswith("as path:src; go on under that if it covers what you need, or release it first")
        assert told["holders"][0]["resource"] == "path:src"
    shell.call("acquire", "issue:2", holder="bob")
    told = shell.json("acquire", "repo:all")["error"]["message"]
    assert told == "repo:all is held by you, as path:src, and by others: release that before you wait for the rest"
    assert "wait for it" in shell.json("acquire", "path:src", holder="eve")["error"]["message"]


# ------------------------------------------------------------------------------------- what a key does not allow


def test_who_may_not_look_is_not_told_that_nobody_holds_it(shell: Shell, tmp_path: Path) -> None:
    create_key(tmp_path, "admin")
    agent = create_key(tmp_path, "agent", space="team")
    with serving(tmp_path) as server:
        unknown = {"LEASEHOLD_URL": server.url, "LEASEHOLD_API_KEY": "lh_0123456789abcdef_nobody"}
        elsewhere = {"LEASEHOLD_URL": server.url, "LEASEHOLD_API_KEY": agent}
        for words in (["renew", "a"], ["release", "a"], ["update", "a", "--context", "1"]):
            assert shell.json(*words, env=unknown)["error"]["code"] == "unauthenticated", words
            told = shell.json(*words, env=elsewhere)["error"]
            assert told["code"] == "not_allowed", words
            assert told["message"] == "this key is for the space team, not for default"
            assert shell.call(*words, env=elsewhere).code == 8
        assert shell.json("release", "l1-" + "0" * 32, env=unknown)["error"]["code"] == "unauthenticated"


def test_what_a_key_is_not_for_is_nobodys_lease(shell: Shell, tmp_path: Path) -> None:
    create_key(tmp_path, "admin")
    viewer = create_key(tmp_path, "viewer")
    with serving(tmp_path) as server:
        env = {"LEASEHOLD_URL": server.url, "LEASEHOLD_API_KEY": viewer}
        refused = shell.call("acquire", "a", env=env)
        assert refused.code == 8
        assert suggested(refused, "see what your key allows (docs/how-to/server.md#not-allowed)") == ["doctor"]
        page = (ROOT / "docs" / "how-to" / "server.md").read_text()
        assert "### Not allowed" in page
        assert "it takes another key" in page, "the page answers what was said"
        assert "a viewer may not list keys; it takes another key" in shell.call("keys", "list", env=env).err
        assert "a viewer may not start a session;" in shell.call("session", "start", env=env).err


def test_a_run_that_is_not_there_points_to_the_runs_of_its_own_project(shell: Shell) -> None:
    words = ("workflow", "get", "wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9", "--org", "acme", "--project", "app")
    refused = shell.call(*words)
    assert refused.code == 3
    assert suggested(refused, "see which runs there are") == ["workflow", "list", "--org", "acme", "--project", "app"]


# ------------------------------------------------------------------------------------------------- contradictions


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("acquire", "a", "--shared", "--mode", "exclusive"), "mode"),
        (("acquire", "a", "--shared", "--mode", "slots"), "mode"),
        (("acquire", "a", "--mode", "exclusive", "--slots", "2"), "slots"),
        (("run", "a", "--mode", "exclusive", "--slots", "2", "--", "true"), "slots"),
        (("list", "--mine", "--of", "bob"), "of"),
        (("release", "a", "--token-file", "there", "--token-stdin"), "token_stdin"),
        (("serve", "--store", "sqlite:a.db", "--url", "sqlite:b.db"), "store"),
        (("serve", "--store", "http://127.0.0.1:7420"), "store"),
    ],
)
def test_two_options_that_contradict_each_other_are_refused(shell: Shell, words: tuple[str, ...], field: str) -> None:
    at = words.index("--") if "--" in words else len(words)
    done = shell.call(*words[:at], "--json", *words[at:])
    assert done.code == 2
    assert (done.lines[-1]["error"]["code"], done.lines[-1]["error"]["field"]) == ("invalid", field)
    assert not shell.holders("a")


def test_options_that_say_the_same_go_together(shell: Shell) -> None:
    assert shell.json("acquire", "a", "--shared", "--mode", "shared")["data"]["lease"]["mode"] == "shared"
    assert shell.json("acquire", "b", "--slots", "2", "--mode", "slots")["data"]["lease"]["slots"] == 2
    assert shell.json("acquire", "c", "--mode", "exclusive", "--slots", "1")["data"]["lease"]["mode"] == "exclusive"


# ------------------------------------------------------------------------------------------------ where it is kept


def test_nobody_takes_something_where_others_do_not_look(shell: Shell) -> None:
    git = shell.home / ".git"
    git.mkdir(parents=True)
    for name, text in (("HEAD", "ref: refs/heads/main\n"), ("objects", None), ("refs", None)):
        git.joinpath(name).mkdir() if text is None else git.joinpath(name).write_text(text)
    git.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)  # as in /tmp, where anybody may put one
    os.chown(git, 1, 1) if os.geteuid() == 0 else git.chmod(stat.S_IRUSR | stat.S_IXUSR)
    taking = (("acquire", "a"), ("acquire", "d", "--json"), ("lock", "acquire", "b"), ("run", "c", "--", "true"))
    for words in (*taking, ("list",), ("workflow", "list"), ("session", "start")):
        done = shell.call(*words)
        assert done.code != 0, words
        assert f"{shell.home}/.git belongs to another user" in done.out + done.err, words
        assert "Set url in leasehold.toml" in done.out + done.err, words


def test_the_time_that_is_left_is_told_as_people_say_it(shell: Shell) -> None:
    shell.call("acquire", "a", "--ttl", "30m")
    told = shell.json("acquire", "a", holder="bob")["error"]["message"]
    left = told.partition("for another ")[2].partition(" at most")[0]
    assert left == "30m" or ("." not in left and left.endswith("s"))


def test_a_lease_that_a_session_renews_is_told_without_an_end(shell: Shell, tmp_path: Path) -> None:
    credential = shell.call("session", "start", "--ttl", "10m", holder="bob").out.partition("=")[2].strip()
    assert shell.call("acquire", "path:a", holder="bob", env={"LEASEHOLD_SESSION": credential}).code == 0
    told = shell.json("acquire", "path:a")["error"]
    assert told["message"].startswith("path:a is held by bob, renewed while its session lives; ")
    assert told["retry_after_seconds"] == 30
    assert [each["session"] for each in told["holders"]] == [credential.partition(".")[0]]
    assert "released: renewed while its session lives\n" in shell.call("acquire", "path:a").err
    assert "    renewed while its session lives  lease " in shell.call("guard", "a", "--policy", "require").err
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "other"), "LEASEHOLD_URL": f"sqlite://{shell.database}"}
    refused = shell.call("release", "path:a", env=elsewhere)
    assert "path:a is held by bob, renewed while its session lives, and " in refused.err
