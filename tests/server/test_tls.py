"""TLS by file, with a real certificate that the clients check; and the files in deploy/ as far as they can be tried."""

from __future__ import annotations

import http.client
import re
import shlex
import shutil
import ssl
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.cli.command_line import parse
from leasehold.cli.entry.table import VERBS
from leasehold.errors import Unreachable
from leasehold.server.http.certificates import Certificate
from tests.kit.serving import PATIENCE, Running, command_with, create_key, serving, start, until
from tests.kit.shell import ROOT
from tests.server.test_conformance import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def openssl(*words: str) -> None:
    program = shutil.which("openssl")
    assert program is not None, "these tests need the program openssl, to make a certificate: install it"
    subprocess.run([program, *words], check=True, capture_output=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost and 127.0.0.1 that vouches for itself, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    made = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl(*made, "-subj", "/CN=localhost", "-addext", names, "-keyout", str(key), "-out", str(cert))
    return cert, key


@pytest.fixture(scope="module")
def secured(certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    cert, key = map(str, certificate)
    with serving(tmp_path_factory.mktemp("tls"), "--tls-cert", cert, "--tls-key", key, "--rate", "0") as running:
        yield running


@pytest.mark.parametrize("connect", [leasehold.connect, Awaited], ids=["plain", "async"])
def test_both_clients_speak_https_and_check_the_certificate(
    secured: Running,
    certificate: tuple[Path, Path],
    connect: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert secured.url.startswith("https://")
    monkeypatch.setattr("leasehold.client.deciding.FIRST_PAUSE", 0.0001)
    stranger = connect(secured.url)
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        stranger.list()
    stranger.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    locks = connect(secured.url.replace("127.0.0.1", "localhost"), holder="ann")
    name = f"over tls {connect.__name__}"
    granted = locks.acquire(name, ttl=60)
    assert isinstance(granted, leasehold.Granted)
    assert locks.release(granted.lease.id, granted.token).released
    locks.close()


def test_waiting_and_leaving_over_tls(secured: Running, certificate: tuple[Path, Path]) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate[0]))

    def begin(path: str, body: str | None = None) -> http.client.HTTPSConnection:
        line = http.client.HTTPSConnection(secured.host, secured.port, timeout=PATIENCE, context=trusting)
        line.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"} if body else {})
        return line

    def ask(path: str, body: str | None = None) -> bytes:
        with closing(begin(path, body)) as line:
            return line.getresponse().read()

    assert b"token" in ask("/v1/acquire", '{"resources": "busy", "holder": "ann"}')
    with closing(begin("/v1/acquire", '{"resources": "busy", "holder": "bob", "wait_seconds": 600}')):
        until(lambda: b'"bob"' in ask("/v1/inspect?resource=busy"))
    until(lambda: b'"bob"' not in ask("/v1/inspect?resource=busy"))


def shown(server: Running) -> str:
    """The certificate that a new connection gets."""
    return ssl.get_server_certificate((server.host, server.port), timeout=PATIENCE)


def put(source: Path, target: Path) -> None:
    """In one step, as programs that renew certificates do."""
    beside = target.with_suffix(".new")
    beside.write_bytes(source.read_bytes())
    beside.replace(target)


def test_a_new_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    now, later = tmp_path / "now", tmp_path / "later"
    now.mkdir()
    later.mkdir()
    (cert, key), (new_cert, new_key) = make_certificate(now), make_certificate(later)
    often = command_with("leasehold.server.http.certificates.CHECK_EVERY = 0.01")
    with serving(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key), command=often) as server:
        assert shown(server) == cert.read_text()
        put(new_key, key)
        put(new_cert, cert)
        until(lambda: shown(server) == new_cert.read_text())


def test_half_of_a_new_certificate_is_passed_by(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now, later = tmp_path / "now", tmp_path / "later"
    now.mkdir()
    later.mkdir()
    (cert, key), (new_cert, new_key) = make_certificate(now), make_certificate(later)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    certificate = Certificate(context, str(cert), str(key))
    before = cert.read_text()
    put(new_cert, cert)
    for _ in range(2):
        certificate.reload()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert handshake(context) == before
    put(new_key, key)
    certificate.reload()
    assert handshake(context) == new_cert.read_text()
    key.unlink()
    certificate.reload()
    assert handshake(context) == new_cert.read_text()


def handshake(context: ssl.SSLContext) -> str:
    """The certificate that this context shows, with nothing sent anywhere."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [context.wrap_bio(up, down, server_side=True), asking.wrap_bio(down, up)]
    for _ in range(4):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    found = sides[1].getpeercert(binary_form=True)
    assert found is not None
    return ssl.DER_cert_to_PEM_cert(found)


def test_plain_http_on_a_tls_port_is_not_served(secured: Running) -> None:
    line = http.client.HTTPConnection(secured.host, secured.port, timeout=PATIENCE)
    line.request("GET", "/healthz")
    with pytest.raises((OSError, http.client.HTTPException)):
        line.getresponse()
    line.close()


def test_files_that_cannot_be_used_are_told(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    missing = str(tmp_path / "nothing.pem")
    for words in (("--tls-cert", missing, "--tls-key", missing), ("--tls-cert", str(certificate[0]))):
        with start(tmp_path / "locks.db", *words) as process:
            assert process.wait(PATIENCE) == 2
            assert process.stderr is not None
            assert "tls" in process.stderr.read()


# -------------------------------------------------------------------------------------------- deploy/

UNIT = ROOT / "deploy" / "leasehold.service"
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text()


def command_of_the_unit() -> list[str]:
    found = re.search(r"(?m)^ExecStart=(.*)$", UNIT.read_text())
    assert found is not None
    return shlex.split(found[1])


def test_the_unit_is_valid(tmp_path: Path) -> None:
    """By systemd's own check, where there is one; with a program that is there in place of the installed one."""
    program = shutil.which("systemd-analyze")
    assert "StateDirectory=leasehold" in UNIT.read_text()
    if program is None:
        pytest.skip("systemd-analyze is not installed here: the unit was only read")
    copy = tmp_path / "leasehold.service"
    copy.write_text(UNIT.read_text().replace(command_of_the_unit()[0], "/bin/true"))
    done = subprocess.run([program, "verify", str(copy)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    complaints = [line for line in done.stderr.splitlines() if "leasehold.service" in line]
    assert complaints == []


def test_the_command_of_the_unit_starts_a_server(tmp_path: Path) -> None:
    program, verb, *words = command_of_the_unit()
    assert (Path(program).name, verb) == ("leasehold", "serve")
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert options.pop("--store").startswith("sqlite:////var/lib/leasehold/")  # what StateDirectory= makes
    options["--port"] = "0"
    with serving(tmp_path, *[word for pair in options.items() for word in pair]) as server:
        assert server.ask("GET", "/readyz").status == 200


def test_the_container_has_all_that_a_server_can_serve() -> None:
    import tomllib

    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    found = re.search(r'\*\.whl\)\[([a-z,]+)\]"', CONTAINER)
    assert found is not None
    assert set(found[1].split(",")) == extras & {"server", "postgres", "etcd", "mcp"}


def test_the_container_starts_what_there_is(tmp_path: Path) -> None:
    """Its command with a key, as it must have one; its check of health, with the port of this server."""
    command = re.search(r"(?m)^CMD (\[.*\])$", CONTAINER)
    healthy = re.search(r"(?m)^HEALTHCHECK .*?CMD (\[.*\])$", CONTAINER)
    assert command is not None
    assert healthy is not None
    verb, *words = _words(command[1])
    assert verb == "serve"
    with start(tmp_path / "locks.db", *words) as process:
        assert process.wait(PATIENCE) != 0  # 0.0.0.0, and no keys yet
    create_key(tmp_path, "admin")
    with serving(tmp_path, *words) as server:
        program, flag, script = _words(healthy[1])
        assert (program, flag) == ("python", "-c")
        script = script.replace("127.0.0.1:7420", f"127.0.0.1:{server.port}")
        done = subprocess.run([shutil.which("python3") or "python3", "-c", script], timeout=PATIENCE, check=False)
        assert done.returncode == 0
    for line in re.findall(r"(?m)^#\s+podman run .* leasehold (keys .*)$", CONTAINER):
        assert parse(shlex.split(line), VERBS) is not None


def _words(text: str) -> list[str]:
    import json

    found: list[str] = json.loads(text)
    return found
