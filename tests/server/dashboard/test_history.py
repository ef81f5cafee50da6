"""History and contention: the timeline, the runs behind it, what can be taken along as a file, and the figures."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.kit.browsing import looking
from tests.kit.serving import Running, create_key, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("server"), "--rate", "0") as running:
        _live(running)
        yield running


def run(server: Running, resource: str, holder: str, **end: object) -> None:
    granted = server.post("acquire", {"resources": resource, "holder": holder, "name": f"work of {holder}"}).json
    proof = {"lease": granted["lease"]["id"], "token": granted["token"]}
    server.post("update", {**proof, "context": {"commit": "abc", "by": holder}})
    assert server.post("release", {**proof, **end}).json["released"]


def _live(server: Running) -> None:
    run(server, "build", "ann")
    run(server, "build", "bob", status="failed", error='tests are "red", again')
    run(server, "=cmd|calc", "+cid")
    server.post("acquire", {"resources": "expires", "holder": "dan", "ttl_seconds": 0.05})
    until(lambda: "expired" in server.get("history?resource=expires").content.decode())
    server.post("acquire", {"resources": "deploy", "holder": "eve"})
    with server.begin("acquire", {"resources": "deploy", "holder": "fay", "wait_seconds": 40}):
        until(lambda: server.waiting("deploy") == ["fay"])
        server.post("force-release", {"target": "deploy", "reason": "stuck", "by": "ops"})
        until(lambda: server.holders("deploy") == ["fay"])


def test_the_timeline_has_a_lane_for_each_resource_and_a_bar_for_each_lease(browser: Browser, server: Running) -> None:
    with looking(browser, server, view="history") as page:
        lanes = page.locator(".timeline text.lane")
        expect(lanes.filter(has_text="build")).to_have_count(1)
        expect(page.locator(".timeline .bar")).to_have_count(6)
        for outcome, count in {"completed": 2, "failed": 1, "expired": 1, "forced": 1}.items():
            expect(page.locator(f".timeline .bar.{outcome}")).to_have_count(count)
        run(server, "live", "zoe")
        expect(lanes.filter(has_text="live")).to_have_count(1)  # by itself
        page.get_by_label("Status").select_option("failed")
        expect(page.locator(".timeline .bar")).to_have_count(1)


def test_the_same_name_in_two_spaces_has_two_lanes_and_no_sign_is_cut_in_two(browser: Browser, tmp_path: Path) -> None:
    long = "\U0001f916" * 100
    with serving(tmp_path) as server:
        for space in ("default", "two"):
            server.post("acquire", {"resources": "same", "holder": "ann", "space": space})
        server.post("acquire", {"resources": long, "holder": "ann", "space": "two"})
        with looking(browser, server, view="history") as page:
            lanes = page.locator(".timeline text.lane")
            expect(lanes).to_have_count(3)
            expect(lanes.locator("title")).to_have_text([f"{long} · two", "same · two", "same"])
            expect(lanes.filter(has_text="\U0001f916…")).to_have_count(1)
            expect(lanes.filter(has_text="\\ud8")).to_have_count(0)
            expect(page.locator(".history .hint")).to_have_text("3 runs")


def test_a_run_tells_its_status_error_and_context(browser: Browser, server: Running) -> None:
    with looking(browser, server, view="history") as page:
        failed = page.locator(".run:not([hidden])").filter(has_text="failed")
        expect(failed.locator(".cell.error")).to_have_text('tests are "red", again')
        failed.click()
        panel = page.locator("#panel")
        expect(panel.locator(".context")).to_contain_text('"commit": "abc"')
        expect(panel).to_contain_text("work of bob")
        page.get_by_label("Resource", exact=True).fill("deploy")
        page.keyboard.press("Enter")
        forced = page.locator(".run:not([hidden])").filter(has_text="forced")
        expect(forced.locator(".cell.error")).to_have_text("forced by ops: stuck")
        expect(page.locator(".run:not([hidden])").filter(has_text="build")).to_have_count(0)


def _saved(page: Page, button: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    return download.value.path().read_text()


def test_what_is_shown_can_be_taken_along(browser: Browser, server: Running) -> None:
    with looking(browser, server, view="history") as page:
        expect(page.locator(".timeline .bar.forced")).to_have_count(1)
        runs: list[dict[str, Any]] = json.loads(_saved(page, "Export JSON"))["runs"]
        assert {"build", "expires", "deploy"} <= {name for run in runs for name in run["resources"]}
        failed = next(run for run in runs if run["outcome"] == "failed")
        assert failed["context"] == {"commit": "abc", "by": "bob"}
        table = list(csv.DictReader(_saved(page, "Export CSV").splitlines()))
        assert len(table) == len(runs)
        assert 'tests are "red", again' in {line["error"] for line in table}
        evil = next(line for line in table if "calc" in line["resources"])
        assert (evil["resources"], evil["holder"]) == ("'=cmd|calc", "'+cid")  # no formula for a spreadsheet


def test_contention_tells_waits_and_how_busy_a_resource_is(browser: Browser, server: Running) -> None:
    told = server.ask("GET", "/dashboard/contention?window=hour").json
    deploy = next(each for each in told["resources"] if each["resource"] == "deploy")
    assert told["resources"][0] == deploy  # the only one that anybody waited for
    assert deploy["waits"] == 1
    assert deploy["worst_wait_seconds"] == deploy["median_wait_seconds"] > 0
    assert 0 < deploy["utilisation"] <= 1
    assert server.ask("GET", "/dashboard/contention?window=year").code == "invalid"
    with looking(browser, server, view="contention") as page:
        expect(page.locator("tbody tr").first).to_contain_text("deploy")
        for window in ("day", "week"):
            page.get_by_role("button", name=f"Last {window}").click()
            expect(page.get_by_role("button", name=f"Last {window}")).to_have_attribute("aria-pressed", "true")
            expect(page.locator("tbody tr").first).to_contain_text("deploy")


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ("runs?limit=0", "limit"),
        ("runs?limit=x", "limit"),
        ("runs?resource=path:/x", "resource"),
        ("runs?since=-1", "since"),
        ("runs?colour=red", "colour"),
        ("graph?space=%20", "space"),
        ("contention?window=", "window"),
        ("closed?space=a&space=b", "space"),
    ],
)
def test_a_question_that_is_not_understood_names_the_field(server: Running, question: str, field: str) -> None:
    reply = server.ask("GET", f"/dashboard/{question}")
    assert (reply.status, reply.code) == (400, "invalid")
    assert reply.json["field"] == field


def test_each_key_sees_its_own_space_here_too(tmp_path: Path) -> None:
    viewer, admin = create_key(tmp_path, "viewer", space="team"), create_key(tmp_path, "admin")
    with serving(tmp_path) as server:
        for space in ("team", "other"):
            server.post("acquire", {"resources": f"of-{space}", "holder": "ann", "space": space}, key=admin)
        for path in ("runs", "contention", "graph", "closed"):
            assert server.ask("GET", f"/dashboard/{path}").code == "unauthenticated"
            assert server.ask("GET", f"/dashboard/{path}?space=other", key=viewer).code == "not_allowed"
            assert "of-other" not in server.ask("GET", f"/dashboard/{path}", key=viewer).content.decode()
        assert "of-team" in server.ask("GET", "/dashboard/runs", key=viewer).content.decode()
        assert "of-other" in server.ask("GET", "/dashboard/contention", key=admin).content.decode()
