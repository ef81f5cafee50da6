"""Standard streams that are piped, closed, full, broken or of another encoding: each command behaves."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.kit.shell import COMMAND, PATIENCE, Done, Shell

NAME = "dépôt→日本"
HELP = [["--help"], ["acquire", "--help"], ["run", "--help"], ["history", "--help"]]
LOOKING = [["list"], ["inspect", "x"], ["history"], ["doctor"], ["list", "--json"], *HELP]


def command(shell: Shell, script: str, *words: str) -> Done:
    """Run a command by a shell that does something to its streams: "$@" in the script is the command."""
    done = subprocess.run(
        ["/bin/bash", "-c", script, "-", *COMMAND, *words],
        cwd=shell.home,
        env=shell.env(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing_about_the_answer(shell: Shell, closed: str) -> None:
    script = f'"$@" {closed}'
    assert command(shell, script, "acquire", "issue:42").code == 0
    assert shell.holders("issue:42") == ["ada"]
    assert command(shell, script, "list", "--json").code == 0
    assert command(shell, script, "release", "issue:42").code == 0
    assert command(shell, script, "release", "issue:43").code == 3
    assert shell.run("doctor").code == 0, "nothing was written into a file that got the number of a stream"


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_command_runs_with_closed_streams(shell: Shell, closed: str) -> None:
    path = shell.home / "ran"
    assert command(shell, f'"$@" {closed}', "run", "job", "--", "/bin/sh", "-c", f"echo x > {path}").code == 0
    assert path.read_text() == "x\n"
    assert shell.run("doctor").code == 0


@pytest.mark.parametrize("words", LOOKING)
def test_nobody_reads_the_answer(shell: Shell, words: list[str]) -> None:
    shell.run("acquire", "x")
    done = command(shell, '"$@" | head -c 0; exit "${PIPESTATUS[0]}"', *words)
    assert done.code == 0
    assert done.err == ""


def test_the_lease_is_kept_though_nobody_reads_that(shell: Shell) -> None:
    done = command(shell, '"$@" | true; exit "${PIPESTATUS[0]}"', "acquire", "issue:42")
    assert (done.code, done.err) == (0, "")
    assert shell.run("release", "issue:42").code == 0


def test_watching_ends_when_nobody_reads_any_more(shell: Shell) -> None:
    for more in ([], ["--json"]):
        done = command(shell, '"$@" | head -n 1', "watch", "--interval", "50ms", *more)
        assert done.code == 0
        assert len(done.out.splitlines()) == 1


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--help"]])
def test_an_answer_that_cannot_be_written_is_a_failure(shell: Shell, words: list[str]) -> None:
    done = command(shell, '"$@" > /dev/full', *words)
    assert done.code == 1
    assert "could not be written: No space left on device\n" in done.err
    assert "Traceback" not in done.err


def test_who_does_not_hear_of_a_grant_learns_that_there_is_one(shell: Shell) -> None:
    done = command(shell, '"$@" > /dev/full', "acquire", "issue:42", "--space", "team")
    assert done.code == 1
    assert "; it is yours all the same\nNext: see what you hold:\n" in done.err
    assert done.err.endswith("\n  leasehold list --space team --mine\n")
    assert "yours" not in command(shell, '"$@" > /dev/full', "list").err


def test_nothing_can_be_said_about_it_either(shell: Shell) -> None:
    assert command(shell, '"$@" > /dev/full 2>&1', "list").code == 1
    assert command(shell, '"$@" > /dev/full 2>&1', "release", "x").code == 3
    assert command(shell, '"$@" > /dev/full 2>&1', "nonsense").code == 2


# ----------------------------------------------------------------------------------------------- encodings

ASCII = [
    {"LC_ALL": "C"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.parametrize("env", ASCII)
def test_what_a_terminal_cannot_show_is_escaped(shell: Shell, env: dict[str, str]) -> None:
    assert shell.run("acquire", NAME, "--name", "été").code == 0
    for words in (["list"], ["inspect", NAME], ["history"], ["doctor"], *HELP):
        done = shell.run(*words, env=env)
        assert done.code == 0, done.err
    refused = shell.run("acquire", NAME, holder="bob", env=env)
    assert refused.code == 4
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("env", ASCII)
def test_a_suggested_command_means_the_same_name_whatever_the_encoding(shell: Shell, env: dict[str, str]) -> None:
    for name in (NAME, "日本 'x' \\ é1", "\u202eevil"):
        suggested = shell.run("acquire", name, env=env).out.rpartition("Release it with:\n")[2].strip()
        given_back = subprocess.run(
            ["/bin/bash", "-c", suggested], cwd=shell.home, env=shell.with_command(shell.env() | env), check=False
        )
        assert given_back.returncode == 0, suggested
        assert shell.holders(name) == []


@pytest.mark.parametrize("env", ASCII)
def test_json_is_the_same_whatever_the_encoding(shell: Shell, env: dict[str, str]) -> None:
    shell.run("acquire", NAME, "--context", json.dumps({"é": "\U0001f600"}))
    said = shell.json("list", env=env)["data"]["leases"][0]
    assert said["resources"] == [NAME]
    assert said["context"] == {"é": "\U0001f600"}
    assert shell.run("list", "--json", env=env).out.isascii()


def test_names_that_are_not_utf8_are_refused(shell: Shell) -> None:
    for words in (["acquire", "bad\udcff"], ["inspect", "bad\udcff"], ["release", "bad\udcff"]):
        done = shell.run(*words)
        assert done.code == 2, done
        assert "only text that UTF-8 can tell" in done.err
        assert shell.json(*words)["error"]["code"] == "invalid"
    for option in ("--holder", "--space", "--name", "--reason"):
        done = shell.run("acquire", "x", option, "bad\udcff")
        assert done.code == 2, done


def test_a_working_directory_that_is_gone(shell: Shell) -> None:
    gone = shell.home / "gone"
    done = command(shell, f'mkdir {gone}; cd {gone}; rmdir {gone}; "$@"', "acquire", "x")
    assert done.code == 2
    assert "working directory" in done.err


def test_nothing_is_said_twice_and_answers_end_in_a_newline(shell: Shell) -> None:
    done = shell.run("acquire", "x")
    assert done.out.endswith("\n")
    assert not done.out.endswith("\n\n")
    assert os.linesep * 2 not in done.out
