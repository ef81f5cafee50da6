"""The plugin that is installed for OpenCode runs in node: it throws what its hook denies, and appends what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.guard.test_install import Project

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeAlias

    Step: TypeAlias = tuple[str, str, str, dict[str, Any]]
    """What happens, in which session, to which tool, event or file, and the rest of it."""

DRIVER = """
import { readFileSync, writeFileSync } from "node:fs"
const [plugin, directory, steps] = process.argv.slice(2)
const hooks = await (await import(plugin)).Leasehold({ directory })
const told = []
for (const [kind, session, tool, about] of JSON.parse(steps)) {
  const input = { sessionID: session, callID: `${session}-${tool}`, tool, args: about.args }
  const output = kind === "before" ? { args: about.args } : about.output
  try {
    if (kind === "write") writeFileSync(tool, about.text)
    else if (kind === "event") await hooks.event({ event: { type: tool, properties: about } })
    else await hooks[`tool.execute.${kind}`](input, output)
    told.push(output ?? null)
  } catch (error) {
    told.push(error.message)
  }
}
console.log(JSON.stringify(told))
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    subprocess.run(["git", "init", "--quiet", str(project.root)], check=True)
    project.run("install", "opencode")
    plugin = (project.root / ".opencode" / "plugins" / "leasehold.ts").read_text()
    (tmp_path / "plugin.mjs").write_text(plugin.replace('["leasehold"', json.dumps(project.command.split())[:-1]))
    (tmp_path / "driver.mjs").write_text(DRIVER)
    return project


def play(project: Project, *steps: Step) -> list[Any]:
    """Return what each step of OpenCode came to: the arguments or the output of a tool, or an error."""
    found = shutil.which("node")
    assert found is not None, "node is needed: version 20 or newer"
    folder = project.root.parent
    done = subprocess.run(
        [found, "driver.mjs", str(folder / "plugin.mjs"), str(project.root), json.dumps(steps)],
        capture_output=True,
        text=True,
        env=project.env,
        cwd=folder,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    told: list[Any] = json.loads(done.stdout)
    return told


def edit(project: Project, session: str, moment: str = "before") -> Step:
    return moment, session, "edit", {"args": {"filePath": str(project.root / "a.py")}, "output": {"output": "ok"}}


def test_a_second_session_is_denied_until_the_first_is_deleted(project: Project) -> None:
    gone = ("event", "one", "session.deleted", {"info": {"id": "one"}})
    first, second, _, third = play(project, edit(project, "one"), edit(project, "two"), gone, edit(project, "two"))
    assert first == third == {"args": {"filePath": str(project.root / "a.py")}}
    assert "held by opencode-one" in second


@pytest.mark.parametrize("event", ["session.idle", "session.status"])
def test_a_subagent_that_is_done_releases_what_it_took_and_its_parent_keeps_its_own(
    project: Project, event: str
) -> None:
    status = {"status": {"type": "idle"}}
    created = ("event", "kid", "session.created", {"info": {"id": "kid", "parentID": "one"}})
    done = ("event", "kid", event, {"sessionID": "kid", **status})
    *_, refused, _, allowed, _, other = play(
        project,
        created,
        edit(project, "kid"),
        edit(project, "one"),
        done,
        edit(project, "one"),
        ("event", "one", event, {"sessionID": "one", **status}),
        edit(project, "two"),
    )
    assert "held by opencode-kid" in refused
    assert allowed["args"]
    assert "held by opencode-one" in other


@pytest.mark.parametrize(
    ("tool", "output"),
    [
        ("bash", {"title": "", "output": "ok", "metadata": {}}),
        ("files_write", {"content": [{"type": "text", "text": "ok"}]}),
    ],
)
def test_a_trespass_is_in_the_result_that_the_model_reads(project: Project, tool: str, output: dict[str, Any]) -> None:
    """Of an MCP tool it reads `content` (anomalyco/opencode#21149, #3381; seen in November 2026)."""
    call = {"args": {"command": "./build"}}
    write = ("write", "", str(project.root / "a.py"), {"text": "x"})
    steps = (edit(project, "one"), edit(project, "one", "after"), ("before", "two", tool, call), write)
    *_, told = play(project, *steps, ("after", "two", tool, {**call, "output": output}))
    text = told["output"] if "output" in told else "\n".join(each["text"] for each in told["content"])
    assert text.startswith("ok\nYour call changed what others hold: a.py, held by opencode-one (editing).")


def test_a_tool_of_ours_gets_the_name_of_the_session(project: Project) -> None:
    (told,) = play(project, ("before", "one", "leasehold_acquire_lock", {"args": {"resource": "issue:42"}}))
    assert told["args"] == {"resource": "issue:42", "agent_id": "opencode-one"}


def test_a_tool_that_reads_starts_no_process(project: Project) -> None:
    plugin = project.root.parent / "plugin.mjs"
    plugin.write_text(plugin.read_text().replace("const HOOK = [", 'const HOOK = ["/nowhere/leasehold", '))
    read = {"args": {"filePath": "a.py"}, "output": {"output": "ok"}}
    assert play(project, ("before", "one", "read", read), ("after", "one", "read", read))[1] == {"output": "ok"}
