"""Every verb, listed once: its route, its answer and its arguments.

From it come the bodies and queries that the server accepts, OpenAPI, the requests of the client, the arguments of the
MCP tools, and the defaults. ``descriptions`` has a sentence and an example for every argument, apart from here, so that
a one-shot command does not load them.

A verb is `(purpose, method, path, answer, arguments)`; `answer` names a shape of ``wire.table``. An argument is
`(name, kind, default)`, with the least and the most value allowed after it where it has any; `...` as the default: the
caller has to say it. Kinds: `names` (a text, or a list of them), `text`, `text[]`, `seconds`, `integer`, `flag`, `any`,
`calls`, and words such as `free|quarantine`; `?` allows null.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

DEFAULT_TTL: Final = 1800
TTL_LEAST: Final = 0.01
DAY: Final = 86_400
"""The longest wait. The longest TTL is the configuration's to say."""
GRACE_MOST: Final = 60
OVERLAP: Final = 3600
OVERLAP_MOST: Final = 90 * DAY
RESOURCES_MOST: Final = 64
SLOTS_MOST: Final = 10_000
TOKENS_MOST: Final = 64
PRIORITY_MOST: Final = 1_000
EVENTS_MOST: Final = 10_000
EDGES_MOST: Final = 10_000
RUNS_MOST: Final = 500
INTEGER_MOST: Final = 2**53 - 1
MODES: Final = "exclusive|shared|slots"
STATUSES: Final = "completed|failed|cancelled"
ROLES: Final = "admin|agent|viewer"
RUN_STATUSES: Final = "running|completed|failed|cancelled|expired"


class Argument(Noun):
    """One argument of a verb."""

    name: str
    kind: str
    default: object
    least: float | None = None
    most: float | None = None

    @property
    def is_needed(self) -> bool:
        """True if the caller has to say it."""
        return self.default is ...

    @property
    def spelled(self) -> str:
        """Its name in a body or a query: durations are numbers of seconds there."""
        return f"{self.name}_seconds" if self.kind.startswith("seconds") else _SPELLED.get(self.name, self.name)


class Verb(Noun):
    """One verb."""

    name: str
    says: str
    method: str
    path: str
    answer: str
    """The name of a shape of ``wire.table``."""
    arguments: tuple[Argument, ...]
    """Of a call in Python."""

    @property
    def sent(self) -> tuple[Argument, ...]:
        """The arguments in a body or a query."""
        return tuple([each for each in self.arguments if each.name not in LOCAL])


LOCAL: Final = frozenset(("admin",))
"""Arguments that no request has: a server knows by the key which callers are admins."""
_SPELLED: Final = {"kinds": "kind", "key": "id"}
_SESSION = ("session", "text?", None)
_SPACE = ("space", "text?", None)
_HOLDER = ("holder", "text?", None)
_NAME = ("name", "text?", None)
_CONTEXT = ("context", "any", None)
_TTL = ("ttl", "seconds", DEFAULT_TTL, TTL_LEAST)
_TOKEN = ("token", "text?", None)
_PROOF = (_SESSION, ("admin", "text?", None), _SPACE)
_REASON, _BY = ("reason", "text", ...), ("by", "text?", None)
_BY_ANYBODY = (_BY, ("reason", "text?", None))
_RUN = ("id", "text", ...)
_LOCKED = (("work_unit", "text?", None), ("task", "text?", None))
ACQUIRE: tuple[tuple[Any, ...], ...] = (
    ("resources", "names", ...),
    _TTL,
    ("wait", "seconds", 0, 0, DAY),
    ("mode", f"{MODES}?", None),
    ("slots", "integer", 1, 1, SLOTS_MOST),
    ("any_of", "flag", False),
    _HOLDER,
    _SESSION,
    _SPACE,
    _NAME,
    _CONTEXT,
    ("reason", "text?", None),
    ("priority", "integer", 0, -PRIORITY_MOST, PRIORITY_MOST),
    ("reentrant", "flag", False),
    ("grace", "seconds", 0, 0, GRACE_MOST),
    ("on_expiry", "free|quarantine", "free"),
    ("request_id", "text?", None),
    ("intent", "flag", False),
    ("first", "flag", False),
    ("token", "names?", None),
    ("trace", "text?", None),
    ("host", "text?", None),
)
PLAN: tuple[tuple[Any, ...], ...] = (
    *(("resources", "names", ...), _TTL, _NAME, ("reason", "text?", None), _HOLDER, _SESSION, _SPACE),
    *(("token", "names?", None), ("trace", "text?", None)),
)
_VERBS: dict[str, tuple[Any, ...]] = {
    "acquire": ("Take a lease, or wait for it.", "POST", "/v1/acquire", "Granted", ACQUIRE),
    "renew": (
        "Reset the TTL of a lease.",
        *("POST", "/v1/renew", "Renewed"),
        (("lease", "text", ...), _TOKEN, ("ttl", "seconds?", None, TTL_LEAST), *_PROOF),
    ),
    "release": (
        "Release a lease.",
        *("POST", "/v1/release", "Released"),
        (("lease", "text", ...), _TOKEN, ("status", STATUSES, "completed"), ("error", "text?", None), *_PROOF),
    ),
    "batch": (
        "Make several calls at once: each is answered as if it had come alone.",
        *("POST", "/v1/batch", "Answers"),
        (("calls", "calls", ...),),
    ),
    "update": (
        "Replace the context of a lease, or merge into it.",
        *("POST", "/v1/update", "Updated"),
        (("lease", "text", ...), ("context", "any", ...), _TOKEN, ("merge", "flag", False), *_PROOF),
    ),
    "cancel": (
        "Cancel an acquire by its request_id; once it is granted, with proof of its lease.",
        *("POST", "/v1/cancel", "Cancelled"),
        (("request_id", "text", ...), _TOKEN, _HOLDER, *_PROOF),
    ),
    "start_session": (
        "Start a session.",
        *("POST", "/v1/sessions", "SessionStarted"),
        (_TTL, _HOLDER, _NAME, _SESSION, ("secret", "text?", None), _SPACE),
    ),
    "renew_session": (
        "Reset the TTL of a session and of its leases.",
        *("POST", "/v1/sessions/renew", "SessionRenewed"),
        (_SESSION, _SPACE, ("admin", "text?", None)),
    ),
    "end_session": (
        "End a session, and release its leases.",
        *("POST", "/v1/sessions/end", "SessionEnded"),
        (_SESSION, _SPACE, ("admin", "text?", None), ("reason", "text?", None)),
    ),
    "sessions": ("List the live sessions.", "GET", "/v1/sessions", "Sessions", (_SPACE,)),
    "force_release": (
        "End a lease of another holder, by its id or by a resource.",
        *("POST", "/v1/force-release", "Released"),
        (("target", "text", ...), _REASON, _BY, _SPACE),
    ),
    "steal": (
        "Take over what others hold, in one step.",
        *("POST", "/v1/steal", "Granted"),
        (("resources", "names", ...), _REASON, _TTL, _BY, _HOLDER, _SPACE, _NAME, _CONTEXT),
    ),
    "clear": (
        "Open a resource that was closed after an unclean end.",
        *("POST", "/v1/clear", "Cleared"),
        (("resource", "text", ...), _REASON, _BY, _SPACE),
    ),
    "report_trespass": (
        "Record that an agent changed what another one holds.",
        *("POST", "/v1/trespasses", "TrespassReported"),
        (("lease", "text", ...), ("paths", "names", ...), ("by", "text?", None)),
    ),
    "extend": (
        "Give the holder of a lease more time.",
        *("POST", "/v1/extend", "Renewed"),
        (("lease", "text", ...), _REASON, _TTL, _BY),
    ),
    "note": (
        "Leave a note on a resource for everybody who looks at it; without a text, remove it.",
        *("POST", "/v1/notes", "Noted"),
        (("resource", "text", ...), ("text", "text?", None), _BY, _SPACE),
    ),
    "plan": (
        "Announce what you are about to touch, and see who plans, holds or wants what overlaps. It blocks nobody.",
        *("POST", "/v1/plan", "Planned", PLAN),
    ),
    "plans": (
        "List the live plans, each with what overlaps with it.",
        *("GET", "/v1/plans", "Plans", (_SPACE, _HOLDER, ("resource", "text?", None))),
    ),
    "declare_pool": (
        "Declare the members of a pool, each with its labels after it; without members, show those that are declared.",
        *("POST", "/v1/pools", "PoolDeclared"),
        (("resource", "text", ...), ("members", "text[]?", None), _BY, _SPACE),
    ),
    "gc": ("Remove what has expired, and history beyond its retention.", "POST", "/v1/gc", "Collected", ()),
    "inspect": (
        "Show the leases, the queue and the closures of one resource.",
        *("GET", "/v1/inspect", "Inspection"),
        (("resource", "text", ...), _SPACE),
    ),
    "list": ("List the live leases.", *("GET", "/v1/leases", "Leases"), (_SPACE, _HOLDER, ("resource", "text?", None))),
    "graph": (
        "Show which agents wait for which.",
        *("GET", "/v1/graph", "Graph"),
        (_SPACE, ("limit", "integer", 1_000, 1, EDGES_MOST)),
    ),
    "history": (
        "List past events, the newest first.",
        *("GET", "/v1/history", "Events"),
        (
            *(_SPACE, ("resource", "text?", None), _HOLDER, ("lease", "text?", None), ("kinds", "text[]", ())),
            *(("since", "integer?", None, 0, INTEGER_MOST), ("before", "integer?", None, 0, INTEGER_MOST)),
            ("limit", "integer", 100, 1, EVENTS_MOST),
        ),
    ),
    "keys": ("List the keys.", "GET", "/v1/keys", "Keys", ()),
    "create_key": (
        "Create a key.",
        *("POST", "/v1/keys", "KeyCreated"),
        (("role", ROLES, ...), ("name", "text", ...), _SPACE, ("prefixes", "text[]", ()), *_BY_ANYBODY),
    ),
    "rotate_key": (
        "Add a key to the principal of this one, which works for a while longer.",
        *("POST", "/v1/keys/rotate", "KeyRotated"),
        (("key", "text", ...), ("overlap", "seconds", OVERLAP, 0, OVERLAP_MOST), *_BY_ANYBODY),
    ),
    "revoke_key": ("Revoke a key.", *("POST", "/v1/keys/revoke", "KeyRevoked"), (("key", "text", ...), *_BY_ANYBODY)),
    "whoami": ("Show the caller, and what the caller may do.", "GET", "/v1/whoami", "Whoami", ()),
    "events": (
        "Stream events, from now on or after `last_event_id`.",
        *("GET", "/v1/events", "Event"),
        (_SPACE, ("resource", "text?", None), _HOLDER, ("last_event_id", "integer?", None, 0, INTEGER_MOST)),
    ),
    "losses": (
        "Stream the leases that their holders lose from now on; first, those of `leases` that are not held.",
        *("POST", "/v1/losses", "Loss"),
        (_SPACE, ("holders", "text[]?", None), ("leases", "text[]", ())),
    ),
    "create_run": (
        "Begin a run on a work unit, a task or a project, unless another is active there.",
        *("POST", "/v1/workflows", "OneWorkflow"),
        (
            *(("name", "text", ...), *_LOCKED, ("project", "text?", None), _TTL, _CONTEXT, ("id", "text?", None)),
            *(_HOLDER, _SPACE),
        ),
    ),
    "list_runs": (
        "List runs, the newest first.",
        *("GET", "/v1/workflows", "Workflows"),
        (("status", f"{RUN_STATUSES}?", None), *_LOCKED, ("limit", "integer", 50, 1, RUNS_MOST), _SPACE),
    ),
    "get_run": ("Show one run, active or over.", "GET", "/v1/workflows/run", "OneWorkflow", (_RUN, _SPACE)),
    "check_run": (
        "Show the active run on a work unit, a task or a project.",
        *("GET", "/v1/workflows/check", "CheckedWorkflow"),
        (*_LOCKED, ("project", "text?", None), _SPACE),
    ),
    "update_run": (
        "Replace the context of a run, or merge into it; this also resets its TTL.",
        *("POST", "/v1/workflows/update", "OneWorkflow"),
        (_RUN, ("context", "any", ...), ("merge", "flag", False), _SPACE),
    ),
    "beat_run": (
        "Reset the TTL of a run.",
        *("POST", "/v1/workflows/heartbeat", "OneWorkflow"),
        (_RUN, ("ttl", "seconds?", None, TTL_LEAST), _SPACE),
    ),
    "release_run": (
        "End a run, with its outcome.",
        *("POST", "/v1/workflows/release", "ReleasedWorkflow"),
        (_RUN, ("status", "completed|failed", "completed"), ("error", "text?", None), _SPACE),
    ),
}
NAMES: Final = tuple(_VERBS)
_made: dict[str, Verb] = {}


def verb(name: str) -> Verb:
    """Return the verb of this name."""
    found = _made.get(name)
    if found is None:
        says, method, path, answer, rows = _VERBS[name]
        found = _made[name] = Verb(name, says, method, path, answer, tuple([Argument(*row) for row in rows]))
    return found
