"""The rows of ``table`` for the answers: outcomes, refusals, and what only a server says."""

from __future__ import annotations

from leasehold.domain.outcomes import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from leasehold.domain.outcomes import TimedOut

    Rows: TypeAlias = tuple[tuple[Any, ...], ...]
    Entry: TypeAlias = tuple[str, str, Rows]

RUN_STATUS = "running|completed|failed|cancelled|expired"


def _code(it: Held | TimedOut, _now: int) -> str:
    return "held" if isinstance(it, Held) else "timeout"


def _message(it: Any, _now: int) -> str:  # noqa: ANN401 (any refusal)
    from leasehold.wire.sentences import sentence  # noqa: PLC0415 (decoding needs no sentences)

    return sentence(it)


def _listed(they: tuple[object, ...], _now: int) -> tuple[object, ...]:
    return they


_MESSAGE = ("message", "text", _message)
SHAPES: dict[str, Entry] = {
    "Granted": (
        "The lease is yours; this answer alone has its token.",
        "outcomes.Granted",
        (("lease", "Lease"), ("token", "text"), ("fresh", "flag"), ("unapplied", "text[]", "unapplied", "unapplied")),
    ),
    "Renewed": ("The lease as it is now.", "outcomes.Renewed", (("lease", "Lease"),)),
    "Updated": ("The lease with its new context.", "outcomes.Updated", (("lease", "Lease"),)),
    "Released": (
        "How a release ended.",
        "outcomes.Released",
        (("lease", "text"), ("released", "flag"), ("reason", "text"), ("resources", "text[]")),
    ),
    "Cancelled": (
        "The request can never be granted.",
        "outcomes.Cancelled",
        (("cancelled", "flag", lambda _it, _: True), ("was", "waiting|granted|unknown")),
    ),
    "SessionStarted": (
        "The session began; this answer alone has its credential.",
        "sessions.SessionStarted",
        (("session", "Session"), ("credential", "text", "secret")),
    ),
    "SessionRenewed": (
        "The session and its leases have a full TTL again.",
        "sessions.SessionRenewed",
        (("session", "Session"), ("leases", "Lease[]")),
    ),
    "SessionEnded": (
        "The session is over, and its leases are released.",
        "sessions.SessionEnded",
        (("session", "text"), ("ended", "flag"), ("released", "text[]")),
    ),
    "Cleared": (
        "The result of opening a closed resource.",
        "outcomes.Cleared",
        (("resources", "text[]"), ("cleared", "flag")),
    ),
    "TrespassReported": (
        "The result of reporting a trespass.",
        "outcomes.TrespassReported",
        (("lease", "text"), ("reported", "flag")),
    ),
    "Planned": (
        "The plan is announced; this answer alone has its token.",
        "outcomes.Planned",
        (("plan", "Plan"), ("token", "text")),
    ),
    "PoolDeclared": (
        "The members of a pool that an admin declared.",
        "outcomes.PoolDeclared",
        (("resource", "text"), ("members", "text[]")),
    ),
    "Noted": ("The note is in the history.", "outcomes.Noted", (("resource", "text"), ("text", "text?"))),
    "Collected": ("The result of a clean-up.", "outcomes.Collected", (("swept", "count"), ("forgotten", "count"))),
    "KeyCreated": (
        "The key works from now on; this answer alone has its credential.",
        "api_keys.KeyCreated",
        (("key", "Key"), ("credential", "text")),
    ),
    "KeyRotated": (
        "The principal has another key; the one before works until its `until`.",
        "api_keys.KeyRotated",
        (("key", "Key"), ("credential", "text"), ("before", "Key")),
    ),
    "KeyRevoked": ("The result of revoking a key.", "api_keys.KeyRevoked", (("key", "text"), ("revoked", "flag"))),
    "Held": (
        "Another holder has it, or is before you; or the wait is over.",
        "outcomes.Held",
        (
            ("code", "held|timeout", _code),
            _MESSAGE,
            ("resources", "text[]"),
            ("holders", "Blocker[]", "blockers"),
            ("queue", "Queue"),
            ("retry_after_seconds", "seconds", "retry_us"),
        ),
    ),
    "Deadlock": (
        "Waiting would never end.",
        "outcomes.Deadlock",
        (("code", "=deadlock", lambda _it, _: "deadlock"), _MESSAGE, ("resources", "text[]"), ("cycle", "text[]")),
    ),
    "Lost": (
        "The lease is gone.",
        "outcomes.Lost",
        (("code", "=lost", lambda _it, _: "lost"), _MESSAGE, ("lease", "text"), ("reason", "text")),
    ),
    "Refused": (
        "The request cannot be served as it stands.",
        "outcomes.Refused",
        (("code", "text"), _MESSAGE, ("field", "text?", lambda it, _: it.field or None)),
    ),
    "Leases": ("Live leases, the oldest first.", "tuple", (("leases", "ListedLease[]", _listed),)),
    "Plans": ("Live plans, the oldest first.", "tuple", (("plans", "Plan[]", _listed),)),
    "Events": ("Past events, the newest first.", "tuple", (("events", "Event[]", _listed),)),
    "Sessions": ("Live sessions, the oldest first.", "tuple", (("sessions", "ListedSession[]", _listed),)),
    "Keys": ("Every key, the oldest first.", "tuple", (("keys", "Key[]", _listed),)),
    "Ticket": (
        "You still wait: ask again with this ticket as the `request_id` to keep your place.",
        "",
        (("ticket", "text"), ("queue", "Queue"), ("holders", "Blocker[]"), ("retry_after_seconds", "seconds")),
    ),
    "BatchedAnswer": (
        "The answer to one of several calls, as if it had come alone.",
        "",
        (("status", "integer"), ("body", "object")),
    ),
    "Answers": ("The answers to several calls, in their order.", "", (("answers", "BatchedAnswer[]"),)),
    "Loss": (
        "A lease that may be lost (renew it to find out), or a session that ended with all of its leases.",
        "",
        (("lease", "text?"), ("session", "text?")),
    ),
    "Health": ("The server is well.", "", (("status", "=ok"),)),
    "Workflow": (
        "A run: a lease with a name, a context and an outcome.",
        "",
        (
            ("id", "run_id"),
            ("status", RUN_STATUS),
            ("name", "text?"),
            ("space", "text"),
            ("resource", "text?"),
            ("holder", "text"),
            ("context", "context"),
            ("error", "text?"),
            ("started_at", "time?"),
            ("ended_at", "time?"),
            ("expires_at", "time?"),
            ("ttl_seconds", "seconds?"),
            ("fence", "fence?"),
            ("lease", "text?"),
        ),
    ),
    "OneWorkflow": ("A run.", "", (("workflow", "Workflow"),)),
    "ReleasedWorkflow": ("A run that is over.", "", (("workflow", "Workflow"), ("released", "flag"))),
    "CheckedWorkflow": ("The active run, or null: then you may begin.", "", (("workflow", "Workflow?"),)),
    "Workflows": ("Runs, the newest first.", "", (("workflows", "Workflow[]"),)),
    "Problem": (
        "Why a request failed: application/problem+json with a stable `code`.",
        "",
        (
            ("type", "text"),
            ("title", "text"),
            ("status", "integer"),
            ("detail", "text"),
            ("code", "text"),
            ("field", "text", "field", "field"),
            ("resources", "text[]", "resources", "resources"),
            ("holders", "Blocker[]", "holders", "holders"),
            ("queue", "Queue", "queue", "queue"),
            ("retry_after_seconds", "seconds", "", "retry_us"),
            ("cycle", "text[]", "cycle", "cycle"),
            ("reason", "text", "reason", "reason"),
            ("lease", "text", "lease", "lease"),
            ("workflow", "Workflow", "workflow", "workflow"),
        ),
    ),
}
"""As `noun_shapes.SHAPES`."""
