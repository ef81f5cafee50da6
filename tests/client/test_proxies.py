"""Proxies that the environment names: which one is asked, how, and what is said when it stands in the way."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.client import deciding
from leasehold.client.messages import ServerAddress, bases
from leasehold.client.one_request import ask
from leasehold.client.proxies import Proxy, proxy
from leasehold.errors import InvalidInput, Unreachable
from leasehold.testing.lending import free_port
from tests.kit.forwarding import FORBIDDEN, Forwarding, forwarding
from tests.kit.serving import Running, create_key, serving
from tests.kit.shell import PATIENCE, Shell
from tests.server.test_conformance import Awaited
from tests.server.test_tls import make_certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PLAIN, TLS = (ServerAddress("locks.example", port, tls=port == 443, path="") for port in (7420, 443))
HERE = "http://proxy.example:3128"
NAMES = [each + end for each in ("http", "https", "all", "no") for end in ("_proxy",)]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("REQUEST_METHOD", raising=False)


# ------------------------------------------------------------------------------------------- which one


@pytest.mark.parametrize(
    ("env", "plain", "tls"),
    [
        ({}, None, None),
        ({"http_proxy": HERE}, "http_proxy", None),
        ({"HTTP_PROXY": HERE}, "HTTP_PROXY", None),
        ({"HTTP_PROXY": HERE, "REQUEST_METHOD": "GET"}, None, None),
        ({"http_proxy": HERE, "HTTP_PROXY": "http://b:1", "REQUEST_METHOD": "GET"}, "http_proxy", None),
        ({"https_proxy": HERE}, None, "https_proxy"),
        ({"HTTPS_PROXY": HERE}, None, "HTTPS_PROXY"),
        ({"all_proxy": HERE}, "all_proxy", "all_proxy"),
        ({"ALL_PROXY": HERE, "https_proxy": HERE}, "ALL_PROXY", "https_proxy"),
        ({"http_proxy": "", "HTTP_PROXY": HERE}, None, None),
        ({"http_proxy": "", "all_proxy": HERE}, None, "all_proxy"),
        ({"all_proxy": HERE, "no_proxy": "*"}, None, None),
        ({"all_proxy": HERE, "no_proxy": "", "NO_PROXY": "*"}, "all_proxy", "all_proxy"),
        ({"all_proxy": HERE, "NO_PROXY": "other.example, locks.example:7420"}, None, "all_proxy"),
    ],
)
def test_the_variables_are_read_as_curl_reads_them(env: dict[str, str], plain: str | None, tls: str | None) -> None:
    for base, variable in ((PLAIN, plain), (TLS, tls)):
        found = proxy(base, env)
        assert (None if found is None else found.variable) == variable
        assert found is None or found.name == "proxy.example:3128"


@pytest.mark.parametrize(
    ("host", "exceptions", "directly"),
    [
        ("locks.example", "locks.example", True),
        ("locks.example", "LOCKS.Example", True),
        ("locks.example", "example", True),
        ("locks.example", ".example", True),
        ("example", ".example", True),
        ("locks.example", "locks.example:7420", True),
        ("locks.example", "locks.example:80", False),
        ("locks.example", "ocks.example", False),
        ("mylocks.example", "locks.example", False),
        ("locks.example", "a b,c locks.example", True),
        ("locks.example", " , ", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:7420", True),
        ("10.1.2.3", "10.1.2.3:80", False),
        ("10.1.2.3", "192.168.0.0/16,2.3,.3", False),
        ("10.1.2.3", "10.0.0.0/99,a/b", False),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]", True),
        ("fd00::1", "[fd00:0::1]:7420", True),
        ("fd00::1", "fd00::2", False),
        *((host, "", True) for host in ("localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1")),
    ],
)
def test_no_proxy_and_this_machine_itself(host: str, exceptions: str, directly: bool) -> None:
    """Loopback is never asked for through a proxy, as in Go: elsewhere it is another machine."""
    found = proxy(ServerAddress(host, 7420, tls=False, path=""), {"http_proxy": HERE, "no_proxy": exceptions})
    assert (found is None) == directly


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("proxy.example:3128", "proxy.example:3128"),
        ("http://proxy.example", "proxy.example:80"),
        ("http://[fd00::1]:3128/", "[fd00::1]:3128"),
        (" http://u:p@proxy.example:1 ", "proxy.example:1"),
    ],
)
def test_how_a_proxy_may_be_spelled(value: str, name: str) -> None:
    found = proxy(PLAIN, {"http_proxy": value})
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("value", ["socks5://u:geheim@p:1", "https://p:1", "http://p:x", "http://", "http://[p:1"])
def test_what_is_no_proxy_that_can_be_asked_is_refused_before_anything_is_sent(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", value)
    with pytest.raises(InvalidInput, match="ALL_PROXY: must be http://HOST:PORT") as refused:
        leasehold.connect("http://locks.example:7420")
    assert "geheim" not in str(refused.value)
    leasehold.connect("http://127.0.0.1:7420").close()


def test_no_password_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://ann:geheim@proxy.example:3128")
    (base,) = bases("http://locks.example")
    assert isinstance(base.via, Proxy)
    assert base.via.headers == ("Proxy-Authorization: Basic YW5uOmdlaGVpbQ==",)
    for told in (repr(base.via), base.via.name, base.first):
        assert "geheim" not in told
        assert "YW5uOmdlaGVpbQ" not in told


def test_who_has_no_proxy_imports_nothing_for_it() -> None:
    script = (
        "import sys, leasehold; leasehold.connect('http://locks.example:7420'); "
        "print([each for each in sys.modules if each in "
        "('leasehold.client.proxies', 'leasehold.client.framing', 'base64', 'zlib')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------- by way of it


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    folder = tmp_path_factory.mktemp("proxied")
    credential = create_key(folder, "admin")
    with serving(folder, "--rate", "0") as running:
        yield running, credential


@pytest.fixture
def between(key: tuple[Running, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Forwarding]:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    monkeypatch.setenv("LEASEHOLD_API_KEY", key[1])
    with forwarding((key[0].host, key[0].port)) as found:
        yield found


@pytest.fixture(params=[leasehold.connect, Awaited], ids=["plain", "async"])
def connect(request: pytest.FixtureRequest) -> Callable[..., Any]:
    made: Callable[..., Any] = request.param
    return made


def test_a_server_is_asked_through_its_proxy(
    between: Forwarding, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", between.url.replace("//", "//ann:p%40ss@"))
    locks = connect("http://locks.example:7420", holder="ann")
    granted = locks.acquire("proxied", ttl=60)
    assert locks.release(granted.lease.id, granted.token).released
    locks.close()
    assert between.heads[0].startswith(
        b"POST http://locks.example:7420/v1/acquire HTTP/1.1\r\nHost: locks.example:7420"
    )
    assert all(b"\r\nProxy-Authorization: Basic YW5uOnBAc3M=" in head for head in between.heads)


def test_an_https_server_is_asked_through_a_tunnel(
    connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The proxy sees neither the key nor anything else; its password is not for the server."""
    cert, private = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    monkeypatch.setattr("leasehold.client.proxies._is_this_machine", lambda host: False)
    words = ("--tls-cert", str(cert), "--tls-key", str(private), "--rate", "0")
    with serving(tmp_path, *words) as server, forwarding((server.host, server.port)) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url.replace("//", "//ann:pass@"))
        between.opening = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"
        locks = connect(f"https://localhost:{server.port}", holder="ann")
        granted = locks.acquire("tunnelled", ttl=60)
        assert locks.release(granted.lease.id, granted.token).released
        locks.close()
        (head,) = between.heads
        assert head.startswith(f"CONNECT localhost:{server.port} HTTP/1.1\r\nHost: localhost:{server.port}".encode())
        assert b"Proxy-Authorization: Basic YW5uOnBhc3M=" in head
        between.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        locks = connect(f"https://localhost:{server.port}", holder="ann")
        with pytest.raises(Unreachable, match="wants a user and a password"):
            locks.list()
        locks.close()
        assert len(between.heads) == 2


def test_no_proxy_is_asked_for_what_is_excepted(
    key: tuple[Running, str], between: Forwarding, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", between.url)
    locks = connect(key[0].url, holder="ann")
    assert locks.list(holder="nobody") == ()
    locks.close()
    assert between.heads == []


def test_the_routes_of_other_systems_go_through_it_as_well(
    key: tuple[Running, str], between: Forwarding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", between.url)
    status, _ = ask("http://locks.example", "GET", "/v1/workflows", None, within=PATIENCE, api_key=key[1])
    assert status == 200
    assert between.heads[0].startswith(b"GET http://locks.example:7420/v1/workflows HTTP/1.1")
    between.answer = FORBIDDEN
    with pytest.raises(Unreachable, match=r"the proxy 127.0.0.1:\d+ \(http_proxy\) answered 403"):
        ask("http://locks.example", "GET", "/v1/workflows", None, within=PATIENCE)


# -------------------------------------------------------------------------------------- what it says instead


@pytest.mark.parametrize(
    ("status", "why", "tries"),
    [
        (407, r"wants a user and a password. Give them to it:\n  export http_proxy=http://USER:PASSWORD@127", 1),
        (403, r"does not let you go there. To go past it.*\n  export NO_PROXY=locks.example$", 1),
        (502, r"cannot reach it, or does not wait so long. To go past it.*\n  export NO_PROXY=locks.example$", 7),
        (504, "cannot reach it", 7),
    ],
)
def test_the_proxy_that_answered_is_named_without_its_password(
    between: Forwarding, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, status: int, why: str, tries: int
) -> None:
    monkeypatch.setenv("http_proxy", between.url.replace("//", "//ann:geheim@"))
    between.answer = FORBIDDEN.replace(b"403 Forbidden", b"%d Sorry" % status)
    locks = connect("http://locks.example:7420", holder="ann")
    with pytest.raises(Unreachable, match=why) as refused:
        locks.list()
    told = str(refused.value)
    assert told.startswith(f"the proxy 127.0.0.1:{between.port} (http_proxy) answered {status} instead of the server")
    assert "geheim" not in told
    assert len(between.heads) == tries
    locks.close()


def test_a_proxy_that_is_not_there_is_named(connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    port = free_port()
    monkeypatch.setenv("HTTP_PROXY", f"http://ann:geheim@127.0.0.1:{port}")
    locks = connect("http://locks.example:7420", holder="ann")
    with pytest.raises(Unreachable, match=rf"the proxy 127\.0\.0\.1:{port} \(HTTP_PROXY\): ") as refused:
        locks.list()
    assert "geheim" not in str(refused.value)
    locks.close()


def test_the_command_line_goes_through_it_and_says_so(
    key: tuple[Running, str], between: Forwarding, tmp_path: Path
) -> None:
    env = {
        "LEASEHOLD_URL": "http://locks.example:7420",
        "LEASEHOLD_API_KEY": key[1],
        "http_proxy": between.url.replace("//", "//ann:geheim@"),
    }
    with Shell(tmp_path / "home") as shell:
        assert shell.run("acquire", "by command", env=env).code == 0
        assert shell.run("release", "by command", env=env).code == 0
        between.answer = FORBIDDEN
        refused = shell.run("acquire", "by command", env=env)
        assert refused.code == 9
        assert f"the proxy 127.0.0.1:{between.port} (http_proxy) answered 403" in refused.err
        assert "\n  export NO_PROXY=locks.example\n" in refused.err
        assert "geheim" not in refused.err
