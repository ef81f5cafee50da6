"""The JSON of editors' hooks: parse a hook's input, and write its answer. See docs/agents.md.

The input can be large (it may contain a whole file), and only a few texts in it matter. SQLite, which is loaded for the
locks anyway, extracts them without the ``json`` module, whose import costs as much as the acquire.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.guard.editors.decision import Decision

START, BEFORE, AFTER, END, OTHER = "start", "before", "after", "end", "other"
_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_UNHEARD = ("afterFileEdit", "afterShellExecution")
"""Fire and forget: cupcake.eqtylab.io/reference/harnesses/cursor, 2026."""
_READING = ("Read", "Grep", "Glob", "LS")
LOCK_TOOLS = ("acquire_lock", "wait_for_lock", "renew_lock", "release_lock")


class HookCall(Noun):
    """One call of a hook."""

    editor: str
    moment: str
    """At the `start` of a run, `before` a change, `after` a tool was used, at the `end`, or some `other` time."""
    session: str
    agent: str = ""
    """The id of the subagent, if one calls."""
    cwd: str = ""
    paths: tuple[str, ...] = ()
    """The files that are about to be written."""
    command: str = ""
    """The shell command that is about to be run."""
    lock_tool: str = ""
    """The Leasehold tool that is about to be called without an agent's name."""
    event: str = ""
    """The editor's name of this moment."""
    tool: str = ""
    """The tool that is used."""
    call: str = ""
    """The editor's id of this use of a tool, the same before and after it; empty if it gives none."""

    @property
    def is_heard(self) -> bool:
        """Whether the agent reads the answer: Cursor drops those to some of its events."""
        return self.event not in _UNHEARD


def read(editor: str, text: str) -> HookCall:
    """Parse the input of this editor's hook."""
    return of(editor, _texts(text))


def of(editor: str, given: dict[str, str]) -> HookCall:
    """Return the call from the texts of its input, by their paths."""
    found = _cursor(given) if editor == "cursor" else _as_claude(editor, given)
    tool, call = given.get("tool_name", ""), given.get("tool_use_id", "")
    return found._replace(event=given.get("hook_event_name", ""), tool=tool, call=call)


def flatten(document: dict[str, Any]) -> dict[str, str]:
    """Return the texts of a parsed document by their paths."""
    found = {key: value for key, value in document.items() if isinstance(value, str)}
    inner = document.get("tool_input")
    if isinstance(inner, dict):
        found |= {f"tool_input.{key}": value for key, value in inner.items() if isinstance(value, str)}
    roots = document.get("workspace_roots")
    if isinstance(roots, list) and roots and isinstance(roots[0], str):
        found["workspace_roots[0]"] = roots[0]
    return found


def _texts(document: str) -> dict[str, str]:
    """Return the texts on the first two levels of a JSON object by their paths, such as `tool_input.file_path`."""
    import apsw  # noqa: PLC0415 (with the first document)

    query = "SELECT fullkey, atom FROM json_tree(?1) WHERE type = 'text' AND json_type(?1) = 'object'"
    try:
        rows = list(apsw.Connection(":memory:").execute(query, (document,)))
    except UnicodeDecodeError:  # half of a pair of surrogates is JSON, but no text that SQLite could hand out
        import json  # noqa: PLC0415 (see above)

        return flatten(json.loads(document))
    except apsw.SQLError:
        raise InvalidInput(
            "stdin", "the hook's input is not JSON: an editor calls this command, not a person"
        ) from None
    return {str(path)[2:].replace('"', ""): str(value) for path, value in rows}


def _as_claude(editor: str, given: dict[str, str]) -> HookCall:
    """Parse Claude Code's format, which Codex shares except for its `apply_patch`."""
    event, tool = given.get("hook_event_name", ""), given.get("tool_name", "")
    about = HookCall(editor, OTHER, given.get("session_id", ""), given.get("agent_id", ""), given.get("cwd", ""))
    if event == "SessionStart":
        return about._replace(moment=START)
    if event in ("PostToolUse", "PostToolUseFailure"):
        return _use(about._replace(moment=AFTER), tool, given)._replace(lock_tool="")
    if event == "SubagentStop":
        return about._replace(moment=END if about.agent else OTHER)
    if event == "SessionEnd" or (editor == "codex" and event == "Stop"):
        return about._replace(moment=END, agent="")
    return _use(about._replace(moment=BEFORE), tool, given) if event == "PreToolUse" else about


def _use(about: HookCall, tool: str, given: dict[str, str]) -> HookCall:
    """Add what the tool is about to do."""
    command = given.get("tool_input.command", "")
    if tool == "apply_patch":
        found = (
            line[len(mark) :].strip() for line in command.splitlines() for mark in _PATCHED if line.startswith(mark)
        )
        return about._replace(paths=tuple(dict.fromkeys(found)))
    if tool in ("Bash", "Shell"):
        return about._replace(command=command)
    ours = tool.rpartition("__")[2]
    if tool.startswith("mcp__leasehold__") and ours in LOCK_TOOLS:
        return about if "tool_input.agent_id" in given else about._replace(lock_tool=ours)
    path = given.get("tool_input.file_path") or given.get("tool_input.notebook_path", "")
    return about._replace(paths=(path,)) if path and tool not in _READING else about


def _cursor(given: dict[str, str]) -> HookCall:
    event = given.get("hook_event_name", "")
    session = given.get("conversation_id") or given.get("session_id", "")
    agent = given.get("subagent_id") or given.get("agent_id", "")
    cwd = given.get("cwd") or given.get("workspace_roots[0]", "")
    about = HookCall("cursor", OTHER, session, agent, cwd)
    if event == "beforeShellExecution":
        return about._replace(moment=BEFORE, command=given.get("command", ""))
    if event == "preToolUse":
        return _use(about._replace(moment=BEFORE), given.get("tool_name", ""), given)
    if event == "afterShellExecution":
        return about._replace(moment=AFTER, command=given.get("command", ""))
    if event in ("afterFileEdit", "postToolUse"):
        return _use(about._replace(moment=AFTER), given.get("tool_name", ""), given)._replace(lock_tool="")
    if event == "subagentStop":
        return about._replace(moment=END if agent else OTHER)
    return about._replace(moment=END, agent="") if event == "sessionEnd" else about


EDITORS = ("claude", "codex", "cursor")


# ------------------------------------------------------------------------------------ the answer to an editor


def answer(occasion: HookCall, decision: Decision, tool_input: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Return the JSON to print for the editor; None: nothing."""
    if decision.agent_id and tool_input is not None:
        return _with_agent_id(occasion, {**tool_input, "agent_id": decision.agent_id})
    if not decision.message:
        return None
    return _cursor_answer(occasion, decision) if occasion.editor == "cursor" else _claude_answer(occasion, decision)


def _claude_answer(occasion: HookCall, decision: Decision) -> dict[str, Any]:
    """Claude Code and Codex."""
    if decision.allowed:
        told = {"hookEventName": occasion.event, "additionalContext": decision.message}
        return {"systemMessage": decision.message, "hookSpecificOutput": told}
    told = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": decision.message}
    return {"hookSpecificOutput": told}


def _cursor_answer(occasion: HookCall, decision: Decision) -> dict[str, Any]:
    if occasion.moment == AFTER:
        return {"additional_context": decision.message}
    permission = "allow" if decision.allowed else "deny"
    return {"permission": permission, "user_message": decision.message, "agent_message": decision.message}


def _with_agent_id(occasion: HookCall, tool_input: dict[str, Any]) -> dict[str, Any]:
    """Pass the agent's name to a Leasehold tool, so that its leases and the edits belong to the same agent."""
    if occasion.editor == "cursor":
        return {"permission": "allow", "updated_input": tool_input}
    told = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": tool_input}
    return {"hookSpecificOutput": told}
