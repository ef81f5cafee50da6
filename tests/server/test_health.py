"""Ready or not, the figures, the logs, and an end under load that loses nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import http.client
import json
import platform
import re
import resource
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

import leasehold
from leasehold.errors import StoreError
from leasehold.locks import hosted as served_module
from leasehold.locks.hosted import Served
from leasehold.requests.checks import Settings
from leasehold.server.api.problems import STATUS, Problem
from leasehold.server.ops import health
from leasehold.server.ops.exposition import histogram
from leasehold.server.ops.metrics import SCHEMES_MOST, SPACES_MOST, Histogram
from leasehold.stores.memory import Memory, MemoryStore
from tests.kit.serving import COMMAND, PATIENCE, Running, read_reply, serving, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from prometheus_client.core import Metric


class Trouble:
    """What goes wrong in the store, and how often it could have."""

    def __init__(self, point: str = "begin") -> None:
        self.error: Exception | None = None
        self.count = 0
        self._point = point

    def __call__(self, point: str) -> None:
        if point == self._point:
            self.count += 1
            if self.error is not None:
                raise self.error


def served_with(trouble: Trouble, work: Callable[[Served], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _told: None)  # the caller gets the breakage
        served = Served([MemoryStore(Memory(fault=trouble))], Settings(), loop, space="default")
        try:
            await work(served)
        finally:
            await served.close()

    asyncio.run(run())


@pytest.fixture
def _always_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_module, "PROBED", 0.0)


@pytest.mark.usefixtures("_always_probed")
def test_ready_means_that_the_engine_can_commit() -> None:
    trouble = Trouble()

    async def work(served: Served) -> None:
        assert (await health.ready(served)).status_code == 200
        trouble.error = StoreError("the disk is full")
        with pytest.raises(Problem) as told:
            await health.ready(served)
        assert (told.value.code, STATUS[told.value.code]) == ("store", 503)
        trouble.error = None
        while True:  # after trouble the engine pauses for a moment
            try:
                assert (await health.ready(served)).status_code == 200
                break
            except Problem:
                await asyncio.sleep(0.01)

    served_with(trouble, work)


@pytest.mark.usefixtures("_always_probed")
def test_a_store_that_fails_at_each_write_is_not_ready() -> None:
    trouble = Trouble("before_commit")

    async def work(served: Served) -> None:
        assert (await health.ready(served)).status_code == 200
        trouble.error = StoreError("fsync failed")
        assert served.ping() > 0
        with pytest.raises(Problem) as told:
            await health.ready(served)
        assert STATUS[told.value.code] == 503

    served_with(trouble, work)


def test_asking_again_and_again_writes_once() -> None:
    trouble = Trouble("before_commit")

    async def work(served: Served) -> None:
        for _ in range(20):
            await asyncio.gather(*(health.ready(served) for _ in range(5)))
        assert trouble.count == 1

    served_with(trouble, work)


def test_a_server_whose_disk_takes_nothing_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.ask("GET", "/readyz").status == 200
        before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
        assert server.post("acquire", {"resources": "x", "holder": "ann"}).status == 503
        until(lambda: server.ask("GET", "/readyz").status == 503)
        assert server.ask("GET", "/healthz").status == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
        until(lambda: server.ask("GET", "/readyz").status == 200)


@pytest.mark.usefixtures("_always_probed")
def test_an_engine_that_broke_down_is_not_ready_although_the_store_answers() -> None:
    trouble = Trouble()

    async def work(served: Served) -> None:
        assert (await health.ready(served)).status_code == 200
        trouble.error = ZeroDivisionError("a bug")
        with pytest.raises(ZeroDivisionError):
            await served.locks.acquire("x", ttl=60, holder="ann")
        trouble.error = None
        assert served.ping() > 0
        for _ in range(2):
            with pytest.raises(Problem) as told:
                await health.ready(served)
            assert STATUS[told.value.code] == 503

    served_with(trouble, work)


def test_an_engine_that_is_stuck_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SECONDS", 0.05)

    async def work(served: Served) -> None:
        async def stuck() -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(served, "probe", stuck)
        with pytest.raises(Problem) as told:
            await health.ready(served)
        assert told.value.code == "unreachable"

    served_with(Trouble(), work)


# ------------------------------------------------------------------------------------------ figures


def figures(server: Running) -> dict[str, float]:
    """Every sample of /metrics; each family has its help and its type."""
    reply = server.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[str, float] = {}
    described: set[str] = set()
    for line in reply.content.decode().splitlines():
        if line.startswith("# "):
            described.add(line.split()[2])
            continue
        name, _, value = line.rpartition(" ")
        family = re.sub(r"_(bucket|count|sum)$", "", name.partition("{")[0])
        assert {family, name.partition("{")[0]} & described, line
        found[name] = float(value)
    return found


def test_everything_is_counted_by_space_and_scheme(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        here = 'scheme="deploy",space="team"'
        body = {"resources": "deploy://a", "space": "team"}
        first = server.post("acquire", {**body, "holder": "ann"}).json
        assert server.post("acquire", {**body, "holder": "bob"}).code == "held"
        assert server.post("acquire", {**body, "holder": "bob", "wait_seconds": 0.02}).code == "timeout"
        with server.begin("acquire", {**body, "holder": "bob", "wait_seconds": 40}) as line:
            until(lambda: figures(server).get(f"leasehold_queue_length{{{here}}}") == 1)
            server.post("release", {"lease": first["lease"]["id"], "token": first["token"]})
            second = read_reply(line).json
        assert figures(server)[f"leasehold_queue_length{{{here}}}"] == 0
        server.post("acquire", {"resources": "deploy://b", "space": "team", "holder": "cid"})
        with server.begin("acquire", {**body, "holder": "cid", "wait_seconds": 40}):
            until(lambda: figures(server)[f"leasehold_queue_length{{{here}}}"] == 1)
            reply = server.post(
                "acquire", {"resources": "deploy://b", "space": "team", "holder": "bob", "wait_seconds": 9}
            )
            assert reply.code == "deadlock"
        server.post("force-release", {"target": second["lease"]["id"], "reason": "gone", "space": "team"})
        server.post("acquire", {"resources": "scheduler", "space": "team", "holder": "ann", "name": "leader"})
        server.post("acquire", {"resources": "deploy://c", "space": "team", "holder": "ann", "ttl_seconds": 0.02})
        until(lambda: figures(server).get(f"leasehold_expiries_total{{{here}}}") == 1)
        found = figures(server)
        for name, least in {
            f"leasehold_grants_total{{{here}}}": 4,
            f'leasehold_refusals_total{{code="held",{here}}}': 1,
            f'leasehold_refusals_total{{code="timeout",{here}}}': 1,
            f"leasehold_releases_total{{{here}}}": 1,
            f"leasehold_waits_total{{{here}}}": 3,
            f"leasehold_wait_seconds_count{{{here}}}": 1,
            f"leasehold_hold_seconds_count{{{here}}}": 3,
            f"leasehold_deadlocks_total{{{here}}}": 1,
            f"leasehold_expiries_total{{{here}}}": 1,
            'leasehold_terms_total{scheme="plain",space="team"}': 1,
            f"leasehold_forced_total{{{here}}}": 1,
            "leasehold_commit_batch_size_count": 5,
            "leasehold_commit_seconds_count": 5,
            'leasehold_problems_total{code="held"}': 1,
        }.items():
            assert found.get(name, 0) >= least, (name, found.get(name))


def test_a_wait_in_several_pieces_is_one_wait(tmp_path: Path) -> None:
    with serving(tmp_path, "--keep-open", "100ms") as server:
        server.post("acquire", {"resources": "a", "holder": "ann"})
        body = {"resources": "a", "holder": "bob", "wait_seconds": 60}
        for _ in range(3):
            ticket = server.post("acquire", body)
            assert ticket.status == 202
            body["request_id"] = ticket.json["ticket"]
        assert figures(server)['leasehold_waits_total{scheme="plain",space="default"}'] == 1


def test_large_numbers_are_told_to_the_last_digit() -> None:
    counted = Histogram((1.0,))
    many = 1_234_567
    for _ in range(many):
        counted.add(0.5, ("a",))
    counted.add(2.0, ("a",))
    (family,) = text_string_to_metric_families(written(histogram("x", "Something.", ("name",), counted)))
    assert [(each.name, each.labels, each.value) for each in family.samples] == [
        ("x_bucket", {"name": "a", "le": "1"}, many),
        ("x_bucket", {"name": "a", "le": "+Inf"}, many + 1),
        ("x_count", {"name": "a"}, many + 1),
        ("x_sum", {"name": "a"}, many / 2 + 2),
    ]


def written(metric: Metric) -> str:
    """The text of one metric."""

    class One(Collector):
        def collect(self) -> list[Metric]:
            return [metric]

    return generate_latest(One()).decode()


def test_the_process_and_the_build_are_told(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        found = figures(server)
        python = platform.python_version()
        assert found[f'leasehold_build_info{{python="{python}",version="{leasehold.__version__}"}}'] == 1
        assert found["process_resident_memory_bytes"] > 10_000_000
        assert 0 < found["process_open_fds"] < found["process_max_fds"]
        assert found["process_cpu_seconds_total"] > 0


def test_labels_are_bounded(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        for number in range(SPACES_MOST + 5):
            server.post("acquire", {"resources": f"s{number}://x", "space": f"t{number}", "holder": "ann"})
        server.post("acquire", {"resources": 'a"b\\c', "space": 'q"\\', "holder": "ann"})
        labels = re.findall(r'grants_total\{scheme="([^"]*)",space="((?:[^"\\]|\\.)*)"\}', "\n".join(figures(server)))
        assert len({space for _, space in labels}) == SPACES_MOST + 1
        assert len({scheme for scheme, _ in labels}) <= SCHEMES_MOST + 2
        assert ("other", "other") in labels


def test_a_colon_in_a_plain_name_makes_no_scheme(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        plain = [f"job {number} at 10:15" for number in range(SCHEMES_MOST + 5)] + ["10:15", ":x", "é:x", "a_b:c"]
        for name in (*plain, "deploy://a", f"{'s' * 33}:long"):
            assert server.post("acquire", {"resources": name, "holder": "ann"}).status == 200
        grants = {name: value for name, value in figures(server).items() if name.startswith("leasehold_grants")}
        assert grants == {
            'leasehold_grants_total{scheme="plain",space="default"}': len(plain),
            'leasehold_grants_total{scheme="deploy",space="default"}': 1,
            'leasehold_grants_total{scheme="other",space="default"}': 1,
        }


# ------------------------------------------------------------------------------------ logs and the end


def test_every_line_of_the_log_is_json_and_holds_no_secret(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        granted = server.post("acquire", {"resources": "x", "holder": "ann"}).json
        server.ask("GET", "/v1/nothing")
        server.post("acquire", b"nonsense")
        accepted = {"Accept": "application/json, text/event-stream"}
        asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        begun = server.ask(
            "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}, **accepted
        )
        called = {"name": "acquire_lock", "arguments": {"resource": "x", "a secret": 1}}
        told_agent = server.ask(
            "POST",
            "/mcp",
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": called},
            **accepted,
            **{"Mcp-Session-Id": begun.headers["mcp-session-id"]},
        )
        assert b"a secret" in told_agent.content
        assert server.stop() == 0
        assert server.process.stderr is not None
        logged = server.process.stderr.read()
    told = [json.loads(line) for line in logged.splitlines()]
    assert all({"at", "level", "logger", "message"} <= set(each) for each in told)
    assert [each["message"] for each in told] == [
        "serving",
        "no keys: every client that reaches this server is an admin",
        "stopping: waiting clients are asked to retry",
        "stopped",
    ]
    assert told[0]["url"] == server.url
    assert granted["token"] not in logged


def acquire_until_the_end(server: Running, name: str, seen: list[dict[str, str]], told: list[tuple[int, str]]) -> None:
    """One name after the other; what is answered is remembered, and how it ended."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
    try:
        for number in range(1_000_000):
            body = json.dumps({"resources": f"{name}-{number}", "holder": name})
            connection.request("POST", "/v1/acquire", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            content = json.loads(reply.read())
            if reply.status != 200:
                told.append((reply.status, content["code"]))
                return
            seen.append({"lease": content["lease"]["id"], "token": content["token"]})
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def test_an_end_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    told: list[tuple[int, str]] = []
    with serving(tmp_path, "--rate", "0") as server:
        server.post("acquire", {"resources": "busy", "holder": "ann"})
        waiting = [
            server.begin("acquire", {"resources": "busy", "holder": f"w{each}", "wait_seconds": 600})
            for each in range(20)
        ]
        until(lambda: len(server.waiting("busy")) == 20)
        threads = [
            threading.Thread(target=acquire_until_the_end, args=(server, f"c{each}", seen, told)) for each in range(8)
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(seen) >= 100)
        server.process.send_signal(signal.SIGTERM)
        for line in waiting:
            with line:
                reply = read_reply(line)
                assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "closed", "1")
        for thread in threads:
            thread.join()
        assert server.process.wait(PATIENCE) == 0
        assert set(told) <= {(503, "closed")}
    with serving(tmp_path, "--rate", "0") as server:
        assert server.waiting("busy") == []
        for proof in seen:
            assert server.post("renew", proof).status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_waiting_client_is_answered_whatever_the_signal_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    if number == signal.SIGHUP:  # tests that run under nohup would hand its deafness on to the server
        signal.signal(number, signal.SIG_DFL)
    with serving(tmp_path) as server:
        server.post("acquire", {"resources": "busy", "holder": "ann"})
        with server.begin("acquire", {"resources": "busy", "holder": "bob", "wait_seconds": 600}) as line:
            until(lambda: server.waiting("busy") == ["bob"])
            server.process.send_signal(number)
            assert read_reply(line).code == "closed"
        assert server.process.wait(PATIENCE) == 0


def test_who_shall_outlive_its_terminal_does(tmp_path: Path) -> None:
    with serving(tmp_path, command=("nohup", *COMMAND)) as server:
        server.post("acquire", {"resources": "busy", "holder": "ann"})
        server.process.send_signal(signal.SIGHUP)
        with server.begin("acquire", {"resources": "busy", "holder": "bob", "wait_seconds": 0.01}) as line:
            assert read_reply(line).code == "timeout"
        assert server.stop() == 0


def test_a_scrape_tells_what_the_store_holds_and_how_long_requests_take(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.post("acquire", {"resources": "deploy://api", "holder": "ann"})
        server.post("acquire", {"resources": "deploy://api", "holder": "bob"})
        with server.begin("acquire", {"resources": "deploy://api", "holder": "cid", "wait_seconds": 50}):
            until(lambda: server.waiting("deploy://api") == ["cid"])
            text = server.ask("GET", "/metrics").content.decode()
    place = '{scheme="deploy",space="default"}'
    found = {sample.name + _labels(sample.labels): sample.value for sample in _samples(text)}
    assert found[f"leasehold_leases_held{place}"] == 1
    assert found[f"leasehold_oldest_hold_seconds{place}"] >= found[f"leasehold_oldest_wait_seconds{place}"] > 0
    assert found["leasehold_store_round_trip_seconds{}"] > 0
    for status in ("200", "409"):
        assert found[f'leasehold_http_request_seconds_count{{route="/v1/acquire",status="{status}"}}'] == 1


def _samples(text: str) -> list[Any]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


def test_openmetrics_is_told_to_clients_that_ask_for_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.post("acquire", {"resources": "a", "holder": "ann"})
        reply = server.ask("GET", "/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.content.decode().endswith("# EOF\n")
    assert "leasehold_grants_total" in reply.content.decode()


def test_openmetrics_has_the_trace_of_a_slow_request_as_its_exemplar(tmp_path: Path) -> None:
    sampled, unsampled = ("-".join(("00", each * 32, each * 16, flags)) for each, flags in (("a", "01"), ("b", "00")))
    with serving(tmp_path) as server:
        for number, trace in enumerate((sampled, unsampled, "issue 12-of-the-day")):
            assert server.post("acquire", {"resources": f"a{number}", "holder": "ann"}, traceparent=trace).status == 200
        told = server.ask("GET", "/metrics", Accept="application/openmetrics-text").content.decode()
        plain = server.ask("GET", "/metrics").content.decode()
    families = open_metrics(told)  # type: ignore[no-untyped-call] # it has no types
    samples = [each for family in families for each in family.samples if each.exemplar]
    assert {each.name for each in samples} == {"leasehold_http_request_seconds_bucket"}
    assert [each.exemplar.labels["trace_id"] for each in samples] == ["a" * 32]
    (sample,) = samples
    assert sample.labels["route"] == "/v1/acquire"
    assert 0 < sample.exemplar.value <= float(sample.labels["le"])
    assert "trace_id" not in plain
