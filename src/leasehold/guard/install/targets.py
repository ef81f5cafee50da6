"""Where each agent keeps its hooks and MCP servers, and in which form. One row each, as in ``guard.editors.adapters``.

Sources, seen in October and November 2026: code.claude.com/docs/en/hooks, developers.openai.com/codex/hooks,
cursor.com/docs/hooks, google-gemini/gemini-cli docs/hooks/reference.md, docs.github.com cli-hooks-reference,
code.visualstudio.com hooks-reference, opencode.ai/docs/plugins, docs.windsurf.com/windsurf/cascade/hooks.
"""

from __future__ import annotations

from typing import NamedTuple

GROUPED, FLAT, PLUGIN = "grouped", "flat", "plugin"
JSON, TOML = "json", "toml"


class InstallPath(NamedTuple):
    """One file, in a project and for a user; empty: the agent reads none there."""

    project: str
    user: str

    def of(self, *, user: bool) -> str:
        """Return the path below the project or the home directory."""
        return self.user if user else self.project


class Target(NamedTuple):
    """The files and fields that are installed for one agent."""

    hooks: InstallPath
    events: tuple[tuple[str, str], ...]
    """Each event with the pattern of the tools that it concerns; empty: of every tool, or the event has none."""
    shape: str
    """`grouped`: a matcher with a list of hooks; `flat`: hooks; `plugin`: a program of our own."""
    servers: InstallPath
    servers_format: str = JSON
    servers_key: str = "mcpServers"
    version: int | None = None
    timeout: tuple[str, int] | None = ("timeout", 30)
    """The field of a hook's time limit, in the agent's unit."""
    commands: tuple[str, ...] = ("command",)
    """The fields of a hook that have its command."""
    typed: bool = True
    """True if a hook says that it is a command."""
    more: tuple[tuple[str, object], ...] = ()
    """Other fields of a hook."""
    todo: str = ""
    """The steps that the user takes after the installation, besides a restart."""


_CLAUDE = "Edit|MultiEdit|Write|NotebookEdit|Bash|PowerShell|mcp__.*"
_CODEX = "apply_patch|Bash|mcp__.*"
_CURSOR = "Write|Edit|MultiEdit|StrReplace|Delete|EditNotebook|ApplyPatch|Shell|MCP:.*"
_GEMINI = "write_file|replace|run_shell_command|mcp_.*"

TARGETS: dict[str, Target] = {
    "claude": Target(
        InstallPath(".claude/settings.json", ".claude/settings.json"),
        (
            ("SessionStart", ""),
            ("PreToolUse", _CLAUDE),
            ("PostToolUse", _CLAUDE),
            ("PostToolUseFailure", _CLAUDE),
            ("SubagentStop", ""),
            ("SessionEnd", ""),
        ),
        GROUPED,
        InstallPath(".mcp.json", ".claude.json"),
        todo="Claude Code asks once whether it may use the project's MCP server: say yes.",
    ),
    "codex": Target(
        InstallPath(".codex/hooks.json", ".codex/hooks.json"),
        (("PreToolUse", _CODEX), ("PostToolUse", _CODEX), ("SubagentStop", ""), ("SessionEnd", "")),
        GROUPED,
        InstallPath(".codex/config.toml", ".codex/config.toml"),
        TOML,
        todo="Codex skips hooks silently until you trust them: start it here, type /hooks, and trust leasehold's.",
    ),
    "cursor": Target(
        InstallPath(".cursor/hooks.json", ".cursor/hooks.json"),
        (
            ("preToolUse", _CURSOR),
            ("postToolUse", _CURSOR),
            ("postToolUseFailure", _CURSOR),
            ("subagentStop", ""),
            ("sessionEnd", ""),
        ),
        FLAT,
        InstallPath(".cursor/mcp.json", ".cursor/mcp.json"),
        version=1,
        timeout=None,
        typed=False,
        todo="Cursor reads a project's hooks in a trusted workspace only; turn its MCP server on in the settings.",
    ),
    "gemini": Target(
        InstallPath(".gemini/settings.json", ".gemini/settings.json"),
        (("BeforeTool", _GEMINI), ("AfterTool", _GEMINI), ("SessionEnd", "")),
        GROUPED,
        InstallPath(".gemini/settings.json", ".gemini/settings.json"),
        timeout=("timeout", 30_000),
        more=(("name", "leasehold"),),
        todo="Gemini CLI runs a project's hooks in a trusted folder only, and asks once; see them with /hooks.",
    ),
    "copilot": Target(
        InstallPath(".github/hooks/leasehold.json", ".copilot/hooks/leasehold.json"),
        (
            ("PreToolUse", ""),
            ("PostToolUse", ""),
            ("PostToolUseFailure", ""),
            ("SubagentStop", ""),
            ("SessionEnd", ""),
        ),
        FLAT,
        InstallPath(".vscode/mcp.json", ".copilot/mcp-config.json"),
        servers_key="servers",
        version=1,
        timeout=("timeoutSec", 30),
        commands=("command", "bash"),
        todo="The coding agent takes hooks from the default branch: commit .github/hooks. Its MCP servers are set in "
        "the repository's settings on GitHub, and it must have leasehold installed (copilot-setup-steps.yml).",
    ),
    "opencode": Target(
        InstallPath(".opencode/plugins/leasehold.ts", ".config/opencode/plugins/leasehold.ts"),
        (),
        PLUGIN,
        InstallPath("opencode.json", ".config/opencode/opencode.json"),
        servers_key="mcp",
    ),
    "windsurf": Target(
        InstallPath(".windsurf/hooks.json", ".codeium/windsurf/hooks.json"),
        tuple(
            (f"{when}_{what}", "") for what in ("write_code", "run_command", "mcp_tool_use") for when in ("pre", "post")
        ),
        FLAT,
        InstallPath("", ".codeium/windsurf/mcp_config.json"),
        timeout=None,
        typed=False,
        more=(("show_output", True),),
        todo="Windsurf reads MCP servers from your home directory only; set them up there with --user.",
    ),
}


def hook_entry(target: Target, command: str) -> dict[str, object]:
    """Return one hook that runs this command."""
    entry: dict[str, object] = {"type": "command"} if target.typed else {}
    entry |= dict.fromkeys(target.commands, command)
    if target.timeout is not None:
        entry[target.timeout[0]] = target.timeout[1]
    return {**entry, **dict(target.more)}


def hooks_of(
    target: Target, entry: dict[str, object], first: dict[str, object] | None = None
) -> dict[str, list[object]]:
    """Return the hooks of all events; `first` is that of a start, if it differs."""
    hooks: dict[str, list[object]] = {}
    for event, matcher in target.events:
        one = first if first is not None and event == "SessionStart" else entry
        if target.shape == GROUPED:
            hooks[event] = [{"matcher": matcher, "hooks": [one]} if matcher else {"hooks": [one]}]
        else:
            hooks[event] = [{**one, "matcher": matcher} if matcher else one]
    return hooks


def server_entry(agent: str, words: tuple[str, ...], *, user: bool = False) -> dict[str, object]:
    """Return the entry of our MCP server in this agent's file."""
    if agent == "opencode":
        return {"type": "local", "command": [*words, "mcp"], "enabled": True}
    entry: dict[str, object] = {"command": words[0], "args": [*words[1:], "mcp"]}
    if agent == "copilot" and user:
        return {"type": "local", **entry, "tools": ["*"]}
    return {"type": "stdio", **entry} if agent in ("claude", "copilot") else entry


OPENCODE_PLUGIN = """\
// Leasehold's hooks for OpenCode; `leasehold uninstall opencode` removes this file.
import { spawnSync } from "node:child_process"

const HOOK = %(hook)s
const READING = %(reading)s
const notes = new Map()
const subagents = new Set()
const working = new Set()

function ask(event, about, directory) {
  const input = JSON.stringify({ hook_event_name: event, cwd: directory, ...about })
  const done = spawnSync(HOOK[0], HOOK.slice(1), { input, encoding: "utf8", cwd: directory, timeout: 30000 })
  if (done.stderr) console.error(done.stderr)
  return done.stdout ? JSON.parse(done.stdout) : {}
}

function append(output, text) {
  if (Array.isArray(output.content)) output.content.push({ type: "text", text }) // an MCP tool's result
  else output.output = [output.output, text].filter(Boolean).join("\\n")
}

export const Leasehold = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    if (READING.includes(input.tool)) return
    working.add(input.sessionID)
    const about = { session_id: input.sessionID, tool_use_id: input.callID, tool_name: input.tool }
    const told = ask("tool.execute.before", { ...about, tool_input: output.args }, directory)
    if (told.deny) throw new Error(told.deny)
    if (told.args) Object.assign(output.args, told.args)
    if (told.note) notes.set(input.callID, told.note)
  },
  "tool.execute.after": async (input, output) => {
    if (READING.includes(input.tool)) return
    const about = { session_id: input.sessionID, tool_use_id: input.callID, tool_name: input.tool }
    const told = ask("tool.execute.after", { ...about, tool_input: input.args ?? {} }, directory)
    const said = [notes.get(input.callID), told.note].filter(Boolean)
    notes.delete(input.callID)
    if (said.length) append(output, said.join("\\n"))
  },
  event: async ({ event }) => {
    const told = event.properties ?? {}
    const session = told.info?.id ?? told.sessionID
    if (event.type === "session.created" && told.info?.parentID) subagents.add(session)
    const isIdle = event.type === "session.idle" || (event.type === "session.status" && told.status?.type === "idle")
    if (isIdle && subagents.has(session) && working.delete(session)) {
      ask("session.idle", { session_id: session }, directory)
    }
    if (event.type === "session.deleted") ask("session.deleted", { session_id: session }, directory)
  },
})
"""
