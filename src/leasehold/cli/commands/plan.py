"""plan: announce what you are about to touch, or show everybody's plans and where they collide."""

from __future__ import annotations

from leasehold.cli.context import accepted
from leasehold.cli.output import clock
from leasehold.cli.terminal.columns import table, width_of_terminal
from leasehold.domain import durations
from leasehold.domain.keys import is_plan_id
from leasehold.domain.names import shown
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from leasehold.cli.context import Context
    from leasehold.domain.plans import Overlap, Plan

NOTHING = "Nothing overlaps."
FIRM_WAIT = "24h"
"""A firm plan waits for so long unless --wait says otherwise."""


def plan(context: Context) -> int:
    """Announce a plan if there are names; otherwise show all plans with what overlaps."""
    if context.values["resources"]:
        return _queue(context) if context.values["firm"] else _announce(context)
    if context.values["firm"]:
        raise InvalidInput("firm", "--firm is for a new plan: name what you are about to touch")
    for option in ("name", "reason", "ttl", "wait"):
        if context.values[option] is not None:
            raise InvalidInput(option, f"--{option} is for a new plan: name what you are about to touch")
    plans = accepted(context.locks.plans(space=context.space))
    if context.values["format"] == "svg":
        from leasehold.pictures.matrix import as_picture  # noqa: PLC0415 (only for a picture)
        from leasehold.pictures.svg import svg  # noqa: PLC0415

        text = svg(as_picture(plans)).rstrip("\n")
    else:
        text = plans_told(plans, own_plans(context, plans)) or "No plans."
    return context.end(plans, text, {"plans": wire.encoded("Plan[]", plans)})


def _queue(context: Context) -> int:
    """Acquire all of a firm plan at once. Its names leave the plan that was announced before, once they are granted."""
    from leasehold.cli.commands.acquire import acquire  # noqa: PLC0415 (only for a firm plan)
    from leasehold.cli.entry.quick import TAKING  # noqa: PLC0415

    rest = {option.name: option.absent for option in TAKING}
    given = {name: value for name, value in context.values.items() if name not in rest or value is not None}
    alone = {"request_id": None, "reentrant": False, "local": False, "token_file": None, "print": None}
    context.values = {**rest, **alone, **given, "wait": context.values["wait"] or FIRM_WAIT}
    context.verb = "acquire"  # the next step after a refusal is one of an acquire
    return acquire(context)


def _announce(context: Context) -> int:
    """Announce, save the token, and forget those of the plans that this one replaced."""
    values = context.values
    if values["format"] != "text":
        raise InvalidInput("format", "--format is for the plans of everybody: leave out the names")
    if values["wait"] is not None:
        raise InvalidInput("wait", "goes with --firm: any other plan is announced at once")
    context.hint_at_paths(values["resources"])
    tokens = context.tokens
    outcome = accepted(
        context.locks.plan(
            values["resources"],
            ttl=context.ttl,
            name=values["name"],
            reason=values["reason"],
            session=context.session,
            token=tokens.proofs(()),
        )
    )
    before = [line.lease for line in tokens.all() if is_plan_id(line.lease) and line.holder == outcome.plan.holder]
    tokens.remember((outcome.plan.id,), outcome.plan.id, outcome.token)
    for id_ in before:
        tokens.forget(id_)
    return context.end(outcome, _announced(context, outcome.plan), {"plans": wire.encoded("Plan[]", [outcome.plan])})


def _announced(context: Context, it: Plan) -> str:
    out = context.out
    lines = [
        f"{out.paint('Planned', 'green')} {shown(' '.join(it.resources))}",
        f"  holder  {shown(it.holder)}",
        f"  until   {clock(it.expires_us, it.as_of_us)}",
        f"  plan    {it.id}",
        _matrix([(it, each) for each in it.overlaps], ()) or NOTHING,
        out.paint(f"End it with:\n  {context.suggest('release', it.id)}", "dim"),
    ]
    return "\n".join(lines)


def own_plans(context: Context, plans: Sequence[Plan]) -> set[str]:
    """Return the ids of those plans, leases and waits in them that the caller can prove to be its own."""
    saved = {line.lease for line in context.tokens.all()}
    session = (context.session or "").rpartition(".")[0]
    seen: list[Plan | Overlap] = [*plans, *(cell for plan in plans for cell in plan.overlaps)]
    return {each.id for each in seen if each.id in saved or (session and each.session == session)}


def plans_told(plans: tuple[Plan, ...], own: Collection[str]) -> str:
    """Return a table of plans and, below it, the conflict matrix; empty if there are no plans."""
    if not plans:
        return ""
    rows: list[tuple[str, ...]] = [
        (
            " ".join(each.resources),
            f"{each.holder} (you)" if each.id in own else each.holder,
            durations.in_seconds(each.as_of_us - each.since_us),
            durations.in_seconds(each.expires_us - each.as_of_us),
            each.name or "",
        )
        for each in plans
    ]
    told = table(rows, ("PLAN", "HOLDER", "SINCE", "LEFT", "WORK"), width_of_terminal())
    cells = [(each, cell) for each in plans for cell in each.overlaps]
    return f"{told}\n\n{_matrix(cells, own) or NOTHING}"


def _matrix(cells: list[tuple[Plan, Overlap]], own: Collection[str]) -> str:
    """Return a row for each two names that meet; one of two plans once."""
    rows: list[tuple[str, ...]] = []
    met: set[frozenset[tuple[str, str]]] = set()
    for it, cell in cells:
        pair = frozenset(((it.id, cell.resource), (cell.id, cell.other)))
        if pair in met:
            continue
        met.add(pair)
        ago = durations.in_seconds(max(0, it.as_of_us - cell.since_us))
        mine = f"{it.holder} (you)" if it.id in own else it.holder
        theirs = f"{cell.holder} (you)" if cell.id in own else cell.holder
        rows.append((cell.resource, mine, cell.other, f"{cell.state} by {theirs}", ago, cell.name or ""))
    return table(rows, ("PLANNED", "BY", "OVERLAPS", "WITH", "SINCE", "WORK"), width_of_terminal()) if rows else ""
