"""For everybody: axe finds nothing serious, the keyboard is enough, a phone is wide enough; and pictures of it all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # it has no types
from playwright.sync_api import expect

from tests.kit.browsing import looking, picture, row
from tests.kit.serving import Running, create_key, serving, until

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

API = "deploy://api-prod"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("server")
    admin = create_key(folder, "admin", name="ops")
    with serving(folder, "--rate", "0") as running:
        running.key = admin
        waits = _busy_day(running)
        yield running
        for wait in waits:
            wait.close()


def _take(server: Running, resource: object, holder: str, **more: object) -> dict[str, str]:
    reply = server.post("acquire", {"resources": resource, "holder": holder, **more})
    assert reply.status == 200, reply
    told = reply.json
    return {"lease": told["lease"]["id"], "token": told["token"]}


def _wait(server: Running, resource: str, holder: str) -> socket.socket:
    line = server.begin("acquire", {"resources": resource, "holder": holder, "wait_seconds": 3600, "name": "next"})
    until(lambda: holder in server.waiting(resource))
    return line


def _busy_day(server: Running) -> list[socket.socket]:
    """What a team of agents might be doing."""
    for number in range(24):
        work = {"name": f"fix issue {number}", "context": {"pr": 1200 + number, "branch": f"fix-{number}"}}
        _take(
            server, f"path:src/parser/part_{number:02}.py", f"coder-{number % 6}", ttl_seconds=600 + number * 90, **work
        )
    deploy = {"name": "release 1.4", "reason": "hotfix", "host": "build-3"}
    _take(server, ["deploy://api-prod", "deploy://web"], "ci-7", ttl_seconds=900, **deploy)
    _take(server, "docs", "reader-1", mode="shared", name="index the docs")
    for number in range(9):
        proof = _take(server, f"issue:{40 + number % 3}", f"triage-{number % 2}", name="label and assign")
        end = {"status": "failed", "error": "the tests are red"} if number % 4 == 0 else {}
        server.post("release", {**proof, **end})
    _take(server, "db://orders", "migrator", on_expiry="quarantine", name="add a column")
    server.post("force-release", {"target": "db://orders", "reason": "no sign of life", "by": "ops"})
    agent = server.post("keys", {"name": "agents", "role": "agent", "reason": "a new team"}).json["credential"]
    session = {"holder": "coder-2", "name": "nightly clean-up"}
    credential = server.post("sessions", session, key=agent).json["credential"]
    asked = {"resources": "path:old", "session": credential, "name": "clean up", "reason": "spring", "trace": TRACE}
    assert server.post("acquire", asked, key=agent).status == 200
    for number in range(3):
        _take(server, "pool://ports/3000-3002", f"tester-{number}", ttl_seconds=900, name="browser tests")
    declared = {"resource": "pool://gpu", "members": ["g0 a100", "g1 h100", "g2 h100"], "by": "ops"}
    assert server.post("pools", declared).status == 200
    _take(server, "pool://gpu?label=h100", "trainer-1", name="fine-tune", on_expiry="quarantine")
    server.post("force-release", {"target": "pool://gpu/g1", "reason": "the node is gone", "by": "ops"})
    _take(server, "pool://gpu", "trainer-2", name="evaluate")
    first = _take(server, "scheduler", "worker-1", name="leader")
    server.post("release", first)
    _take(server, "scheduler", "worker-2", name="leader", ttl_seconds=900)
    for holder, planned in (("coder-2", ["path:docs", "issue:42"]), ("coder-4", ["path:docs/guide.md"])):
        assert server.post("plan", {"resources": planned, "holder": holder, "name": "next sprint"}).status == 200
    _take(server, "fork-1", "dan")
    _take(server, "fork-2", "eve")
    waits = [_wait(server, "deploy://api-prod", "ci-8"), _wait(server, "deploy://api-prod", "ci-9")]
    waits += [_wait(server, "path:src/parser/part_07.py", "ci-7"), _wait(server, "fork-2", "dan")]
    waits += [_wait(server, "pool://ports/3000-3002", "tester-3"), _wait(server, "scheduler", "worker-1")]
    assert server.post("acquire", {"resources": "fork-1", "holder": "eve", "wait_seconds": 9}).code == "deadlock"
    return waits


def serious(page: Page) -> list[str]:
    """What axe finds that would lock somebody out."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, server: Running, colours: str) -> None:
    with looking(browser, server, color_scheme=colours, bypass_csp=True) as page:
        for view, ready in READY.items():
            page.goto(f"{server.url}/#{address(server, view)}")
            expect(page.locator(ready).first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 1280, view
            picture(page, f"{view}-{colours}")
            assert serious(page) == [], view
        page.goto(f"{server.url}/#now")
        row(page, "docs").click()
        expect(page.locator("#panel .events")).to_contain_text("granted")
        picture(page, f"details-{colours}")
        assert serious(page) == []
        page.get_by_role("button", name="Force-release").click()
        assert serious(page) == []


READY = {
    "now": ".lease:not([hidden])",
    "waiting": ".cycle-card svg",
    "plans": ".plans tr >> text=coder-4",
    "pools": ".pools tr >> text=quarantined",
    "elections": ".elections tr >> text=completed",
    "history": ".timeline .bar",
    "contention": "tbody th",
    "trends": ".chart[data-chart=wait] svg",
    "audit": "tr >> text=no sign of life",
    "resource": ".subject tr >> text=ci-7",
    "holder": ".subject tr >> text=deploy://web",
    "session": ".subject tr >> text=clean up",
    "key": ".subject tr >> text=clean up",
    "act": "tr >> text=migrator",
}


def address(server: Running, view: str) -> str:
    """The address of a view; pages of their own belong to a resource, a holder, a session or a key of that day."""
    (session,) = server.get("sessions").json["sessions"]
    own = {"resource": API, "holder": "ci-7", "session": session["id"], "key": session["key"]}
    return f"{view}/{quote(own[view], safe='')}" if view in own else view


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_phone_is_wide_enough(browser: Browser, server: Running, colours: str) -> None:
    with looking(browser, server, bypass_csp=True, color_scheme=colours, **PHONE) as page:
        for view, ready in READY.items():
            page.goto(f"{server.url}/#{address(server, view)}")
            expect(page.locator(ready).first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
            cut = "[...document.querySelectorAll('main button, main a')].filter((e) => e.offsetParent"
            cut += " && !e.closest('.picture, .scroll, .timeline') && e.getBoundingClientRect().right > 391).length"
            assert page.evaluate(cut) == 0, view
            picture(page, f"{view}-phone-{colours}")
            assert serious(page) == [], view


def test_the_keyboard_is_enough(browser: Browser, server: Running) -> None:
    with looking(browser, server) as page:
        page.reload()  # signed in, and nothing has the focus
        expect(page.locator(READY["now"]).first).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("/")
        expect(page.get_by_label("Search")).to_be_focused()
        page.keyboard.type("deploy")
        expect(page.locator(".lease:visible")).to_have_count(1)
        page.get_by_role("grid").focus()
        page.keyboard.press("ArrowDown")
        expect(page.locator(".lease.active")).to_contain_text("deploy://api-prod")
        page.keyboard.press("Enter")
        expect(page.locator("#panel h2")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()
        expect(page.get_by_role("grid")).to_be_focused()


def test_the_arrows_need_no_focus(browser: Browser, server: Running) -> None:
    with looking(browser, server) as page:
        rows = page.locator(".lease:visible")
        expect(rows.nth(1)).to_be_visible()
        assert page.evaluate("document.activeElement === document.body")
        page.keyboard.press("ArrowDown")
        expect(page.locator(".lease.active")).to_have_attribute("aria-rowindex", "2")
        page.keyboard.press("ArrowDown")
        expect(page.locator(".lease.active")).to_have_attribute("aria-rowindex", "3")
        page.keyboard.press("Enter")
        expect(page.locator("#panel h2")).to_be_focused()
        page.keyboard.press("ArrowDown")  # here they scroll
        expect(page.locator(".lease.active")).to_have_attribute("aria-rowindex", "3")


def test_the_arrows_lead_from_the_search_to_what_it_found(browser: Browser, server: Running) -> None:
    with looking(browser, server) as page:
        page.keyboard.press("/")
        page.keyboard.type("deploy")
        expect(page.locator(".lease:visible")).to_have_count(1)
        page.keyboard.press("Enter")  # nothing is chosen yet
        page.keyboard.press("ArrowUp")
        expect(page.get_by_label("Search")).to_be_focused()
        expect(page.locator(".lease.active")).to_have_count(0)
        page.keyboard.press("ArrowDown")
        expect(page.locator(".lease.active")).to_contain_text("deploy://api-prod")
        page.keyboard.press("/")
        expect(page.get_by_label("Search")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#panel h2")).to_contain_text("deploy://api-prod")
        page.keyboard.press("Escape")
        expect(page.get_by_label("Search")).to_be_focused()


def test_columns_sort(browser: Browser, server: Running) -> None:
    with looking(browser, server) as page:
        page.get_by_role("button", name="Fence").click()
        expect(page.get_by_role("columnheader", name="Fence")).to_have_attribute("aria-sort", "ascending")
        rows = page.locator(".lease:visible")
        expect(rows.first).to_contain_text("fork-2")  # the latest
        page.get_by_role("button", name="Left").click()
        expect(page.locator("[aria-rowindex='2']")).to_contain_text("part_00")  # the soonest to end


def test_colours_can_be_chosen(browser: Browser, server: Running) -> None:
    with looking(browser, server, color_scheme="light") as page:
        paper = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(paper)
        button = page.get_by_role("button", name="Colours")
        button.click()
        button.click()
        expect(button).to_have_attribute("aria-label", "Colours: dark")
        assert page.evaluate(paper) != light
