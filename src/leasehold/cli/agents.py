"""mcp: the tools for agents are imported here and nowhere else, as they are an extra."""

from __future__ import annotations

from leasehold.cli import settle_down
from leasehold.cli.outcomes import DONE
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context


def mcp(context: Context) -> int:
    """Serve one client over standard input and output, until it goes away."""
    try:
        from leasehold.mcp.stdio import serve  # noqa: PLC0415
    except ImportError as error:
        if error.name is not None and error.name.startswith("leasehold"):
            raise
        raise LeaseholdError(f"{error.name} is missing; install the tools: pip install 'leasehold[mcp]'") from None
    settle_down()
    given = context.values["holder"]
    serve(context.choice, context.holder if given is not None else None, context.space, context.session)
    return DONE
