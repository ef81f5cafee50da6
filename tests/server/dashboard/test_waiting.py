"""Waiting: who waits for whom, drawn; and the cycle of a real deadlock."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.kit.browsing import looking, picture, row
from tests.kit.serving import Running, serving, until

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


CROWD = 60
"""More waiters than a thousand edges tell of: each waits for all who stand before it."""


def take(server: Running, resource: str, holder: str) -> None:
    assert server.post("acquire", {"resources": resource, "holder": holder}).status == 200


def test_a_real_deadlock_is_drawn_as_its_cycle(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        take(server, "fork-1", "dan")
        take(server, "fork-2", "eve")
        with looking(browser, server, view="waiting") as page:
            expect(page.locator(".picture")).to_contain_text("nothing to draw")
            with server.begin("acquire", {"resources": "fork-2", "holder": "dan", "wait_seconds": 50}):
                graph = page.locator(".picture svg")
                expect(graph.locator(".node.agent text")).to_have_text(["dan", "eve"])
                expect(graph.locator(".node.resource text")).to_have_text(["fork-2"])
                expect(graph.locator(".join.waits")).to_have_count(1)
                expect(graph.locator(".join.held")).to_have_count(1)
                refused = server.post("acquire", {"resources": "fork-1", "holder": "eve", "wait_seconds": 50})
                assert refused.code == "deadlock"
                cycle = page.locator(".cycle-card")
                expect(cycle.locator(".node text")).to_have_text(refused.json["cycle"])
                expect(cycle.locator(".join.closed")).to_have_count(4)
                expect(cycle).to_contain_text("eve was refused fork-1")
                expect(cycle.locator(".path")).to_have_text("eve → fork-1 → dan → fork-2 → eve")
                picture(page, "deadlock")
            expect(page.locator(".picture")).to_contain_text("nothing to draw")  # dan went away
            expect(cycle).to_be_visible()  # what was refused stays told


def test_the_table_says_who_waits_how_long_and_behind_whom(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(browser, server, view="waiting") as page:
        take(server, "door", "ann")
        with (
            server.begin("acquire", {"resources": "door", "holder": "bob", "wait_seconds": 50}),
            _waiting(server, "door", ["bob"]),
            server.begin("acquire", {"resources": "door", "holder": "cid", "wait_seconds": 50}),
        ):
            waits = page.locator(".wait:not([hidden])")
            expect(waits.locator(".cell.holder")).to_have_text(["bob", "cid"])
            expect(waits.nth(0).locator(".cell.behind")).to_have_text("ann (holds it)")
            expect(waits.nth(1).locator(".cell.behind")).to_contain_text("bob (waits before)")
            before = waits.nth(0).locator(".cell.long").inner_text()
            expect(waits.nth(0).locator(".cell.long")).not_to_have_text(before)  # it counts on
            server.post("force-release", {"target": "door", "reason": "hurry", "by": "ops"})
            expect(waits.locator(".cell.holder")).to_have_text(["cid"])


def test_a_long_queue_is_counted_to_its_end(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server, ExitStack() as waiting:
        take(server, "path:src", "ann")
        for number in range(CROWD):
            name = "path:src" if number else "path:src/main.py"
            waiting.enter_context(
                server.begin("acquire", {"resources": name, "holder": f"w{number}", "wait_seconds": 300})
            )
            until(lambda number=number: len(server.waiting("path:src")) > number)  # type: ignore[misc] # a default
        with looking(browser, server) as page:
            expect(row(page, "path:src").locator(".cell.queue")).to_have_text(f"{CROWD} waiting")
            expect(page.locator("#count-waiting")).to_have_text(str(CROWD))
            page.get_by_role("link", name="Waiting").click()
            waits = page.get_by_role("grid", name="Who waits")
            expect(waits).to_have_attribute("aria-rowcount", str(CROWD + 1))
            waits.press("End")
            expect(page.locator(".wait.active .cell.behind")).to_contain_text(f"and {CROWD - 8} more")
            picture(page, "crowd")


class _waiting:  # noqa: N801 (a step of a `with`)
    def __init__(self, server: Running, resource: str, holders: list[str]) -> None:
        self._look = lambda: server.waiting(resource) == holders

    def __enter__(self) -> None:
        until(self._look)

    def __exit__(self, *_: object) -> None:
        pass
