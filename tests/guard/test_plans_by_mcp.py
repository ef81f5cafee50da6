"""A plan that an agent announced by an MCP tool turns into leases as its editor's hooks see its edits."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.guard.test_editor_hooks import Project, reason

if TYPE_CHECKING:
    from pathlib import Path

TOOL = "mcp__leasehold__acquire_lock"


def test_an_edit_within_a_plan_that_was_announced_by_mcp_turns_into_a_lease(tmp_path: Path) -> None:
    """The hook gives the agent its name in MCP, and finds the token of the plan later."""
    project = Project(tmp_path)

    async def work() -> None:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "leasehold.cli", "mcp"], env=project.env, cwd=project.root
        )
        async with Client(stdio_client(command)) as client:
            for names in (["path:src"], ["path:src/a.py", "path:src/b.py"]):  # the second plan replaces the first
                named = project.hook("claude", project.claude("aaaa", "PreToolUse", TOOL, resource=names, plan=True))
                told = await client.call_tool("acquire_lock", named["hookSpecificOutput"]["updatedInput"])
                assert told.structured_content is not None
                assert told.structured_content["ok"] is True
            assert project.plans() == [("claude-aaaa", ("path:src/a.py", "path:src/b.py"))]
            assert project.hook("claude", project.edit("aaaa", "src/a.py"), "--policy", "require-plans") is None
            assert project.plans() == [("claude-aaaa", ("path:src/b.py",))]
            refused = project.hook("claude", project.edit("bbbb", "src/b.py"), "--policy", "require-plans")
            assert "planned by claude-aaaa" in reason(refused)
        assert project.holders() == {"path:src/a.py": "claude-aaaa"}
        assert project.plans() == [], "a plan ends with the MCP session of its agent"

    asyncio.run(work())
