"""Operating by page: links that keep its state, pages for names, alerts, audit, trends, and acts by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.kit.browsing import looking, row
from tests.kit.serving import Running, create_key, id_of, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

API = "deploy://api"
PAGE_OF_API = f"resource/{quote(API, safe='')}"
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


class Office:
    """A server with the key of an admin and that of an agent."""

    def __init__(self, server: Running, admin: str, agent: str) -> None:
        self.server = server
        self.admin = admin
        self.agent = agent

    def take(self, resource: str, holder: str, **more: object) -> dict[str, Any]:
        """Acquire as the agent."""
        reply = self.server.post("acquire", {"resources": resource, "holder": holder, **more}, key=self.agent)
        assert reply.status == 200, reply
        return {"lease": reply.json["lease"]["id"], "token": reply.json["token"]}

    def last(self, kind: str) -> dict[str, Any]:
        """The latest event of a kind."""
        events = self.server.get(f"history?kind={kind}&limit=1", key=self.admin).json["events"]
        return events[0] if events else {}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    keys = [create_key(tmp_path, role, name=name) for role, name in (("admin", "ops"), ("agent", "ci"))]
    with serving(tmp_path) as server:
        yield Office(server, *keys)


def confirm(page: Page, button: str, **fields: str) -> None:
    dialog = page.get_by_role("dialog")
    for label, value in fields.items():
        dialog.get_by_label(label.replace("_", " ")).fill(value)
    dialog.get_by_role("button", name=button).click()


# ---------------------------------------------------------------------------------------------------- address


def test_the_address_holds_filters_order_and_selection(browser: Browser, office: Office) -> None:
    lease = office.take(API, "ann")["lease"]
    office.take("issue:1", "ben")
    with looking(browser, office.server, key=office.admin) as page:
        page.get_by_label("Search").fill("deploy")
        page.get_by_role("button", name="Held for").click()
        row(page, API).click()
        expect(page).to_have_url(re.compile(rf"#now\?(?=.*q=deploy)(?=.*sort=held)(?=.*lease={lease})"))
        page.reload()
        expect(page.get_by_label("Search")).to_have_value("deploy")
        expect(page.locator("[aria-sort=ascending]")).to_have_text("Held for")
        expect(page.locator("#panel h2")).to_have_text(API)
        page.keyboard.press("Escape")
        expect(page).not_to_have_url(re.compile("lease="))


def test_a_link_to_a_lease_that_is_over_shows_its_run(browser: Browser, office: Office) -> None:
    proof = office.take(API, "ann", name="release 1.4")
    office.server.post("release", proof, key=office.agent)
    with looking(browser, office.server, key=office.admin, view=f"now?lease={proof['lease']}") as page:
        expect(page.locator("#panel")).to_contain_text("completed")
        expect(page.locator("#panel")).to_contain_text("release 1.4")


def test_history_is_filtered_by_the_beginning_or_a_part_of_a_name(browser: Browser, office: Office) -> None:
    for name in ("deploy://api", "deploy://web", "issue:api"):
        office.server.post("release", office.take(name, "ann"), key=office.agent)
    runs = ".run:not([hidden]) .cell.resource"
    with looking(browser, office.server, key=office.admin, view="history?match=prefix&resource=deploy") as page:
        expect(page.locator(runs)).to_have_text(["deploy://web", "deploy://api"])
        page.get_by_label("Name").select_option("contains")
        page.get_by_label("Resource", exact=True).fill("api")
        page.get_by_label("Resource", exact=True).press("Enter")
        expect(page.locator(runs)).to_have_text(["issue:api", "deploy://api"])
        expect(page).to_have_url(re.compile(r"match=contains&.*resource=api|resource=api.*match=contains"))
        page.reload()
        expect(page.locator(runs)).to_have_text(["issue:api", "deploy://api"])
    assert office.server.ask("GET", "/dashboard/runs?match=like", key=office.admin).code == "invalid"


# ------------------------------------------------------------------------------------------- pages of their own


@pytest.mark.parametrize("size", [{}, PHONE], ids=["desk", "phone"])
def test_names_have_pages_of_their_own(browser: Browser, office: Office, size: dict[str, Any]) -> None:
    credential = office.server.post("sessions", {"holder": "nightly"}, key=office.agent).json["credential"]
    session = credential.partition(".")[0]
    office.take(API, "nightly", session=credential, name="release 1.4", reason="ship it")
    waiting = {"resources": API, "holder": "bob", "wait_seconds": 50}
    with (
        office.server.begin("acquire", waiting, key=office.agent),
        looking(browser, office.server, key=office.admin, view=PAGE_OF_API, **size) as page,
    ):
        parts = page.locator(".view.subject")
        for told in ("nightly", "ship it", "bob", "granted", id_of(office.agent)):
            expect(parts).to_contain_text(told)
        parts.get_by_role("link", name="nightly").first.click()
        expect(page.get_by_role("heading", name="nightly", exact=True)).to_be_visible()
        expect(parts).to_contain_text(API)
        parts.get_by_role("link", name=session).first.click()
        expect(page.get_by_role("heading", name=session)).to_be_visible()
        expect(parts).to_contain_text("live")
        parts.get_by_role("link", name=id_of(office.agent)).first.click()
        expect(page.get_by_role("heading", name="ci", exact=True)).to_be_visible()
        expect(parts).to_contain_text(API)
        page.go_back()
        expect(page.get_by_role("heading", name=session)).to_be_visible()


def test_lists_say_how_long_the_longest_first(browser: Browser, office: Office) -> None:
    office.take("issue:b", "ann")
    office.take("issue:a", "ann")
    with looking(browser, office.server, key=office.admin) as page:
        names = page.locator(".lease:visible .cell.resource")
        expect(names).to_have_text(["issue:a", "issue:b"])
        page.get_by_role("button", name="Held for").click()
        expect(names).to_have_text(["issue:b", "issue:a"])
        expect(row(page, "issue:a").locator(".cell.held")).to_have_text(re.compile(r"\d(ms|s)$"))
        waiting = {"resources": "issue:a", "holder": "bob", "wait_seconds": 50}
        with office.server.begin("acquire", waiting, key=office.agent):
            expect(row(page, "issue:a").locator(".cell.longest")).to_have_text(re.compile(r"\d(ms|s)$"))
            page.get_by_role("button", name="Longest wait").click()
            expect(names).to_have_text(["issue:a", "issue:b"])


# ------------------------------------------------------------------------------------------------ alerts, audit


@pytest.mark.parametrize("size", [{}, PHONE], ids=["desk", "phone"])
def test_alerts_say_what_is_wrong_and_since_when(browser: Browser, office: Office, size: dict[str, Any]) -> None:
    office.take("db://orders", "mig", on_expiry="quarantine")
    office.server.post("force-release", {"target": "db://orders", "reason": "gone"}, key=office.admin)
    lease = office.take("path:src/a.py", "ann")["lease"]
    office.server.post("trespasses", {"lease": lease, "paths": ["path:src/a.py"], "by": "eve"}, key=office.agent)
    waiting = {"resources": "path:src/a.py", "holder": "bob", "wait_seconds": 50}
    with (
        office.server.begin("acquire", waiting, key=office.agent),
        looking(browser, office.server, key=office.admin, view="now?long_hold=0.1&long_wait=0.1", **size) as page,
    ):
        strip = page.locator("#alerts")
        strip.get_by_role("button", name="more").click()
        for told in ("long hold", "long wait", "quarantine", "trespass"):
            expect(strip.locator(".alert b", has_text=told)).to_have_count(1)
        expect(strip.locator("time").first).to_have_text(re.compile("ago|now"))
        strip.get_by_role("link", name="db://orders").click()
        expect(page.get_by_role("heading", name="db://orders")).to_be_visible()
        page.get_by_role("button", name="Clear …").click()
        confirm(page, "Clear it", Reason="rolled back")
        expect(strip.locator(".alert b", has_text="quarantine")).to_have_count(0)


def test_plans_are_shown_with_what_overlaps(browser: Browser, office: Office) -> None:
    def plan(holder: str, *names: str) -> None:
        asked = {"resources": list(names), "holder": holder, "name": f"work of {holder}"}
        assert office.server.post("plan", asked, key=office.admin).status == 200

    with looking(browser, office.server, key=office.admin, view="plans") as page:
        expect(page.locator(".plans")).to_contain_text("No agent has announced a plan.")
        expect(page.locator(".plans code.step")).to_contain_text("leasehold plan path:src/parser issue:42")
        plan("ann", "path:src", "issue:1")
        plan("bob", "path:src/<b>.py")
        tables = page.locator(".plans tbody")
        expect(tables.first.locator("tr")).to_have_count(2)
        expect(tables.first).to_contain_text("work of ann")
        cell = tables.nth(1).locator("tr")
        expect(cell).to_have_count(1)
        for told in ("path:src", "ann", "path:src/<b>.py", "planned by bob"):
            expect(cell).to_contain_text(told)
        expect(page.locator(".plans time")).to_have_text([re.compile(r"^(just now|[\d.]+s ago)$")] * 3)


def test_pools_show_who_has_which_member_and_who_waits(browser: Browser, office: Office) -> None:
    with looking(browser, office.server, key=office.admin, view="pools") as page:
        view = page.locator(".pools")
        expect(view.locator("code.step")).to_contain_text("leasehold acquire pool://ports/3000-3099")
        declared = {"resource": "pool://gpu", "members": ["g10 a100", "g9 h100"]}
        assert office.server.post("pools", declared, key=office.admin).status == 200
        first = office.take("pool://gpu?label=h100", "ann", name="<b>train")
        office.take("pool://ports/3000-3001", "ben", on_expiry="quarantine")
        waiting = {"resources": "pool://gpu/g9", "holder": "bob", "wait_seconds": 50}
        with office.server.begin("acquire", waiting, key=office.agent):
            rows = view.locator("tbody").first.locator("tr")
            expect(rows).to_have_count(3)
            for place, told in enumerate(("pool://gpu/g9held", "pool://gpu/g10free", "pool://ports/3000held")):
                expect(rows.nth(place)).to_contain_text(re.compile(re.escape(told)))
            expect(rows.first).to_contain_text("<b>train")
            expect(view.locator("tbody").nth(1)).to_contain_text("bob")
            view.get_by_label("Pool", exact=True).select_option("pool://ports")
            expect(rows).to_have_count(1)
            expect(page).to_have_url(re.compile(r"#pools\?pool=pool%3A%2F%2Fports$"))
            page.reload()
            expect(rows).to_have_count(1)
            office.server.post("force-release", {"target": "pool://ports/3000", "reason": "x"}, key=office.admin)
            expect(rows).to_contain_text("quarantined")
            view.get_by_label("Pool", exact=True).select_option("")
            office.server.post("release", first, key=office.agent)
            expect(rows.first).to_contain_text("bob")


def test_elections_show_who_leads_and_the_terms_before(browser: Browser, office: Office) -> None:
    with looking(browser, office.server, key=office.admin, view="elections") as page:
        view = page.locator(".elections")
        expect(view.locator("code.step")).to_contain_text("leasehold run scheduler --lead --url")
        first = office.take("scheduler", "ann", name="leader")
        office.take("migrator", "eve", name="leader")
        office.take("issue:1", "eve", name="fix")
        waiting = {"resources": "scheduler", "holder": "bob", "wait_seconds": 50, "name": "leader"}
        with office.server.begin("acquire", waiting, key=office.agent):
            rows = view.locator("tbody").first.locator("tr")
            expect(rows).to_have_count(2)
            expect(rows.nth(1)).to_contain_text("bob")
            view.get_by_role("button", name="Terms of scheduler").click()
            expect(page).to_have_url(re.compile(r"#elections\?election=scheduler$"))
            terms = view.locator("tbody").nth(1).locator("tr")
            expect(terms).to_have_count(1)
            expect(terms).to_contain_text("leads")
            office.server.post("release", first, key=office.agent)
            expect(rows.nth(1).get_by_role("link", name="bob")).to_be_visible()
            expect(terms).to_have_count(2)
            expect(terms.nth(1)).to_contain_text("completed")
            page.reload()
            expect(terms).to_have_count(2)


def test_the_audit_says_who_did_what_by_which_key_and_why(browser: Browser, office: Office) -> None:
    office.take(API, "ann")
    office.server.post("force-release", {"target": API, "reason": "it hangs"}, key=office.admin)
    with looking(browser, office.server, key=office.admin, view="audit?kind=forced") as page:
        line = page.locator("tbody tr")
        expect(line).to_have_count(1)
        for told in ("forced", API, "ann", "ops", id_of(office.admin), "it hangs"):
            expect(line).to_contain_text(told)
        page.get_by_label("What", exact=True).select_option("")
        expect(line.filter(has_text="key created")).to_have_count(2)
        made = {"name": "wall", "role": "viewer", "reason": "a new screen"}
        wall = office.server.post("keys", made, key=office.admin).json["key"]["id"]
        office.server.post("keys/revoke", {"id": wall, "reason": "it broke"}, key=office.admin)
        for what, why in (("key created", "a new screen"), ("key revoked", "it broke")):
            expect(line.filter(has_text=what).filter(has_text=why)).to_contain_text(id_of(office.admin))
        page.get_by_label("Containing").fill("hangs")
        expect(line).to_have_count(1)
        expect(page).to_have_url(re.compile("text=hangs"))


def test_trends_follow_what_is_held(browser: Browser, office: Office) -> None:
    for number in range(3):
        office.take(f"issue:{number}", "ann")
    with looking(browser, office.server, key=office.admin, view="trends?span=15+minutes") as page:
        held = page.locator("[data-chart=held] .latest")
        expect(held).to_have_text("3")
        expect(page.get_by_role("button", name="15 minutes")).to_have_attribute("aria-pressed", "true")
        office.take("issue:more", "ann")
        expect(held).to_have_text("4")  # by itself
        page.get_by_role("button", name="7 days").click()
        expect(page).to_have_url(re.compile(r"span=7\+days"))
        expect(held).to_have_text("4")


def test_contention_counts_from_when_the_server_could_know(office: Office) -> None:
    office.take(API, "ann")
    until(lambda: office.server.ask("GET", "/dashboard/contention", key=office.admin).json["resources"])
    told = office.server.ask("GET", "/dashboard/contention?window=week", key=office.admin).json
    first = office.server.get("history", key=office.admin).json["events"][-1]["at"]
    assert told["complete"]
    assert told["since"] == first


# --------------------------------------------------------------------------------------------------- by hand


def test_a_person_reserves_a_resource_and_leaves_a_note(browser: Browser, office: Office) -> None:
    with looking(browser, office.server, key=office.admin, view=PAGE_OF_API) as page:
        page.get_by_role("button", name="Reserve for me …").click()
        confirm(page, "Reserve", Reason="demo for the board")
        expect(page.locator("#secret")).to_be_visible()
        page.get_by_role("button", name="Done").click()
        expect(page.locator(".view.subject")).to_contain_text("demo for the board")
        page.get_by_role("button", name="Add a note …").click()
        confirm(page, "Save", Note="ask ada first")
        expect(page.locator(".facts")).to_contain_text("ask ada first (ops")
        page.get_by_role("button", name="Change the note …").click()
        confirm(page, "Save", Note="")
        expect(page.locator(".facts")).not_to_contain_text("ask ada first")
    lease = office.server.get("leases", key=office.admin).json["leases"][0]
    assert (lease["holder"], lease["reason"]) == ("ops", "demo for the board")


def test_an_admin_gives_a_lease_more_time(browser: Browser, office: Office) -> None:
    office.take(API, "ann", ttl_seconds=600)
    with looking(browser, office.server, key=office.admin) as page:
        row(page, API).click()
        page.locator("#panel").get_by_role("button", name="Extend").click()
        confirm(page, "Extend", For_how_many_minutes="120", Reason="slow, and fine")
        expect(row(page, API).locator(".cell.left span")).to_have_text(re.compile(r"^(1h 59m|2h 00m)$"))
    told = office.last("extended")
    assert (told["detail"]["by"], told["detail"]["why"]) == ("ops", "slow, and fine")


def test_an_ambiguous_name_is_picked_from_a_list(browser: Browser, office: Office) -> None:
    for space in ("default", "team"):
        asked = {"resources": "issue:42", "holder": f"of-{space}", "space": space}
        office.server.post("acquire", asked, key=office.admin)
    with looking(browser, office.server, view="act", key=office.admin) as page:
        page.get_by_label("Resource or lease").fill("issue:42")
        page.get_by_role("button", name="Force-release …").click()
        page.get_by_role("group", name="Which lease?").get_by_role("button", name="of-team in team").click()
        confirm(page, "Force-release", Reason="it hangs")
        expect(page.locator("#toasts")).to_contain_text("Released issue:42 · team")
    assert [each["holder"] for each in office.server.get("leases", key=office.admin).json["leases"]] == ["of-default"]


@pytest.mark.parametrize("size", [{}, PHONE], ids=["desk", "phone"])
def test_the_palette_goes_everywhere(browser: Browser, office: Office, size: dict[str, Any]) -> None:
    office.take(API, "ann")
    with looking(browser, office.server, key=office.admin, **size) as page:
        expect(row(page, API)).to_be_visible()
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Command or name").fill("api")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=API)).to_be_visible()
        page.get_by_role("button", name="Commands (Ctrl-K)").click()
        page.get_by_role("combobox", name="Command or name").fill("trends")
        page.get_by_role("option", name="view Trends").click()
        expect(page.locator(".view.trends")).to_be_visible()
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Command or name").fill("force ann")
        page.keyboard.press("Enter")
        confirm(page, "Force-release", Reason="it hangs")
        expect(page.locator("#toasts")).to_contain_text(f"Released {API}")


# ----------------------------------------------------------------------------------------------------- words


def test_an_empty_view_says_the_next_step(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(browser, server) as page:
        expect(page.locator(".now .empty")).to_contain_text(f"leasehold acquire issue:42 --url {server.url}")
        page.goto(f"{server.url}/#waiting")
        expect(page.locator(".waiting .rows-frame .empty")).to_contain_text("--wait 10m")
        page.goto(f"{server.url}/#history")
        expect(page.locator(".history .rows-frame .empty")).to_contain_text("leasehold run issue:42")


def test_the_notice_says_since_when_the_page_is_disconnected(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(browser, server, calm=False) as page:
        server.process.kill()
        expect(page.locator("#notice")).to_have_text(re.compile(r"since \d\d:\d\d:\d\d \(.*ago|just now\)"))
