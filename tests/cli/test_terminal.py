"""On a terminal: live lines, colours, narrow windows; and nothing of that elsewhere."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from leasehold.cli.terminal.columns import columns, cut, table
from tests.kit.serving import serving
from tests.kit.shell import Shell, until
from tests.kit.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path

ESCAPE = "\x1b["


def plain(shown: str) -> list[str]:
    """The lines of what was shown, without colours and without the live line."""
    for sequence in ("\x1b[K", "\x1b[J", "\x1b[H", "\x1b[2J", "\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"):
        shown = shown.replace(sequence, "")
    assert "\x1b" not in shown
    return [line for line in shown.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line]


def test_colours_are_for_terminals_only(shell: Shell) -> None:
    with Terminal(shell, "acquire", "x") as terminal:
        assert terminal.end() == 0
    assert "\x1b[32mAcquired\x1b[0m x" in terminal.shown
    with Terminal(shell, "acquire", "x", holder="bob") as terminal:
        assert terminal.end() == 4
    assert "\x1b[31mHeld: x\x1b[0m" in terminal.shown
    assert ESCAPE not in shell.run("list").out


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_they_are_not_wanted(shell: Shell, env: dict[str, str]) -> None:
    for words in (["acquire", "x"], ["list"], ["release", "y"], ["release", "x"], ["doctor"], ["--help"]):
        with Terminal(shell, *words, env=env) as terminal:
            terminal.end()
        assert ESCAPE not in terminal.shown


def test_an_empty_no_color_does_not_count(shell: Shell) -> None:
    with Terminal(shell, "acquire", "x", env={"NO_COLOR": ""}) as terminal:
        assert terminal.end() == 0
    assert ESCAPE in terminal.shown


@pytest.mark.parametrize("words", [["acquire", "x", "--wait", "10m"], ["run", "x", "--wait", "10m", "--", "true"]])
def test_who_waits_on_a_terminal_sees_place_holder_and_time_left(shell: Shell, words: list[str]) -> None:
    shell.run("acquire", "x", "--name", "fix the parser", "--ttl", "20m")
    with Terminal(shell, *words, columns=120, holder="bob") as terminal:
        terminal.until("of 10m, place 1: held by ada, 19m")
        terminal.until("s left (fix the parser)")
        shell.run("release", "x")
        assert terminal.end() == 0
    assert terminal.shown.count("\r\x1b[K") >= 2, "the line is rewritten, and wiped out at the end"


def test_who_waits_at_a_server_sees_the_same(shell: Shell, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        env = {"LEASEHOLD_URL": server.url}
        shell.run("acquire", "x", "--name", "fix the parser", "--ttl", "20m", env=env)
        words = ("acquire", "x", "--wait", "10m")
        with Terminal(shell, *words, columns=0, holder="bob", env=env) as terminal:
            terminal.until("of 10m, place 1: held by ada, 19m")
            terminal.until("s left (fix the parser)")
            terminal.type(chr(3))
            assert terminal.end() == 130
        until(lambda: not server.waiting("x"))
        waiting = shell.start("run", "x", "--wait", "10m", "--json", "--", "true", holder="bob", env=env)
        assert waiting.stdout is not None
        assert '"event": "waiting", "position": 1' in waiting.stdout.readline()
        shell.run("release", "x", env=env)
        assert waiting.wait() == 0


@pytest.mark.parametrize("width", [5, 20, 40])
def test_the_live_line_fits_a_narrow_terminal(shell: Shell, width: int) -> None:
    shell.run("acquire", "x", "--name", "a very long description of what is going on here, with 日本語")
    with Terminal(shell, "acquire", "x", "--wait", "10m", columns=width, holder="bob") as terminal:
        terminal.until("…")
        terminal.type(chr(3))
        assert terminal.end() == 130
    live = [part for part in terminal.shown.split("\r\x1b[K") if part.startswith("w")]
    assert live
    assert all(columns(part.partition("^C")[0].rstrip("\r\n")) < width for part in live[:1])


def test_ctrl_c_on_a_terminal_leaves_the_queue(shell: Shell) -> None:
    shell.run("acquire", "x")
    with Terminal(shell, "acquire", "x", "--wait", "10m", holder="bob") as terminal:
        terminal.until("waiting")
        terminal.type(chr(3))
        assert terminal.end() == 130
    assert shell.waiting("x") == []
    assert "interrupted" in terminal.shown
    assert "Traceback" not in terminal.shown


def test_no_live_line_on_a_dumb_terminal(shell: Shell) -> None:
    shell.run("acquire", "x")
    with Terminal(shell, "acquire", "x", "--wait", "1s", holder="bob", env={"TERM": "dumb"}) as terminal:
        assert terminal.end() == 5
    assert "waiting 0s" not in terminal.shown


@pytest.mark.parametrize("width", [10, 25, 60, 200])
@pytest.mark.parametrize("words", [["list"], ["history"], ["session", "list"], ["watch", "--count", "1"]])
def test_tables_fit_the_terminal(shell: Shell, words: list[str], width: int) -> None:
    shell.call("acquire", "deploy://a-rather-long-name/日本語日本語", "--name", "a rather long description of it all")
    shell.call("session", "start", "--name", "another rather long description of it all")
    with Terminal(shell, *words, columns=width) as terminal:
        assert terminal.end() == 0
    assert all(columns(line) <= width for line in plain(terminal.shown)), terminal.shown


@pytest.mark.parametrize("words", [["list"], ["history"], ["watch", "--count", "1"]])
def test_one_long_name_does_not_push_the_others_off_the_terminal(shell: Shell, words: list[str]) -> None:
    shell.call("acquire", "n" * 512, "--name", "w" * 200, holder="ada")
    shell.call("acquire", "short", holder="bob")
    with Terminal(shell, *words, columns=80) as terminal:
        assert terminal.end() == 0
    lines = plain(terminal.shown)
    assert all(columns(line) <= 80 for line in lines), lines
    assert any("nnn…" in line and "ada" in line and "www" in line for line in lines), lines
    assert any("short" in line and "bob" in line for line in lines), lines
    assert "n" * 512 in shell.call(*words).out, "a pipe gets all of it"


def test_watch_draws_the_table_anew_and_fits_the_height(shell: Shell) -> None:
    for number in range(20):
        shell.call("acquire", f"x{number}")
    with Terminal(shell, "watch", "--interval", "50ms", rows=10) as terminal:
        terminal.until("… and 14 more")
        shell.call("release", "x19")
        terminal.until("… and 13 more")
        terminal.type(chr(3))
        assert terminal.end() == 130
    assert terminal.shown.count("\x1b[H") >= 2


def test_watch_shows_who_waits(shell: Shell) -> None:
    shell.call("acquire", "x")
    process = shell.start("acquire", "x", "--wait", "10m", holder="bob")
    until(lambda: shell.waiting("x") == ["bob"])
    for words in (["watch", "--count", "1"], ["watch", "x", "--count", "1"]):
        seen = shell.call(*words)
        assert "1 lease, 1 waiting" in seen.out
        assert "waiting 1. bob for x" in seen.out
    assert shell.call("watch", "x", "--count", "1", "--json").said["data"]["waiting"][0]["holder"] == "bob"
    process.kill()


def test_texts_are_cut_by_columns_not_by_characters() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("日本語", 4) == "日…"
    assert columns(cut("日本語日本語", 7)) <= 7
    assert cut("abc", None) == "abc"
    assert cut("abc", 3) == "abc"
    lines = table([("日本", "x"), ("ab", "y")], ("A", "B")).splitlines()
    assert lines == ["A     B", "日本  x", "ab    y"]


def test_who_waits_for_an_answer_sees_for_how_long_and_for_whose(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Terminal(shell, "list", env={"LEASEHOLD_URL": url}) as terminal:
            terminal.until(f"waiting 1s for an answer of {url}")
            silent.close()
            assert terminal.end() == 9
    assert plain(terminal.shown.rpartition("\x1b[K")[2])[0].startswith("Failed: no answer from the server")
    with Terminal(shell, "list") as terminal:
        assert terminal.end() == 0
    assert ESCAPE not in terminal.shown


def test_a_narrow_terminal_cuts_off_the_work_and_not_the_time_that_is_left(shell: Shell) -> None:
    shell.call("acquire", "x", "--name", "a very long story of what is going on there")
    with Terminal(shell, "acquire", "x", "--wait", "10m", columns=60, holder="bob") as terminal:
        terminal.until("held by ada, 29m")
        terminal.until("s left (a")
        terminal.type(chr(3))
        assert terminal.end() == 130


def test_who_tries_the_tools_on_a_terminal_is_told_whom_they_are_for(shell: Shell) -> None:
    with Terminal(shell, "mcp") as terminal:
        terminal.until("waiting for an agent")
        terminal.type(chr(3))
        terminal.end()
