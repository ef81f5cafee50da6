"""Instructions for agents: a skill, a block in AGENTS.md, and a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.guard.install.changes import put_block, take_block
from leasehold.guard.install.targets import InstallPath

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.guard.install.changes import FileChange, Ledger

BEGIN, END = "<!-- leasehold: begin -->", "<!-- leasehold: end -->"

LOOP = """\
Before you touch anything that another agent or a person may touch at the same time (an issue, a pull request, a file,
a deploy target), claim it:

1. **Claim**: `leasehold acquire issue:42 --name "what you are going to do"` (or the tool `acquire_lock`).
2. **Work** only if the answer is a grant (exit code 0, `ok: true`). During long work, `leasehold renew issue:42`.
3. **Release** as soon as you are done: `leasehold release issue:42`; after a failure
   `leasehold release issue:42 --status failed --error "what went wrong"`.

If the answer is no:

- **Held** (exit code 4): another agent works on it. Skip it and go on with something else. If you need this very
  thing, wait in the queue: `leasehold acquire issue:42 --wait 10m` (or `wait_for_lock`).
- **Deadlock** (exit code 6): release what you hold, then try again.
- **Lost** (exit code 7): your lease is gone and another agent may have it. Stop that work at once.
- Anything else: do not go on without the lock. `leasehold doctor` says what is wrong.

Rules:

- Leasehold recognises you by your agent's run. If it does not let you release what you acquired, acquire and release it
  under a name that no other agent has, with an option: `leasehold acquire issue:42 --holder a-name-of-your-own`.
- Never proceed without the lock, and never force one open unless a person asks you to.
- One lock at a time, unless your instructions say otherwise. If you need several, claim them in one call.
- Names: `issue:42`, `path:src/auth.rs` (a directory covers what is in it), `path:src/**/*.py` (every file that
  matches; quote it in a shell), `repo:deploy`, `github://acme/app/issues/42`,
  `deploy://api-prod`, or any other text that all agents spell alike.
- A single command can be run under a lock: `leasehold run deploy://api-prod --wait 10m -- ./deploy.sh`.
"""

SKILL = f"""\
---
name: leasehold
description: >-
  Claim shared things before working on them, so that no two agents do the same work or overwrite each other. Use before
  starting on an issue or a pull request, before editing files that others may edit, and before a deploy.
---

# Working under locks

{LOOP}"""

BLOCK = f"""\
## Locks

{LOOP}"""

TARGETS = {
    "claude": InstallPath(".claude/skills", ".claude/skills"),
    "codex": InstallPath(".agents/skills", ".agents/skills"),
    "cursor": InstallPath(".cursor/skills", ".cursor/skills"),
    "gemini": InstallPath(".gemini/skills", ".gemini/skills"),
    "copilot": InstallPath(".github/skills", ".copilot/skills"),
    "opencode": InstallPath(".opencode/skills", ".config/opencode/skills"),
    "windsurf": InstallPath(".windsurf/skills", ".codeium/windsurf/skills"),
    "agents": InstallPath(".agents/skills", ".agents/skills"),
}
"""Where each agent looks for skills; `agents` is the place that most of them share. Seen in November 2026:
agentskills.io, code.claude.com docs/en/skills, developers.openai.com/codex/skills, opencode.ai docs/skills."""


def changes(target: str, place: Path, ledger: Ledger, *, user: bool, remove: bool) -> list[FileChange]:
    """Return the changes of the skill's own file and of AGENTS.md."""
    skill = place / TARGETS[target].of(user=user) / "leasehold" / "SKILL.md"
    agents = place / "AGENTS.md"
    if remove:
        return [ledger.uninstall(skill, lambda _: None), ledger.uninstall(agents, _take)]
    return [
        ledger.install(skill, lambda _: SKILL.encode(), lambda _: None),
        ledger.install(agents, lambda text: put_block(text, BEGIN, BLOCK, END), _take),
    ]


def _take(text: bytes | None) -> bytes | None:
    return None if text is None else take_block(text, BEGIN, END)
