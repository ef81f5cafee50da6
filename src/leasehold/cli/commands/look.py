"""inspect, list, history: looking, without changing anything."""

from __future__ import annotations

from leasehold.cli.output import clock
from leasehold.cli.terminal.columns import counted, table, width_of_terminal
from leasehold.domain import durations
from leasehold.domain.leases import Inspection
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease


def inspect(context: Context) -> int:
    """Who holds a resource, and who waits for it."""
    context.hint_at_paths([context.values["resource"]])
    seen = context.locks.inspect(context.values["resource"])
    if isinstance(seen, Refused):
        return context.end(seen, "")
    own = {lease.id for lease in seen.leases if context.is_proven(lease)}
    told = wire.inspection(seen)
    return context.end(seen, _inspected(seen, own), {**told, "leases": _with_yours(told["leases"], own)})


def _with_yours(leases: list[dict[str, Any]], own: Collection[str]) -> list[dict[str, Any]]:
    return [{**lease, "yours": lease["id"] in own} for lease in leases]


def _inspected(seen: Inspection, own: Collection[str]) -> str:
    lines = [shown(seen.resource) + (": free" if not seen.leases and not seen.closed else "")]
    for lease in seen.leases:
        work = f" ({shown(lease.name)})" if lease.name else ""
        yours = ": yours" if lease.id in own else ""
        lines.append(f"  held by   {shown(lease.holder)}{work}, {lease.mode}, fence {lease.fence}{yours}")
        if tuple(lease.resources) != (seen.resource,):
            lines.append(f"  as        {shown(' '.join(lease.resources))}")
        if lease.reason:
            lines.append(f"  reason    {shown(lease.reason)}")
        lines.append(f"  since     {clock(lease.acquired_us, seen.now_us)}")
        lines.append(f"  until     {clock(lease.expires_us, seen.now_us)}")
        if lease.context:
            lines.append(f"  context   {shown(lease.context)}")
    lines += [f"  closed    {each.state} after {shown(each.holder)} ended uncleanly" for each in seen.closed]
    lines += [
        f"  waiting {each.position}. {shown(each.holder)}, since {clock(each.since_us, seen.now_us)}"
        for each in seen.waiting
    ]
    return "\n".join(lines)


def list_leases(context: Context) -> int:
    """Every live lease."""
    values = context.values
    if values["mine"] and values["of"] is not None:
        raise InvalidInput("of", "--of and --mine are two different things: give one of them")
    if values["all_spaces"] and values["space"] is not None:
        raise InvalidInput("space", "--space and --all-spaces are two different things: give one of them")
    leases = _listed(context, None if values["all_spaces"] else context.space)
    if isinstance(leases, Refused):
        return context.end(leases, "")
    if not values["all_spaces"]:
        _hint_elsewhere(context)
    own = {lease.id for lease in leases if context.is_proven(lease)}
    table_ = lease_table(leases, width_of_terminal(), spaces=values["all_spaces"], own=own)
    told = {"leases": _with_yours(wire.leases(leases)["leases"], own)}
    return context.end(leases, table_ if leases else "No live leases.", told)


def _listed(context: Context, space: str | None) -> tuple[Lease, ...] | Refused:
    values = context.values
    found = context.locks.list(
        space=space,
        holder=values["of"],
        resource=values["resource"],
    )
    if isinstance(found, Refused) or not values["mine"]:
        return found
    return tuple(lease for lease in found if context.is_mine(lease))


def _hint_elsewhere(context: Context) -> None:
    """Whoever looks in one space should know what others have, as far as this caller may see it."""
    found = _listed(context, None)
    if isinstance(found, Refused):
        return
    spaces = [lease.space for lease in found if lease.space != context.space]
    if spaces:
        where = counted(len(set(spaces)), "other space")
        context.hint(f"{counted(len(spaces), 'lease')} in {where} not shown", "leasehold list --all-spaces")


def lease_table(
    leases: tuple[Lease, ...], width: int | None = None, *, spaces: bool = False, own: Collection[str] = ()
) -> str:
    """Leases, a line each; with the space of each, if they may differ, and a mark at those that are the caller's."""
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


def history(context: Context) -> int:
    """What happened, newest first."""
    values = context.values
    if values["plot"] is not None:
        return _plotted(context, values["plot"])
    events = _events(context, tuple(values["kind"]), 50)
    if isinstance(events, Refused):
        return context.end(events, "")
    narrowed = any(values[name] for name in ("resource", "of", "lease", "kind", "since"))
    nothing = "No event is like that." if narrowed else "Nothing happened yet."
    if context.choice.url.startswith("git"):
        nothing = (
            "Nothing is told: over git, history is only what is held now, and what ended uncleanly in the last day."
        )
    return context.end(events, _event_table(events) if events else nothing, wire.events(events))


def _plotted(context: Context, file: str) -> int:
    """The same as a picture, of leases rather than of events."""
    from leasehold.cli.commands import plot as plotting  # noqa: PLC0415 (only who wants a picture pays for it)
    from leasehold.pictures.runs import KINDS  # noqa: PLC0415

    plotting.check(file)
    if context.values["kind"]:
        raise InvalidInput("kind", "--kind and --plot do not go together: a picture shows leases, not single events")
    events = _events(context, KINDS, plotting.LIMIT)
    if isinstance(events, Refused):
        return context.end(events, "")
    seen = context.locks.inspect("leasehold")
    now = seen.now_us if isinstance(seen, Inspection) else max((event.at_us for event in events), default=0)
    return context.end(events, plotting.plot(file, events, now), {**wire.events(events), "plot": file})


def _events(context: Context, kinds: tuple[str, ...], most: int) -> tuple[Event, ...] | Refused:
    values = context.values
    return context.locks.history(
        space=None if values["all_spaces"] else context.space,
        resource=values["resource"],
        holder=values["of"],
        lease=values["lease"],
        kinds=kinds,
        since=_since(context),
        limit=most if values["limit"] is None else context.number("limit"),
    )


def _since(context: Context) -> int | None:
    """How long ago, as a time of the store's clock."""
    ago = context.values["since"]
    if ago is None:
        return None
    try:
        span = durations.parse(ago)
    except durations.BadDuration as error:
        raise InvalidInput("since", str(error)) from None
    seen = context.locks.inspect("leasehold")
    return max(0, seen.now_us - span) if isinstance(seen, Inspection) else None


def _event_table(events: tuple[Event, ...]) -> str:
    rows: list[tuple[str, ...]] = [
        (
            (wire.rfc3339(event.at_us) or "")[:23].replace("T", " "),
            event.kind,
            " ".join(event.resources),
            event.holder,
            str(event.fence or ""),
            _remark(event),
        )
        for event in events
    ]
    return table(rows, ("WHEN (UTC)", "WHAT", "RESOURCE", "HOLDER", "FENCE", ""), width_of_terminal())


def _remark(event: Event) -> str:
    detail = event.detail
    if event.kind == "deadlock":
        cycle = detail.get("cycle")
        return " → ".join(map(str, cycle)) if isinstance(cycle, list | tuple) else ""
    if event.kind == "forced" and "by" not in detail:  # over git, the commits keep only the whole reason
        return str(detail.get("reason") or "").removeprefix("forced ")
    if event.kind == "refused":
        who = detail.get("by")
        return f"behind {', '.join(map(str, who))}" if isinstance(who, list | tuple) and who else ""
    told = ("status", "error", "name", *(["reason"] if event.kind == "renewed" else []))
    words = (*_by_whom(detail), *(detail.get(key) for key in told))
    return ", ".join(str(word) for word in words if word)


def _by_whom(detail: Mapping[str, object]) -> tuple[str, ...]:
    """Who did that to somebody else, and why: of a lease, of what was closed, of a session, of a key."""
    by, why = detail.get("by"), detail.get("why")
    return (f"by {by}: {why}" if why else f"by {by}",) if by else ()
