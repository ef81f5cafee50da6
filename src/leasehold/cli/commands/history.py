"""history: past events, newest first; with --plot, a picture of the leases over time.

SVG needs nothing more; PNG needs Pillow, which is an extra.
"""

from __future__ import annotations

from leasehold.cli.context import accepted
from leasehold.cli.terminal.columns import counted, table, width_of_terminal
from leasehold.domain import durations
from leasehold.domain.leases import Inspection
from leasehold.domain.names import shown
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.domain.events import Event
    from leasehold.pictures.shapes import Picture

LIMIT = 10_000
"""The most events in a picture, unless --limit says otherwise."""


def history(context: Context) -> int:
    """Print past events, newest first."""
    values = context.values
    if values["plot"] is not None:
        return _plotted(context, values["plot"])
    events = _events(context, tuple(values["kind"]), 50)
    narrowed = any(values[name] for name in ("resource", "of", "lease", "kind", "since"))
    nothing = "No event is like that." if narrowed else "Nothing happened yet."
    if context.choice.url.startswith("git"):
        nothing = "No events: over git, history is only what is held now, and what ended uncleanly in the last day."
    return context.end(events, _event_table(events) if events else nothing, wire.events(events))


def _plotted(context: Context, file: str) -> int:
    """Draw the leases of this history into a file."""
    from leasehold.pictures.runs import KINDS  # noqa: PLC0415 (not for a history in text)

    if not file.endswith((".svg", ".png")):  # before the store is asked
        raise InvalidInput("plot", f"must end in .svg or .png, not {shown(file)[-40:]!r}")
    if context.values["kind"]:
        raise InvalidInput("kind", "--kind and --plot do not go together: a picture shows leases, not single events")
    events = _events(context, KINDS, LIMIT)
    seen = context.locks.inspect("leasehold")
    now = seen.now_us if isinstance(seen, Inspection) else max((event.at_us for event in events), default=0)
    return context.end(events, _draw(file, events, now), {**wire.events(events), "plot": file})


def _events(context: Context, kinds: tuple[str, ...], most: int) -> tuple[Event, ...]:
    values = context.values
    found = context.locks.history(
        space=None if values["all_spaces"] else context.space,
        resource=values["resource"],
        holder=values["of"],
        lease=values["lease"],
        kinds=kinds,
        since=_since(context),
        limit=most if values["limit"] is None else context.number("limit"),
    )
    return accepted(found)


def _since(context: Context) -> int | None:
    """Return --since as a time of the store's clock."""
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
            ", ".join(filter(None, (_remark(event), _principal(event)))),
        )
        for event in events
    ]
    return table(rows, ("WHEN (UTC)", "WHAT", "RESOURCE", "HOLDER", "FENCE", ""), width_of_terminal())


def _principal(event: Event) -> str:
    """Say whose key it was, where the holder's name does not."""
    principal = str(event.detail.get("principal") or "")
    return "" if principal.rpartition(":")[0] in ("", event.holder) else f"key of {principal}"


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
    if event.kind == "noted":
        return f"by {detail.get('by')}: {detail.get('note') or '(removed)'}"
    told = ("status", "error", "name", *(["reason"] if event.kind == "renewed" else []))
    by, why = detail.get("by"), detail.get("why")
    admin = by and (f"by {by}: {why}" if why else f"by {by}")
    return ", ".join(str(word) for word in (admin, *(detail.get(key) for key in told)) if word)


def _draw(file: str, events: tuple[Event, ...], now: int) -> str:
    """Draw these events into a file and return a summary."""
    from pathlib import Path  # noqa: PLC0415 (not for a history in text)

    from leasehold.pictures.runs import runs_of  # noqa: PLC0415
    from leasehold.pictures.svg import svg  # noqa: PLC0415
    from leasehold.pictures.timeline import timeline  # noqa: PLC0415

    runs = runs_of(events)
    picture = timeline(runs, now)
    content = svg(picture).encode() if file.endswith(".svg") else _png(picture)
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise InvalidInput("plot", f"{shown(file)} cannot be written: {error.strerror or error}") from None
    return f"Drew {counted(len(runs), 'lease')}: {shown(file)}"


def _png(picture: Picture) -> bytes:
    try:
        from leasehold.pictures.png import png  # noqa: PLC0415 (an extra)
    except ImportError as error:
        if error.name is None or not error.name.startswith("PIL"):
            raise
        raise LeaseholdError(
            "PNG needs Pillow, which is not installed: pip install 'leasehold[plot]', or name a file that ends in .svg"
        ) from None
    try:
        return png(picture)
    except ValueError as error:
        raise InvalidInput("plot", str(error)) from None
