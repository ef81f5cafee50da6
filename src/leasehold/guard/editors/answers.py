"""From a decision to what an editor understands. Nothing is said on success."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.guard.editors.decision import Decision
    from leasehold.guard.editors.payloads import Occasion


def answer(occasion: Occasion, decision: Decision, tool_input: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """The JSON that the editor is given; None: nothing."""
    if decision.agent_id and tool_input is not None:
        return _named(occasion, {**tool_input, "agent_id": decision.agent_id})
    if not decision.message:
        return None
    return _cursor(decision) if occasion.editor == "cursor" else _claude(decision)


def _claude(decision: Decision) -> dict[str, Any]:
    """Claude Code and Codex."""
    if decision.allowed:
        told = {"hookEventName": "PreToolUse", "additionalContext": decision.message}
        return {"systemMessage": decision.message, "hookSpecificOutput": told}
    told = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": decision.message}
    return {"hookSpecificOutput": told}


def _cursor(decision: Decision) -> dict[str, Any]:
    permission = "allow" if decision.allowed else "deny"
    return {"permission": permission, "user_message": decision.message, "agent_message": decision.message}


def _named(occasion: Occasion, tool_input: dict[str, Any]) -> dict[str, Any]:
    """Our own tool is told who calls it, so that what it takes and what is edited belong to the same agent."""
    if occasion.editor == "cursor":
        return {"permission": "allow", "updated_input": tool_input}
    told = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": tool_input}
    return {"hookSpecificOutput": told}
