"""`leasehold plan`: announced, turned into leases, replaced, released, and shown as a table and as a picture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tests.kit.shell import PATIENCE, until

if TYPE_CHECKING:
    from typing import Any

    from tests.kit.shell import Shell


def plans(shell: Shell) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = shell.call("plan", "--json").said["data"]["plans"]
    return told


def test_a_plan_shows_what_overlaps(shell: Shell) -> None:
    assert "Nothing overlaps." in shell.call("plan", "path:src", "--name", "parser", holder="ada").out
    shell.call("acquire", "path:src/b.py", holder="cat")
    told = shell.call("plan", "path:src/a.py", "path:src/b.py", holder="bob").out
    rows = [line.split() for line in told.splitlines() if line.startswith("path:")]
    assert [row[:6] for row in rows] == [
        ["path:src/a.py", "bob", "path:src", "planned", "by", "ada"],
        ["path:src/b.py", "bob", "path:src", "planned", "by", "ada"],
        ["path:src/b.py", "bob", "path:src/b.py", "held", "by", "cat"],
    ]


def test_names_that_are_acquired_leave_it_without_a_word(shell: Shell) -> None:
    """The command line shows the plan's token by itself."""
    shell.call("plan", "issue:1", "issue:2", holder="ada")
    shell.call("acquire", "issue:1", holder="bob")
    shell.call("acquire", "issue:2", holder="ada")
    assert [each["resources"] for each in plans(shell)] == [["issue:1"]]


def test_a_new_plan_replaces_ones_own_and_no_other(shell: Shell) -> None:
    shell.call("plan", "issue:1", holder="ada")
    shell.call("plan", "issue:1", holder="bob")
    shell.call("plan", "issue:2", holder="ada")
    told = [(each["holder"], each["resources"]) for each in plans(shell)]
    assert told == [("bob", ["issue:1"]), ("ada", ["issue:2"])]


def test_a_firm_plan_is_acquired_whole_once_all_of_it_is_free(shell: Shell) -> None:
    shell.call("plan", "issue:1", "issue:2", "issue:3", holder="ada")
    shell.call("acquire", "issue:2", holder="bob")
    refused = shell.call("plan", "issue:1", "issue:2", "--firm", "--wait", "0", "--json", holder="ada")
    assert (refused.code, refused.said["error"]["holders"][0]["holder"]) == (4, "bob")
    waiting = shell.start("plan", "issue:1", "issue:2", "--firm", "--json", holder="ada")
    until(lambda: shell.waiting("issue:1") == ["ada"])
    assert shell.call("acquire", "issue:1", holder="cat").code == 4
    shell.call("release", "issue:2", holder="bob")
    out, _ = waiting.communicate(timeout=PATIENCE)
    assert json.loads(out)["data"]["lease"]["resources"] == ["issue:1", "issue:2"]
    assert [each["resources"] for each in plans(shell)] == [["issue:3"]]
    assert shell.call("release", "issue:1", "issue:2", holder="ada").code == 0


def test_a_firm_plan_that_closes_a_cycle_is_refused(shell: Shell) -> None:
    shell.call("acquire", "issue:1", holder="ada")
    shell.call("acquire", "issue:2", holder="bob")
    waiting = shell.start("acquire", "issue:2", "--wait", "60s", holder="ada")
    until(lambda: shell.waiting("issue:2") == ["ada"])
    assert shell.call("plan", "issue:1", "issue:3", "--firm", holder="bob").code == 6
    shell.call("release", "issue:2", holder="bob")
    assert waiting.wait(PATIENCE) == 0


def test_it_is_released_by_its_id(shell: Shell) -> None:
    mine = shell.call("plan", "issue:1", "--json", holder="ada").said["data"]["plans"][0]["id"]
    assert shell.call("release", mine, holder="bob").code == 3
    assert f"Released {mine}" in shell.call("release", mine, holder="ada").out
    assert plans(shell) == []
    assert "No plans." in shell.call("plan").out


def test_an_own_lease_in_anothers_plan_is_marked(shell: Shell) -> None:
    shell.call("acquire", "path:src/a.py", holder="ada")
    shell.call("plan", "path:src", holder="bob")
    assert "held by ada (you)" in shell.call("plan", holder="ada").out
    assert "held by ada (you)" not in shell.call("plan", holder="bob").out


def test_list_and_inspect_show_it(shell: Shell) -> None:
    shell.call("plan", "path:src", holder="ada")
    listed = shell.call("list", holder="ada").out
    assert "No live leases." in listed
    assert "ada (you)" in listed
    assert "path:src" not in shell.call("list", "--of", "bob").out
    assert "planned   by ada" in shell.call("inspect", "path:src/a.py").out


def test_the_matrix_is_a_picture(shell: Shell) -> None:
    shell.call("plan", "path:src/<a>", holder="ada")
    shell.call("plan", "path:src", holder="bob")
    picture = ET.fromstring(shell.call("plan", "--format", "svg").out)
    told = " ".join(picture.itertext())
    assert "Plans: 2" in told
    assert "path:src/<a> of ada meets path:src, planned by bob" in told
    assert ET.fromstring(shell.call("plan", "--format", "svg", "--space", "other").out) is not None


def test_options_of_a_plan_need_a_plan(shell: Shell) -> None:
    assert shell.call("plan", "--name", "x").code == 2
    assert shell.call("plan", "issue:1", "--format", "svg").code == 2
    assert shell.call("plan", "issue:1", "--wait", "1m").code == 2
    assert shell.call("plan", "--firm").code == 2
