"""acquire, renew and release, and the options that they share with other commands.

They have a module of their own so that a plain `leasehold acquire` does not build the whole ``table``.
"""

from __future__ import annotations

from leasehold.cli.command_line import CliArgument, CliVerb, Flag

JSON = Flag("--json", "print one JSON object, for a success and for a refusal")
URL = Flag("--url", "where the locks live (default: LEASEHOLD_URL, leasehold.toml, or the embedded store)", "URL")
SPACE = Flag("--space", "the space of the names (default: LEASEHOLD_SPACE, or 'default')", "SPACE")
HOLDER = Flag(
    "--holder", "your name (default: LEASEHOLD_HOLDER, else the agent or CI job that runs this, or its process)", "NAME"
)
CONNECT_TIMEOUT = Flag(
    "--connect-timeout",
    "how long to retry if the store cannot be reached (or: LEASEHOLD_CONNECT_TIMEOUT; default: 4s for a server)",
    "TIME",
)
COMMON = (JSON, URL, SPACE, HOLDER, CONNECT_TIMEOUT)
SESSION = Flag(
    "--session-file",
    "act in the session whose ID.SECRET is in this file; - is standard input (or: LEASEHOLD_SESSION)",
    "FILE",
)

TTL = Flag("--ttl", "how long the lease lives unless renewed: 30s, 15m, 2h30m or seconds (default 30m)", "TIME")
AGAIN = Flag("--ttl", "a new TTL: 30s, 15m, 2h30m or seconds (default: as before)", "TIME")
WAIT = Flag("--wait", "how long to wait in the queue (default: do not wait)", "TIME", default="0")
TAKING = (
    TTL,
    WAIT,
    Flag("--mode", "exclusive (default), shared or slots", "MODE", None, ("exclusive", "shared", "slots")),
    Flag("--shared", "the same as --mode shared: many readers at a time"),
    Flag("--slots", "how many may hold the resource at the same time (default 1)", "N", default="1"),
    Flag("--any-of", "acquire the first of the resources that is free"),
    Flag("--name", "the name of your work, for others to see", "TEXT"),
    Flag("--reason", "why you hold it, for others to see", "TEXT"),
    Flag("--context", "JSON for others to see, at most 16 KiB", "JSON"),
    Flag("--priority", "-1000 to 1000; larger is served first (default 0)", "N", default="0"),
    Flag("--grace", "after an unclean end, block the resource so long: up to 60s (default 0)", "TIME", default="0"),
    Flag("--on-expiry", "free (default), or quarantine: closed until cleared", "HOW", "free", ("free", "quarantine")),
)
MAX_SKEW = Flag(
    "--max-skew",
    "git: trust wall clocks that differ by at most this, such as 30s "
    "(or: LEASEHOLD_MAX_SKEW; docs/explanation/git-clocks.md)",
    "TIME",
)
TOKEN_FILE = Flag(
    "--token-file", "write the token to this file, not to the private state; - is standard output", "FILE"
)
TOKEN_IN = (
    Flag("--token-file", "read the token from this file; - is standard input", "FILE"),
    Flag("--token-stdin", "the same as --token-file -"),
)
STATUSES = ("completed", "failed", "cancelled")
RESOURCES = CliArgument(
    "resources",
    "names such as issue:42, path:src/a.py, 'path:src/**/*.py', deploy://api-prod, pool://ports/3000-3099, or any text",
    "+",
)
TARGETS = CliArgument("targets", "resources that you hold, or ids of leases", "+")

HOT = {
    verb.name: verb
    for verb in (
        CliVerb(
            "acquire",
            "acquire a lease, or see who holds it",
            "acquire:acquire",
            (RESOURCES,),
            (
                *TAKING,
                Flag("--request-id", "make retries safe: the same id gets the same lease", "ID"),
                Flag("--reentrant", "if you hold it already, extend your lease instead of being refused"),
                Flag("--local", "git: if the remote cannot be reached, acquire a lease on this machine only"),
                MAX_SKEW,
                SESSION,
                TOKEN_FILE,
                Flag(
                    "--print",
                    "print only this: the value (a pool's member, else the resource), fence or lease",
                    "WHAT",
                    None,
                    ("value", "fence", "lease"),
                ),
                *COMMON,
            ),
        ),
        CliVerb(
            "renew",
            "reset the TTL of a lease",
            "own_leases:renew",
            (TARGETS,),
            (AGAIN, SESSION, *TOKEN_IN, *COMMON),
        ),
        CliVerb(
            "release",
            "release a lease",
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
