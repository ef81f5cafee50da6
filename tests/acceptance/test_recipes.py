"""The shell recipes that people use locks for: claiming, editing, long work, coordination, stealing, cleaning up."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.kit.shell import Shell, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID = "8057324b"

JQ = """\
import json, sys
# As much of jq as the recipes use: -e FILTER exits with 1 for false and null, -r prints text as it is.
said, (flag, what) = json.load(sys.stdin), sys.argv[1:3]
if what == ".ok":
    found = [said["ok"]]
elif what == ".data.leases[].resources[]":
    found = [name for lease in said["data"]["leases"] for name in lease["resources"]]
else:
    wanted = what.partition('index("')[2].partition('"')[0]
    found = [lease for lease in said["data"]["leases"] if wanted in lease["resources"]]
for each in found:
    print(each if flag == "-r" else json.dumps(each))
sys.exit(0 if flag == "-r" or (found and found[-1] not in (False, None)) else 1 if found else 4)
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path / "home") as shell:
        if shutil.which("jq") is None:
            folder = shell.home / "bin"
            folder.mkdir()
            (folder / "jq.py").write_text(JQ)
            (folder / "jq").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/jq.py" "$@"\n')
            (folder / "jq").chmod(0o755)
        yield shell


CLAIM = f"""
ID={ID}
if leasehold acquire "issue:$ID" --ttl 30m --json | jq -e '.ok' > /dev/null; then
  echo "Claimed issue $ID"
  echo "worked on $ID" >> log
  leasehold release "issue:$ID"
else
  echo "Issue already claimed"
fi
"""


def test_claiming_an_issue(shell: Shell) -> None:
    assert shell.sh(CLAIM, "ada").out == f"Claimed issue {ID}\nReleased issue:{ID} (completed)\n"
    shell.run("acquire", f"issue:{ID}", holder="eve")
    assert shell.sh(CLAIM, "bob").out == "Issue already claimed\n"
    assert (shell.home / "log").read_text() == f"worked on {ID}\n"


def test_file_editing_coordination(shell: Shell) -> None:
    script = """
        set -e
        leasehold acquire path:config/settings.json --ttl 15m
        mkdir -p config
        echo '{"by": "'$LEASEHOLD_HOLDER'"}' > config/settings.json
        leasehold release path:config/settings.json
    """
    shell.run("acquire", "path:config", holder="eve")
    refused = shell.sh(script, "bob")
    assert refused.code == 4
    assert "holder       eve  (exclusive, path:config)" in refused.err
    assert not (shell.home / "config").exists()
    shell.run("release", "path:config", holder="eve")
    assert shell.sh(script, "bob").code == 0
    assert '"bob"' in (shell.home / "config" / "settings.json").read_text()


def test_a_long_running_task(shell: Shell) -> None:
    script = """
        leasehold acquire repo:migration --ttl 2h || exit
        step=0
        while [ "$step" -lt 3 ]; do
          step=$((step + 1))
          leasehold renew repo:migration --ttl 2h || exit
        done
        leasehold release repo:migration
    """
    assert shell.sh(script).code == 0
    kinds = [event["kind"] for event in shell.json("history")["data"]["events"]]
    assert kinds == ["released", "renewed", "renewed", "renewed", "granted"]


def test_a_long_running_task_notices_that_it_has_lost_its_lock(shell: Shell) -> None:
    script = """
        leasehold acquire repo:migration --ttl 2h || exit
        touch begun
        until [ -e go-on ]; do sleep 0.05; done
        leasehold renew repo:migration --ttl 2h
        echo "renew: $?"
    """
    ends: list[str] = []
    worker = threading.Thread(target=lambda: ends.append(shell.sh(script).out))
    worker.start()
    until((shell.home / "begun").exists)
    shell.run("force-release", "repo:migration", "--reason", "wrong branch", holder="ops")
    (shell.home / "go-on").touch()
    worker.join()
    assert ends[0].endswith("renew: 7\n")


WORKER = """
for id in 1 2 3; do
  if leasehold acquire "issue:$id" --ttl 30m > /dev/null 2>&1; then
    echo "$LEASEHOLD_HOLDER processes $id"
    leasehold release "issue:$id" > /dev/null
    break
  fi
done
"""


def test_a_coordinator_and_its_workers(shell: Shell) -> None:
    assert shell.sh('leasehold acquire "issue:1" --ttl 30m', "coordinator").code == 0
    assert shell.sh(WORKER, "worker-1").out == "worker-1 processes 2\n"
    shell.run("acquire", "issue:2", holder="worker-2")
    assert shell.sh(WORKER, "worker-3").out == "worker-3 processes 3\n"
    assert shell.sh("leasehold release issue:1", "coordinator").code == 0
    assert shell.sh(WORKER, "worker-3").out == "worker-3 processes 1\n"


STEAL = """
RESOURCE=issue:8057324b
if ! leasehold list --json | jq -e ".data.leases[] | select(.resources | index(\\"$RESOURCE\\"))" > /dev/null; then
  leasehold acquire "$RESOURCE" --ttl 30m > /dev/null && echo "took over $RESOURCE"
fi
"""


def test_work_stealing(shell: Shell) -> None:
    shell.run("acquire", f"issue:{ID}", "--ttl", "10m", holder="ada")
    assert shell.sh(STEAL, "bob").out == ""
    shell.run("renew", f"issue:{ID}", "--ttl", "10ms", holder="ada")
    until(lambda: not shell.holders(f"issue:{ID}"))
    assert shell.sh(STEAL, "bob").out == f"took over issue:{ID}\n"
    assert shell.run("renew", f"issue:{ID}", holder="ada").code == 7


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "false", "kill -TERM $$"])
def test_a_trap_releases_however_the_script_ends(shell: Shell, end: str) -> None:
    script = f"""
        set -e
        ID={ID}
        trap 'leasehold release "issue:$ID"' EXIT
        trap 'exit 143' TERM
        leasehold acquire "issue:$ID" --ttl 30m
        {end}
    """
    done = shell.sh(script)
    assert f"Released issue:{ID}" in done.out
    assert shell.holders(f"issue:{ID}") == []


def test_renewing_before_expiry(shell: Shell) -> None:
    script = """
        leasehold acquire job --ttl 30s > /dev/null || exit
        i=0
        while [ "$i" -lt 8 ]; do
          leasehold renew job --ttl 10m > /dev/null || exit
          i=$((i + 1))
        done
        leasehold release job
    """
    done = shell.sh(script)
    assert (done.code, done.out) == (0, "Released job (completed)\n")


def test_handling_failures_gracefully(shell: Shell) -> None:
    script = """
        if ! leasehold acquire nightly --ttl 30m 2> /dev/null; then
          echo "Could not acquire lock, trying later"
          exit 0
        fi
        echo working
    """
    assert shell.sh(script).out.endswith("working\n")
    done = shell.sh(script, "bob")
    assert (done.code, done.out) == (0, "Could not acquire lock, trying later\n")


def test_each_way_to_fail_has_its_own_exit_code(shell: Shell) -> None:
    shell.run("acquire", "x")
    script = """
        leasehold acquire x 2> /dev/null
        case $? in
          0) echo mine ;;
          4) echo "somebody has it" ;;
          *) echo "something broke" ;;
        esac
    """
    assert shell.sh(script, "bob").out == "somebody has it\n"
    broken = {"LEASEHOLD_URL": "sqlite:///proc/nowhere/x.db"}
    assert shell.sh(script, "bob", broken).out == "something broke\n"
    shell.run("release", "x")
    assert shell.sh(script, "bob").out.endswith("mine\n")


# ------------------------------------------------------------- the same recipes, word for word, with `leasehold lock`


GRITE_JQ = """\
import json, re, sys
# As much of jq as these recipes use.
said, (flag, what) = json.load(sys.stdin), sys.argv[1:3]
if what == ".ok":
    found = [said["ok"]]
else:
    wanted = re.search(r'resource == "([^"]*)"', what).group(1)
    found = [lock for lock in said["data"]["locks"] if lock["resource"] == wanted]
for each in found:
    print(json.dumps(each))
sys.exit(0 if found and found[-1] not in (False, None) else 1 if found else 4)
"""


@pytest.fixture(params=["sqlite", "git"])
def grite(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    """A shell in which `grite` is our command line, with the locks in either place."""
    with Shell(tmp_path / "home") as shell:
        shell.with_command(shell.env())
        folder = shell.home / "bin"
        (folder / "jq.py").write_text(GRITE_JQ)
        (folder / "jq").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/jq.py" "$@"\n')
        (folder / "grite").write_text('#!/bin/sh\nexec leasehold "$@"\n')
        for name in ("jq", "grite"):
            (folder / name).chmod(0o755)
        if request.param == "git":
            subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote.git")], check=True)
            (shell.home / "leasehold.toml").write_text(f'url = "git+file://{tmp_path}/remote.git"\n')
        yield shell


GRITE_CLAIM = f"""
ID={ID}
if grite lock acquire --resource "issue:$ID" --ttl 30m --json | jq -e '.ok'; then
  echo "Claimed issue $ID"
  grite lock release --resource "issue:$ID"
else
  echo "Issue already claimed"
fi
"""


def test_claiming_an_issue_in_grite_s_words(grite: Shell) -> None:
    assert grite.sh(GRITE_CLAIM, "ada").out == f"true\nClaimed issue {ID}\nLock released\n  Resource: issue:{ID}\n"
    grite.run("lock", "acquire", f"issue:{ID}", holder="eve")
    assert grite.sh(GRITE_CLAIM, "bob").out == "false\nIssue already claimed\n"


def test_a_long_task_and_a_trap_in_grite_s_words(grite: Shell) -> None:
    script = """
        trap 'grite lock release --resource "repo:migration"' EXIT
        grite lock acquire --resource "repo:migration" --ttl 2h || exit
        for step in 1 2; do
          grite lock renew --resource "repo:migration" --ttl 2h || exit
        done
    """
    done = grite.sh(script)
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("Lock")] == [
        "Lock acquired",
        "Lock renewed",
        "Lock renewed",
        "Lock released",
    ]


def test_workers_in_grite_s_words(grite: Shell) -> None:
    worker = """
        for id in 1 2 3; do
          if grite lock acquire --resource "issue:$id" --ttl 30m 2>/dev/null >/dev/null; then
            echo "$LEASEHOLD_HOLDER processes $id"
            break
          fi
        done
    """
    assert grite.sh('grite lock acquire --resource "issue:1" --ttl 30m', "coordinator").code == 0
    assert grite.sh(worker, "worker-1").out == "worker-1 processes 2\n"
    assert grite.sh(worker, "worker-2").out == "worker-2 processes 3\n"
    assert grite.sh(worker, "worker-3").out == ""


def test_work_stealing_in_grite_s_words(grite: Shell) -> None:
    steal = """
        RESOURCE=issue:8057324b
        if ! grite lock status --json | jq -e ".data.locks[] | select(.resource == \\"$RESOURCE\\")" > /dev/null; then
          grite lock acquire --resource "$RESOURCE" --ttl 30m > /dev/null && echo "took over $RESOURCE"
        fi
    """
    grite.run("lock", "acquire", f"issue:{ID}", "--ttl", "10m", holder="ada")
    assert grite.sh(steal, "bob").out == ""
    grite.run("lock", "renew", f"issue:{ID}", "--ttl", "10ms", holder="ada")
    until(lambda: grite.sh(steal, "bob").out == f"took over issue:{ID}\n")


def test_handling_failures_gracefully_in_grite_s_words(grite: Shell) -> None:
    script = """
        if ! grite lock acquire --resource "path:config/settings.json" --ttl 15m 2> refusal; then
          echo "Could not acquire lock, trying later"
          exit 0
        fi
    """
    grite.run("lock", "acquire", "path:config", holder="eve")
    done = grite.sh(script, "bob")
    assert (done.code, done.out) == (0, "Could not acquire lock, trying later\n")
    assert "Owner: eve" in (grite.home / "refusal").read_text()
