"""lanes: show how many lanes a store has, or change their number."""

from __future__ import annotations

from leasehold.errors import InvalidInput
from leasehold.locks.connect import divide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def lanes(context: Context) -> int:
    """Show the number of lanes, or change it."""
    before, now = divide(context.choice, _number(context.values["lanes"]))
    text = "1 lane" if now == 1 else f"{now} lanes"
    if now != before:
        text = f"{text}, before {before}. Start every server of this store again:\n  leasehold serve"
    return context.end(None, text, {"lanes": now, "before": before})


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput("lanes", f"must be a whole number from 1 to 16, not {text}")
    return int(text)
