"""A server that answers by a script, and clients of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.client import deciding
from tests.kit.scripting import Script, scripted
from tests.server.test_conformance import Awaited

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as found:
        yield found


@pytest.fixture(params=[leasehold.connect, Awaited], ids=["plain", "async"])
def locks(request: pytest.FixtureRequest, script: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(deciding, "FIRST_PAUSE", 0.0001)
    opened = request.param(script.url, holder="ann")
    yield opened
    opened.close()
