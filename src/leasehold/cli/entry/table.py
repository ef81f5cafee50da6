"""The table of commands with their arguments and options, for the parser, ``help``, completion and the docs' tests.

A new command needs a `CliVerb` here or in ``families``, a handler in ``cli.commands``, examples in ``examples``, an
answer in ``schemas`` and a section in docs/reference/cli.md. Tests fail for each of them that is missing.
"""

from __future__ import annotations

from leasehold.cli.command_line import CliArgument, CliVerb, Flag
from leasehold.cli.entry.families import FAMILY_VERBS
from leasehold.cli.entry.quick import (
    COMMON,
    CONNECT_TIMEOUT,
    HOT,
    JSON,
    MAX_SKEW,
    RESOURCES,
    SESSION,
    TAKING,
    TOKEN_FILE,
    TOKEN_IN,
    TTL,
    URL,
)

ADMIN = (
    Flag("--reason", "why you do this, for the history (required)", "TEXT"),
    Flag("--by", "the admin's name (default: yours)", "NAME"),
)
FAILING = ("open", "closed")
INSTALLING = (CliArgument("what", "claude, codex, cursor, gemini, copilot, opencode, windsurf, git or skill"),)
INSTALL = (
    Flag("--dry-run", "show the changes without making them"),
    Flag("--user", "for all of your projects, not only this one"),
    Flag("--policy", "off, warn, require (default), require-plans or require-own", "HOW"),
    Flag("--http", "let this server answer Claude Code's hooks, so that no process starts for each edit", "URL"),
    Flag(
        "--target",
        "whose skill: claude (default), codex, cursor, gemini, copilot, opencode, windsurf or agents",
        "WHOSE",
        "claude",
    ),
    Flag(
        "--on-failure",
        "if the locks cannot be asked: allow edits (open, default), or refuse them (closed)",
        "HOW",
        "open",
        FAILING,
    ),
    Flag("--server", "git: the pre-receive hook of a bare repository"),
    JSON,
)
GRAPHS = ("text", "mermaid", "dot", "svg")

_VERBS = (
    CliVerb(
        "update",
        "replace the context of a lease, or merge into it",
        "own_leases:update",
        (CliArgument("target", "a resource that you hold, or the id of a lease"),),
        (
            Flag("--context", "the new context (required)", "JSON"),
            Flag("--merge", "merge it into the context that is there"),
            SESSION,
            *TOKEN_IN,
            *COMMON,
        ),
    ),
    CliVerb(
        "inspect",
        "show who holds a resource, and who waits for it",
        "queries:inspect",
        (CliArgument("resource", "its name"),),
        COMMON,
    ),
    CliVerb(
        "plan",
        "announce what you are about to touch, or show all plans and where they collide",
        "plan:plan",
        (CliArgument("resources", "names and patterns that you are about to touch; none: show all plans", "*"),),
        (
            Flag("--name", "the name of your work, for others to see", "TEXT"),
            Flag("--reason", "why you plan it, for others to see", "TEXT"),
            Flag("--ttl", "how long the plan lives (default 30m)", "TIME"),
            Flag("--firm", "queue for all of it at once, and acquire it whole once it is free"),
            Flag("--wait", "how long a firm plan waits (default 24h; 0: not at all)", "TIME"),
            Flag("--format", "text (default) or svg, for all plans", "FORMAT", "text", ("text", "svg")),
            SESSION,
            *COMMON,
        ),
    ),
    CliVerb(
        "wait",
        "wait until a resource is free, and take nothing: its end wakes an agent",
        "wait:wait",
        (CliArgument("resource", "its name"),),
        (Flag("--timeout", "how long to wait at most (default: for ever)", "TIME"), *COMMON),
    ),
    CliVerb(
        "list",
        "list every live lease",
        "queries:list_leases",
        (),
        (
            Flag("--mine", "only yours"),
            Flag("--of", "only of this holder", "NAME"),
            Flag("--resource", "only on this resource", "NAME"),
            Flag("--all-spaces", "of every space"),
            *COMMON,
        ),
    ),
    CliVerb(
        "history",
        "list past events, newest first",
        "history:history",
        (CliArgument("resource", "only of this resource", "?"),),
        (
            Flag("--of", "only of this holder", "NAME"),
            Flag("--lease", "only of this lease", "ID"),
            Flag("--kind", "only of this kind, such as granted, released, expired (repeat it)", "KIND", many=True),
            Flag("--since", "not older than this: 2h, 30m", "TIME"),
            Flag("--limit", "the most events to show (default 50; with --plot 10000)", "N"),
            Flag("--plot", "draw the leases over time into this file instead: .svg or .png", "FILE"),
            Flag("--all-spaces", "of every space"),
            *COMMON,
        ),
    ),
    CliVerb(
        "graph",
        "show who waits for whom, and which deadlocks were refused",
        "queries:graph",
        (),
        (
            Flag("--format", "text (default), mermaid, dot or svg", "FORMAT", "text", GRAPHS),
            Flag("--all-spaces", "of every space"),
            *COMMON,
        ),
    ),
    CliVerb(
        "watch",
        "show a live table of holders and waiters",
        "watch:watch",
        (CliArgument("resource", "only this resource", "?"),),
        (
            Flag("--interval", "how often to refresh (default 1s)", "TIME", default="1s"),
            Flag("--count", "stop after so many refreshes (default: never)", "N"),
            Flag("--json", "print one JSON object a line for each refresh"),
            *COMMON[1:],
        ),
    ),
    CliVerb(
        "run",
        "run a command while you hold the lease",
        "run:run",
        (CliArgument("resources", RESOURCES.help, "*"), CliArgument("command", "what to run, after --", "--")),
        (
            Flag("--ttl", "how long the lease lives unless renewed (default 1m, as the run renews it)", "TIME"),
            *(option for option in TAKING if option is not TTL),
            Flag(
                "--on-lost",
                "what to do with the command if the lease is lost: term (default), kill or warn",
                "HOW",
                "term",
                ("term", "kill", "warn"),
            ),
            Flag("--kill-after", "how long after TERM to send KILL (default 10s)", "TIME", default="10s"),
            Flag("--pool", "instead of names: acquire a free member of this pool, such as ports/3000-3099", "POOL"),
            Flag("--lead", "wait until you are elected, end the command if you are deposed, and wait again (TTL: 15s)"),
            MAX_SKEW,
            SESSION,
            Flag("--json", "print JSON lines, the result last; the command's output goes to standard error"),
            *COMMON[1:],
        ),
    ),
    CliVerb(
        "gc",
        "remove expired records, and trim the history to its retention",
        "admin:collect",
        (),
        (MAX_SKEW, *COMMON),
    ),
    CliVerb(
        "backup",
        "copy an embedded store into a file, while it is in use",
        "backup:backup",
        (CliArgument("file", "the new file"),),
        COMMON,
    ),
    CliVerb(
        "restore",
        "check that a backup can be restored",
        "backup:restore",
        (CliArgument("file", "the backup"),),
        (Flag("--check", "restore a copy of it elsewhere, and say what it has"), *COMMON),
    ),
    CliVerb(
        "lanes",
        "show how many lanes a store has, or change their number",
        "lanes:lanes",
        (CliArgument("lanes", "the new number, 1 to 16", "?"),),
        (JSON, URL, CONNECT_TIMEOUT),
    ),
    CliVerb(
        "guard",
        "check whether you may change these paths",
        "guard:guard",
        (CliArgument("paths", "files or directories, relative to the working directory; none with --staged", "*"),),
        (
            Flag("--staged", "check the files that are staged for the next commit"),
            Flag("--policy", "off, warn, require, require-plans or require-own (default: lock_policy, or warn)", "HOW"),
            SESSION,
            *COMMON,
        ),
    ),
    CliVerb(
        "force-release",
        "end another holder's lease",
        "admin:force_release",
        (CliArgument("target", "the resource, or the id of the lease"),),
        (*ADMIN, *COMMON),
    ),
    CliVerb(
        "steal",
        "take over a resource from its holder, in one step",
        "admin:steal",
        (RESOURCES,),
        (TTL, Flag("--name", "the name of your work", "TEXT"), *ADMIN, TOKEN_FILE, *COMMON),
    ),
    CliVerb(
        "clear",
        "reopen a resource that was closed after an unclean end",
        "admin:clear",
        (CliArgument("resource", "its name"),),
        (*ADMIN, *COMMON),
    ),
    CliVerb(
        "extend",
        "give the holder of a lease more time",
        "admin:extend",
        (CliArgument("lease", "the id of the lease"),),
        (TTL, *ADMIN, *COMMON),
    ),
    CliVerb(
        "note",
        "leave a note on a resource for everybody who looks at it",
        "admin:note",
        (CliArgument("resource", "its name"), CliArgument("text", "the note; none removes the one before", "?")),
        (Flag("--by", "who says it (default: you)", "NAME"), *COMMON),
    ),
    CliVerb(
        "pool",
        "declare the members of a pool, or show those that are declared",
        "admin:pool",
        (
            CliArgument("pool", "its name, such as gpu"),
            CliArgument(
                "members", "all of its members, each with its labels after it: 'g0 a100'; none shows them", "*"
            ),
        ),
        (
            Flag("--forget", "forget the members that are declared"),
            Flag("--by", "the admin's name (default: yours)", "NAME"),
            *COMMON,
        ),
    ),
    CliVerb(
        "adopt",
        "at a terminal: take over the token of a lease that another process of yours acquired",
        "adopt:adopt",
        (CliArgument("target", "the resource, or the id of the lease"),),
        COMMON[1:],
    ),
    CliVerb(
        "serve",
        "serve the locks over HTTP",
        "serve:serve",
        (),
        (
            Flag("--store", "where the locks live; another name for --url", "URL"),
            Flag("--host", "the address to listen on (default 127.0.0.1; others only with keys)", "HOST", "127.0.0.1"),
            Flag("--port", "the port to listen on (default 7420; 0: any free one)", "PORT", "7420"),
            Flag("--tls-cert", "the certificate, a PEM file", "FILE"),
            Flag("--tls-key", "its private key, a PEM file", "FILE"),
            Flag(
                "--keep-open",
                "how long a waiting request stays open before it is answered with a ticket (default 50s)",
                "TIME",
                "50s",
            ),
            Flag(
                "--keep-place",
                "how long a ticket keeps its place in the queue (default 10s)",
                "TIME",
                "10s",
            ),
            Flag("--advertise", "the URL at which other servers of this store reach this one (auto: its own)", "URL"),
            Flag("--peer", "a server to which requests may be handed on (repeat it)", "URL", many=True),
            Flag("--webhook", "send events to this URL (repeat it; see docs/how-to/server.md)", "URL", many=True),
            Flag("--webhook-private", "allow webhooks to this machine and to private networks"),
            Flag("--webhook-state", "the file that records which events were sent", "FILE"),
            Flag("--traces", "where spans go: off (default), otlp or file:PATH; needs the extra otel", "WHERE", "off"),
            Flag("--trace-ratio", "of requests without a trace, the part that begins one (default 0.01)", "N", "0.01"),
            Flag("--log-format", "how to log: json (default) or text", "HOW", "json", ("json", "text")),
            Flag("--rate", "the most requests a second for one key (default 1000; 0: no limit)", "N", "1000"),
            *COMMON,
        ),
    ),
    CliVerb(
        "install", "set up editors and git to check the locks by themselves", "install:install", INSTALLING, INSTALL
    ),
    CliVerb("uninstall", "remove what install has set up", "install:uninstall", INSTALLING, INSTALL),
    CliVerb("prompt", "print instructions about locks for an agent's prompt", "install:prompt", (), (JSON,)),
    CliVerb(
        "hook",
        "answer an editor's hook; `leasehold install` sets it up",
        "hook:hook",
        (CliArgument("editor", "claude, codex, cursor, gemini, copilot, opencode or windsurf"),),
        (
            Flag(
                "--policy", "off, warn, require, require-plans, require-own (default: lock_policy, or require)", "HOW"
            ),
            Flag("--look-only", "only check for leases of others; never acquire one by editing"),
            Flag("--on-failure", "if the locks cannot be asked: open (default) or closed", "HOW", "open", FAILING),
            *COMMON[1:],
        ),
    ),
    CliVerb(
        "git-hook",
        "answer a hook of git; `leasehold install git` sets it up",
        "git_hook:git_hook",
        (
            CliArgument("name", "pre-commit, prepare-commit-msg, commit-msg, pre-push or pre-receive"),
            CliArgument("words", "the arguments that git passes", "*"),
        ),
        (
            Flag("--policy", "off, warn, require, require-plans or require-own (default: lock_policy, or warn)", "HOW"),
            Flag(
                "--people",
                "people, who are no agents: warn them only (warn, default), or block them too (block)",
                "HOW",
                "warn",
                ("warn", "block"),
            ),
            *COMMON[1:],
        ),
    ),
    CliVerb(
        "mcp",
        "serve the locks as tools to one agent, over standard input and output",
        "mcp:mcp",
        (),
        (SESSION, *COMMON[1:]),
    ),
    CliVerb(
        "doctor",
        "check the store, the settings and your identity",
        "doctor:doctor",
        (),
        (Flag("--accept-restore", "accept a database that was restored from a backup"), *COMMON),
    ),
    CliVerb("version", "print the version", "doctor:version", (), (JSON,)),
    CliVerb(
        "completion",
        "print the completion script of a shell",
        "completion:completion",
        (CliArgument("shell", "bash, zsh or fish"),),
        (JSON,),
    ),
)
VERBS = HOT | {verb.name: verb for verb in (*_VERBS, *FAMILY_VERBS)}
"""Every command by its name."""
