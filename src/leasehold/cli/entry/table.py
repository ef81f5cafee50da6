"""Every command, its words and options: read by hand for speed, and by ``help``, completion and the docs' tests.

A new command is a `Verb` here with its handler in a module of its own, its examples in ``examples`` (a plain command
line does not need them), its answer in ``schemas`` and its section in docs/cli.md: tests miss whichever is missing.
"""

from __future__ import annotations

from leasehold.cli.command_line import Argument, Flag, Verb
from leasehold.cli.entry.quick import (
    AGAIN,
    COMMON,
    HOT,
    JSON,
    MAX_SKEW,
    RESOURCES,
    SESSION,
    TAKING,
    TOKEN_FILE,
    TOKEN_IN,
    TTL,
)

ADMIN = (
    Flag("--reason", "why; it is in the history (required)", "TEXT"),
    Flag("--by", "who does it (default: you)", "NAME"),
)
LOCKED = Argument("name", "its name: issue:…, path:… or repo:…; the same as --resource", "?")
LOCK = (
    Flag("--resource", "its name", "NAME"),
    Flag("--ttl", "how long it lives: seconds, or 30s, 15m, 1h (default 300)", "TIME", default="300"),
    SESSION,
)
FAILING = ("open", "closed")
ROLES = ("admin", "agent", "viewer")
INSTALLING = (Argument("what", "claude, codex, cursor, git or skill"),)
INSTALL = (
    Flag("--dry-run", "only show what would change"),
    Flag("--user", "for all of your projects, not only for this one"),
    Flag("--policy", "off, warn, require (default) or require-own", "HOW"),
    Flag("--http", "have a server answer Claude Code's hooks, so that no process starts for each edit", "URL"),
    Flag("--target", "whose skill: claude (default), codex, cursor or agents", "WHOSE", "claude"),
    Flag(
        "--on-failure",
        "if the locks cannot be asked, edits go on: open (default), or not: closed",
        "HOW",
        "open",
        FAILING,
    ),
    Flag("--server", "git: the pre-receive hook of a bare repository"),
    JSON,
)
RUN_ID = Argument("id", "the run's id, as `workflow create` gave it: wf-…")
SCOPE = (
    Flag("--org", "the organisation (default: LEASEHOLD_ORGANIZATION_ID, AGIFLOW_ORGANIZATION_ID)", "ID"),
    Flag("--project", "the project (default: LEASEHOLD_PROJECT_ID, AGIFLOW_PROJECT_ID)", "ID"),
)
WHAT = (
    Flag("--work-unit", "which work unit (default: LEASEHOLD_WORK_UNIT_ID, AGIFLOW_WORK_UNIT_ID)", "ID"),
    Flag("--task", "which task, instead of a work unit (default: LEASEHOLD_TASK_ID, AGIFLOW_TASK_ID)", "ID"),
)
GRAPHS = ("text", "mermaid", "dot", "svg")
RUN_STATUSES = ("running", "completed", "failed", "cancelled", "expired")


def _table(*verbs: Verb) -> dict[str, Verb]:
    return {verb.name: verb for verb in verbs}


VERBS = HOT | _table(
    Verb(
        "update",
        "replace the context of a lease, or merge into it",
        "own_leases:update",
        (Argument("target", "a resource that you hold, or the id of a lease"),),
        (
            Flag("--context", "the new context (required)", "JSON"),
            Flag("--merge", "merge it into the context that is there"),
            SESSION,
            *TOKEN_IN,
            *COMMON,
        ),
    ),
    Verb(
        "inspect",
        "who holds a resource, and who waits for it",
        "queries:inspect",
        (Argument("resource", "its name"),),
        COMMON,
    ),
    Verb(
        "list",
        "every live lease",
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
    Verb(
        "history",
        "what happened, newest first",
        "history:history",
        (Argument("resource", "only of this resource", "?"),),
        (
            Flag("--of", "only of this holder", "NAME"),
            Flag("--lease", "only of this lease", "ID"),
            Flag("--kind", "only of this kind, such as granted, released, expired (repeat it)", "KIND", many=True),
            Flag("--since", "not older than this: 2h, 30m", "TIME"),
            Flag("--limit", "at most so many events (default 50; with --plot 10000)", "N"),
            Flag("--plot", "draw the leases over time instead: a file that ends in .svg or .png", "FILE"),
            Flag("--all-spaces", "of every space"),
            *COMMON,
        ),
    ),
    Verb(
        "graph",
        "who waits for whom, and which deadlocks were refused",
        "queries:graph",
        (),
        (
            Flag("--format", "text (default), mermaid, dot or svg", "FORMAT", "text", GRAPHS),
            Flag("--all-spaces", "of every space"),
            *COMMON,
        ),
    ),
    Verb(
        "watch",
        "a live table of who holds what and who waits",
        "watch:watch",
        (Argument("resource", "only this resource", "?"),),
        (
            Flag("--interval", "how often to look (default 1s)", "TIME", default="1s"),
            Flag("--count", "stop after so many looks (default: never)", "N"),
            Flag("--json", "print one JSON object for each look, a line each"),
            *COMMON[1:],
        ),
    ),
    Verb(
        "run",
        "run a command while you hold the lease",
        "run:run",
        (RESOURCES, Argument("command", "what to run, after --", "--")),
        (
            Flag("--ttl", "how long it lives unless it is renewed (default 1m: it is renewed all the time)", "TIME"),
            *(option for option in TAKING if option is not TTL),
            Flag(
                "--on-lost",
                "what becomes of the command if the lease is lost: term (default), kill, warn",
                "HOW",
                "term",
                ("term", "kill", "warn"),
            ),
            Flag("--kill-after", "how long after TERM it is killed (default 10s)", "TIME", default="10s"),
            MAX_SKEW,
            SESSION,
            Flag("--json", "print JSON lines, the last one the answer; the command's output goes to standard error"),
            *COMMON[1:],
        ),
    ),
    Verb(
        "session start",
        "begin a session: what is taken in its name ends with it",
        "session:start",
        (),
        (
            TTL,
            Flag("--name", "what the run is, for others to see", "TEXT"),
            Flag("--session-file", "write ID.SECRET there instead of printing it", "FILE"),
            *COMMON,
        ),
    ),
    Verb(
        "session heartbeat",
        "a full TTL again for the session and all of its leases",
        "session:heartbeat",
        (),
        (SESSION, *COMMON),
    ),
    Verb(
        "session end",
        "release everything the session holds",
        "session:end",
        (Argument("id", "the id of somebody else's session, for admins", "?"),),
        (SESSION, Flag("--by", "end it as an admin of this name", "NAME"), *COMMON),
    ),
    Verb("session list", "every live session", "session:list_sessions", (), COMMON),
    Verb(
        "workflow create",
        "begin a run, unless another is active on the same work",
        "workflow:create",
        (),
        (
            Flag("--name", "what the run is, such as deploy-staging (required)", "TEXT"),
            *WHAT,
            TTL,
            Flag("--wait", "how long to wait for the active run to end (default: answer at once)", "TIME", default="0"),
            Flag("--context", "JSON for others to see, at most 16 KiB", "JSON"),
            *SCOPE,
            *COMMON,
        ),
    ),
    Verb("workflow get", "a run, active or over", "workflow:get", (RUN_ID,), (*SCOPE, *COMMON)),
    Verb("workflow check", "the run that is active, or {}", "workflow:check", (), (*WHAT, *SCOPE, *COMMON)),
    Verb(
        "workflow list",
        "the runs of a project, newest first",
        "workflow:list_runs",
        (),
        (
            Flag("--status", "only these: running, completed, failed, cancelled, expired", "HOW", None, RUN_STATUSES),
            Flag("--work-unit", "only of this work unit", "ID"),
            Flag("--task", "only of this task", "ID"),
            Flag("--limit", "at most so many (default 50)", "N", default="50"),
            *SCOPE,
            *COMMON,
        ),
    ),
    Verb(
        "workflow update",
        "replace the context of a run, or merge into it; also a heartbeat",
        "workflow:update",
        (RUN_ID,),
        (
            Flag("--context", "the new context (required)", "JSON"),
            Flag("--merge", "merge it into the context that is there"),
            *SCOPE,
            *COMMON,
        ),
    ),
    Verb(
        "workflow heartbeat",
        "set the clock of a run back to a full TTL",
        "workflow:heartbeat",
        (RUN_ID,),
        (AGAIN, *SCOPE, *COMMON),
    ),
    Verb(
        "workflow release",
        "end a run, with its outcome",
        "workflow:release",
        (RUN_ID,),
        (
            Flag("--status", "how it ended: completed (default) or failed", "HOW", "completed", RUN_STATUSES[1:3]),
            Flag("--error", "what went wrong", "TEXT"),
            *SCOPE,
            *COMMON,
        ),
    ),
    Verb(
        "gc",
        "sweep what has expired, and trim the history to its retention",
        "admin:collect",
        (),
        (MAX_SKEW, *COMMON),
    ),
    Verb("lock acquire", "take a lock, in grite's words", "lock:acquire", (LOCKED,), (*LOCK, MAX_SKEW, *COMMON)),
    Verb("lock renew", "extend a lock, or acquire it", "lock:renew", (LOCKED,), (*LOCK, MAX_SKEW, *COMMON)),
    Verb("lock release", "give a lock back", "lock:release", (LOCKED,), (LOCK[0], SESSION, *COMMON)),
    Verb("lock status", "every active lock, grite's own too", "lock:status", (LOCKED,), (LOCK[0], *COMMON)),
    Verb("lock gc", "remove expired locks, for everybody", "lock:gc", (), (MAX_SKEW, *COMMON)),
    Verb(
        "guard",
        "may these paths be changed by you?",
        "guard:guard",
        (Argument("paths", "files or directories, relative to here; none with --staged", "*"),),
        (
            Flag("--staged", "what is staged for the next commit"),
            Flag("--policy", "off, warn, require or require-own (default: lock_policy, or warn)", "HOW"),
            SESSION,
            *COMMON,
        ),
    ),
    Verb(
        "force-release",
        "end somebody's lease",
        "admin:force_release",
        (Argument("target", "the resource, or the id of the lease"),),
        (*ADMIN, *COMMON),
    ),
    Verb(
        "steal",
        "take over what somebody else holds, in one step",
        "admin:steal",
        (RESOURCES,),
        (TTL, Flag("--name", "what the work is", "TEXT"), *ADMIN, TOKEN_FILE, *COMMON),
    ),
    Verb(
        "clear",
        "open a resource that was closed after an unclean end",
        "admin:clear",
        (Argument("resource", "its name"),),
        (*ADMIN, *COMMON),
    ),
    Verb(
        "adopt",
        "at a terminal: keep the token of a lease that another process of yours took",
        "adopt:adopt",
        (Argument("target", "the resource, or the id of the lease"),),
        COMMON[1:],
    ),
    Verb(
        "keys create",
        "let somebody in at the servers of this store",
        "keys:create",
        (Argument("name", "whose key it is: what an admin does is told under this name"),),
        (
            Flag("--role", "what it allows: admin, agent or viewer (default agent)", "ROLE", "agent", ROLES),
            Flag("--prefix", "only names that begin with this (repeat it)", "TEXT", many=True),
            Flag("--key-file", "write the key there instead of printing it; never over what is there", "FILE"),
            *COMMON,
        ),
    ),
    Verb("keys list", "every key, without its secret", "keys:list_keys", (), COMMON),
    Verb(
        "keys rotate",
        "add a key to a principal; the one before it counts for a while yet",
        "keys:rotate",
        (Argument("key", "the id of the key to replace, as `keys list` shows it"),),
        (
            Flag("--overlap", "how long the key before still counts (default 1h; 0: not at all)", "TIME", "1h"),
            Flag("--key-file", "write the key there instead of printing it; never over what is there", "FILE"),
            *COMMON,
        ),
    ),
    Verb(
        "keys revoke",
        "revoke a key",
        "keys:revoke",
        (Argument("key", "its id, as `keys list` shows it"),),
        COMMON,
    ),
    Verb(
        "serve",
        "serve these locks over HTTP",
        "serve:serve",
        (),
        (
            Flag("--store", "where the locks live: the same as --url", "URL"),
            Flag("--host", "where to listen (default 127.0.0.1; elsewhere only with keys)", "HOST", "127.0.0.1"),
            Flag("--port", "on which port (default 7420; 0: any that is free)", "PORT", "7420"),
            Flag("--tls-cert", "the certificate, a PEM file", "FILE"),
            Flag("--tls-key", "its private key, a PEM file", "FILE"),
            Flag(
                "--keep-open",
                "how long a waiting request stays open before it gets a ticket (default 50s)",
                "TIME",
                "50s",
            ),
            Flag(
                "--keep-place",
                "how long a place in the queue is kept for a ticket (default 10s)",
                "TIME",
                "10s",
            ),
            Flag("--webhook", "tell this URL what happens (repeat it; docs/server.md)", "URL", many=True),
            Flag("--webhook-private", "webhooks may go to this machine and to private networks"),
            Flag("--webhook-state", "the file that remembers what webhooks were sent", "FILE"),
            Flag("--rate", "requests a second that one key may make (default 1000; 0: no limit)", "N", "1000"),
            *COMMON,
        ),
    ),
    Verb("install", "have editors and git ask for locks by themselves", "install:install", INSTALLING, INSTALL),
    Verb("uninstall", "take away what install has set up", "install:uninstall", INSTALLING, INSTALL),
    Verb("prompt", "print what agents should know about locks", "install:prompt", (), (JSON,)),
    Verb(
        "hook",
        "answer an editor's hook: `leasehold install` sets it up",
        "hook:hook",
        (Argument("editor", "claude, codex or cursor"),),
        (
            Flag("--policy", "off, warn, require or require-own (default: lock_policy, or require)", "HOW"),
            Flag("--look-only", "never take a lease by editing: only look whether one is in the way"),
            Flag("--on-failure", "if the locks cannot be asked: open (default) or closed", "HOW", "open", FAILING),
            *COMMON[1:],
        ),
    ),
    Verb(
        "git-hook",
        "answer a hook of git: `leasehold install git` sets it up",
        "git_hook:git_hook",
        (
            Argument("name", "pre-commit, prepare-commit-msg, commit-msg, pre-push or pre-receive"),
            Argument("words", "as git gives them", "*"),
        ),
        (
            Flag("--policy", "off, warn, require or require-own (default: lock_policy, or warn)", "HOW"),
            Flag(
                "--people",
                "who has no name of an agent is only warned (warn, default), or blocked too (block)",
                "HOW",
                "warn",
                ("warn", "block"),
            ),
            *COMMON[1:],
        ),
    ),
    Verb(
        "mcp",
        "serve these locks as tools to one agent, over standard input and output",
        "mcp:mcp",
        (),
        (SESSION, *COMMON[1:]),
    ),
    Verb(
        "doctor",
        "where the locks live, why, and whether all is well",
        "doctor:doctor",
        (),
        (Flag("--accept-restore", "go on with a database that was restored from a backup"), *COMMON),
    ),
    Verb("version", "which version this is", "doctor:version", (), (JSON,)),
    Verb(
        "completion",
        "print the completion script of a shell",
        "completion:completion",
        (Argument("shell", "bash, zsh or fish"),),
        (JSON,),
    ),
)
