"""Tracing: spans of contended requests, through two servers, link a waiter to its holder; and off, it costs nothing."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import leasehold
from leasehold import tracing
from leasehold.stores.postgres import PostgresStore
from tests.acceptance.servers import OWNERS, servers_on
from tests.kit import postgres
from tests.kit.serving import read_reply, serving, until
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.acceptance.servers import Servers
    from tests.kit.shell import Shell

HOLDERS = "00-" + "a" * 32 + "-" + "1" * 16 + "-01"
WAITERS = "00-" + "b" * 32 + "-" + "2" * 16 + "-01"
REFUSED = "00-" + "d" * 32 + "-" + "4" * 16 + "-01"
ENDINGS = "00-" + "e" * 32 + "-" + "5" * 16 + "-01"
UNSAMPLED = "00-" + "c" * 32 + "-" + "3" * 16 + "-00"


def spans(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    batches = [json.loads(line) for line in lines]
    scopes = [scope for batch in batches for it in batch["resourceSpans"] for scope in it["scopeSpans"]]
    return [span for scope in scopes for span in scope["spans"]]


def test_a_contended_acquire_through_two_servers_links_the_waiter_to_its_holder(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with (
        serving(tmp_path, "--traces", f"file:{first}", "--trace-ratio", "0") as one,
        serving(tmp_path, "--traces", f"file:{second}", "--trace-ratio", "0", database=one.database) as two,
    ):
        held = one.post("acquire", {"resources": "deploy", "holder": "ann"}, traceparent=HOLDERS).json
        assert one.get("leases").json["leases"][0]["trace"] == HOLDERS
        waiting = {"resources": "deploy", "holder": "bob", "wait_seconds": 50, "trace": WAITERS}
        with two.begin("acquire", waiting) as line:
            until(lambda: two.waiting("deploy") == ["bob"])
            one.post("release", {"lease": held["lease"]["id"], "token": held["token"]}, traceparent=HOLDERS)
            assert read_reply(line).status == 200
        one.post("acquire", {"resources": "other", "holder": "ann"}, traceparent=UNSAMPLED)
        one.post("acquire", {"resources": "plain", "holder": "ann"})
        for server in (one, two):
            server.process.terminate()
            server.process.wait(60)
    assert [span["name"] for span in spans(first)] == ["leasehold.acquire", "leasehold.release"]
    by_name = {span["name"]: span for span in spans(second)}
    acquired, waited = by_name["leasehold.acquire"], by_name["leasehold.wait"]
    assert waited["parentSpanId"] == acquired["spanId"]
    assert acquired["traceId"] == waited["traceId"] != spans(first)[0]["traceId"]
    assert [link["traceId"] for link in waited["links"]] == [encoded(HOLDERS)] == [spans(first)[0]["traceId"]]
    assert acquired["parentSpanId"] == WAITERS.split("-")[2]
    assert acquired["kind"] == 2
    with leasehold.connect(f"sqlite://{one.database}") as locks:
        events = locks.history(resource="deploy", kinds=("granted",))
        assert [event.detail["trace"] for event in events or ()] == [WAITERS, HOLDERS]


def test_the_command_line_takes_its_trace_from_the_environment(shell: Shell) -> None:
    shell.run("acquire", "x", env={"TRACEPARENT": HOLDERS})
    assert json.loads(shell.run("list", "--json").out)["data"]["leases"][0]["trace"] == HOLDERS


def test_python_takes_the_trace_of_the_current_span(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    monkeypatch.setenv(tracing.VARIABLE, HOLDERS)
    assert tracing.traceparent() == HOLDERS
    with TracerProvider().get_tracer("test").start_as_current_span("work") as span:
        context = span.get_span_context()
        assert (tracing.traceparent() or "").startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")
    monkeypatch.setenv(tracing.VARIABLE, "line\nbreak")
    assert tracing.traceparent() is None


def test_without_it_nothing_of_opentelemetry_is_imported() -> None:
    import subprocess

    code = "import sys, leasehold.server.serve, leasehold.cli; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_request_that_is_handed_on_has_a_span_for_it_and_links_to_the_holder(tmp_path: Path) -> None:
    """Two servers on one PostgreSQL, of which one owns the lane: the waiter asks the other one."""
    told = tmp_path / "spans.jsonl"
    words = (*OWNERS, "--traces", f"file:{told}", "--trace-ratio", "0")
    with postgres.schema() as url, servers_on(url, PostgresStore, 2, *words) as servers:
        found: list[tuple[str, str]] = []
        until(lambda: owner_and_other(servers, found))
        ((owner, other),) = found
        with leasehold.connect(owner, holder="ann") as ann, leasehold.connect(other, holder="bob") as bob:
            held = ann.acquire("deploy", ttl=60, trace=HOLDERS)
            assert isinstance(held, leasehold.Granted)
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(bob.acquire, "deploy", ttl=60, wait=50, trace=WAITERS)
                until(lambda: getattr(ann.inspect("deploy"), "waiting", ()))
                ann.release(held.lease)
                granted = waiting.result()
            assert isinstance(granted, leasehold.Granted)
            refused = bob.acquire("deploy", ttl=60, trace=REFUSED)
            assert not refused
            asked = {"lease": granted.lease.id, "token": granted.token}
            for verb in ("renew", "release"):
                assert posted(other, verb, asked, ENDINGS) == owner
        for process in servers.processes:
            process.terminate()
            process.wait(60)
    of_bob = [span for span in spans(told) if span["traceId"] == encoded(WAITERS)]
    handed = [span for span in of_bob if span["name"] == "leasehold.hand_on"]
    assert len(handed) == 1
    acquired = next(span for span in of_bob if span["spanId"] == handed[0]["parentSpanId"])
    assert acquired["name"] == "leasehold.acquire"
    assert attributes(acquired)["leasehold.lease"] == granted.lease.id
    assert attributes(acquired)["leasehold.outcome"] == "ok"
    waits = [span for span in of_bob if span["name"] == "leasehold.wait"]
    assert acquired["spanId"] in {span["parentSpanId"] for span in waits}
    for wait in waits:
        assert [link["traceId"] for link in wait["links"]] == [encoded(HOLDERS)]
    of_ending = [span["name"] for span in spans(told) if span["traceId"] == encoded(ENDINGS)]
    ours = ["leasehold.hand_on", "leasehold.hand_on", *["leasehold.release"] * 2, *["leasehold.renew"] * 2]
    assert sorted(of_ending) == ours
    of_refused = [span for span in spans(told) if span["traceId"] == encoded(REFUSED) and "acquire" in span["name"]]
    assert {attributes(span)["leasehold.outcome"] for span in of_refused} == {"held"}


def owner_and_other(servers: Servers, found: list[tuple[str, str]]) -> bool:
    """Find the server that owns the store's lane, and the other one, once both know it."""
    told = [urlopen(f"{url}/metrics", timeout=60).read().decode() for url in servers.urls]
    owned = ["leasehold_lanes_owned 1.0\n" in text for text in told]
    if sorted(owned) != [False, True] or not all("leasehold_lane_owner{" in text for text in told):
        return False
    found.append((servers.urls[owned.index(True)], servers.urls[owned.index(False)]))
    return True


def posted(server: str, verb: str, body: dict[str, Any], trace: str) -> str | None:
    """Send a request of this trace; return the server that decided it."""
    given = {"Content-Type": "application/json", "traceparent": trace}
    with urlopen(Request(f"{server}/v1/{verb}", json.dumps(body).encode(), given), timeout=60) as answer:
        return str(answer.headers["Leasehold-Owner"])


def encoded(trace: str) -> str:
    """The id of a trace as OTLP has it in JSON."""
    return trace.split("-")[1]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def test_the_docs_name_every_span_and_attribute() -> None:
    page = (ROOT / "docs" / "how-to" / "server.md").read_text()
    source = (ROOT / "src" / "leasehold" / "server" / "ops" / "spans.py").read_text()
    names = set(re.findall(r'"(leasehold\.[a-z_]+|http\.[a-z_.]+)"', source)) | {"leasehold.acquire"}
    assert len(names) >= 8
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
