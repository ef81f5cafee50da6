"""Tracing: spans of contended requests, through two servers, link a waiter to its holder; and off, it costs nothing."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold import tracing
from tests.kit.serving import read_reply, serving, until
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.kit.shell import Shell

HOLDERS = "00-" + "a" * 32 + "-" + "1" * 16 + "-01"
WAITERS = "00-" + "b" * 32 + "-" + "2" * 16 + "-01"
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
    assert [link["traceId"] for link in waited["links"]] == [spans(first)[0]["traceId"]]
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
