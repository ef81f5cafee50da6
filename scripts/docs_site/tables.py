"""The reference pages of the site, generated from the tables that the program itself uses.

`pages()` returns them by their path below `docs/`. Facts that no table has, such as what to do about an error, stand
here; a test fails for a code, a kind of event or a public name without an entry.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import MagicMock as Mock

import leasehold
from leasehold import errors
from leasehold.cli import output
from leasehold.cli.entry.examples import EXAMPLES
from leasehold.cli.entry.table import VERBS
from leasehold.config import settings
from leasehold.locks.aio import AsyncLocks
from leasehold.locks.sync import Locks
from leasehold.requests.lookups import EVENT_KINDS
from leasehold.server.api.openapi import document
from leasehold.server.api.problems import STATUS
from leasehold.server.ops.exposition import Exposition
from leasehold.server.ops.metrics import Metrics
from leasehold.wire import table, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasehold.cli.command_line import CliVerb

ERRORS = {
    "cancelled": ("The `request_id` was cancelled.", "Ask again with a new one."),
    "closed": ("These locks were closed while a call was under way.", "Connect again."),
    "conflict": (
        "The same `request_id` came with other terms, or the lock overlaps with another one.",
        "Use a new id.",
    ),
    "deadlock": ("Waiting would never end; `cycle` says why.", "Release what you hold, then try again."),
    "error": ("Something broke that has no code of its own.", "Run `leasehold doctor`."),
    "held": ("Another holder has it, or a waiter is before you.", "Do something else, or wait."),
    "internal": ("A bug in Leasehold.", "Report it with the traceback on standard error."),
    "interrupted": ("A signal ended the command.", "Nothing is held by it; run it again."),
    "invalid": ("An argument cannot be understood; `field` names it.", "Correct it. Nothing was changed."),
    "lost": ("The lease is gone; `reason` says why.", "Stop the work, or acquire anew."),
    "media_type": ("The body is not JSON.", "Send `Content-Type: application/json`."),
    "method": ("The route has no such method.", "See the routes."),
    "misdirected": ("The `Host` is not one that this server answers for.", "Use the address that it printed."),
    "not_acquired": ("`lock()` got no lease; `outcome` says why.", "Catch `NotAcquired`, or use `acquire`."),
    "not_allowed": (
        "It is not yours, or your key or policy does not permit it.",
        "Use the lease's token or another key.",
    ),
    "not_found": ("There is no such lease, session, run or key.", "List what there is."),
    "not_started": ("`run` could not start its command.", "Check the command's name and permissions."),
    "outcome_unknown": ("The connection broke during a commit.", "Ask again with the same `request_id`."),
    "paused": ("The store grants nothing for a while, after a failover or a restore.", "Wait as long as it says."),
    "rate_limited": ("This key, session or caller sends too many requests.", "Slow down; see `Retry-After`."),
    "session_over": ("The session has ended.", "Start another one."),
    "unsaved": ("The worktree to remove has work that no branch has.", "Commit it, or repeat with --discard."),
    "at_work": (
        "A process that still lives holds a lease as the agent of the worktree to remove.",
        "End that process first.",
    ),
    "slots_mismatch": ("It is held with another number of slots.", "Use that number, or wait until it is free."),
    "slow": ("The request took too long to arrive.", "Send it faster, or check the network."),
    "spent": ("The lease of this `request_id` is over.", "Ask again with a new one."),
    "stale_fence": ("A later holder has written already.", "Stop: the lease was lost."),
    "store": ("The store refused, or failed.", "Run `leasehold doctor`."),
    "store_behind": ("The database is older than the fences that were issued.", "`leasehold doctor --accept-restore`."),
    "store_unsuitable": (
        "The store cannot be used, such as a network file system or another schema.",
        "See the message.",
    ),
    "timeout": ("The wait ended before the lease was free.", "Wait longer, or do something else."),
    "too_large": ("The body is too large.", "Send less; contexts have at most 16 KiB."),
    "too_many": ("A limit was reached: leases, waiters or connections.", "Release some, or raise the limit."),
    "unauthenticated": ("The server needs a valid key.", "Set `LEASEHOLD_API_KEY`."),
    "unreachable": ("The store or the server does not answer.", "Check the URL; run `leasehold doctor`."),
    "unsupported": ("This store or server cannot do it.", "See what each store can do."),
    "unwell": ("A check of `doctor` failed; `findings` has them.", "Do what each finding advises."),
    "usage": ("An unknown command or option, or a missing argument.", "See `--help`."),
}
"""Each code: what happened, and what to do."""
EVENTS = {
    "granted": "A lease was granted, at once or to the head of a queue.",
    "queued": "A request began to wait.",
    "renewed": "The TTL of a lease was reset.",
    "updated": "The context of a lease was changed.",
    "released": "A lease was released; `detail.status` says how the work ended.",
    "expired": "A lease, or a session, came to the end of its TTL.",
    "forced": "An admin ended or took over a lease; `detail` has who and why.",
    "refused": "A request was refused because another holder had the resource.",
    "deadlock": "A request was refused because waiting would never end; `detail.cycle` is the cycle.",
    "cancelled": "A waiting request was cancelled, or its caller disconnected.",
    "lost": "A holder learned that its lease was gone.",
    "timeout": "A wait ended without a lease.",
    "quarantined": "A lease ended uncleanly, and its resource is closed until an admin clears it.",
    "cleared": "An admin opened a resource that was closed.",
    "trespass": "An agent changed a file that another one holds.",
    "extended": "An admin gave the holder of a lease more time.",
    "noted": "A note was left on a resource, or removed.",
    "planned": "An agent announced what it is about to touch.",
    "plan_ended": "A plan ended; `detail.reason` says why: released, replaced, leased, expired, or with its session.",
    "session_started": "A session began.",
    "session_ended": "A session ended, with all of its leases.",
    "key_created": "A key was created.",
    "key_revoked": "A key was revoked.",
}
"""Each kind of event in the history and in the streams."""


def pages() -> dict[str, str]:
    """Return every generated page."""
    made: dict[str, Callable[[], str]] = {
        "commands": commands,
        "routes": routes,
        "objects": objects,
        "errors": error_codes,
        "settings": setting_names,
        "metrics": metrics,
        "events": events,
        "python-api": python_api,
    }
    return {f"reference/{name}.md": make() for name, make in made.items()}


def commands() -> str:
    """Every command with its words, options and examples."""
    parts = [_head("Commands and options", "Which options does each command have?", "[The command line](cli.md)")]
    for name, verb in VERBS.items():
        parts.append(f"## `{name}`\n\n{_sentence(verb.help)}\n\n{_usage(name, verb)}")
        parts.append(_options(verb))
        if example := EXAMPLES.get(name):
            parts.append(f"```text\n{example if isinstance(example, str) else _joined(example)}\n```\n")
    return "\n".join(parts)


def _usage(name: str, verb: CliVerb) -> str:
    words = " ".join(f"[{word.name}]" if word.number in ("?", "*") else word.name for word in verb.words)
    rows = [(f"`{word.name}`", word.help) for word in verb.words]
    return f"`leasehold {name} {words}`".replace(" `", "`") + "\n\n" + (_rows(("word", ""), rows) if rows else "")


def _options(verb: CliVerb) -> str:
    rows = []
    for option in verb.options:
        spelled = f"`{option.flag} {option.metavar}`" if option.metavar else f"`{option.flag}`"
        choices = f" One of {', '.join(f'`{each}`' for each in option.choices)}." if option.choices else ""
        many = " May be repeated." if option.many else ""
        rows.append((spelled, _sentence(option.help) + choices + many))
    return _rows(("option", ""), rows) if rows else ""


def routes() -> str:
    """Every route with its fields and answers."""
    described = document()
    parts = [_head("Routes", "Which fields does each route take, and what does it answer?", "[HTTP](http.md)")]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(f"## `{method.upper()} {path}`\n\n{_sentence(operation['summary'])}\n")
            rows = [(f"`{name}`", text) for name, text in _fields(operation, described["components"]["schemas"])]
            parts.append(_rows(("field", ""), rows) if rows else "")
            answers = [(code, answer.get("description", "")) for code, answer in operation["responses"].items()]
            parts.append(_rows(("status", "answer"), answers))
    return "\n".join(parts)


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for each in operation.get("parameters", ()):
        yield each["name"], each.get("description", "")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        body = schemas.get(content["schema"].get("$ref", "").rpartition("/")[2], content["schema"])
        for name, schema in body.get("properties", {}).items():
            yield name, schema.get("description", "") + (" Required." if name in body.get("required", ()) else "")


def objects() -> str:
    """Every JSON object with its fields."""
    parts = [_head("JSON objects", "Which fields does each object have, over HTTP, with `--json` and in MCP?")]
    for name in table.NAMES:
        shape = table.shape(name)
        rows = [
            (f"`{each.name}`", f"`{each.kind}`".replace("|", "\\|"), _described(name, each.name))
            for each in shape.fields
        ]
        parts.append(f"## {name}\n\n{_sentence(shape.says)}\n\n{_rows(('field', 'kind', ''), rows)}")
    return "\n".join(parts)


def _described(shape: str, field: str) -> str:
    known = vocabulary.FIELDS.get(f"{shape}.{field}") or vocabulary.FIELDS.get(field)
    return known[0] if known is not None else ""


def error_codes() -> str:
    """Every code with its status, its exit code and the way out."""
    rows = [
        (f"`{code}`", what, way_out, str(STATUS.get(code, "")), str(_exit_code(code)))
        for code, (what, way_out) in sorted(ERRORS.items())
    ]
    codes = [(str(number), meaning) for number, meaning in output.MEANINGS.items()]
    heads = ("code", "what happened", "what to do", "HTTP status", "exit code")
    head = _head("Errors and exit codes", "What does this code mean, and what do you do about it?")
    return f"{head}\n{_rows(heads, rows)}\n## Exit codes\n\n{_rows(('exit code', ''), codes)}"


SPECIAL = {"usage": "2", "interrupted": "129, 130, 143", "not_started": "126, 127"}
"""Exit codes that no table has."""
OUTCOMES = {"held": output.HELD, "timeout": output.TIMED_OUT, "deadlock": output.DEADLOCK, "lost": output.LOST}


def _exit_code(code: str) -> object:
    if code in SPECIAL:
        return SPECIAL[code]
    if code in OUTCOMES:
        return OUTCOMES[code]
    return output.exit_code(leasehold.Refused(code, "", ""))


def setting_names() -> str:
    """Every key of a configuration file, and the variable that sets it."""
    variables = {key: name for name, key in settings.VARIABLES.items()}
    rows = [(f"`{key}`", f"`{variables[key]}`" if key in variables else "") for key in settings.KEYS]
    explained = "[Configuration](configuration.md#settings)"
    head = _head("Settings by name", "Which keys may a configuration file have?", explained)
    return f"{head}\n{_rows(('key', 'variable'), rows)}"


def metrics() -> str:
    """Every metric of a server."""
    collected = Exposition(Metrics(Mock(), Mock())).collect()
    rows = [(f"`{_metric_name(each)}`", each.type, each.documentation) for each in collected]
    return f"{_head('Metrics', 'Which metrics does `/metrics` have?')}\n{_rows(('metric', 'type', ''), rows)}"


def _metric_name(metric: Any) -> str:  # noqa: ANN401 (of prometheus_client, without types)
    return (
        f"{metric.name}_total"
        if metric.type == "counter"
        else f"{metric.name}_info"
        if metric.type == "info"
        else metric.name
    )


def events() -> str:
    """Every kind of event."""
    rows = [(f"`{kind}`", EVENTS[kind]) for kind in EVENT_KINDS]
    return (
        f"{_head('Events', 'Which kinds of events do the history and the streams have?')}\n{_rows(('kind', ''), rows)}"
    )


def python_api() -> str:
    """Every public name, with its signature and its documentation."""
    parts = [_head("Python names", "Which names does `import leasehold` give?", "[Python](python.md)")]
    for name in leasehold.__all__:
        thing = getattr(leasehold, name)
        parts.append(f"## `{name}`\n\n{_documentation(thing)}\n")
        if thing in (Locks, AsyncLocks):
            methods = [(key, method) for key, method in inspect.getmembers(thing, callable) if not key.startswith("_")]
            parts += [
                f"### `{name}.{key}{_signature(method)}`\n\n{_documentation(method)}\n" for key, method in methods
            ]
        elif not (isinstance(thing, type) and issubclass(thing, errors.LeaseholdError)):
            parts.append("" if isinstance(thing, type) else f"`{name}{_signature(thing)}`\n")
    return "\n".join(parts)


def _signature(thing: Callable[..., object]) -> str:
    return str(inspect.signature(thing)).replace("'", "")


def _documentation(thing: object) -> str:
    said = inspect.getdoc(thing) or ""
    return f"```text\n{said}\n```" if "\n\n" in said else said.replace("\n", " ")


def _head(title: str, question: str, explained: str = "") -> str:
    more = f" {explained} explains them." if explained else ""
    return f"# {title}\n\n{question}{more} *This page is generated from the tables of the program.*\n"


def _sentence(text: str) -> str:
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", ":")) else ".")


def _joined(example: object) -> str:
    return "\n".join(map(str, cast("Iterable[object]", example)))


def _rows(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace(chr(10), ' ') for cell in line)} |\n" for line in lines)
