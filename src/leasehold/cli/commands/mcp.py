"""mcp: serve the locks as tools to an agent. Only this module imports the MCP server, which is an extra."""

from __future__ import annotations

import sys

from leasehold.cli.command_line import settle_down
from leasehold.cli.output import DONE, complain
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context

FOR_AGENTS = """\
leasehold mcp: waiting for an agent on standard input (MCP). Ctrl-C ends it.
Editors start it themselves once it is set up:
  leasehold install claude"""


def mcp(context: Context) -> int:
    """Serve one client over standard input and output, until it disconnects."""
    try:
        from leasehold.mcp.stdio import serve  # noqa: PLC0415
    except ImportError as error:
        if error.name is not None and error.name.startswith("leasehold"):
            raise
        raise LeaseholdError(f"{error.name} is missing; install the tools: pip install 'leasehold[mcp]'") from None
    settle_down()
    if sys.stdin is not None and sys.stdin.isatty():  # a person tries it out, and would see nothing at all
        complain(FOR_AGENTS)
    given = context.values["holder"]
    serve(context.choice, context.holder if given is not None else None, context.space, context.session)
    return DONE
