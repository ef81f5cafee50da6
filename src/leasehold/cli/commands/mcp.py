"""mcp: serve the locks as tools to an agent. Only this module imports the MCP server, which is an extra."""

from __future__ import annotations

import sys

from leasehold.cli.command_line import settle_down
from leasehold.cli.output import DONE, complain
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.domain.outcomes import Planned

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
    holder, plans = context.holder if given is not None else None, _AnnouncedPlans(context)
    serve(context.choice, holder, context.space, context.session, plans.keep)
    return DONE


class _AnnouncedPlans:
    """Saves the newest plan of each agent: the hooks of its editor show the token, and so lease parts of the plan."""

    def __init__(self, context: Context) -> None:
        self._choice, self._space = context.choice, context.space
        self._kept: dict[str, str] = {}
        """The ids of the plans, by holder."""

    def keep(self, outcome: Planned) -> None:
        """Save the token of a plan, and forget that of the plan which it replaced."""
        from leasehold.cli.tokens import Tokens  # noqa: PLC0415
        from leasehold.config.identity import NamedIdentity  # noqa: PLC0415

        plan = outcome.plan
        tokens = Tokens(self._choice.url, self._space, NamedIdentity(plan.holder))
        tokens.remember((plan.id,), plan.id, outcome.token)
        if plan.holder in self._kept:
            tokens.forget(self._kept[plan.holder])
        self._kept[plan.holder] = plan.id
