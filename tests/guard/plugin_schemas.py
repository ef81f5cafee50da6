"""JSON schemas of the formats in which agents load plugins, written from the fields that each of them documents.

Sources, seen in November 2026:

- Claude Code: code.claude.com/docs/en/plugins-reference and docs/en/plugins/marketplace-reference (`name` is required;
  a marketplace wants `name`, `owner` and `plugins`; a source that is a path begins with `./`)
- Codex: openai/plugins, plugin-json-spec.md; openai/codex#27141 (`hooks`), #22105 (`mcpServers` in `.mcp.json`);
  hooks.json has no field but `hooks` (pbakaus/impeccable#330); hexdocs.pm/codex_sdk plugin marketplaces
- Cursor: cursor/plugins schemas/plugin.schema.json; cursor.com/docs/reference/plugins
- Gemini CLI: geminicli.com/docs/extensions/reference and docs/hooks/reference
- MCP registry: server.schema.json of 2025-12-11; modelcontextprotocol.io/registry/package-types
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
TEXTS: Schema = {"type": "array", "items": TEXT}
KEBAB: Schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"}
VERSION: Schema = {"type": "string", "pattern": r"^\d+\.\d+\.\d+"}
BELOW: Schema = {"type": "string", "pattern": r"^\./(?!.*\.\.)"}
"""A path that stays below the plugin, or below the marketplace."""


def closed(required: tuple[str, ...], properties: Schema) -> Schema:
    """An object with these fields and no others."""
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}


def grouped(events: tuple[str, ...], hook: Schema) -> Schema:
    """Hooks by event, each a list of matchers with their hooks."""
    group = closed(("hooks",), {"matcher": TEXT, "hooks": {"type": "array", "items": hook, "minItems": 1}})
    return closed((), {key: {"type": "array", "items": group, "minItems": 1} for key in events})


AUTHOR = closed(("name",), {"name": TEXT, "email": TEXT, "url": TEXT})
COMMAND = {"type": {"const": "command"}, "command": TEXT}
SERVER = closed(("command",), {"type": {"const": "stdio"}, "command": TEXT, "args": TEXTS, "env": {"type": "object"}})
SERVERS = closed(
    ("mcpServers",), {"mcpServers": {"type": "object", "additionalProperties": SERVER, "minProperties": 1}}
)
ABOUT: Schema = {
    "name": KEBAB,
    "version": VERSION,
    "description": TEXT,
    "author": AUTHOR,
    "homepage": TEXT,
    "repository": TEXT,
    "license": TEXT,
    "keywords": TEXTS,
}

CLAUDE_EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStop", "SessionEnd")
CLAUDE_PLUGIN = closed(("name",), {**ABOUT, "skills": BELOW, "hooks": BELOW, "mcpServers": BELOW})
CLAUDE_HOOK = closed(("type", "command"), {**COMMAND, "timeout": {"type": "number", "maximum": 600}})
CLAUDE_HOOKS = closed(("hooks",), {"description": TEXT, "hooks": grouped(CLAUDE_EVENTS, CLAUDE_HOOK)})
MARKETPLACE = closed(
    ("name", "owner", "plugins"),
    {
        "name": KEBAB,
        "owner": AUTHOR,
        "metadata": closed((), {"description": TEXT, "version": VERSION}),
        "plugins": {"type": "array", "items": closed(("name", "source"), {**ABOUT, "source": BELOW}), "minItems": 1},
    },
)

CODEX_INTERFACE = closed(
    ("displayName", "shortDescription"),
    {
        **dict.fromkeys(("displayName", "shortDescription", "longDescription", "developerName", "category"), TEXT),
        "capabilities": TEXTS,
        "defaultPrompt": {"type": "array", "items": {**TEXT, "maxLength": 128}, "maxItems": 3},
    },
)
CODEX_PLUGIN = closed(
    ("name", "interface"),
    {**ABOUT, "skills": BELOW, "hooks": BELOW, "mcpServers": BELOW, "interface": CODEX_INTERFACE},
)
CODEX_EVENTS = ("PreToolUse", "PostToolUse", "SessionStart", "SessionEnd", "SubagentStop", "Stop")
CODEX_HOOKS = closed(("hooks",), {"hooks": grouped(CODEX_EVENTS, CLAUDE_HOOK)})
CODEX_MARKETPLACE = closed(
    ("name", "plugins"),
    {
        "name": KEBAB,
        "interface": closed((), {"displayName": TEXT}),
        "plugins": {
            "type": "array",
            "items": closed(
                ("name", "source", "policy", "category"),
                {
                    "name": KEBAB,
                    "source": closed(("source", "path"), {"source": {"const": "local"}, "path": BELOW}),
                    "policy": closed(
                        ("installation", "authentication"),
                        {
                            "installation": {"enum": ["AVAILABLE", "INSTALLED_BY_DEFAULT", "NOT_AVAILABLE"]},
                            "authentication": {"enum": ["ON_INSTALL", "ON_USE"]},
                        },
                    ),
                    "category": TEXT,
                },
            ),
            "minItems": 1,
        },
    },
)

CURSOR_EVENTS = ("preToolUse", "postToolUse", "postToolUseFailure", "subagentStop", "sessionEnd")
CURSOR_HOOK = closed(("command",), {"command": TEXT, "matcher": TEXT, "timeout": {"type": "number"}})
CURSOR_HOOKS = closed(
    ("version", "hooks"),
    {
        "version": {"const": 1},
        "hooks": closed((), {key: {"type": "array", "items": CURSOR_HOOK, "minItems": 1} for key in CURSOR_EVENTS}),
    },
)
CURSOR_PLUGIN = closed(
    ("name",),
    {
        **ABOUT,
        "author": closed(("name",), {"name": TEXT, "email": TEXT}),
        "displayName": TEXT,
        "publisher": TEXT,
        "skills": TEXT,
        "hooks": TEXT,
        "mcpServers": TEXT,
    },
)

GEMINI_EVENTS = ("SessionStart", "BeforeTool", "AfterTool", "SessionEnd")
GEMINI_HOOK = closed(
    ("type", "command"), {**COMMAND, "name": TEXT, "timeout": {"type": "integer", "minimum": 1000}, "description": TEXT}
)
GEMINI_HOOKS = closed(("hooks",), {"hooks": grouped(GEMINI_EVENTS, GEMINI_HOOK)})
GEMINI_EXTENSION = closed(
    ("name", "version"),
    {
        "name": {"type": "string", "pattern": "^[a-z0-9-]+$"},
        "version": VERSION,
        "description": TEXT,
        "mcpServers": SERVERS["properties"]["mcpServers"],
        "contextFileName": TEXT,
    },
)

ARGUMENT: Schema = {
    "oneOf": [
        closed(("type", "value"), {"type": {"const": "positional"}, "value": TEXT, "valueHint": TEXT}),
        closed(("type", "name"), {"type": {"const": "named"}, "name": TEXT, "value": TEXT}),
    ]
}
EXACT: Schema = {"type": "string", "pattern": r"^\d+\.\d+\.\d+([-.a-z0-9]*)$", "maxLength": 255}
"""A version that is no range."""
PACKAGE = closed(
    ("registryType", "identifier", "version", "transport"),
    {
        "registryType": {"enum": ["pypi"]},
        "identifier": TEXT,
        "version": EXACT,
        "runtimeHint": {"enum": ["uvx"]},
        "transport": closed(("type",), {"type": {"const": "stdio"}}),
        "runtimeArguments": {"type": "array", "items": ARGUMENT},
        "packageArguments": {"type": "array", "items": ARGUMENT},
    },
)
REGISTRY = closed(
    ("$schema", "name", "description", "version"),
    {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "pattern": r"^io\.github\.[a-zA-Z0-9-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "title": {**TEXT, "maxLength": 100},
        "description": {**TEXT, "maxLength": 100},
        "version": EXACT,
        "packages": {"type": "array", "items": PACKAGE, "minItems": 1},
    },
)
SKILL = closed(
    ("name", "description"),
    {
        "name": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64},
        "description": {**TEXT, "maxLength": 1024},
    },
)
"""The front matter of a SKILL.md."""

SCHEMAS: dict[str, Schema] = {
    ".claude-plugin/marketplace.json": MARKETPLACE,
    ".cursor-plugin/marketplace.json": MARKETPLACE,
    ".agents/plugins/marketplace.json": CODEX_MARKETPLACE,
    "server.json": REGISTRY,
    "plugins/claude/.claude-plugin/plugin.json": CLAUDE_PLUGIN,
    "plugins/claude/hooks/hooks.json": CLAUDE_HOOKS,
    "plugins/claude/.mcp.json": SERVERS,
    "plugins/codex/.codex-plugin/plugin.json": CODEX_PLUGIN,
    "plugins/codex/hooks/hooks.json": CODEX_HOOKS,
    "plugins/codex/.mcp.json": SERVERS,
    "plugins/cursor/.cursor-plugin/plugin.json": CURSOR_PLUGIN,
    "plugins/cursor/hooks/hooks.json": CURSOR_HOOKS,
    "plugins/cursor/mcp.json": SERVERS,
    "plugins/gemini/gemini-extension.json": GEMINI_EXTENSION,
    "plugins/gemini/hooks/hooks.json": GEMINI_HOOKS,
}
