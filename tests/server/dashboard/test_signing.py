"""Signing in: each role sees what it may, the key stays out of reach, and no other page can use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from leasehold.testing.lending import free_port
from tests.kit.browsing import looking, picture, row, sign_in
from tests.kit.serving import Reply, Running, create_key, id_of, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("server")
    made = {role: create_key(folder, role, name=f"the {role}") for role in ("admin", "agent", "viewer")}
    made["team"] = create_key(folder, "viewer", name="the team's", space="team")
    with serving(folder, "--rate", "0") as server:
        server.post("acquire", {"resources": "one", "holder": "ann", "context": {"pr": 7}}, key=made["admin"])
        server.post("acquire", {"resources": "two", "holder": "bob", "space": "team"}, key=made["admin"])  # elsewhere
        yield server, made


@pytest.mark.parametrize("role", ["viewer", "agent", "admin"])
def test_each_role_sees_what_it_may(browser: Browser, keys: tuple[Running, dict[str, str]], role: str) -> None:
    server, made = keys
    with looking(browser, server, key=made[role]) as page:
        expect(page.locator("#who")).to_contain_text(f"the {role} {role}")
        expect(row(page, "one")).to_be_visible()
        expect(page.locator(".lease:visible").filter(has_text="two")).to_have_count(1 if role == "admin" else 0)
        row(page, "one").click()
        expect(page.locator("#panel")).to_contain_text('"pr": 7')
        acts = page.get_by_role("button", name="Force-release")
        expect(acts).to_have_count(1 if role == "admin" else 0)
        expect(page.get_by_role("link", name="Act")).to_have_count(1 if role == "admin" else 0)
        page.goto(f"{server.url}/#act")
        heading = "Act" if role == "admin" else "Held now"
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        assert made[role] not in page.content()
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"]) == (True, "Strict", made[role])
        assert (
            page.evaluate("document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)") == "{}{}"
        )
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Key", exact=True)).to_be_visible()
        assert page.context.cookies() == []


def test_a_viewer_has_no_buttons_that_change_anything(browser: Browser, keys: tuple[Running, dict[str, str]]) -> None:
    server, made = keys
    allowed = {"Commands (Ctrl-K)", "Sign out", "Close the details", "Export JSON", "Export CSV"}
    allowed |= {"Last hour", "Last day", "Last week", "15 minutes", "1 hour", "6 hours", "1 day", "7 days"}
    sorting = {"Resource", "Holder", "Work", "Mode", "Fence", "Left", "Queue"}
    sorting |= {"Held for", "Longest wait", "Waiting for", "Place kept for"}
    with looking(browser, server, key=made["viewer"]) as page:
        row(page, "one").click()
        for view in ("now", "waiting", "history", "contention", "trends", "audit"):
            page.goto(f"{server.url}/#{view}")
            expect(page.locator(f".view.{view}")).to_be_visible()
            names = {
                button.get_attribute("aria-label") or button.inner_text()
                for button in page.locator("button:visible").all()
            }
            assert {name for name in names if not name.startswith("Colours")} <= allowed | sorting


def test_a_key_of_another_space_sees_that_space_alone(browser: Browser, keys: tuple[Running, dict[str, str]]) -> None:
    server, made = keys
    with looking(browser, server, key=made["team"]) as page:
        expect(row(page, "two")).to_be_visible()
        expect(row(page, "one")).to_have_count(0)


def test_a_wrong_key_is_told_and_a_revoked_one_signs_out(browser: Browser, tmp_path: Path) -> None:
    admin, viewer = (create_key(tmp_path, role) for role in ("admin", "viewer"))
    with serving(tmp_path) as server, looking(browser, server, key=viewer, calm=False) as page:
        server.post("keys/revoke", {"id": id_of(viewer)}, key=admin)
        until(lambda: server.get("leases", key=viewer).status == 401)
        page.reload()
        picture(page, "sign-in")
        for wrong, told in {"secret": "begins with lh_", "lh_0123456789abcdef_x": "not known, or was revoked"}.items():
            sign_in(page, wrong)
            expect(page.get_by_role("alert")).to_contain_text(told)
        sign_in(page, admin)
        expect(page.locator("#link")).to_have_attribute("data-state", "live")


def test_a_restart_signs_nobody_out(browser: Browser, tmp_path: Path) -> None:
    viewer = create_key(tmp_path, "viewer")
    port = ("--port", str(free_port()))
    with serving(tmp_path, *port) as first, looking(browser, first, key=viewer, calm=False) as page:
        assert first.stop() == 0
        expect(page.get_by_role("alert")).to_contain_text("Disconnected")
        with serving(tmp_path, *port):
            expect(page.locator("#link")).to_have_attribute("data-state", "live")
            expect(page.locator("#who")).to_contain_text("viewer")


def test_a_key_that_is_made_while_a_page_is_open_ends_its_access(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(browser, server, calm=False) as page:
        expect(page.locator("#who")).to_have_text("open server")
        key = create_key(tmp_path, "viewer")
        until(lambda: server.get("leases").status == 401)
        page.reload()
        sign_in(page, key)
        expect(page.locator("#link")).to_have_attribute("data-state", "live")


# ------------------------------------------------------------------------------- without a browser: other pages


def ask(server: Running, key: str, path: str, body: object = None, **headers: str) -> Reply:
    """As a browser that is signed in."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    cookie = f"leasehold_{server.port}={key}"
    return server.ask("GET" if body is None else "POST", path, body, **{"Cookie": cookie, **names})


def test_a_cookie_is_good_for_our_own_page_only(keys: tuple[Running, dict[str, str]]) -> None:
    server, made = keys
    admin, ours = made["admin"], server.url
    release = ("/v1/force-release", {"target": "nothing", "reason": "x"})
    assert ask(server, admin, "/v1/leases").status == 200
    assert ask(server, admin, "/v1/leases", Sec_Fetch_Site="cross-site").code == "not_allowed"
    elsewhere = ask(server, admin, "/v1/leases", Sec_Fetch_Site="same-site")  # another port of this host
    assert elsewhere.code == "not_allowed"
    assert ask(server, admin, *release).code == "not_allowed"  # a form of another page could send this much
    assert ask(server, admin, *release, X_Leasehold="page", Origin="http://evil.example").code == "not_allowed"
    assert ask(server, admin, *release, X_Leasehold="page", Origin="http://127.0.0.1:1").code == "not_allowed"
    assert ask(server, admin, *release, X_Leasehold="page", Origin=ours).json["released"] is False
    assert ask(server, "lh_0123456789abcdef_x", "/v1/leases").code == "unauthenticated"
    assert server.ask("OPTIONS", "/v1/force-release", Origin="http://evil.example").status == 405  # no yes to CORS


def test_routes_of_the_quick_parser_know_the_cookie_too(keys: tuple[Running, dict[str, str]]) -> None:
    server, made = keys
    wanted = {"resources": "hot"}
    assert ask(server, made["viewer"], "/v1/acquire", wanted, X_Leasehold="page").code == "not_allowed"
    assert ask(server, made["agent"], "/v1/acquire", wanted).code == "not_allowed"
    assert ask(server, made["agent"], "/v1/acquire", wanted, X_Leasehold="page").status == 200


def test_signing_in_over_the_wire(keys: tuple[Running, dict[str, str]]) -> None:
    server, made = keys
    path = "/dashboard/session"
    assert server.ask("GET", path).json["signed_in"] is False
    assert server.ask("POST", path, {"key": made["viewer"]}).code == "not_allowed"  # not from our page
    page = {"x-leasehold": "page"}
    for key in ("", "x", "lh_", "lh_é", "lh_a b\n"):
        assert server.ask("POST", path, {"key": key}, **page).status in (400, 401)
    assert server.ask("POST", path, {"kee": "x"}, **page).code == "invalid"
    assert server.ask("POST", path, b"x" * 70_000, **page).code == "too_large"
    done = server.ask("POST", path, {"key": made["viewer"]}, **page)
    assert done.json["role"] == "viewer"
    assert made["viewer"] not in done.content.decode()
    assert "HttpOnly" in done.headers["set-cookie"]
    assert "SameSite=strict" in done.headers["set-cookie"]
    assert "Secure" not in done.headers["set-cookie"]
    host = f"127.0.0.1:{server.port}"
    elsewhere = server.ask("POST", path, {"key": made["viewer"]}, **page, Origin="https://locks.example")
    assert "must forward the Host" in elsewhere.json["detail"]  # most likely it is our page, behind a proxy
    secure = server.ask("POST", path, {"key": made["viewer"]}, **page, Origin=f"https://{host}")
    assert "; Secure" in secure.headers["set-cookie"]  # a proxy in front speaks TLS
    out = server.ask("DELETE", path, **page)
    assert "Max-Age=0" in out.headers["set-cookie"]


def test_the_page_lets_nothing_else_run(keys: tuple[Running, dict[str, str]]) -> None:
    server, _ = keys
    page = server.ask("GET", "/")
    policy = page.headers["content-security-policy"]
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert server.ask("GET", "/", **{"if-none-match": page.headers["etag"]}).status == 304
    assert server.ask("GET", "/dashboard/main.js").headers["content-type"].startswith("text/javascript")
    for path in (
        "/dashboard/none.js",
        "/dashboard/../app.py",
        "/dashboard/%2e%2e%2fapp.py",
        "/dashboard/..%2fsigning.py",
    ):
        assert server.ask("GET", path).code == "not_found"
