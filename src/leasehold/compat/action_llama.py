"""Action Llama's gateway in terms of `Locks`: who holds a URI, as that gateway says it. It neither listens nor prints.

A lock there belongs to a run, which shows a secret; here it is a lease of a session. A refused try leaves an
intent, so that agents which only poll are told of a deadlock; an acquire of what the run holds already extends it.
"""

from __future__ import annotations

from leasehold.domain import names
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Deadlock, Granted, Held, Lost, Refused, Released, Renewed
from leasehold.errors import InvalidInput
from leasehold.requests import checks
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.domain.leases import Inspection, Lease
    from leasehold.domain.sessions import Session
    from leasehold.steps import Steps

    Json = dict[str, Any]

EXITS = {200: 0, 409: 1, 404: 2, 403: 3, 400: 4, 503: 5}
"""The exit code of a command for each status; whatever else comes is 7."""
UNREACHABLE, OTHER, USAGE = 6, 7, 9
NOT_FOUND = "lock not found"
INVALID_SECRET = "invalid secret"  # noqa: S105 (what is said of one)


class LlamaRun(Noun):
    """Who asks: a session, or on an embedded store whoever may open it."""

    holder: str
    space: str
    session: str | None = None
    """What it shows; None: the store is open to it, and only the holder's name tells whose a lock is."""

    @property
    def id(self) -> str | None:
        """The session's id."""
        return None if self.session is None else checks.session_id(self.session)

    @property
    def proof(self) -> Json:
        """What entitles it to touch a lock of its own."""
        return {"admin": self.holder} if self.session is None else {"session": self.session}

    def owns(self, lease: Lease) -> bool:
        """Whether this lock is its own."""
        return lease.session == self.id and (self.session is not None or lease.holder == self.holder)


class LlamaReply(Noun):
    """A status and a body, as the gateway has them."""

    status: int
    body: Json | list[Json]

    @property
    def exit_code(self) -> int:
        """How a command ends with it."""
        return EXITS.get(self.status, OTHER)


def bad(message: str, status: int = 400) -> LlamaReply:
    """A request that cannot be served as it stands."""
    return LlamaReply(status, {"error": message})


def credentials(secret: str) -> tuple[str, ...]:
    """What a secret may stand for: a scheduler's own, or the ID.SECRET that `session start` gave."""
    own = (checks.BY_SECRET + secret,) if len(secret) >= checks.SECRET_LEAST else ()
    ours = (secret,) if "." in secret and not secret.startswith("lh_") else ()
    return own + ours


def session_of(secret: str, sessions: tuple[Session, ...]) -> tuple[Session, str] | None:
    """The live session that a secret may belong to, and what to show for it; the rules say whether it does."""
    for credential in credentials(secret):
        try:
            id_ = checks.session_id(credential)
        except InvalidInput:
            continue  # not even spelled like one
        for session in sessions:
            if session.session == id_:
                return session, credential
    return None


def key_of(raw: object) -> str:
    """The name behind a resourceKey, which must be a URI. Raises `InvalidInput`."""
    if not isinstance(raw, str) or not raw:
        raise InvalidInput("resourceKey", "missing resourceKey")
    scheme, mark, rest = raw.partition("://")
    if not (mark and scheme and rest):
        told = names.shown(raw[:100])
        raise InvalidInput("resourceKey", f"Invalid URI format: {told!r}; write scheme://what, as deploy://api-prod")
    try:
        return names.parse(raw)
    except names.BadName as error:
        raise InvalidInput("resourceKey", f"Invalid URI format: {error.message}") from None


def ttl_of(raw: object) -> float | None:
    """The TTL of a request in seconds; None if it has none. Its bounds are checked where everybody's are."""
    if raw is not None and (isinstance(raw, bool) or not isinstance(raw, int | float)):
        raise InvalidInput("ttl", "ttl: must be a number of seconds, such as 1800")
    return raw


def milliseconds(us: int) -> int:
    """A time as JavaScript has it."""
    return us // 1_000


# ----------------------------------------------------------------------------------------------- the verbs


def acquire(run: LlamaRun, key: str, ttl: float | str, given: str | None = None) -> Steps[LlamaReply]:
    """Take the lock, or say who has it; `given` is how the caller spelled it."""
    outcome = yield (
        "acquire",
        {
            "resources": key,
            "ttl": ttl,
            "holder": run.holder,
            "space": run.space,
            "session": run.session,
            "reentrant": True,
            "intent": True,
        },
    )
    if run.session is None and isinstance(outcome, Held):
        outcome = yield from _extended(run, key, outcome)
    if isinstance(outcome, Granted | Renewed):
        yield from _full_life(run, outcome.lease)
        return LlamaReply(200, {"ok": True, "resourceKey": given or key})
    return _refused(outcome)


def _extended(run: LlamaRun, key: str, refusal: Held) -> Steps[Renewed | Held]:
    """Without a session nothing but the run's name tells whose a lock is: as there, it gets its own again."""
    found = yield from _find(run, key)
    if isinstance(found, LlamaReply):
        return refusal
    renewed = yield "renew", {"lease": found.id, **run.proof}
    return renewed if isinstance(renewed, Renewed) else refusal


def _full_life(run: LlamaRun, lease: Lease) -> Steps[Lease]:
    """A lease never outlives its session: if that cut it short, the run has just shown that it is alive."""
    if run.session is None or lease.expires_us - lease.as_of_us >= lease.ttl_us:
        return lease
    yield "renew_session", {"session": run.session, "space": run.space}
    renewed = yield "renew", {"lease": lease.id, "session": run.session}
    return renewed.lease if isinstance(renewed, Renewed) else lease


def _refused(outcome: object) -> LlamaReply:
    if isinstance(outcome, Held):
        return _held(outcome)
    if isinstance(outcome, Deadlock):
        path = " → ".join((*outcome.cycle, outcome.cycle[0]))
        reason = f"possible deadlock: {path}"
        return LlamaReply(409, {"ok": False, "reason": reason, "deadlock": True, "cycle": list(outcome.cycle)})
    if isinstance(outcome, Refused):
        return _not_served(outcome)
    raise AssertionError(f"an acquire without a wait is never answered with {outcome!r}")


def _held(outcome: Held) -> LlamaReply:
    first = outcome.blockers[0]
    told: Json = {"ok": False, "holder": first.holder, "heldSince": milliseconds(first.since_us)}
    if first.state != "held":
        told["reason"] = sentence(outcome)  # it waits for it, or it ended uncleanly: nobody holds it now
    return LlamaReply(409, told)


def _not_served(outcome: Refused) -> LlamaReply:
    if outcome.field == "session":
        return bad(INVALID_SECRET, 403)
    if outcome.code == "invalid":
        return bad(sentence(outcome))
    status = {"not_allowed": 403, "too_many": 429}.get(outcome.code, 409)
    return LlamaReply(status, {"ok": False, "reason": sentence(outcome)})


def release(run: LlamaRun, key: str) -> Steps[LlamaReply]:
    """Give the lock back: exactly the lease that this run holds now, never a successor's."""
    found = yield from _find(run, key)
    if isinstance(found, LlamaReply):
        return found
    outcome: Released | Refused = yield "release", {"lease": found.id, **run.proof}
    if isinstance(outcome, Released):
        return LlamaReply(200, {"ok": True}) if outcome.released else _no_lock()
    return _not_mine(outcome, found)


def heartbeat(run: LlamaRun, key: str, ttl: float | None = None) -> Steps[LlamaReply]:
    """Another full TTL."""
    found = yield from _find(run, key)
    if isinstance(found, LlamaReply):
        return found
    outcome: Renewed | Lost | Refused = yield "renew", {"lease": found.id, "ttl": ttl, **run.proof}
    if isinstance(outcome, Renewed):
        lease = yield from _full_life(run, outcome.lease)
        return LlamaReply(200, {"ok": True, "expiresAt": milliseconds(lease.expires_us)})
    return _no_lock() if isinstance(outcome, Lost) else _not_mine(outcome, found)


def _find(run: LlamaRun, key: str) -> Steps[Lease | LlamaReply]:
    """The run's own lease on this, or the refusal that says whose it is."""
    seen: Inspection | Refused = yield "inspect", {"resource": key, "space": run.space}
    if isinstance(seen, Refused):
        return _not_served(seen)
    there = [lease for lease in seen.leases if key in lease.resources]
    mine = [lease for lease in there if run.owns(lease)]
    if mine:
        return mine[-1]
    return LlamaReply(409, {"ok": False, "reason": f"held by {there[0].holder}"}) if there else _no_lock()


def _no_lock() -> LlamaReply:
    return LlamaReply(404, {"ok": False, "reason": NOT_FOUND})


def _not_mine(outcome: Refused, lease: Lease) -> LlamaReply:
    if outcome.code == "invalid":
        return bad(sentence(outcome))
    return LlamaReply(409, {"ok": False, "reason": f"held by {lease.holder}"})


def own(run: LlamaRun) -> Steps[LlamaReply]:
    """Every lock of this run."""
    listed: tuple[Lease, ...] | Refused = yield "list", {"space": run.space}
    if isinstance(listed, Refused):
        return _not_served(listed)
    return LlamaReply(
        200,
        [
            {
                "resourceKey": name,
                "holder": lease.holder,
                "heldSince": milliseconds(lease.acquired_us),
                "expiresAt": milliseconds(lease.expires_us),
            }
            for lease in listed
            if run.owns(lease)
            for name in lease.resources
        ],
    )


def status(space: str | None) -> Steps[LlamaReply]:
    """Every lock, and whose it is: the run, and the agent that it is a run of."""
    listed: tuple[Lease, ...] | Refused = yield "list", {"space": space}
    sessions: tuple[Session, ...] | Refused = yield "sessions", {"space": space}
    if isinstance(listed, Refused):
        return _not_served(listed)
    agents = {} if isinstance(sessions, Refused) else {(each.space, each.session): each.name for each in sessions}
    return LlamaReply(
        200,
        {
            "locks": [
                {
                    "resourceKey": name,
                    "agentName": agents.get((lease.space, lease.session or "")) or lease.holder,
                    "holder": lease.holder,
                    "heldSince": milliseconds(lease.acquired_us),
                    "space": lease.space,
                }
                for lease in listed
                for name in lease.resources
            ]
        },
    )
