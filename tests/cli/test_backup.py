"""backup and restore: the copy of a store in use is whole, private and restorable, and a broken one is refused."""

from __future__ import annotations

import json
import sqlite3
import stat
from typing import TYPE_CHECKING

import leasehold
from tests.kit.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.shell import Shell


def test_a_store_in_use_is_copied_with_all_that_was_acknowledged(shell: Shell, tmp_path: Path) -> None:
    with serving(tmp_path) as server:  # it commits to a journal, which the copy must have too
        for number in range(20):
            server.post("acquire", {"resources": f"issue:{number}", "holder": "ann"})
        url = f"sqlite://{server.database}"
        done = shell.run("backup", str(tmp_path / "copy.db"), "--url", url, "--json")
        assert done.code == 0, done
        assert json.loads(done.out)["data"]["leases"] == 20
        server.post("acquire", {"resources": "later", "holder": "ann"})  # the server was not disturbed
    copy = tmp_path / "copy.db"
    assert [path.name for path in tmp_path.glob("copy.db*")] == ["copy.db"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    checked = shell.run("restore", str(copy), "--check")
    assert checked.code == 0
    assert "20 leases" in checked.out
    with leasehold.connect(f"sqlite://{copy}", accept_restore=True) as locks:
        assert len(locks.list() or ()) == 20


def test_a_backup_replaces_nothing(shell: Shell, tmp_path: Path) -> None:
    shell.call("acquire", "x")
    (tmp_path / "mine.db").write_text("precious")
    refused = shell.run("backup", str(tmp_path / "mine.db"))
    assert refused.code == 2
    assert "exists already" in refused.err
    assert (tmp_path / "mine.db").read_text() == "precious"


def test_a_broken_or_foreign_file_is_refused(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    for name in ("text.db", "other.db", "missing.db"):
        refused = shell.run("restore", str(tmp_path / name), "--check")
        assert refused.code in (1, 2), refused
        assert "Traceback" not in refused.err


def test_other_stores_are_backed_up_with_their_own_tools(shell: Shell, tmp_path: Path) -> None:
    refused = shell.run("backup", str(tmp_path / "x"), "--url", "postgresql://db.example/locks")
    assert refused.code == 2
    assert "docs/how-to/backup.md" in refused.err
