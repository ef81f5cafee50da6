"""The commands of two words: session, workflow, lock, keys and worktree."""

from __future__ import annotations

from leasehold.cli.command_line import CliArgument, CliVerb, Flag
from leasehold.cli.entry.quick import AGAIN, COMMON, MAX_SKEW, SESSION, TTL

FAMILIES = {
    "session": "the life of one agent run: start, heartbeat, end, list",
    "workflow": "runs with a name and an outcome: create, get, check, list, update, heartbeat, release",
    "lock": "the same leases in grite's words: acquire, renew, release, status, gc",
    "keys": "who may use the servers of this store: create, list, rotate, revoke",
    "worktree": "a git worktree for each agent, with a name and free values: add, list, env, remove",
}
"""Commands of two words, by the first word."""
LOCKED = CliArgument("name", "its name: issue:…, path:… or repo:…; the same as --resource", "?")
LOCK = (
    Flag("--resource", "its name", "NAME"),
    Flag("--ttl", "how long it lives: seconds, or 30s, 15m, 1h (default 300)", "TIME", default="300"),
    SESSION,
)
ROLES = ("admin", "agent", "viewer")
RUN_ID = CliArgument("id", "the run's id, as `workflow create` printed it: wf-…")
SCOPE = (
    Flag("--org", "the organisation (default: LEASEHOLD_ORGANIZATION_ID, AGIFLOW_ORGANIZATION_ID)", "ID"),
    Flag("--project", "the project (default: LEASEHOLD_PROJECT_ID, AGIFLOW_PROJECT_ID)", "ID"),
)
WHAT = (
    Flag("--work-unit", "which work unit (default: LEASEHOLD_WORK_UNIT_ID, AGIFLOW_WORK_UNIT_ID)", "ID"),
    Flag("--task", "which task, instead of a work unit (default: LEASEHOLD_TASK_ID, AGIFLOW_TASK_ID)", "ID"),
)
RUN_STATUSES = ("running", "completed", "failed", "cancelled", "expired")
KEY_FILE = Flag(
    "--key-file", "write the key to this file instead of printing it; an existing key is never overwritten", "FILE"
)

FAMILY_VERBS = (
    CliVerb(
        "session start",
        "start a session, which releases its leases when it ends",
        "session:start",
        (),
        (
            TTL,
            Flag("--name", "the name of your work, for others to see", "TEXT"),
            Flag("--session-file", "write ID.SECRET to this file instead of printing it", "FILE"),
            *COMMON,
        ),
    ),
    CliVerb(
        "session heartbeat",
        "reset the TTL of the session and all of its leases",
        "session:heartbeat",
        (),
        (SESSION, *COMMON),
    ),
    CliVerb(
        "session end",
        "end a session and release everything it holds",
        "session:end",
        (CliArgument("id", "the id of another's session, for admins", "?"),),
        (SESSION, Flag("--by", "your name as an admin", "NAME"), *COMMON),
    ),
    CliVerb("session list", "list every live session", "session:list_sessions", (), COMMON),
    CliVerb(
        "workflow create",
        "begin a run, unless another run is active on the same work",
        "workflow:create",
        (),
        (
            Flag("--name", "the name of the run, such as deploy-staging (required)", "TEXT"),
            *WHAT,
            TTL,
            Flag("--wait", "how long to wait for the active run to end (default: do not wait)", "TIME", default="0"),
            Flag("--context", "JSON for others to see, at most 16 KiB", "JSON"),
            *SCOPE,
            *COMMON,
        ),
    ),
    CliVerb("workflow get", "show a run, active or ended", "workflow:get", (RUN_ID,), (*SCOPE, *COMMON)),
    CliVerb("workflow check", "show the active run, or {}", "workflow:check", (), (*WHAT, *SCOPE, *COMMON)),
    CliVerb(
        "workflow list",
        "list the runs of a project, newest first",
        "workflow:list_runs",
        (),
        (
            Flag(
                "--status",
                "only this status: running, completed, failed, cancelled, expired",
                "HOW",
                None,
                RUN_STATUSES,
            ),
            Flag("--work-unit", "only of this work unit", "ID"),
            Flag("--task", "only of this task", "ID"),
            Flag("--limit", "the most runs to show (default 50)", "N", default="50"),
            *SCOPE,
            *COMMON,
        ),
    ),
    CliVerb(
        "workflow update",
        "replace the context of a run, or merge into it; it also resets the TTL",
        "workflow:update",
        (RUN_ID,),
        (
            Flag("--context", "the new context (required)", "JSON"),
            Flag("--merge", "merge it into the context that is there"),
            *SCOPE,
            *COMMON,
        ),
    ),
    CliVerb(
        "workflow heartbeat",
        "reset the TTL of a run",
        "workflow:heartbeat",
        (RUN_ID,),
        (AGAIN, *SCOPE, *COMMON),
    ),
    CliVerb(
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
    CliVerb(
        "lock acquire", "acquire a lock, with grite's options", "lock:acquire", (LOCKED,), (*LOCK, MAX_SKEW, *COMMON)
    ),
    CliVerb("lock renew", "extend a lock, or acquire it", "lock:renew", (LOCKED,), (*LOCK, MAX_SKEW, *COMMON)),
    CliVerb("lock release", "release a lock", "lock:release", (LOCKED,), (LOCK[0], SESSION, *COMMON)),
    CliVerb(
        "lock status", "list every active lock, grite's own included", "lock:status", (LOCKED,), (LOCK[0], *COMMON)
    ),
    CliVerb("lock gc", "remove the expired locks of all owners", "lock:gc", (), (MAX_SKEW, *COMMON)),
    CliVerb(
        "keys create",
        "create a key for the servers of this store",
        "keys:create",
        (CliArgument("name", "the name of the key's owner, which events show"),),
        (
            Flag("--role", "what the key allows: admin, agent or viewer (default agent)", "ROLE", "agent", ROLES),
            Flag("--prefix", "only names that begin with this (repeat it)", "TEXT", many=True),
            KEY_FILE,
            *COMMON,
        ),
    ),
    CliVerb("keys list", "list every key, without its secret", "keys:list_keys", (), COMMON),
    CliVerb(
        "keys rotate",
        "give a principal a new key; the old one stays valid for a while",
        "keys:rotate",
        (CliArgument("key", "the id of the key to replace, as `keys list` shows it"),),
        (
            Flag("--overlap", "how long the old key stays valid (default 1h; 0: not at all)", "TIME", "1h"),
            KEY_FILE,
            *COMMON,
        ),
    ),
    CliVerb(
        "keys revoke",
        "revoke a key",
        "keys:revoke",
        (CliArgument("key", "its id, as `keys list` shows it"),),
        COMMON,
    ),
    CliVerb(
        "worktree add",
        "add a git worktree for an agent, with a branch and values of pools",
        "worktree:add",
        (CliArgument("name", "the name of the agent, which is also that of its branch: coder-3"),),
        (
            Flag(
                "--value", "a free member of a pool, and the variable that tells it (repeat it)", "NAME=POOL", many=True
            ),
            Flag("--plan", "a name that the agent is about to touch, for others to see (repeat it)", "NAME", many=True),
            Flag("--branch", "the branch, a new one unless it exists (default: the name of the agent)", "NAME"),
            Flag("--from", "where a new branch begins (default: HEAD)", "COMMIT"),
            Flag("--path", "the directory (default: beside the main one)", "DIR"),
            Flag("--ttl", "how long the values are kept unless it is added again (default 24h)", "TIME"),
            *COMMON,
        ),
    ),
    CliVerb(
        "worktree list",
        "list each worktree, what its agent holds, and for whom it waits",
        "worktree:list_worktrees",
        (),
        COMMON,
    ),
    CliVerb(
        "worktree env",
        "print the values of a worktree for a shell, and renew them",
        "worktree:env",
        (CliArgument("name", "its agent (default: the worktree around you)", "?"),),
        COMMON,
    ),
    CliVerb(
        "worktree remove",
        "remove a worktree, and release what its agent holds",
        "worktree:remove",
        (CliArgument("name", "its agent"),),
        (Flag("--discard", "also throw away changes that are in no commit"), *COMMON),
    ),
)
