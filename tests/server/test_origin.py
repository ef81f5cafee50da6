"""Pages of other origins, bodies that do not say what they are, and trailers: on every way into a server."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.browsing import PATIENCE_MS
from tests.kit.serving import PATIENCE, Reply, Running, create_key, read_reply, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

KEY = json.dumps({"role": "admin", "name": "stolen"})


# ------------------------------------------------------------------------------------------------ pages


@contextmanager
def page_on_another_port() -> Iterator[str]:
    """The address of an empty page on this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = b"<!doctype html><title>another page</title>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}/"
        finally:
            listening.shutdown()
            thread.join()


SENDING = {
    "text": "([url, body]) => fetch(url, {method: 'POST', mode: 'no-cors', body}).then(() => 'sent')",
    "nothing said": (
        "([url, body]) => fetch(url, {method: 'POST', mode: 'no-cors', body: new Blob([body])}).then(() => 'sent')"
    ),
    "beacon": "async ([url, body]) => { navigator.sendBeacon(url, new Blob([body])); return 'sent'; }",
    "json": (
        "([url, body]) => fetch(url, {method: 'POST', body, headers: {'content-type': 'application/json'}})"
        ".then(() => 'sent', () => 'refused by the browser')"
    ),
}


def test_no_page_of_another_port_makes_itself_a_key(server: Running, browser: Browser) -> None:
    with page_on_another_port() as address:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(address)
        seen: list[int] = []
        page.on("response", lambda reply: seen.append(reply.status))
        for script in SENDING.values():
            page.evaluate(script, [f"{server.url}/v1/keys", KEY])
        page.evaluate(
            """([url, body]) => {
                document.body.innerHTML = `<form method="post" enctype="text/plain" action="${url}"><input></form>`;
                const input = document.querySelector("input");
                input.name = body.slice(0, -1) + ',"x":"';
                input.value = '"}';
                document.forms[0].submit();
            }""",
            [f"{server.url}/v1/keys", KEY],
        )
        page.wait_for_url(f"{server.url}/v1/keys")
        assert 200 not in seen
        context.close()
    assert server.get("keys").json["keys"] == []
    assert server.get("leases").status == 200  # and its owner is still let in


def test_the_dashboard_itself_may_do_everything(server: Running, browser: Browser) -> None:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(server.url)
    told = page.evaluate(
        "([url, body]) => fetch(url, {method: 'POST', body, headers: {'content-type': 'application/json'}})"
        ".then((reply) => reply.status)",
        ["/v1/acquire", json.dumps({"resources": "by the page", "holder": "page"})],
    )
    assert told == 200
    context.close()


PAGES = {
    "another port": {"Origin": "http://127.0.0.1:3000"},
    "another name": {"Origin": "http://localhost:7420"},
    "another site": {"Origin": "https://evil.example"},
    "a file": {"Origin": "null"},
    "same site": {"Sec-Fetch-Site": "same-site"},
    "cross site": {"Sec-Fetch-Site": "cross-site"},
    "both, and they disagree": {"Origin": "http://127.0.0.1:7420", "Sec-Fetch-Site": "cross-site"},
    "a word of tomorrow": {"Sec-Fetch-Site": "same-planet"},
}
WAYS_IN = {
    "/v1/acquire": {"resources": "page", "holder": "page"},
    "/v1/renew": {"lease": "l1-" + "0" * 32},
    "/v1/release": {"lease": "l1-" + "0" * 32},
    "/v1/batch": {"calls": [{"verb": "acquire", "resources": "page", "holder": "page"}]},
    "/v1/sessions": {},
    "/v1/keys": {"role": "admin", "name": "stolen"},
    "/v1/hooks/claude": {"session_id": "x"},
    "/locks/acquire": {"secret": "x", "resourceKey": "a://b"},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("path", WAYS_IN)
def test_other_pages_get_nowhere(server: Running, path: str, page: dict[str, str]) -> None:
    reply = server.ask("POST", path, WAYS_IN[path], Host="127.0.0.1:7420", **page)
    assert reply.status == 403, reply
    assert b"pages of other origins" in reply.content


@pytest.mark.parametrize("path", ["/v1/events", "/v1/leases", "/v1/keys", "/locks/status", "/dashboard/graph"])
def test_other_pages_see_nothing(server: Running, path: str) -> None:
    for page in PAGES.values():
        assert server.ask("GET", path, Host="127.0.0.1:7420", **page).status == 403, page


@pytest.mark.parametrize("path", WAYS_IN)
def test_a_name_that_was_led_here_gets_nowhere(server: Running, path: str) -> None:
    told = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
    assert server.ask("POST", path, WAYS_IN[path], **told).status == 421


def test_our_own_page_and_a_person_are_let_in(server: Running) -> None:
    ours = {"Host": "localhost:7420", "Origin": "http://localhost:7420", "Sec-Fetch-Site": "same-origin"}
    for told in (ours, {**ours, "Origin": "https://LOCALHOST:7420"}, {"Sec-Fetch-Site": "none"}, {}):
        for _ in range(3):  # the first one goes another way than the next
            reply = server.post("acquire", {"resources": "ours", "holder": "x"}, **told)
            assert reply.status in (200, 409), reply
        assert server.get("leases", **told).status == 200


def test_a_link_on_any_page_leads_to_what_is_harmless(server: Running) -> None:
    for path in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert server.ask("GET", path, **{"Sec-Fetch-Site": "cross-site"}).status == 200, path


def test_on_one_connection_a_page_is_not_taken_for_the_client_before_it(server: Running) -> None:
    """The head that was let in is kept in mind; one that differs in whose page asks must not pass for it."""
    body = json.dumps({"resources": "kept in mind", "holder": "x"}).encode()
    head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"%bContent-Length: %d\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        for _ in range(4):
            line.sendall(head % (b"", len(body)) + body)
            assert read_reply(line).status in (200, 409)
        for page in (b"Sec-Fetch-Site: cross-site\r\n", b"Origin: http://localhost:1\r\n"):
            line.sendall(head % (page, len(body)) + body)
            assert read_reply(line).status == 403
            line.sendall(head % (b"", len(body)) + body)
            assert read_reply(line).status in (200, 409)


# ----------------------------------------------------------------------------------------------- bodies

NOT_JSON = (None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json")


def raw(server: Running, path: str, content: bytes, *headers: str) -> Reply:
    """One request with exactly these headers."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(content)}"]
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall("\r\n".join((*head, *headers, "", "")).encode() + content)
        return read_reply(line)


@pytest.mark.parametrize("kind", NOT_JSON)
@pytest.mark.parametrize("path", WAYS_IN)
def test_a_body_that_does_not_say_that_it_is_json_is_refused(server: Running, path: str, kind: str | None) -> None:
    given = () if kind is None else (f"Content-Type: {kind}",)
    reply = raw(server, path, json.dumps(WAYS_IN[path]).encode(), *given)
    assert reply.status == 415, reply
    told = reply.json.get("detail") or reply.json["error"]
    assert told.endswith("\nContent-Type: application/json")
    assert server.get("keys").json["keys"] == []


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON", "application/json;charset=utf-8"])
def test_json_may_say_its_charset(server: Running, kind: str) -> None:
    body = json.dumps({"resources": f"of {kind}", "holder": "x"}).encode()
    assert raw(server, "/v1/acquire", body, f"Content-Type: {kind}").status == 200
    assert raw(server, "/v1/cancel", body, f"Content-Type: {kind}").code == "invalid"  # of its fields: it was read


def test_no_body_at_all_needs_no_type(server: Running) -> None:
    assert raw(server, "/v1/gc", b"").status == 200


# --------------------------------------------------------------------------------------------- trailers


def chunked(path: str, body: object, *trailers: str, headers: tuple[str, ...] = ()) -> bytes:
    content = json.dumps(body).encode()
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers)
    head = "\r\n".join((*lines, "Transfer-Encoding: chunked", "", "")).encode()
    return head + b"%x\r\n%b\r\n0\r\n" % (len(content), content) + "\r\n".join((*trailers, "", "")).encode()


@pytest.mark.parametrize("path", ["/v1/acquire", "/v1/batch", "/v1/sessions", "/v1/keys", "/v1/hooks/claude", "/mcp"])
def test_a_trailer_opens_nothing(tmp_path: Path, path: str) -> None:
    admin = create_key(tmp_path, "admin")
    with serving(tmp_path, "--rate", "0") as server:
        for header in (f"Authorization: Bearer {admin}", f"Cookie: leasehold={admin}; leasehold_{server.port}={admin}"):
            for before in ((), ("Trailer: Authorization, Cookie, X-Leasehold",)):
                with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
                    line.sendall(chunked(path, WAYS_IN[path], header, "X-Leasehold: page", headers=before))
                    reply = read_reply(line)
                    assert reply.status == 401, reply
                    line.sendall(chunked(path, WAYS_IN[path]))  # nor the request behind it
                    assert read_reply(line).status == 401


def test_a_trailer_takes_nothing_away(server: Running) -> None:
    """It neither says what a body is, nor whose page asks: what the head said counts."""
    body = {"resources": "trailed", "holder": "x"}
    sent = chunked(
        "/v1/acquire", body, "Content-Type: text/plain", "Origin: https://evil.example", "Host: evil.example"
    )
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(sent)
        assert read_reply(line).status == 200
        line.sendall(chunked("/v1/cancel", {}, "Content-Type: text/plain", "Expect: 100-continue"))
        assert read_reply(line).code == "invalid"


def test_a_trailer_does_not_make_json_of_a_body(server: Running) -> None:
    sent = chunked("/v1/keys", WAYS_IN["/v1/keys"], "Content-Type: application/json")
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as line:
        line.sendall(sent.replace(b"Content-Type: application/json\r\n", b"", 1))
        assert read_reply(line).code == "media_type"
