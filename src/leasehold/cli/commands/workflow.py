"""workflow create, get, check, list, update, heartbeat, release: Agiflow's commands and their answers.

JSON goes to standard output, the line for people (`✓ …`) to standard error. With a server, the commands use its
`/v1/workflows` routes, so that later commands need only the run's id and the key; otherwise they use the store itself.
"""

from __future__ import annotations

import os
import time

from leasehold.cli import output
from leasehold.cli.command_line import settle_down
from leasehold.compat import agiflow
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Lost, TimedOut
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.locks.connect import is_served
from leasehold.requests import checks
from leasehold.wire.shapes import SCHEMA_VERSION, answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from leasehold.cli.context import Context
    from leasehold.cli.terminal.interrupts import Interrupts
    from leasehold.domain.outcomes import Deadlock, Refused
    from leasehold.steps import Steps

    Json: TypeAlias = dict[str, Any]
    No: TypeAlias = agiflow.RunConflict | Refused | Lost | Deadlock


AGAIN = 1.0
"""Seconds between two tries at a server: its route for runs answers at once."""
INTERRUPTED = "it was interrupted before it began"


# ----------------------------------------------------------------------------------------------------- arguments


def _given(context: Context, option: str, variable: str) -> str | None:
    """Return the option, `LEASEHOLD_…` or `AGIFLOW_…`, in this order; an empty value counts as absent."""
    found = (
        context.values.get(option) or os.environ.get(f"LEASEHOLD_{variable}") or os.environ.get(f"AGIFLOW_{variable}")
    )
    return checks.text(found, option, 100) if found else None


def _space(context: Context) -> str:
    """Return the space: `ORG/PROJECT`, or the usual one if neither is given."""
    if context.values.get("space"):
        return context.space
    org, project = _given(context, "org", "ORGANIZATION_ID"), _given(context, "project", "PROJECT_ID")
    for option, value in (("org", org), ("project", project)):
        if value is not None and "/" in value:
            raise InvalidInput(option, "must not contain a slash: the space is ORG/PROJECT")
    if org is None or project is None:
        if org is not None:
            raise InvalidInput("project", "is missing: give --project, LEASEHOLD_PROJECT_ID or AGIFLOW_PROJECT_ID")
        return context.space
    return checks.space(f"{org}/{project}")


def _scope(context: Context) -> Json:
    """Return the locked work: a task or a work unit, options before variables, or else the project."""
    options = [name for name in ("task", "work_unit") if context.values.get(name)]
    if len(options) > 1:
        raise InvalidInput("task", "--task and --work-unit are two different things: give one of them")
    variables = {"task": "TASK_ID", "work_unit": "WORK_UNIT_ID", "project": "PROJECT_ID"}
    for name in options or variables:
        found = _given(context, name, variables[name])
        if found is not None:
            return {name: found}
    raise InvalidInput("work_unit", "is missing: what is locked? Give --work-unit, --task or --project")


# -------------------------------------------------------------------------------------------- the server or store


def _ask(
    context: Context, route: tuple[str, str], asked: Json, steps: Callable[[agiflow.AgiflowCaller], Steps[Any]]
) -> Json | No:
    """Return the answer of the server, or of the store."""
    space = _space(context)
    if is_served(context.choice.url):
        from leasehold.cli.commands.workflow_client import ask_server  # noqa: PLC0415 (only with a server)

        answered: Json | No = ask_server(context, route, {**asked, "space": space})
        return answered
    from leasehold.compat.steps import ask  # noqa: PLC0415

    session = context.session
    id_ = None if session is None else checks.session_id(session)
    told: Json | No = ask(context.locks, steps(agiflow.AgiflowCaller(context.holder, space, session, id_)))
    return told


# --------------------------------------------------------------------------------------------------------- answers


def _end(context: Context, told: Json | No, headline: str, fields: tuple[str, ...]) -> int:
    """Print a success: the line for people, then these fields of the run, or all of them with --json."""
    if not isinstance(told, dict):
        return _refuse(context, told)
    if context.out.json:
        context.out.give({"schema_version": SCHEMA_VERSION, "ok": True, "data": told})
        return output.DONE
    if headline:
        context.out.warn(context.out.paint(f"✓ {headline}", "green"))
    _print(context, {field: told[field] for field in fields} if fields else told)
    return output.DONE


def _print(context: Context, value: object) -> None:
    import json  # noqa: PLC0415

    context.out.say(json.dumps(value, indent=2, ensure_ascii=True))


def _lost(context: Context, told: Lost) -> int:
    """Report a lost run. Fetch it once more, to suggest how to begin another on the same work."""
    from leasehold.cli.refusals import explain_lost_run  # noqa: PLC0415 (only for a loss)

    id_ = agiflow.run_id(context.values["id"])
    try:
        run = _ask(context, ("GET", "/run"), {"id": id_}, lambda who: agiflow.get(who, id_))
    except LeaseholdError:  # the loss is known; only the suggestion is shorter
        run = {}
    context.deny(explain_lost_run(told, context, run if isinstance(run, dict) else {}))
    return output.LOST


def _refuse(context: Context, told: No) -> int:
    if isinstance(told, Lost) and not context.out.json:
        return _lost(context, told)
    if not isinstance(told, agiflow.RunConflict):
        return context.end(told, "")
    error = {**answer(told.held), "workflow": told.run}
    if context.out.json:
        context.out.give({"schema_version": SCHEMA_VERSION, "ok": False, "error": error})
        return output.exit_code(told.held)
    context.deny(f"✗ 409 conflict: {shown(error['message'])}")
    _print(context, {"error": "conflict", "status": 409, "message": error["message"], "workflow": told.run})
    return output.exit_code(told.held)


# --------------------------------------------------------------------------------------------------- the verbs


def create(context: Context) -> int:
    """Begin a run."""
    name = context.values["name"]
    if not name:
        raise InvalidInput("name", "is missing: say what the run is with --name, such as deploy-staging")
    scope, id_, data = _scope(context), agiflow.new_id(), context.json_value("context")
    asked = {"id": id_, "name": name, "ttl_seconds": context.ttl, "context": data, **scope}
    wait = context.seconds("wait")

    def begin() -> Json | No:
        return _ask(
            context,
            ("POST", ""),
            asked,
            lambda who: agiflow.create(
                who, id_, agiflow.resource(**scope), name=name, ttl=context.ttl, context=data, wait=wait
            ),
        )

    if wait:
        told: Json | No = _queued(context, begin, lambda: _abandon(context, id_), wait)
    else:
        told = begin()
    return _end(context, told, "Workflow lock acquired", ("id",))


def _queued(context: Context, begin: Callable[[], Json | No], abandon: Callable[[], None], wait: float) -> Json | No:
    """Begin a run as soon as possible within `wait` seconds. End it again if a signal arrived meanwhile."""
    from leasehold.cli.terminal.interrupts import Interrupts  # noqa: PLC0415 (only for a command that waits)

    settle_down()
    with Interrupts() as interrupts:
        context.progress = interrupts.check
        try:
            told = _retried(begin, interrupts, wait) if is_served(context.choice.url) else begin()
        finally:
            context.progress = None
        if interrupts.noted is not None and isinstance(told, dict):
            abandon()
        interrupts.check()
    return told


def _retried(begin: Callable[[], Json | No], interrupts: Interrupts, wait: float) -> Json | No:
    give_up = time.monotonic() + wait
    while True:
        told = begin()
        left = give_up - time.monotonic()
        if not isinstance(told, agiflow.RunConflict):
            return told
        if left <= 0:
            held = told.held
            return told._replace(held=TimedOut(held.resources, held.blockers, held.queue, held.retry_us))
        if interrupts.noted is None:
            time.sleep(min(AGAIN, left))
        interrupts.check()


def _abandon(context: Context, id_: str) -> None:
    """End a run whose command was interrupted."""
    asked = {"id": id_, "status": "failed", "error": INTERRUPTED}
    _ask(
        context, ("POST", "/release"), asked, lambda who: agiflow.release(who, id_, outcome="failed", error=INTERRUPTED)
    )


def get(context: Context) -> int:
    """Print one run in full."""
    id_ = agiflow.run_id(context.values["id"])
    told = _ask(context, ("GET", "/run"), {"id": id_}, lambda who: agiflow.get(who, id_))
    return _end(context, told, "", ())


def check(context: Context) -> int:
    """Print the active run, or {}."""
    scope = _scope(context)
    told = _ask(context, ("GET", "/check"), scope, lambda who: agiflow.check(who, agiflow.resource(**scope)))
    if not told and isinstance(told, dict):
        return _end(context, told, "", ())
    return _end(context, told, "Lock found", ("id", "status"))


def list_runs(context: Context) -> int:
    """Print runs, the newest first. Options narrow the list; variables of the environment do not."""
    values = context.values
    given = {name: values[name] for name in ("work_unit", "task") if values.get(name)}
    locked = agiflow.resource(**given) if given else None
    status, limit = values["status"], checks.number(context.number("limit"), "limit", 1, agiflow.PAGE)
    told = _ask(
        context,
        ("GET", ""),
        {"status": status, "limit": limit, **given},
        lambda who: agiflow.runs(who, wanted=status, locked=locked, limit=limit),
    )
    if not isinstance(told, dict) or context.out.json:
        return _end(context, told, "", ())
    _print(context, told["workflows"])
    return output.DONE


def update(context: Context) -> int:
    """Replace or merge the context of a run."""
    if context.values["context"] is None:
        raise InvalidInput("context", "is missing: write --context '{\"step\": 3}'")
    id_, data, merge = agiflow.run_id(context.values["id"]), context.json_value("context"), context.values["merge"]
    asked = {"id": id_, "context": data, "merge": merge}
    told = _ask(context, ("POST", "/update"), asked, lambda who: agiflow.update(who, id_, data, merge=merge))
    return _end(context, told, "Workflow lock updated", ("id", "status", "context"))


def heartbeat(context: Context) -> int:
    """Reset the TTL of a run."""
    id_, ttl = agiflow.run_id(context.values["id"]), context.values["ttl"]
    asked = {"id": id_, "ttl_seconds": ttl}
    told = _ask(context, ("POST", "/heartbeat"), asked, lambda who: agiflow.heartbeat(who, id_, ttl))
    return _end(context, told, "Workflow lock renewed", ("id", "status", "expires_at"))


def release(context: Context) -> int:
    """End a run with its outcome."""
    id_, status, error = agiflow.run_id(context.values["id"]), context.values["status"], context.values["error"]
    asked = {"id": id_, "status": status, "error": error}
    told = _ask(
        context, ("POST", "/release"), asked, lambda who: agiflow.release(who, id_, outcome=status, error=error)
    )
    was_active = isinstance(told, dict) and told.get("released")
    return _end(
        context, told, "Workflow lock released" if was_active else "Workflow lock was released before", ("id", "status")
    )
