"""Acting: each with a reason and a confirmation, and in the history under the admin's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.kit.browsing import looking, picture, row
from tests.kit.serving import Running, create_key, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@pytest.fixture
def office(tmp_path: Path) -> Iterator[tuple[Running, str]]:
    key = create_key(tmp_path, "admin", name="ops")
    with serving(tmp_path) as running:
        yield running, key


def agree(page: Page, button: str, reason: str = "because of the test") -> None:
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=button).click()  # without a reason nothing happens
    expect(dialog).to_be_visible()
    dialog.get_by_label("Reason").fill("  ")
    dialog.get_by_role("button", name=button).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Say why")
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=button).click()


def last(server: Running, key: str, kind: str) -> dict[str, Any]:
    events = server.get(f"history?kind={kind}&limit=1", key=key).json["events"]
    return events[0] if events else {}


def test_force_release_asks_why_and_the_history_tells(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    server.post("acquire", {"resources": "deploy://api", "holder": "ann"}, key=key)
    with looking(browser, server, key=key) as page:
        row(page, "deploy://api").click()
        page.get_by_role("button", name="Force-release").click()
        picture(page, "force-release")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert last(server, key, "forced") == {}
        page.get_by_role("button", name="Force-release").click()
        agree(page, "Force-release", "it hangs")
        expect(row(page, "deploy://api")).to_have_count(0)
        expect(page.locator("#toasts")).to_contain_text("Released deploy://api")
    told = last(server, key, "forced")
    assert (told["holder"], told["detail"]["by"], told["detail"]["why"]) == ("ann", "ops", "it hangs")


def test_stealing_tells_the_token_once(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    server.post("acquire", {"resources": "deploy://api", "holder": "ann"}, key=key)
    with looking(browser, server, view="act", key=key) as page:
        page.get_by_label("Resource or lease").fill("deploy://nothing")
        page.get_by_role("button", name="Steal …").click()
        expect(page.get_by_role("alert")).to_contain_text("Nobody holds deploy://nothing")
        page.get_by_label("Resource or lease").fill("deploy://api")
        page.get_by_role("button", name="Steal …").click()
        page.get_by_role("dialog").get_by_label("New holder").fill("ops-hands")
        agree(page, "Take over", "hotfix")
        token = page.locator("#secret").inner_text()
        lease = server.get("leases", key=key).json["leases"][0]
        assert lease["holder"] == "ops-hands"
        assert server.post("release", {"lease": lease["id"], "token": token}, key=key).json["released"]
        page.get_by_role("button", name="Done").click()
        expect(page.locator("#secret")).to_have_count(0)
    assert last(server, key, "forced")["detail"]["why"] == "hotfix"


def taken(server: Running, key: str, holder: str, **more: object) -> dict[str, Any]:
    reply = server.post("acquire", {"resources": "steal-me", "holder": holder, **more}, key=key)
    assert reply.status == 200, reply
    return {"lease": reply.json["lease"]["id"], "token": reply.json["token"]}


def test_a_lease_that_is_over_has_no_buttons(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    anns = taken(server, key, "ann")
    with looking(browser, server, key=key) as page:
        row(page, "steal-me").click()
        panel = page.locator("#panel")
        expect(panel.get_by_role("button", name="Steal")).to_be_visible()
        server.post("release", anns, key=key)
        taken(server, key, "ben")
        expect(panel).to_contain_text("it is over")
        expect(panel.get_by_role("button", name="Steal")).to_have_count(0)
        expect(panel.get_by_role("button", name="Force-release")).to_have_count(0)


def test_only_the_lease_in_the_confirmation_is_taken_over(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    anns = taken(server, key, "ann")
    with looking(browser, server, key=key) as page:
        row(page, "steal-me").click()
        page.locator("#panel").get_by_role("button", name="Steal").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("ann holds steal-me")
        server.post("release", anns, key=key)
        bens = taken(server, key, "ben")
        agree(page, "Take over", "ann hangs")
        expect(dialog.get_by_role("alert")).to_contain_text("ann's lease is over by now. Nothing was done")
        assert server.post("renew", bens, key=key).status == 200
        dialog.get_by_role("button", name="Cancel").click()
    assert last(server, key, "forced") == {}


def test_who_else_would_lose_a_lease_is_named_first(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    taken(server, key, "ann", mode="shared")
    taken(server, key, "ben", mode="shared")
    with looking(browser, server, key=key) as page:
        row(page, "steal-me").filter(has_text="ann").click()
        page.locator("#panel").get_by_role("button", name="Steal").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Ends as well: ben holds steal-me")
        taken(server, key, "cid", mode="shared")
        agree(page, "Take over", "all of them hang")
        expect(dialog.get_by_role("alert")).to_contain_text("Meanwhile cid holds steal-me")
        dialog.get_by_role("button", name="Cancel").click()
        page.locator("#panel").get_by_role("button", name="Steal").click()
        expect(dialog).to_contain_text("Ends as well: cid holds steal-me")
        agree(page, "Take over", "all of them hang")
        expect(page.locator("#secret")).to_be_visible()
    assert [each["holder"] for each in server.get("leases", key=key).json["leases"]] == ["ops"]


def test_a_quarantine_is_shown_and_cleared(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    server.post("acquire", {"resources": "db://orders", "holder": "mig", "on_expiry": "quarantine"}, key=key)
    server.post("force-release", {"target": "db://orders", "reason": "gone"}, key=key)
    with looking(browser, server, view="act", key=key) as page:
        closed = page.locator("tr").filter(has_text="db://orders")
        expect(closed).to_contain_text("mig")
        picture(page, "act")
        closed.get_by_role("button", name="Clear …").click()
        agree(page, "Clear it", "looked at it")
        expect(closed).to_have_count(0)
    assert last(server, key, "cleared")["detail"]["why"] == "looked at it"
    assert server.get("inspect?resource=db://orders", key=key).json["free"]


def test_a_session_is_ended_with_a_reason(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    credential = server.post("sessions", {"holder": "nightly"}, key=key).json["credential"]
    server.post("acquire", {"resources": "a", "session": credential}, key=key)
    with looking(browser, server, view="act", key=key) as page:
        page.locator("tr").filter(has_text="nightly").get_by_role("button", name="End …").click()
        agree(page, "End it", "it is stuck")
        expect(page.locator("tr").filter(has_text="nightly")).to_have_count(0)
    told = last(server, key, "session_ended")["detail"]
    assert (told["by"], told["why"]) == ("ops", "it is stuck")
    assert server.get("leases", key=key).json["leases"] == []


def test_keys_are_created_and_revoked(browser: Browser, office: tuple[Running, str]) -> None:
    server, key = office
    with looking(browser, server, view="act", key=key) as page:
        page.get_by_role("button", name="Create a key …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Whose").fill("wall screen")
        dialog.get_by_label("Role").select_option("viewer")
        agree(page, "Create", "for the wall")
        made = page.locator("#secret").inner_text()
        assert made.startswith("lh_")
        page.get_by_role("button", name="Done").click()
        assert server.get("leases", key=made).status == 200
        told = last(server, key, "key_created")["detail"]
        assert (told["by"], told["why"], told["role"]) == ("ops", "for the wall", "viewer")
        line = page.locator("tr").filter(has_text="wall screen")
        expect(line).to_contain_text("viewer")
        expect(page.locator("#secret")).to_have_count(0)  # the browser closes the dialog in its own time
        assert made not in page.content()
        line.get_by_role("button", name="Revoke …").click()
        agree(page, "Revoke", "the wall is gone")
        expect(line).to_have_count(0)
    until(lambda: server.get("leases", key=made).status == 401)
    assert last(server, key, "key_revoked")["detail"]["why"] == "the wall is gone"


def test_a_name_that_several_hold_ends_nobodys_lease_before_it_is_said_whose(
    browser: Browser, office: tuple[Running, str]
) -> None:
    server, key = office
    for space in ("default", "team"):
        server.post("acquire", {"resources": "issue:42", "holder": f"of-{space}", "space": space}, key=key)
    with looking(browser, server, view="act", key=key) as page:
        page.get_by_label("Resource or lease").fill("issue:42")
        page.get_by_role("button", name="Force-release …").click()
        told = page.get_by_role("alert").filter(has_text="2 leases are on issue:42")
        expect(told).to_contain_text("of-team in team")
        expect(page.get_by_role("dialog")).to_have_count(0)
        lease = server.get("inspect?resource=issue:42&space=team", key=key).json["leases"][0]["id"]
        page.get_by_label("Resource or lease").fill(lease)
        page.get_by_role("button", name="Force-release …").click()
        expect(page.get_by_role("dialog")).to_contain_text("of-team holds issue:42 in team.")
        agree(page, "Force-release")
        expect(page.locator("#toasts")).to_contain_text("Released issue:42")
    assert [each["holder"] for each in server.get("leases", key=key).json["leases"]] == ["of-default"]


def test_the_first_key_is_an_admins_and_is_told_although_it_closes_the_door(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(browser, server, view="act", calm=False) as page:
        page.get_by_role("button", name="Create a key …").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("create an admin's key first")
        expect(dialog.get_by_label("Role")).to_have_value("admin")
        dialog.get_by_label("Whose").fill("ops")
        agree(page, "Create", "to begin with")
        made = page.locator("#secret").inner_text()
        expect(page.locator("#link-text")).to_have_text("Signed out")
        expect(page.locator("#secret")).to_have_text(made)
        assert server.get("leases", key=made).status == 200


def test_who_is_signed_out_is_asked_nothing_more(browser: Browser, tmp_path: Path) -> None:
    admin, other = create_key(tmp_path, "admin", name="ops"), create_key(tmp_path, "admin", name="eve")
    with serving(tmp_path) as server, looking(browser, server, view="act", key=other, calm=False) as page:
        page.get_by_role("button", name="Create a key …").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        server.post("keys/revoke", {"id": other.split("_")[1]}, key=admin)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_role("dialog")).to_have_count(0)
