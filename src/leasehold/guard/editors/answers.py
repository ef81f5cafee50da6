"""Write the answer of a hook in the form that its agent understands; see ``adapters``."""

from __future__ import annotations

from leasehold.guard.editors.adapters import ADAPTERS, AFTER, CLAUDE, COPILOT, CURSOR, GEMINI, OPENCODE, WINDSURF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leasehold.guard.editors.decision import Decision
    from leasehold.guard.editors.payloads import HookCall

    Json = dict[str, Any]


def answer(call: HookCall, decision: Decision, tool_input: Json | None = None) -> Json | None:
    """Return the JSON to print for the agent; None: nothing."""
    form = ADAPTERS[call.editor].answer
    if decision.agent_id and tool_input is not None:
        return _with_agent_id(form, call, {**tool_input, "agent_id": decision.agent_id})
    if not decision.message:
        return None
    return _FORMS[form](call, decision)


def _claude(call: HookCall, decision: Decision) -> Json | None:
    """Claude Code and Codex."""
    told = {"hookEventName": call.event, "additionalContext": decision.message}
    if decision.allowed:
        return {"systemMessage": decision.message, "hookSpecificOutput": told}
    if call.moment != AFTER:
        return {"hookSpecificOutput": _denial(decision)}
    if call.event != "PostToolUse":  # a failed tool has nothing to block
        return {"hookSpecificOutput": told}
    return {"decision": "block", "reason": decision.message, "hookSpecificOutput": told}


def _denial(decision: Decision) -> Json:
    reason = {"permissionDecision": "deny", "permissionDecisionReason": decision.message}
    return {"hookEventName": "PreToolUse", **reason}


def _cursor(call: HookCall, decision: Decision) -> Json | None:
    if call.moment == AFTER:
        return {"additional_context": decision.message}
    permission = "allow" if decision.allowed else "deny"
    return {"permission": permission, "user_message": decision.message, "agent_message": decision.message}


def _gemini(call: HookCall, decision: Decision) -> Json | None:
    if call.moment == AFTER:  # a denial would hide the result of the tool
        told = {"hookEventName": call.event, "additionalContext": decision.message}
        return {"systemMessage": decision.message, "hookSpecificOutput": told}
    if decision.allowed:
        return {"systemMessage": decision.message}
    return {"decision": "deny", "reason": decision.message}


def _copilot(call: HookCall, decision: Decision) -> Json | None:
    """Answer in both ways: the command line reads the outer fields, VS Code those of `hookSpecificOutput`."""
    if decision.allowed or call.moment == AFTER:
        return _claude(call, decision)
    denial = _denial(decision)
    return {**{name: each for name, each in denial.items() if name != "hookEventName"}, "hookSpecificOutput": denial}


def _opencode(call: HookCall, decision: Decision) -> Json | None:
    """Our plugin throws a denial, and appends a note to the output of the tool."""
    return {"note": decision.message} if decision.allowed or call.moment == AFTER else {"deny": decision.message}


def _windsurf(call: HookCall, decision: Decision) -> Json | None:
    """Answer by exit code: 2 denies, with the reason on standard error. Standard output stays empty."""
    del call, decision
    return None


_FORMS: dict[str, Callable[[HookCall, Decision], Json | None]] = {
    CLAUDE: _claude,
    CURSOR: _cursor,
    GEMINI: _gemini,
    COPILOT: _copilot,
    OPENCODE: _opencode,
    WINDSURF: _windsurf,
}


def _with_agent_id(form: str, call: HookCall, tool_input: Json) -> Json | None:
    """Pass the agent's name to a Leasehold tool, so that its leases and the edits belong to the same agent."""
    told = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": tool_input}
    forms: dict[str, Json] = {
        CLAUDE: {"hookSpecificOutput": told},
        CURSOR: {"permission": "allow", "updated_input": tool_input},
        GEMINI: {"hookSpecificOutput": {"hookEventName": call.event, "tool_input": tool_input}},
        COPILOT: {"permissionDecision": "allow", "modifiedArgs": tool_input, "hookSpecificOutput": told},
        OPENCODE: {"args": tool_input},
    }
    return forms.get(form)
