"""Write the plugins of agents, their marketplaces and the entry of the MCP registry from the table of adapters.

    python scripts/plugins.py

The files are committed, since agents load them from the repository; tests/guard/test_plugins.py refuses stale ones.
They call `leasehold` by its name, which the user installs. Formats, as seen in November 2026: code.claude.com
docs/en/plugins-reference and docs/en/plugins/marketplace-reference, openai/plugins plugin-json-spec.md (`.mcp.json` as
in openai/codex#22105, hooks as in openai/codex#27141), cursor/plugins schemas/plugin.schema.json, geminicli.com
docs/extensions/reference, modelcontextprotocol.io/registry/package-types, agentskills.io/specification.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import leasehold
from leasehold.guard.editors.adapters import ADAPTERS, SERVER
from leasehold.guard.install.skill import SKILL
from leasehold.guard.install.targets import TARGETS, hook_entry, hooks_of, server_entry

ROOT = Path(__file__).parent.parent
REGISTERED = "io.github.leasehold/leasehold"
"""The name in the MCP registry; README.md repeats it, which proves that the package on PyPI is ours."""
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
DESCRIPTION = "Locks for agents: claim an issue, a file or a deploy target before you touch it."
OWNER = {"name": "Leasehold maintainers"}
WORDS = ("leasehold",)


class Layout(NamedTuple):
    """Where a plugin of one agent keeps its parts."""

    manifest: str
    servers: str = ""
    """The file of MCP servers; empty: they are in the manifest."""
    is_described: bool = False
    """Whether the manifest names the files of the other parts."""


LAYOUTS = {
    "claude": Layout(".claude-plugin/plugin.json", ".mcp.json"),
    "codex": Layout(".codex-plugin/plugin.json", ".mcp.json", is_described=True),
    "cursor": Layout(".cursor-plugin/plugin.json", "mcp.json", is_described=True),
    "gemini": Layout("gemini-extension.json"),
}


def files() -> dict[str, str]:
    """Return the content of every generated file, by its path in the repository."""
    found = {path: _text(content) for path, content in {**_marketplaces(), "server.json": _registry()}.items()}
    for agent, layout in LAYOUTS.items():
        for path, content in _plugin(agent, layout).items():
            found[f"plugins/{agent}/{path}"] = content if isinstance(content, str) else _text(content)
    return found


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _plugin(agent: str, layout: Layout) -> dict[str, Any]:
    target = TARGETS[agent]
    entry = hook_entry(target, " ".join((*WORDS, "hook", agent)))  # its policy is the project's `lock_policy`
    version = {} if target.version is None else {"version": target.version}
    servers = {"mcpServers": {SERVER: server_entry(agent, WORDS)}}
    parts: dict[str, Any] = {
        layout.manifest: _manifest(agent, layout, servers),
        "hooks/hooks.json": {**version, "hooks": hooks_of(target, entry)},
        "skills/leasehold/SKILL.md": SKILL,
    }
    return {**parts, layout.servers: servers} if layout.servers else parts


def _manifest(agent: str, layout: Layout, servers: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"name": "leasehold", "version": leasehold.__version__, "description": DESCRIPTION}
    if not layout.servers:
        return {**told, **servers}
    told |= {"author": OWNER, "license": "Apache-2.0", "keywords": ["locks", "agents", "mcp"]}
    if layout.is_described:
        told |= {"skills": "./skills/", "hooks": "./hooks/hooks.json", "mcpServers": f"./{layout.servers}"}
    return {**told, "interface": _interface()} if agent == "codex" else told


def _interface() -> dict[str, Any]:
    """Return what Codex shows of a plugin in its catalog."""
    return {
        "displayName": "Leasehold",
        "shortDescription": "Locks for agents",
        "longDescription": DESCRIPTION,
        "developerName": OWNER["name"],
        "category": "Productivity",
        "capabilities": ["Interactive", "Write"],
        "defaultPrompt": ["Claim issue 42 before you work on it."],
    }


def _marketplaces() -> dict[str, dict[str, Any]]:
    about = {"name": "leasehold", "description": DESCRIPTION}
    policy = {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}
    codex = {"name": "leasehold", "source": {"source": "local", "path": "./plugins/codex"}, "policy": policy}
    plain = {
        f".{agent}-plugin/marketplace.json": {
            "name": "leasehold",
            "owner": OWNER,
            "metadata": {"description": DESCRIPTION},
            "plugins": [{**about, "source": f"./plugins/{agent}", "version": leasehold.__version__}],
        }
        for agent in ("claude", "cursor")
    }
    interface = {"displayName": "Leasehold"}
    return {
        **plain,
        ".agents/plugins/marketplace.json": {
            "name": "leasehold",
            "interface": interface,
            "plugins": [{**codex, "category": "Productivity"}],
        },
    }


def _registry() -> dict[str, Any]:
    version = leasehold.__version__
    package = {"registryType": "pypi", "identifier": "leasehold", "version": version, "runtimeHint": "uvx"}
    arguments = {
        "runtimeArguments": [{"type": "named", "name": "--with", "value": f"leasehold[mcp]=={version}"}],
        "packageArguments": [{"type": "positional", "value": "mcp"}],
    }
    return {
        "$schema": SCHEMA,
        "name": REGISTERED,
        "title": "Leasehold locks",
        "description": DESCRIPTION,
        "version": version,
        "packages": [{**package, "transport": {"type": "stdio"}, **arguments}],
    }


def main() -> None:
    """Write the files, and remove those of plugins that are not generated any more."""
    wanted = files()
    for old in (ROOT / "plugins").rglob("*"):
        if old.is_file() and old.relative_to(ROOT).as_posix() not in wanted:
            old.unlink()
    for name, content in wanted.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    print(f"wrote {len(wanted)} files for {', '.join(ADAPTERS[agent].title for agent in LAYOUTS)} and the MCP registry")


if __name__ == "__main__":
    main()
