"""The commands that scripts run again and again, each a fresh process, and what they have in common with the others.

Apart from ``table``, so that a plain `leasehold acquire` does not have to build all of that.
"""

from __future__ import annotations

from leasehold.cli.command_line import Argument, Flag, Verb

JSON = Flag("--json", "print one JSON object, for a yes and for a no")
URL = Flag("--url", "where the locks live (default: LEASEHOLD_URL, leasehold.toml, or the embedded store)", "URL")
SPACE = Flag("--space", "the tenant that names live in (default: LEASEHOLD_SPACE, or 'default')", "SPACE")
HOLDER = Flag(
    "--holder", "who you are (default: LEASEHOLD_HOLDER, the agent or CI job that runs this, or its process)", "NAME"
)
CONNECT_TIMEOUT = Flag(
    "--connect-timeout",
    "how long to go on while the store cannot be reached (or: LEASEHOLD_CONNECT_TIMEOUT; default: 4s for a server)",
    "TIME",
)
COMMON = (JSON, URL, SPACE, HOLDER, CONNECT_TIMEOUT)
SESSION = Flag(
    "--session-file",
    "act for the session whose ID.SECRET is in there; - is standard input (or: LEASEHOLD_SESSION)",
    "FILE",
)

TTL = Flag("--ttl", "how long it lives unless it is renewed: 30s, 15m, 2h30m or seconds (default 30m)", "TIME")
AGAIN = Flag("--ttl", "a new TTL: 30s, 15m, 2h30m or seconds (default: as long as before)", "TIME")
WAIT = Flag("--wait", "how long to wait in the queue (default: answer at once)", "TIME", default="0")
TAKING = (
    TTL,
    WAIT,
    Flag("--mode", "exclusive (default), shared or slots", "MODE", None, ("exclusive", "shared", "slots")),
    Flag("--shared", "the same as --mode shared: many readers at a time"),
    Flag("--slots", "how many may hold it at the same time (default 1)", "N", default="1"),
    Flag("--any-of", "take the first of the resources that is free"),
    Flag("--name", "what the work is, for others to see", "TEXT"),
    Flag("--reason", "why it is held, for others to see", "TEXT"),
    Flag("--context", "JSON for others to see, at most 16 KiB", "JSON"),
    Flag("--priority", "a larger one is served first: -1000 to 1000 (default 0)", "N", default="0"),
    Flag("--grace", "after an unclean end, nobody gets it for this long: up to 60s (default 0)", "TIME", default="0"),
    Flag("--on-expiry", "free (default), or quarantine: closed until cleared", "HOW", "free", ("free", "quarantine")),
)
MAX_SKEW = Flag(
    "--max-skew",
    "git: trust wall clocks that differ by at most this, such as 30s (or: LEASEHOLD_MAX_SKEW; docs/git-clocks.md)",
    "TIME",
)
TOKEN_FILE = Flag("--token-file", "write the token there, not to the private state; - is standard output", "FILE")
TOKEN_IN = (
    Flag("--token-file", "read the token from there; - is standard input", "FILE"),
    Flag("--token-stdin", "the same as --token-file -"),
)
STATUSES = ("completed", "failed", "cancelled")
RESOURCES = Argument("resources", "names such as issue:42, path:src/a.py, deploy://api-prod, or any text", "+")
TARGETS = Argument("targets", "resources that you hold, or ids of leases", "+")

HOT = {
    verb.name: verb
    for verb in (
        Verb(
            "acquire",
            "take a lease, or say who has it",
            "acquire:acquire",
            (RESOURCES,),
            (
                *TAKING,
                Flag("--request-id", "a retry with the same id gets the same lease", "ID"),
                Flag("--reentrant", "if you hold it already, have the same lease extended instead of refused"),
                Flag("--local", "git: if the remote cannot be reached, take a lease that only this machine knows of"),
                MAX_SKEW,
                SESSION,
                TOKEN_FILE,
                *COMMON,
            ),
        ),
        Verb(
            "renew",
            "set the clock of a lease back to a full TTL",
            "own_leases:renew",
            (TARGETS,),
            (AGAIN, SESSION, *TOKEN_IN, *COMMON),
        ),
        Verb(
            "release",
            "give a lease back",
            "own_leases:release",
            (TARGETS,),
            (
                Flag(
                    "--status",
                    "how the work ended: completed (default), failed, cancelled",
                    "HOW",
                    "completed",
                    STATUSES,
                ),
                Flag("--error", "what went wrong", "TEXT"),
                SESSION,
                *TOKEN_IN,
                *COMMON,
            ),
        ),
    )
}
