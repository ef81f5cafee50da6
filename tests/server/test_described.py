"""The server against its own description: schemathesis finds no 5xx and no answer that OpenAPI does not tell of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.serving import create_key, serving

EXAMPLES = 200 if os.environ.get("LEASEHOLD_PROVE") else 3
"""Of each route, beside those that cover each keyword of its schema."""
SEED = "20261115"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
    "unsupported_method",
)
ROLES = (None, "admin", "agent", "viewer") if os.environ.get("LEASEHOLD_PROVE") else (None,)


@pytest.mark.parametrize("role", ROLES)
def test_every_answer_is_one_that_was_described(tmp_path: Path, role: str | None) -> None:
    shown = () if role is None else ("--header", f"Authorization: Bearer {create_key(tmp_path, role)}")
    words = ("--rate", "0", "--keep-open", "20ms", "--keep-place", "20ms")
    with serving(tmp_path, *words) as server:
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                "--no-color",
                "run",
                f"{server.url}/openapi.json",
                *("--checks", ",".join(CHECKS)),
                *("--exclude-path", "/v1/losses"),  # nor does this
                *("--exclude-path", "/v1/events"),  # it never ends; see test_server_events
                *("--phases", "examples,coverage,fuzzing"),
                *("--max-examples", str(EXAMPLES)),
                *("--seed", SEED),
                *("--request-timeout", "30"),
                *("--suppress-health-check", "all"),
                *("--warnings", "off"),
                *shown,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=3_600,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
        tested = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
        assert tested is not None, done.stdout[-2_000:]
        assert int(tested[1]) == int(tested[2]) > 500
        assert server.ask("GET", "/readyz").status == 200
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert "unexpected error in a request" not in server.process.stderr.read()
