"""The command line: it parses, calls one verb of `Locks`, and shows the outcome."""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Without `argv`, run as the program and end the process."""
    if argv is None:
        # A command that lives for some milliseconds needs no garbage collection (see `command_line.settle_down`), and
        # collections while it loads its modules would take 3 % of its instructions.
        gc.disable()
        from leasehold.cli import quick_import  # noqa: PLC0415

        quick_import.install()
    from leasehold.cli import command_line  # noqa: PLC0415 (after the finder that finds it more quickly)

    return command_line.main(argv)
