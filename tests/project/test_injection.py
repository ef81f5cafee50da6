"""Text that would be code elsewhere stays text: in SQL, shells, arguments of git, terminals, logs and headers.

Every field that takes a name gets every payload, on every store, over HTTP and from the command line. Each is refused,
or comes back as it was given; nothing else changes, no file appears, and no line of a log or a head is forged.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Refused
from leasehold.domain.sessions import SessionStarted
from leasehold.errors import InvalidInput
from tests.kit.etcd import empty
from tests.kit.postgres import schema
from tests.kit.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.shell import Shell

PAYLOADS = {
    "sql": "x'; DROP TABLE entry; DROP TABLE history; --",
    "sql with a placeholder": "%s %(x)s $1 ? :x {0} {x!r}",
    "shell": "$(touch pwned); `touch pwned` | touch pwned && touch pwned > pwned",
    "option": "--upload-pack=touch pwned",
    "option of git": "-c core.sshCommand=touch pwned",
    "ref": "refs/heads/main:refs/heads/x ../../../pwned @{u} ^..HEAD",
    "terminal": "\x1b]0;pwned\x07\x1b[2J\x9b31m",
    "log": 'x\n{"level": "error", "message": "forged"}',
    "header": "x\r\nSet-Cookie: forged=1\r\n\r\n<html>",
    "markup": "<script>forged()</script><img src=x onerror=forged()>",
    "template": "{{7*7}}${7*7}<%= 7*7 %>#{7*7}",
    "direction": "abc\u202egnp.exe\u2066",
    "nul": "x\0forged",
    "surrogate": "x\ud800",
    "key": "../../e/engine nx:y q/0",
}
FIELDS = ("resources", "holder", "space", "name", "reason", "context", "request_id")
CONTROL = ("\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\0")


@contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    """An empty store."""
    if kind == "postgres":
        with schema() as url:
            yield url
    elif kind == "git":
        subprocess.run(["git", "init", "-q", "--bare", folder / "remote.git"], check=True)
        yield f"git+file://{folder}/remote.git"
    else:
        yield empty() if kind == "etcd" else f"sqlite://{folder}/locks.db"


def asked(field: str, payload: str, number: int) -> dict[str, Any]:
    """An acquire with this payload in this field."""
    value: Any = {payload: [payload]} if field == "context" else payload
    return {"resources": f"r{number}", "ttl": 600, field: value}


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "etcd", "git"])
def test_no_store_takes_text_for_code(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with store(kind, tmp_path) as url, leasehold.connect(url, holder="ann") as locks:
        bystander = locks.acquire("bystander", ttl=600)
        assert isinstance(bystander, Granted)
        taken = 0
        for number, (field, payload) in enumerate((field, each) for field in FIELDS for each in PAYLOADS.values()):
            taken += _acquire_and_release(locks, asked(field, payload, number), field, payload)
        assert taken > len(PAYLOADS), "some of it is a name like any other"
        _end_with_payloads(locks)
        assert [each.id for each in _leases(locks)] == [bystander.lease.id]
        assert locks.renew(bystander)
    assert [*work.iterdir()] == []
    assert not [*tmp_path.rglob("*pwned*")]


def _acquire_and_release(locks: leasehold.Locks, terms: dict[str, Any], field: str, payload: str) -> bool:
    try:
        granted = locks.acquire(**terms)
    except InvalidInput:
        return False
    if isinstance(granted, Refused):
        assert granted.code == "invalid", granted
        return False
    assert isinstance(granted, Granted), granted
    told = granted.lease.context if field == "context" else getattr(granted.lease, field, payload)
    if field == "resources":
        assert told == (payload,)
    elif field == "context":
        assert json.loads(str(told)) == {payload: [payload]}
    else:
        assert told == payload
    seen = locks.list(space=granted.lease.space, resource=granted.lease.resources[0])
    assert isinstance(seen, tuple)
    assert [each.id for each in seen] == [granted.lease.id]
    assert locks.release(granted, status="failed", error=payload if payload.isprintable() else "x")
    return True


def _end_with_payloads(locks: leasehold.Locks) -> None:
    """Names of sessions and admins, and reasons of both."""
    for number, payload in enumerate(PAYLOADS.values()):
        for verb in ("start_session", "force_release"):
            try:
                if verb == "start_session":
                    started = locks.start_session(ttl=600, name=payload, holder=payload)
                    if isinstance(started, SessionStarted):
                        locks.end_session(started.secret, reason=payload)
                else:
                    locks.acquire(f"forced {number}", ttl=600)
                    locks.force_release(f"forced {number}", by=payload, reason=payload)
            except InvalidInput:
                continue
            finally:
                locks.force_release(f"forced {number}", by="ops", reason="the end")


def _leases(locks: leasehold.Locks) -> tuple[leasehold.Lease, ...]:
    leases = locks.list()
    assert isinstance(leases, tuple)
    return leases


def test_no_log_and_no_head_of_a_server_is_forged(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0") as server:
        for number, (field, payload) in enumerate((field, each) for field in FIELDS for each in PAYLOADS.values()):
            terms = asked(field, payload, number)
            terms["ttl_seconds"] = terms.pop("ttl")
            reply = server.post("acquire", json.dumps(terms).encode())
            assert reply.status in (200, 400), (field, payload, reply)
            assert "set-cookie" not in reply.headers
            for path in (f"inspect?resource={number}", "leases"):
                assert "set-cookie" not in server.get(path).headers
        assert server.ask("GET", "/readyz").status == 200
        assert server.stop() == 0
        assert server.process.stderr is not None
        lines = server.process.stderr.read().splitlines()
    for line in lines:
        told = json.loads(line)
        assert told["message"] != "forged"
        assert not any(each in line for each in CONTROL)


def test_no_terminal_obeys_a_name(shell: Shell) -> None:
    for number, payload in enumerate(PAYLOADS.values()):
        if "\0" in payload or "\ud800" in payload:
            continue  # no command line can have it
        with leasehold.connect(f"sqlite://{shell.database}?create=1", holder="bob") as locks:
            for field in ("name", "reason", "holder", "context", "resources"):
                try:
                    locks.acquire(**asked(field, payload, 100 * number + len(field)))
                except InvalidInput:
                    continue
        words = (f"--name={payload}", f"--reason={payload}", f"--holder={payload}")
        shell.call("acquire", f"r{number}", *words, holder=None)
    for line in ("list", "history", "inspect r0", "acquire r0", "list --json", "graph"):
        done = shell.call(*line.split())
        assert not any(each in done.out + done.err for each in CONTROL), line
        assert "Traceback" not in done.err
    assert not [*shell.home.rglob("*pwned*")]
