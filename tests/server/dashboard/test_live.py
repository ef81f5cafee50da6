"""The page lives: what others do appears by itself, time runs down, and a server that comes back is noticed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

import leasehold
from leasehold.server.api.batches import CALLS_MOST
from leasehold.server.api.events import CATCH_UP
from leasehold.testing.lending import free_port
from tests.kit.browsing import looking, row
from tests.kit.serving import Running, serving, until
from tests.kit.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

PART = "node => new DOMMatrix(node.style.transform).a"
"""How full a bar is."""
SHOWN = f"""lease => ({{
    seconds: parseInt(lease.querySelector(".cell.left span").textContent),
    part: ({PART})(lease.querySelector(".meter i")),
}})"""
"""What a row tells in words and as a bar, at one moment: between two questions the page may have gone on."""
NASTY = '<img src=x onerror="window.pwned=1">'


def take(server: Running, resource: str | list[str], holder: str = "ann", **more: object) -> str:
    reply = server.post("acquire", {"resources": resource, "holder": holder, **more})
    assert reply.status == 200, reply
    return str(reply.json["lease"]["id"])


def test_what_the_command_line_takes_appears_and_goes(browser: Browser, server: Running, tmp_path: Path) -> None:
    with looking(browser, server) as page, Shell(tmp_path / "home") as shell:
        there = ("--url", server.url)
        assert shell.run("acquire", "issue:42", "--name", "fix the parser", *there).code == 0
        lease = row(page, "issue:42")
        expect(lease).to_contain_text("ada")
        expect(lease).to_contain_text("fix the parser")
        assert shell.run("release", "issue:42", *there).code == 0
        expect(lease).to_have_count(0)
        # Somebody who uses the same file without the server is seen, too.
        assert shell.run("acquire", "issue:43", "--url", f"sqlite:///{server.database}").code == 0
        expect(row(page, "issue:43")).to_be_visible()


def test_the_time_left_runs_down_and_what_has_run_out_goes(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(browser, server) as page:  # nothing else happens here: time alone passes
        take(server, "long", ttl_seconds=50)
        expect(row(page, "long").locator(".cell.left span")).to_have_text(re.compile(r"^\d+s$"))
        lease = row(page, "long").element_handle()
        for _ in range(2):
            shown = lease.evaluate(SHOWN)
            # Two in words are at least one in truth, which the bar's three digits show.
            less = f"([lease, shown]) => ({SHOWN})(lease).seconds < shown.seconds - 1"
            page.wait_for_function(less, arg=[lease, shown])
            assert lease.evaluate(SHOWN)["part"] < shown["part"]
        take(server, "short", ttl_seconds=4)
        expect(row(page, "short")).to_be_visible()
        expect(row(page, "short")).to_have_count(0)


def test_renewing_fills_the_bar_again(browser: Browser, server: Running) -> None:
    granted = server.post("acquire", {"resources": "renewed", "holder": "ann", "ttl_seconds": 20}).json
    with looking(browser, server) as page:
        left = row(page, "renewed").locator(".cell.left span")
        expect(left).to_have_text(re.compile(r"^1?\ds$"))
        server.post("renew", {"lease": granted["lease"]["id"], "token": granted["token"], "ttl_seconds": 3600})
        expect(left).to_have_text(re.compile(r"^(59|60)m "))


def test_one_heartbeat_of_a_session_fills_the_bars_of_its_leases(browser: Browser, server: Running) -> None:
    session = server.post("sessions", {"holder": "sue", "ttl_seconds": 50}).json["credential"]
    server.post("acquire", {"resources": "in-session", "session": session, "ttl_seconds": 50})
    with looking(browser, server) as page:
        left = row(page, "in-session").locator(".cell.left span")
        page.wait_for_function("node => parseInt(node.textContent) < 48", arg=left.element_handle())
        server.post("sessions/renew", {"session": session})
        expect(left).to_have_text(re.compile("^(48|49|50)s$"))


def test_the_bar_of_a_lease_that_ends_with_its_session_runs_down_with_the_session(
    browser: Browser, server: Running
) -> None:
    session = server.post("sessions", {"holder": "tom", "ttl_seconds": 600}).json["credential"]
    server.post("acquire", {"resources": "there-before", "session": session, "ttl_seconds": 86_000})
    with looking(browser, server) as page:
        server.post("acquire", {"resources": "seen-coming", "session": session, "ttl_seconds": 86_000})
        for name in ("there-before", "seen-coming"):
            expect(row(page, name).locator(".cell.left")).to_have_attribute("data-level", "high")
            assert row(page, name).locator(".meter i").evaluate(PART) > 0.8


def test_the_queue_is_counted_and_told_in_order(browser: Browser, server: Running) -> None:
    take(server, "busy", "ann", context={"step": 3, "of": "seven"})
    with looking(browser, server) as page:
        with server.begin("acquire", {"resources": "busy", "holder": "bob", "wait_seconds": 50}):
            until(lambda: server.waiting("busy") == ["bob"])
            expect(row(page, "busy")).to_contain_text("1 waiting")
            with server.begin("acquire", {"resources": "busy", "holder": "cid", "wait_seconds": 50}):
                expect(row(page, "busy")).to_contain_text("2 waiting")
                expect(page.locator("#count-waiting")).to_have_text("2")
                row(page, "busy").click()
                panel = page.locator("#panel")
                expect(panel.locator(".waiters li b")).to_have_text(["bob", "cid"])
                expect(panel.locator(".context")).to_contain_text('"of": "seven"')
                expect(panel.locator(".events")).to_contain_text("granted")
        expect(panel.locator(".waiters li")).to_have_count(0)  # both went away, and the panel notices
        expect(row(page, "busy").locator(".cell.queue")).to_have_text("")


def runs_on(time: Locator) -> None:
    """It is told anew, though nothing happens."""
    before = time.inner_text()
    expect(time).not_to_have_text(before)


def test_the_details_live_and_tell_of_every_name(browser: Browser, server: Running) -> None:
    names = ["path:docs", *(f"quiet-{number}" for number in range(9)), "other-door"]
    granted = server.post("acquire", {"resources": names, "holder": "ann", "context": {"step": 1}}).json
    take(server, "path:else")
    with looking(browser, server) as page:
        row(page, f"path:docs +{len(names) - 1}").click()
        panel = page.locator("#panel")
        expect(panel).to_contain_text("No request waits.")
        runs_on(panel.locator(".facts dd").filter(has_text="since").first)
        with (
            server.begin("acquire", {"resources": "other-door", "holder": "bob", "wait_seconds": 50}),
            server.begin("acquire", {"resources": "path:docs/a", "holder": "cid", "wait_seconds": 50}),
            server.begin("acquire", {"resources": "repo:all", "holder": "dan", "wait_seconds": 50}),
            server.begin("acquire", {"resources": "path:else/b", "holder": "eve", "wait_seconds": 50}),  # for another
        ):
            expect(row(page, "path:else").locator(".cell.queue")).to_have_text("2 waiting")
            expect(panel.locator(".waiters li")).to_have_count(3)
            assert set(panel.locator(".waiters li b").all_inner_texts()) == {"bob", "cid", "dan"}
            runs_on(panel.locator(".waiters li span").first)
        proof = {"lease": granted["lease"]["id"], "token": granted["token"]}
        server.post("update", {**proof, "context": {"step": 2}})
        expect(panel.locator(".context")).to_contain_text('"step": 2')
        expect(panel.locator(".events")).to_contain_text("updated")
        server.post("release", proof)
        expect(panel.locator(".events")).to_contain_text("released")


def test_a_search_that_finds_nothing_does_not_say_that_nothing_is_held(browser: Browser, server: Running) -> None:
    take(server, "still-held")
    lease = take(server, "last-of-its-space", space="lonely")
    with looking(browser, server) as page:
        page.get_by_label("Search").fill("no such thing")
        expect(page.locator(".now .empty")).to_have_text("No lease matches.")
        page.get_by_label("Search").fill("")
        expect(
            row(page, "last-of-its-space · lonely")
        ).to_be_visible()  # which one it is, where there are several spaces
        page.get_by_label("Space").select_option("lonely")
        expect(row(page, "last-of-its-space")).to_be_visible()
        server.post("force-release", {"target": lease, "reason": "over", "space": "lonely"})
        expect(page.locator(".now .empty")).to_have_text("No lease matches.")
        expect(page.get_by_label("Space")).to_have_value("lonely")


def test_a_context_has_lines_and_what_is_in_its_values_stays_inert(browser: Browser, server: Running) -> None:
    take(server, "in-lines", context={"step": 3, "log": "one\ntwo\u2028\x1b[31m\u202e", "of": [{}, "seven"]})
    with looking(browser, server) as page:
        row(page, "in-lines").click()
        context = page.locator("#panel .context")
        expect(context).to_be_visible()
        assert context.evaluate("node => node.textContent").split("\n") == [
            "{",
            '  "step": 3,',
            r'  "log": "one\ntwo\u2028\u001b[31m\u202e",',
            '  "of": [',
            "    {},",
            '    "seven"',
            "  ]",
            "}",
        ]


def test_searching_by_resource_holder_and_space(browser: Browser, server: Running) -> None:
    take(server, "needle-1", "finn")
    take(server, "needle-2", "gus", space="team")
    with looking(browser, server) as page:
        search = page.get_by_label("Search")
        search.fill("NEEDLE")
        expect(page.locator(".lease:visible")).to_have_count(2)
        search.fill("finn")
        expect(page.locator(".lease:visible .cell.resource")).to_have_text(["needle-1"])
        search.fill("")
        page.get_by_label("Space").select_option("team")
        expect(page.locator(".lease:visible .cell.resource")).to_have_text(["needle-2"])


def test_markup_and_escapes_are_shown_inert(browser: Browser, server: Running) -> None:
    nasty = {"name": "<script>window.pwned=1</script>", "reason": NASTY, "context": {NASTY: NASTY}}
    lease = take(server, f"nasty {NASTY}", "evil\u202egnp\u200b", **nasty)
    server.post("sessions", {"holder": NASTY, "name": NASTY})
    with server.begin("acquire", {"resources": f"nasty {NASTY}", "holder": NASTY, "wait_seconds": 50}):
        for view in ("now", "waiting", "history", "contention", "act"):
            with looking(browser, server, view=view) as page:
                expect(page.get_by_text(NASTY).first).to_be_attached()
                if view == "now":
                    page.locator(f'[data-lease="{lease}"]').click()
                    expect(page.locator("#panel")).to_contain_text("evil\\u202egnp\\u200b")
                    expect(page.locator("#panel .context")).to_contain_text("onerror")
                assert page.evaluate("window.pwned") is None
                assert page.locator("main img, #panel img, main script").count() == 0


def test_a_server_that_goes_away_is_told_and_one_that_comes_back_is_caught_up_with(
    browser: Browser, tmp_path: Path
) -> None:
    with serving(tmp_path, "--port", str(free_port())) as first:
        take(first, "before")
        with looking(browser, first, calm=False) as page:  # the browser itself logs that nobody answers
            expect(row(page, "before")).to_be_visible()
            assert first.stop() == 0
            expect(page.get_by_role("alert")).to_contain_text("Disconnected")
            expect(page.locator("#link")).to_have_text("Disconnected")
            with leasehold.connect(f"sqlite:///{first.database}") as locks:
                locks.acquire("meanwhile", ttl=600, holder="somebody")
                locks.force_release("before", by="ops", reason="while nobody looked")
            with serving(tmp_path, "--port", str(first.port)) as second:
                assert second.url == first.url
                expect(page.locator("#link")).to_have_attribute("data-state", "live")
                expect(page.get_by_role("alert")).to_have_count(0)
                expect(row(page, "meanwhile")).to_be_visible()
                expect(row(page, "before")).to_have_count(0)
                take(second, "after")
                expect(row(page, "after")).to_be_visible()


HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_tab_that_nobody_looks_at_gives_up_its_line_and_catches_up_later(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(browser, server) as page:
        page.clock.install()
        page.evaluate(HIDE, True)
        page.clock.fast_forward(30_000)
        expect(page.locator("#link")).to_have_attribute("data-state", "resting")
        take(server, "meanwhile")
        page.evaluate(HIDE, False)
        expect(page.locator("#link")).to_have_attribute("data-state", "live")
        expect(row(page, "meanwhile")).to_be_visible()


def visible(page: Page) -> int:
    return page.locator(".lease:visible").count()


def test_a_page_that_missed_too_much_loads_everything_anew(browser: Browser, tmp_path: Path) -> None:
    """Of more than 10,000 events the server tells only the latest, and that some are missing."""
    stale, late = json.dumps({"leases": []}), "/v1/events?last_event_id=0"
    with serving(tmp_path, "--rate", "0") as server, looking(browser, server) as page:
        take(server, "missed")
        for number in range(0, CATCH_UP // 2 + CALLS_MOST, CALLS_MOST):
            come_and_go(server, [f"passing-{number + each}" for each in range(CALLS_MOST)])
        page.route("**/v1/leases", lambda route: route.fulfill(body=stale, content_type="application/json"), times=1)
        page.route("**/v1/events?*", lambda route: route.continue_(url=server.url + late), times=1)
        page.reload()
        expect(row(page, "missed")).to_be_visible()
        take(server, "afterwards")
        expect(row(page, "afterwards")).to_be_visible()


def come_and_go(server: Running, names: list[str]) -> None:
    """Each of them is two events, and leaves nothing behind."""
    calls: list[dict[str, object]] = [{"verb": "acquire", "resources": name, "holder": "bob"} for name in names]
    granted = [each["body"] for each in server.post("batch", {"calls": calls}).json["answers"]]
    calls = [{"verb": "release", "lease": each["lease"]["id"], "token": each["token"]} for each in granted]
    assert all(each["body"]["released"] for each in server.post("batch", {"calls": calls}).json["answers"])


def test_only_what_is_seen_exists(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        with leasehold.connect(f"sqlite:///{server.database}") as locks:
            for number in range(400):
                locks.acquire(f"n-{number:03}", ttl=600, holder="ann")
        with looking(browser, server) as page:
            expect(page.locator(".rows")).to_have_attribute("aria-rowcount", "401")
            assert 5 < visible(page) < 60
            page.locator(".rows").evaluate("node => node.scrollTop = node.scrollHeight")
            expect(row(page, "n-399")).to_be_visible()
            expect(row(page, "n-000")).to_have_count(0)
