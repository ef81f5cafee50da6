"""Action Llama's gateway in terms of `Locks`, with the gateway's answers. It neither listens nor prints.

A lock there belongs to a run, which shows a secret; here it is a lease of a session. A refused try leaves an
intent, so that deadlocks between polling agents are found; an acquire of what the run holds already extends it.
"""

from __future__ import annotations

from leasehold.domain import names
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Deadlock, Granted, Held, Lost, Refused, Released, Renewed
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.requests import checks
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol

    from leasehold.domain.leases import Inspection, Lease
    from leasehold.domain.sessions import Session
    from leasehold.steps import Steps

    Json = dict[str, Any]

    class SavedTokens(Protocol):
        """The private tokens of a command's leases, by descent (see ``cli.tokens``)."""

        def recall(self, target: str) -> tuple[str, str] | None:
            """Return id and token of this lease if the caller may use it."""

        def remember(self, resources: Iterable[str], lease: str, token: str) -> None:
            """Save the token of a lease."""

        def forget(self, lease: str) -> None:
            """Remove the token of a lease that has ended."""

        def proofs(self, resources: Iterable[str]) -> list[str]:
            """Return tokens of what the caller holds."""


EXITS = {200: 0, 409: 1, 404: 2, 403: 3, 400: 4, 503: 5}
"""The exit code of a command for each status; any other status is 7."""
UNREACHABLE, OTHER, USAGE = 6, 7, 9
NOT_FOUND = "lock not found"
INVALID_SECRET = "invalid secret"  # noqa: S105 (what is said of one)


class LlamaRun(Noun):
    """The caller: a session, or on an embedded store a command that has saved the tokens of its locks."""

    holder: str
    space: str
    session: str | None = None
    """Its credential."""
    tokens: SavedTokens | None = None
    """Without a session: the tokens that this command may use. A holder's name proves nothing."""

    @property
    def id(self) -> str | None:
        """The session's id."""
        return None if self.session is None else checks.session_id(self.session)

    def proof(self, lease: Lease) -> Json | None:
        """Return what lets it change this lock; None if the lock is another's."""
        if self.tokens is None:
            return {"session": self.session} if lease.session == self.id else None
        known = self.tokens.recall(lease.id)
        return None if known is None else {"token": known[1]}


class LlamaReply(Noun):
    """The status and body of the gateway's answer."""

    status: int
    body: Json | list[Json]

    @property
    def exit_code(self) -> int:
        """The exit code of a command with this answer."""
        return EXITS.get(self.status, OTHER)


def bad(message: str, status: int = 400) -> LlamaReply:
    """Refuse a request that cannot be served as it stands."""
    return LlamaReply(status, {"error": message})


def credentials(secret: str) -> tuple[str, ...]:
    """Return the credentials that a secret may mean: a scheduler's own secret, or the ID.SECRET of `session start`."""
    own = (checks.BY_SECRET + secret,) if len(secret) >= checks.SECRET_LEAST else ()
    ours = (secret,) if "." in secret and not secret.startswith("lh_") else ()
    return own + ours


def session_of(secret: str, sessions: tuple[Session, ...]) -> tuple[Session, str] | None:
    """Return the live session that a secret may belong to, with its credential. The rules check the secret."""
    for credential in credentials(secret):
        try:
            id_ = checks.session_id(credential)
        except InvalidInput:
            continue  # not spelled like a credential
        for session in sessions:
            if session.session == id_:
                return session, credential
    return None


def key_of(raw: object) -> str:
    """Return the name of a resourceKey, which must be a URI. Raises `InvalidInput`."""
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
    """Return the TTL of a request in seconds; None if it has none. The engine checks its bounds."""
    if raw is not None and (isinstance(raw, bool) or not isinstance(raw, int | float)):
        raise InvalidInput("ttl", "ttl: must be a number of seconds, such as 1800")
    return raw


def milliseconds(us: int) -> int:
    """Return a time in milliseconds, as in JavaScript."""
    return us // 1_000


# ----------------------------------------------------------------------------------------------- the verbs


def acquire(run: LlamaRun, key: str, ttl: float | str, given: str | None = None) -> Steps[LlamaReply]:
    """Acquire the lock, or answer who holds it; `given` is the caller's spelling of the name."""
    outcome = yield (
        "acquire",
        {
            "resources": key,
            "ttl": ttl,
            "holder": run.holder,
            "space": run.space,
            "session": run.session,
            "token": [] if run.tokens is None else run.tokens.proofs([key]),
            "reentrant": run.session is not None,
            "intent": True,
        },
    )
    if isinstance(outcome, Granted):
        yield from _saved(run, outcome)
        yield from _full_life(run, outcome.lease)
        return LlamaReply(200, {"ok": True, "resourceKey": given or key})
    return _refused(outcome, is_by_token=run.tokens is not None)


def _saved(run: LlamaRun, granted: Granted) -> Steps[None]:
    """Save the token of a run without a session. A lock whose token cannot be saved is released: nobody could."""
    if run.tokens is None:
        return
    lease = granted.lease
    try:
        run.tokens.remember(lease.resources, lease.id, granted.token)
    except LeaseholdError:
        yield "release", {"lease": lease.id, "token": granted.token, "status": "cancelled"}
        raise


def _full_life(run: LlamaRun, lease: Lease) -> Steps[Lease]:
    """Renew the session if its end cut the lease short: the run is alive, and a lease never outlives its session."""
    if run.session is None or lease.expires_us - lease.as_of_us >= lease.ttl_us:
        return lease
    yield "renew_session", {"session": run.session, "space": run.space}
    renewed = yield "renew", {"lease": lease.id, "session": run.session}
    return renewed.lease if isinstance(renewed, Renewed) else lease


def _refused(outcome: object, *, is_by_token: bool) -> LlamaReply:
    if isinstance(outcome, Held):
        return _held(outcome, is_by_token=is_by_token)
    if isinstance(outcome, Deadlock):
        path = " → ".join((*outcome.cycle, outcome.cycle[0]))
        reason = f"possible deadlock: {path}"
        return LlamaReply(409, {"ok": False, "reason": reason, "deadlock": True, "cycle": list(outcome.cycle)})
    if isinstance(outcome, Refused):
        return _not_served(outcome)
    raise AssertionError(f"an acquire without a wait is never answered with {outcome!r}")


def _held(outcome: Held, *, is_by_token: bool) -> LlamaReply:
    first = outcome.blockers[0]
    told: Json = {"ok": False, "holder": first.holder, "heldSince": milliseconds(first.since_us)}
    if first.yours and is_by_token:
        told["reason"] = "you hold it already; rlock-heartbeat resets its TTL"
    if first.state != "held":
        told["reason"] = sentence(outcome)  # a waiter is before it, or it ended uncleanly: it has no holder
    return LlamaReply(409, told)


def _not_served(outcome: Refused) -> LlamaReply:
    if outcome.field == "session":
        return bad(INVALID_SECRET, 403)
    if outcome.code == "invalid":
        return bad(sentence(outcome))
    status = {"not_allowed": 403, "too_many": 429}.get(outcome.code, 409)
    return LlamaReply(status, {"ok": False, "reason": sentence(outcome)})


def release(run: LlamaRun, key: str) -> Steps[LlamaReply]:
    """Release the lock: exactly the lease that this run holds now, never a successor's."""
    found = yield from _find(run, key)
    if isinstance(found, LlamaReply):
        return found
    lease, proof = found
    outcome: Released | Refused = yield "release", {"lease": lease.id, **proof}
    if isinstance(outcome, Released):
        if run.tokens is not None:
            run.tokens.forget(lease.id)
        return LlamaReply(200, {"ok": True}) if outcome.released else _no_lock()
    return _not_mine(outcome, lease)


def heartbeat(run: LlamaRun, key: str, ttl: float | None = None) -> Steps[LlamaReply]:
    """Reset the TTL of the lock."""
    found = yield from _find(run, key)
    if isinstance(found, LlamaReply):
        return found
    lease, proof = found
    outcome: Renewed | Lost | Refused = yield "renew", {"lease": lease.id, "ttl": ttl, **proof}
    if isinstance(outcome, Renewed):
        lease = yield from _full_life(run, outcome.lease)
        return LlamaReply(200, {"ok": True, "expiresAt": milliseconds(lease.expires_us)})
    return _no_lock() if isinstance(outcome, Lost) else _not_mine(outcome, lease)


def _find(run: LlamaRun, key: str) -> Steps[tuple[Lease, Json] | LlamaReply]:
    """Return the run's own lease on this name with its proof, or the refusal with its holder."""
    seen: Inspection | Refused = yield "inspect", {"resource": key, "space": run.space}
    if isinstance(seen, Refused):
        return _not_served(seen)
    there = [lease for lease in seen.leases if key in lease.resources]
    mine = [(lease, proof) for lease in there if (proof := run.proof(lease)) is not None]
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
    """Answer with every lock of this run."""
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
            if run.proof(lease) is not None
            for name in lease.resources
        ],
    )


def status(space: str | None) -> Steps[LlamaReply]:
    """Answer with every lock, its run and the run's agent."""
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
