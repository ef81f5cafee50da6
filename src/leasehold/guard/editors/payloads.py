"""Parse the input of an agent's hook, by the row of its adapter. See docs/how-to/agents.md.

The input can be large (it may contain a whole file), and only a few texts in it matter. SQLite, which is loaded for the
locks anyway, extracts them without the ``json`` module, whose import costs as much as the acquire.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput
from leasehold.guard.editors.adapters import ADAPTERS, AFTER, BEFORE, END, END_OF_AGENT, LOCK_TOOLS, OTHER, OWN_TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leasehold.guard.editors.adapters import Adapter

_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_PATCHING = ("apply_patch", "patch")


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
    mcp: str = ""
    """The name of the MCP tool that is used, without its server's; empty for our own and for a built-in tool."""
    lasts: bool = False
    """True for a command that the agent runs in the background: it goes on after its call."""
    is_heard: bool = True
    """True if the model gets the answer: some agents drop those to some of their events."""


def read(editor: str, text: str) -> HookCall:
    """Parse the input of this editor's hook."""
    return of(editor, _texts(text))


def of(editor: str, given: dict[str, str]) -> HookCall:
    """Return the call from the texts of its input, by their paths."""
    row = ADAPTERS[editor]
    if given.get("toolArgs", "").startswith("{"):  # Copilot's arguments are a JSON text in the JSON
        given = {**given, **{f"toolArgs.{path}": value for path, value in _texts(given["toolArgs"]).items()}}
    event, agent = _first(given, row.event), _first(given, row.agent)
    moment = row.moments.get(event, OTHER)
    if moment == END_OF_AGENT:
        moment = END if agent else OTHER
    elif moment == END:
        agent = ""
    call = _first(given, row.call)
    about = HookCall(editor, moment, _first(given, row.session), agent, _first(given, row.cwd), event=event, call=call)
    is_heard = event not in row.unheard and (moment != AFTER or bool(call) or not row.is_heard_by_call)
    named = (tool for tool in (*row.shells, *row.writing) if event.endswith(f"_{tool}"))  # such as `pre_run_command`
    about = about._replace(is_heard=is_heard, tool=_first(given, row.tool) or next(named, ""))
    return _use(about, row, given) if moment in (BEFORE, AFTER) else about


def _first(given: dict[str, str], fields: Sequence[str]) -> str:
    return next((given[field] for field in fields if given.get(field)), "")


def _use(about: HookCall, row: Adapter, given: dict[str, str]) -> HookCall:
    """Add what the tool is about to do, or has done."""
    tool, command = about.tool, _first(given, row.command)
    if tool in _PATCHING and "*** " in command:
        found = (
            line[len(mark) :].strip() for line in command.splitlines() for mark in _PATCHED if line.startswith(mark)
        )
        return about._replace(paths=tuple(dict.fromkeys(found)))
    if tool in row.shells or (not tool and command):
        # A command that nothing tells may do anything, as its tool may
        return about._replace(command=command or tool, lasts=bool(_first(given, row.background)))
    ours = _own(row, tool, given)
    if ours:
        is_wanted = ours in LOCK_TOOLS and about.moment == BEFORE and not _first(given, row.given_agent)
        return about._replace(lock_tool=ours) if is_wanted else about
    if tool in row.reading:
        return about
    of_mcp = _of_mcp(row, tool)
    return about._replace(mcp=of_mcp) if of_mcp else about._replace(paths=_paths(row, given))


def _own(row: Adapter, tool: str, given: dict[str, str]) -> str:
    """Return the name of our own tool, which has our server's before it; Cursor and Windsurf say no server in it.

    VS Code runs the hooks of Claude Code, too: what it calls our tools is left to the hook of Copilot, since a tool can
    have one agent's name only.
    """
    name = next((each for each in OWN_TOOLS if tool.endswith(each)), "")
    before = tool.removesuffix(name)
    if not before.startswith(row.mcp or ("",)):
        return ""
    is_ours = "leasehold" in before or before == "MCP:"
    return name if is_ours or (not before and given.get("tool_info.mcp_server_name") == "leasehold") else ""


def _of_mcp(row: Adapter, tool: str) -> str:
    """Return the name of an MCP tool without its server's."""
    if not row.mcp:
        is_built_in = tool in (*row.shells, *row.reading, *row.writing)
        return "" if is_built_in else tool.rpartition("/")[2].rpartition("-")[2]
    before = next((each for each in row.mcp if tool.startswith(each)), "")
    name = tool.removeprefix(before).rpartition("__")[2]
    return (name.partition("_")[2] or name) if before == "mcp_" else name if before else ""


def _paths(row: Adapter, given: dict[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for field in row.paths:
        if field.endswith("[]"):
            found += [value for name, value in given.items() if name.startswith(field[:-1]) and name.endswith("]")]
        elif given.get(field):
            found.append(given[field])
    return tuple(dict.fromkeys(found))


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
    """Return the texts of a JSON object by their paths, such as `tool_input.files[0]`, and what is true as `1`."""
    from leasehold.light_apsw import apsw  # noqa: PLC0415 (with the first document)

    query = "SELECT fullkey, atom FROM json_tree(?1) WHERE type IN ('text', 'true') AND json_type(?1) = 'object'"
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
