"""inspect, list, graph: read the state of the locks; nothing changes."""

from __future__ import annotations

from leasehold.cli.context import accepted
from leasehold.cli.output import clock
from leasehold.cli.terminal.columns import counted, table, width_of_terminal
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.domain.graph import Graph
    from leasehold.domain.leases import Inspection, Lease
    from leasehold.domain.plans import Plan


def inspect(context: Context) -> int:
    """Print the holders of a resource, and its queue."""
    context.hint_at_paths([context.values["resource"]])
    seen = accepted(context.locks.inspect(context.values["resource"]))
    own = {lease.id for lease in seen.leases if context.is_proven(lease)}
    told = wire.answer(seen)
    return context.end(seen, _inspected(seen, own), {**told, "leases": _with_yours(told["leases"], own)})


def _with_yours(leases: list[dict[str, Any]], own: Collection[str]) -> list[dict[str, Any]]:
    return [{**lease, "yours": lease["id"] in own} for lease in leases]


def _inspected(seen: Inspection, own: Collection[str]) -> str:
    """Return the text of `inspect`: who holds the resource, why it is closed, and who waits."""
    lines = [shown(seen.resource) + (": free" if not seen.leases and not seen.closed else "")]
    for lease in seen.leases:
        work = f" ({shown(lease.name)})" if lease.name else ""
        yours = ": yours" if lease.id in own else ""
        lines.append(f"  held by   {shown(lease.holder)}{work}, {lease.mode}, fence {lease.fence}{yours}")
        if tuple(lease.resources) != (seen.resource,):
            lines.append(f"  as        {shown(' '.join(lease.resources))}")
        if lease.principal is not None:  # for admins of a server
            lines.append(f"  key       {lease.key} of {shown(lease.principal)}")
        lines += [
            f"  {name:9} {shown(value)}"
            for name, value in (("host", lease.host), ("session", lease.session), ("trace", lease.trace))
            if value
        ]
        if lease.reason:
            lines.append(f"  reason    {shown(lease.reason)}")
        lines.append(f"  since     {clock(lease.acquired_us, seen.now_us)}")
        lines.append(f"  until     {clock(lease.expires_us, seen.now_us)}")
        if lease.context:
            lines.append(f"  context   {shown(lease.context)}")
    lines += [f"  planned   by {shown(each.holder)}, since {clock(each.since_us, seen.now_us)}" for each in seen.plans]
    lines += [f"  closed    {each.state} after {shown(each.holder)} ended uncleanly" for each in seen.closed]
    lines += [
        f"  waiting {each.position}. {shown(each.holder)}, since {clock(each.since_us, seen.now_us)}"
        for each in seen.waiting
    ]
    return "\n".join(lines)


def list_leases(context: Context) -> int:
    """Print every live lease."""
    values = context.values
    if values["mine"] and values["of"] is not None:
        raise InvalidInput("of", "--of and --mine are two different things: give one of them")
    if values["all_spaces"] and values["space"] is not None:
        raise InvalidInput("space", "--space and --all-spaces are two different things: give one of them")
    leases = accepted(_listed(context, None if values["all_spaces"] else context.space))
    if not values["all_spaces"]:
        _hint_elsewhere(context)
    own = {lease.id for lease in leases if context.is_proven(lease)}
    told = lease_table(leases, width_of_terminal(), spaces=values["all_spaces"], own=own)
    plans, planned = _plans(context)
    listed = {"leases": _with_yours(wire.leases(leases)["leases"], own), "plans": wire.encoded("Plan[]", plans)}
    return context.end(leases, (told if leases else "No live leases.") + planned, listed)


def _plans(context: Context) -> tuple[tuple[Plan, ...], str]:
    """Return the plans that the options of `list` are about, and the text of them."""
    values = context.values
    space = None if values["all_spaces"] else context.space
    plans = accepted(context.locks.plans(space=space, holder=values["of"], resource=values["resource"]))
    if not plans:
        return (), ""  # nearly always
    from leasehold.cli.commands.plan import own_plans, plans_told  # noqa: PLC0415 (only if there are any)

    own = own_plans(context, plans)
    if values["mine"]:
        plans = tuple([each for each in plans if each.id in own])
    told = plans_told(plans, own)
    return plans, f"\n\n{told}" if told else ""


def _listed(context: Context, space: str | None) -> tuple[Lease, ...] | Refused:
    values = context.values
    found = context.locks.list(space=space, holder=values["of"], resource=values["resource"])
    if isinstance(found, Refused) or not values["mine"]:
        return found
    return tuple(lease for lease in found if context.is_mine(lease, lease.space))


def _hint_elsewhere(context: Context) -> None:
    """Hint at leases in other spaces, as far as the caller may see them."""
    found = _listed(context, None)
    if isinstance(found, Refused):
        return
    spaces = [lease.space for lease in found if lease.space != context.space]
    if spaces:
        where = counted(len(set(spaces)), "other space")
        command = context.suggest("list", more=" --all-spaces", in_space=False)
        context.hint(f"{counted(len(spaces), 'lease')} in {where} not shown", command)


def lease_table(
    leases: tuple[Lease, ...], width: int | None = None, *, spaces: bool = False, own: Collection[str] = ()
) -> str:
    """Return a table of leases; with their spaces, if they may differ, and a mark on the caller's own."""
    rows: list[tuple[str, ...]] = [
        (
            *([lease.space] if spaces else []),
            " ".join(lease.resources),
            f"{lease.holder} (you)" if lease.id in own else lease.holder,
            lease.mode if lease.mode != "slots" else f"slots {lease.slots}",
            durations.in_seconds(lease.expires_us - lease.as_of_us),
            str(lease.fence),
            lease.name or "",
        )
        for lease in leases
    ]
    heads = ("RESOURCE", "HOLDER", "MODE", "LEFT", "FENCE", "WORK")
    return table(rows, (*(["SPACE"] if spaces else []), *heads), width)


def graph(context: Context) -> int:
    """Show which holder waits for which resource."""
    from leasehold.pictures import graph as graphing  # noqa: PLC0415 (only for `graph`)
    from leasehold.pictures.svg import svg  # noqa: PLC0415

    formats: dict[str, Callable[[Graph], str]] = {
        "text": graphing.as_text,
        "mermaid": graphing.as_mermaid,
        "dot": graphing.as_dot,
        "svg": lambda graph: svg(graphing.as_picture(graph)).rstrip("\n"),
    }
    seen = accepted(context.locks.graph(space=None if context.values["all_spaces"] else context.space))
    return context.end(seen, formats[context.values["format"]](seen), wire.answer(seen))
