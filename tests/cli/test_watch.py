"""watch on a terminal: keys that sort, filter and choose; details; narrow windows; plain lines elsewhere."""

from __future__ import annotations

import re

from leasehold.cli.terminal.screen import Screen, ScreenSnapshot, bar, queue_of, queues_of
from leasehold.domain.leases import Lease, Waiting
from tests.kit.shell import Shell, until
from tests.kit.terminals import Terminal

SECOND = 1_000_000


def lease(number: int, name: str, holder: str, left: int = 60) -> Lease:
    return Lease(
        f"l{number}-x",
        "default",
        (name,),
        holder,
        None,
        "exclusive",
        1,
        number,
        60 * SECOND,
        0,
        left * SECOND,
        f"work {number}",
        None,
        None,
        0,
    )


LEASES = (lease(1, "c", "bob", 30), lease(2, "a", "ann", 50), lease(3, "b", "cid", 10))


def shown(screen: Screen, leases: tuple[Lease, ...] = LEASES, width: int = 100, height: int = 24) -> list[str]:
    waiting = {"w1": Waiting("w1", ("a",), "dan", None, "exclusive", 1, 0, 0, None, None)}
    return screen.lines(ScreenSnapshot(0, leases, waiting, {}, is_all=True), "12:00:00", width, height)


def order(screen: Screen) -> list[str]:
    return [line.removeprefix("▸ ").split()[0] for line in shown(screen)[2:5]]


def test_keys_sort_and_reverse() -> None:
    screen = Screen()
    assert order(screen) == ["a", "b", "c"]
    for expected in (["a", "c", "b"], ["b", "c", "a"], ["b", "a", "c"], ["a", "b", "c"]):  # holder, left, newest, name
        screen.press("s")
        assert order(screen) == expected
    screen.press("r")
    assert order(screen) == ["c", "b", "a"]
    assert "by resource ↑" in shown(screen)[0]


def test_keys_filter_leases_and_waiters() -> None:
    screen = Screen()
    for key in "/dan":
        screen.press(key)
    lines = shown(screen)
    assert "0 leases, 1 waiting  /dan_" in lines[0]
    assert any("waiting 1. dan for a" in line for line in lines)
    screen.press("back")
    screen.press("enter")
    assert "/da" in shown(screen)[0]
    screen.press("escape")
    assert "3 leases" in shown(screen)[0]


def test_the_chosen_line_stays_on_the_screen() -> None:
    many = tuple(lease(number, f"n{number:03}", "ann") for number in range(1, 100))
    screen = Screen()
    shown(screen, many)
    for _ in range(60):
        screen.press("down")
        shown(screen, many)
    assert sum(line.startswith("▸ n060") for line in shown(screen, many)) == 1
    screen.press("home")
    assert shown(screen, many)[2].startswith("▸ n001")
    screen.press("end")
    assert any(line.startswith("▸ n099") for line in shown(screen, many))
    assert all(len(shown(screen, many, height=height)) < height for height in (3, 10, 16, 40))


def test_a_narrow_window_gets_fewer_columns() -> None:
    heads = {width: shown(Screen(), width=width)[1].split() for width in (100, 50, 30)}
    assert heads[100] == ["RESOURCE", "HOLDER", "MODE", "LEFT", "FENCE", "QUEUE", "WORK"]
    assert heads[50] == ["RESOURCE", "HOLDER", "LEFT", "QUEUE"]
    assert heads[30] == ["RESOURCE", "LEFT"]
    assert "s sort" in shown(Screen())[-1]
    assert "s sort" not in shown(Screen(), height=10)[-1]


def test_who_waits_for_a_lease_to_end_is_counted_once() -> None:
    held, other = lease(1, "path:src", "ann"), lease(2, "b", "bob")
    names = {"w1": ("path:src/x",), "w2": ("path:src", "path:src/y"), "w3": ("b",)}
    waiting = {it: Waiting(it, wanted, it, None, "exclusive", 1, 0, 0, None, None) for it, wanted in names.items()}
    look = ScreenSnapshot(0, (held, other), waiting, {"l1-x": frozenset(("w1", "w2"))}, is_all=False)
    assert queues_of([held, other], look) == {"l1-x": 2, "l2-x": 1}
    assert [it.id for it in queue_of(held, look)] == ["w1", "w2"]
    assert "2 leases, 3+ waiting" in Screen().lines(look, "12:00:00", 80, 24)[0]


def test_who_waits_for_what_overlaps_is_in_the_queue(shell: Shell) -> None:
    shell.call("acquire", "first", "path:src")
    waiters = [shell.start("acquire", f"path:src/{it}", "--wait", "10m", holder=it) for it in ("cid", "dan")]
    until(lambda: len(shell.waiting("path:src")) == 2)
    with Terminal(shell, "watch", "--interval", "100ms") as terminal:
        terminal.until("1 lease, 2 waiting")
        terminal.type("j\r")
        terminal.until("queue     1. ")
        assert "nobody waits" not in terminal.shown
    for each in waiters:
        each.kill()


def test_the_bar_runs_down() -> None:
    assert [bar(left, 8) for left in (8, 5, 1, 0)] == ["████████", "█████░░░", "█░░░░░░░", "░░░░░░░░"]
    assert bar(100, 0) == "████████"


def test_keys_work_on_a_real_terminal(shell: Shell) -> None:
    shell.call("acquire", "issue:42", "--name", "fix the parser", "--context", '{"step": 3}')
    shell.call("acquire", "issue:43", holder="bob")
    waiter = shell.start("acquire", "issue:42", "--wait", "10m", holder="cid")
    until(lambda: shell.waiting("issue:42") == ["cid"])
    with Terminal(shell, "watch", "--interval", "200ms", columns=110, rows=40) as terminal:
        terminal.until("2 leases, 1 waiting")
        terminal.type("/fix\r")
        terminal.until("1 lease, 0 waiting  /fix")
        terminal.type("\x1b[B\r")  # the first line, and its details
        terminal.until('context   {"step":3}')
        terminal.until("queue     1. cid")
        terminal.until("granted")
        terminal.type("q")  # back to the table
        terminal.until("▸ issue:42")
        terminal.type("s")
        terminal.until("by holder")
        terminal.type("q")
        assert terminal.end() == 0
    waiter.kill()


def test_the_terminal_is_left_as_it_was(shell: Shell) -> None:
    script = "leasehold watch --interval 100ms; stty -a; echo code $?"
    with Terminal(shell, "-c", script, command=["/bin/sh"]) as terminal:
        terminal.until("No live leases.")
        terminal.type("q")
        terminal.until("code 0")
        assert terminal.end() == 0
    assert re.search(r"(?<!-)icanon", terminal.shown)
    assert re.search(r"(?<!-)\becho\b", terminal.shown)


def test_a_pipe_gets_plain_lines(shell: Shell) -> None:
    shell.call("acquire", "x")
    out = shell.run("watch", "--count", "2", "--interval", "50ms").out
    assert "\x1b" not in out
    assert out.count("1 lease, 0 waiting") == 2
