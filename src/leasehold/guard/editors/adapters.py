"""The agents whose hooks we answer, one row each. A new agent is one row, one fixture file, and a section in docs.

The fixtures in tests/guard/adapters have payloads of each agent, with their source and date. A field is named by its
path in the payload, such as `tool_input.file_path`; of several, the first that is there counts.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun

START, BEFORE, AFTER, END, END_OF_AGENT, OTHER = "start", "before", "after", "end", "end of agent", "other"
CLAUDE, CURSOR, GEMINI, COPILOT, WINDSURF, OPENCODE = "claude", "cursor", "gemini", "copilot", "windsurf", "opencode"
"""The forms of answers; see ``answers``."""
LOCK_TOOLS = ("acquire_lock", "wait_for_lock", "renew_lock", "release_lock")
OWN_TOOLS = (*LOCK_TOOLS, "check_lock", "list_locks", "lock_history", "force_release_lock")
SERVER = "leasehold"
"""The name of our MCP server in the files that we install."""


class Adapter(Noun):
    """The input that one agent sends to its hooks, and the answers that it reads."""

    title: str
    moments: dict[str, str]
    """By the agent's name of an event: which moment it is."""
    answer: str
    """The form of the answer."""
    shells: tuple[str, ...]
    """Tools that run a shell command."""
    reading: tuple[str, ...]
    """Built-in tools that write no file, though they may name one."""
    paths: tuple[str, ...]
    """Fields that name a file; one that ends in `[]` is a list."""
    command: tuple[str, ...] = ("tool_input.command",)
    mcp: tuple[str, ...] = ()
    """How the names of MCP tools begin; none: every tool that is not built in is one."""
    writing: tuple[str, ...] = ()
    """Built-in tools that write, for agents whose MCP tools have no prefix of their own."""
    background: tuple[str, ...] = (
        *("tool_input.run_in_background", "tool_input.is_background", "tool_input.isBackground"),
        "toolArgs.isBackground",
    )
    """Fields that are true for a command that goes on after its call."""
    event: tuple[str, ...] = ("hook_event_name",)
    session: tuple[str, ...] = ("session_id",)
    agent: tuple[str, ...] = ("agent_id",)
    cwd: tuple[str, ...] = ("cwd",)
    tool: tuple[str, ...] = ("tool_name",)
    call: tuple[str, ...] = ("tool_use_id",)
    unheard: tuple[str, ...] = ()
    """Events whose answers the model never gets."""
    is_heard_by_call: bool = False
    """True if answers after a tool reach the model only where the payload has the id of the call."""
    given_agent: tuple[str, ...] = ("tool_input.agent_id",)
    """The `agent_id` that a call of our own tools has already."""
    input: tuple[str, ...] = ("tool_input",)
    """The arguments of a tool, which the answer repeats with the agent's name."""


_AS_CODEX = {
    "SessionStart": START,
    "PreToolUse": BEFORE,
    "PostToolUse": AFTER,
    "SubagentStop": END_OF_AGENT,
    "SessionEnd": END,
}
_AS_CLAUDE = {**_AS_CODEX, "PostToolUseFailure": AFTER}

ADAPTERS: dict[str, Adapter] = {
    # code.claude.com/docs/en/hooks, November 2026
    "claude": Adapter(
        "Claude Code",
        _AS_CLAUDE,
        CLAUDE,
        shells=("Bash", "Shell", "PowerShell"),
        reading=("Read", "Grep", "Glob", "LS"),
        paths=("tool_input.file_path", "tool_input.notebook_path"),
        mcp=("mcp__",),
    ),
    # openai/codex codex-rs/hooks/schema/generated, September 2026; `Stop` is the end of a turn, not of a session
    "codex": Adapter(
        "Codex",
        _AS_CODEX,
        CLAUDE,
        shells=("Bash", "Shell", "shell", "exec_command"),
        reading=("Read", "Grep", "Glob", "LS", "view_image"),
        paths=("tool_input.file_path",),
        command=("tool_input.command", "tool_input.cmd"),
        mcp=("mcp__",),
    ),
    # cursor.com/docs/hooks, November 2026; afterFileEdit and afterShellExecution take no answer
    "cursor": Adapter(
        "Cursor",
        {
            "preToolUse": BEFORE,
            "beforeShellExecution": BEFORE,
            "postToolUse": AFTER,
            "postToolUseFailure": AFTER,
            "afterFileEdit": AFTER,
            "afterShellExecution": AFTER,
            "subagentStop": END_OF_AGENT,
            "sessionEnd": END,
        },
        CURSOR,
        shells=("Shell", "Bash"),
        reading=("Read", "Grep", "Glob", "LS", "SemanticSearch", "WebSearch", "WebFetch", "Task", "TodoWrite"),
        paths=("tool_input.file_path", "tool_input.path", "tool_input.target_file", "tool_input.notebook_path"),
        command=("tool_input.command", "command"),
        mcp=("MCP:", "mcp__"),
        session=("conversation_id", "session_id"),
        agent=("subagent_id", "agent_id"),
        cwd=("cwd", "workspace_roots[0]"),
        unheard=("afterFileEdit", "afterShellExecution", "postToolUseFailure"),
    ),
    # google-gemini/gemini-cli docs/hooks/reference.md, 2026; names of MCP tools: PR 15656 and the reference
    "gemini": Adapter(
        "Gemini CLI",
        {"SessionStart": START, "BeforeTool": BEFORE, "AfterTool": AFTER, "SessionEnd": END},
        GEMINI,
        shells=("run_shell_command",),
        reading=("read_file", "read_many_files", "list_directory", "glob", "grep_search", "search_file_content"),
        paths=("tool_input.file_path", "tool_input.path"),
        mcp=("mcp__", "mcp_"),
    ),
    # docs.github.com cli-hooks-reference (events in PascalCase have snake_case fields, as VS Code sends them), 2026;
    # code.visualstudio.com hooks-reference, October 2026. After a tool, only VS Code passes the answer to the model
    "copilot": Adapter(
        "GitHub Copilot",
        _AS_CLAUDE,  # configured in camelCase, the events would not say their name
        COPILOT,
        shells=("bash", "powershell", "run_in_terminal", "runTerminalCommand", "runInTerminal"),
        reading=(
            *("view", "glob", "grep", "rg", "ask_user", "task", "web_fetch", "report_intent", "read_file", "readFile"),
            *("list_dir", "file_search", "grep_search", "semantic_search", "fetch_webpage", "manage_todo_list"),
        ),
        paths=(
            *("tool_input.files[]", "tool_input.path", "tool_input.filePath", "tool_input.file_path"),
            *("toolArgs.path", "toolArgs.filePath", "toolArgs.file_path"),
        ),
        command=("tool_input.command", "toolArgs.command", "tool_input.input", "toolArgs.input", "toolArgs.patch"),
        writing=(
            *("create", "edit", "str_replace_editor", "apply_patch", "editFiles", "createFile", "create_file"),
            *("replace_string_in_file", "multi_replace_string_in_file", "insert_edit_into_file"),
        ),
        session=("session_id", "sessionId"),
        agent=("agent_id", "agentId"),
        tool=("tool_name", "toolName"),
        call=("tool_use_id", "toolUseId"),
        given_agent=("tool_input.agent_id", "toolArgs.agent_id"),
        input=("tool_input", "toolArgs"),
        is_heard_by_call=True,
    ),
    # Our own plugin sends these (opencode.ai/docs/plugins, November 2026): a hook of OpenCode is a function. It sends
    # `session.idle` for subagents only, whose sessions nobody deletes (anomalyco/opencode#30043, May 2026)
    "opencode": Adapter(
        "OpenCode",
        {"tool.execute.before": BEFORE, "tool.execute.after": AFTER, "session.idle": END, "session.deleted": END},
        OPENCODE,
        shells=("bash",),
        reading=("read", "grep", "glob", "list", "webfetch", "todowrite", "todoread", "task", "skill", "question"),
        paths=("tool_input.filePath", "tool_input.path"),
        command=("tool_input.command", "tool_input.patchText"),
        writing=("edit", "write", "multiedit", "patch", "apply_patch"),
    ),
    # docs.windsurf.com/windsurf/cascade/hooks, 2026: only exit code 2 of a hook before an action reaches the model
    "windsurf": Adapter(
        "Windsurf",
        {
            "pre_write_code": BEFORE,
            "pre_run_command": BEFORE,
            "pre_mcp_tool_use": BEFORE,
            "post_write_code": AFTER,
            "post_run_command": AFTER,
            "post_mcp_tool_use": AFTER,
        },
        WINDSURF,
        shells=("run_command",),
        reading=(),
        paths=("tool_info.file_path",),
        command=("tool_info.command_line",),
        writing=("write_code",),
        event=("agent_action_name",),
        session=("trajectory_id",),
        cwd=("tool_info.cwd",),
        tool=("tool_info.mcp_tool_name",),
        call=(),
        unheard=("post_write_code", "post_run_command", "post_mcp_tool_use"),
        given_agent=("tool_info.mcp_tool_arguments.agent_id",),
    ),
}
EDITORS = tuple(ADAPTERS)
SERVED = ("claude", "codex", "cursor")
"""The agents whose hooks a server answers."""
