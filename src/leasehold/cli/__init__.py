"""The command line: it parses, calls one verb of `Locks`, and shows the outcome."""

from __future__ import annotations

from leasehold.cli.command_line import main

__all__ = ["main"]
