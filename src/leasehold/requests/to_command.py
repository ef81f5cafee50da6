"""From a call to the command behind it. No I/O but drawing secrets."""

from __future__ import annotations

import os
from _operator import itemgetter  # see `records`

from leasehold.domain import commands as c
from leasehold.domain import durations, keys, names
from leasehold.domain.entries import EXCLUSIVE
from leasehold.errors import InvalidInput
from leasehold.requests import calls, checks
from leasehold.requests.checks import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from leasehold.domain.outcomes import Refused
    from leasehold.requests.checks import TermsCache

_of_release: Final = itemgetter("lease", "status", "error", "token", "session", "admin")
_RELEASES: Final = 6
"""Number of these arguments. Almost all callers pass every one, and they need no sorting by name."""


class Order:
    """A command that is ready for the engine, with the secret that its answer will carry."""

    __slots__ = ("command", "lane", "secret")

    def __init__(self, command: c.Command, secret: str = "") -> None:
        self.command = command
        self.secret = secret
        self.lane = 0
        """The lane that it is for, if the store is divided."""


class Basis:
    """The settings, engine and principal against which the arguments of a call are checked."""

    __slots__ = ("authority", "engine", "settings")

    def __init__(self, settings: Settings, engine: str, authority: calls.Authority | None) -> None:
        self.settings = settings
        self.engine = engine
        """Key of the engine that it is for."""
        self.authority = authority
        """The calling principal, if a server has authenticated it."""


def order(
    verb: str,
    arguments: Mapping[str, Any],
    settings: Settings,
    engine: str,
    memory: TermsCache | None = None,
    authority: calls.Authority | None = None,
) -> Order | Refused:
    """Return the command behind a call, or a refusal if these settings forbid it. `memory` caches checked terms.

    Raises `InvalidInput` for an argument that is wrong under any settings.
    """
    try:
        if verb == "acquire":
            token = draw()
            return Order(checks.acquire(arguments, settings, token, engine, memory, authority), token)
        if verb == "release" and len(arguments) == _RELEASES:
            return _release(Basis(settings, engine, authority), *_of_release(arguments))
        return _ORDERS[verb](Basis(settings, engine, authority), **arguments)
    except checks.BeyondSettings as error:
        return calls.refusal(error)


_ANYTHING: Final = Settings(ttl_most=durations.LONGEST)


def check(verb: str, arguments: Mapping[str, Any], memory: TermsCache | None = None) -> None:
    """Raise `InvalidInput` for an argument that is wrong under any settings."""
    order(verb, arguments, _ANYTHING, "", memory)


def _renew(basis: Basis, lease: object, ttl: object, **shown: Any) -> Order:
    new_ttl = None if ttl is None else checks.ttl(ttl, basis.settings)
    return Order(c.Renew(checks.lease_id(lease), checks.proof(**shown, authority=basis.authority), new_ttl))


def _release(
    basis: Basis,
    lease: object,
    status: object,
    error: object,
    token: object = None,
    session: object = None,
    admin: object = None,
) -> Order:
    proof = checks.proof(token, session, admin, basis.authority)
    if keys.is_plan_id(lease):
        checks.status(status)
        checks.error_text(error)
        return Order(c.EndPlan(checks.lease_id(lease, may_be_plan=True), proof))
    return Order(c.Release(checks.lease_id(lease), proof, checks.status(status), checks.error_text(error)))


def _update(basis: Basis, lease: object, context: object, merge: object, **shown: Any) -> Order:
    written = checks.context_text(context)
    if written is None:
        raise InvalidInput("context", "must be JSON, not nothing; {} empties it")
    proof = checks.proof(**shown, authority=basis.authority)
    return Order(c.Update(checks.lease_id(lease), proof, written, checks.flag(merge, "merge")))


def _cancel(
    basis: Basis,
    request_id: object,
    holder: object,
    session: object,
    space: object,
    *,
    token: object = None,
    admin: object = None,
) -> Order:
    session_id = None if session is None else checks.credential(session)[0]
    principal = None if basis.authority is None else basis.authority.principal
    name = checks.text(holder, "holder", 256)
    actor = keys.actor(checks.space(space), name, session_id, principal or basis.settings.user)
    asked = checks.text(request_id, "request_id", 128)
    proof = checks.proof(token, session, admin, basis.authority)
    request = keys.request(actor, asked, name, principal)
    return Order(c.Cancel(request, actor=actor, proof=proof, is_from_requester=proof.token == asked))


def _start_session(basis: Basis, holder: object, ttl: object, name: object, session: object, space: object) -> Order:
    """Make the command that starts a session, with a new id and secret unless the caller gave them."""
    chosen = f"s{os.urandom(8).hex()}.{draw()}" if session is None else session
    id_, secret = checks.credential(chosen)
    where = checks.space(space)
    command = c.StartSession(
        keys.actor(where, "", id_),
        where,
        id_,
        checks.text(holder, "holder", 256),
        keys.secret_hash(secret),
        checks.ttl(ttl, basis.settings),
        checks.optional_text(name, "name", 256),
        basis.authority,
    )
    return Order(command, f"{id_}.{secret}")


def _renew_session(basis: Basis, session: object, space: object, admin: object) -> Order:
    id_, proof = _session(session, admin, basis.authority)
    return Order(c.RenewSession(keys.actor(checks.space(space), "", id_), proof))


def _end_session(basis: Basis, session: object, space: object, admin: object, reason: object = None) -> Order:
    id_, proof = _session(session, admin, basis.authority)
    why = checks.optional_text(reason, "reason", 1024)
    return Order(c.EndSession(keys.actor(checks.space(space), "", id_), id_, proof, why))


def _session(session: object, admin: object, authority: calls.Authority | None) -> tuple[str, c.Proof]:
    """Return a session's id and the proof: an admin needs only the id, all others the secret with it."""
    if admin is None:
        return checks.credential(session)[0], checks.proof(session=session, authority=authority)
    return checks.session_id(session), checks.proof(admin=admin, authority=authority)


def _force_release(basis: Basis, target: object, by: object, reason: object, space: object) -> Order:
    admin, why = checks.text(by, "by", 256), checks.text(reason, "reason", 1024)
    if keys.is_lease_id(target):
        return Order(c.Force(admin, why, lease=checks.lease_id(target), authority=basis.authority))
    resource, node = _own_node(basis.settings, target, space)
    return Order(c.Force(admin, why, node=node, resource=resource, authority=basis.authority))


def _own_node(settings: Settings, target: object, space: object) -> tuple[str, str]:
    resource = checks.resource(target)
    return resource, names.claims(checks.space(space), resource, EXCLUSIVE, settings.hierarchical)[0].node


def _steal(basis: Basis, by: object, reason: object, **asked: object) -> Order:
    """Make the command of a steal: an acquire with an admin's name and reason."""
    why = checks.text(reason, "reason", 1024)
    token = draw()
    command = checks.acquire({**asked, "reason": why}, basis.settings, token, basis.engine, authority=basis.authority)
    return Order(c.Steal(checks.text(by, "by", 256), why, command, basis.authority), token)


def _clear(basis: Basis, resource: object, by: object, reason: object, space: object) -> Order:
    name, node = _own_node(basis.settings, resource, space)
    admin, why = checks.text(by, "by", 256), checks.text(reason, "reason", 1024)
    return Order(c.Clear(admin, why, checks.space(space), name, node, basis.authority))


def _plan(basis: Basis, **asked: object) -> Order:
    """Make the command that announces a plan: each of its resources is an option of an acquire."""
    if any(name.startswith("pool://") for name in checks.resource_names(asked["resources"])):
        raise InvalidInput("resources", "a pool cannot be planned: which member is free shows at acquire")
    token = draw()
    wanted = {**asked, "any_of": True}
    return Order(c.Announce(checks.acquire(wanted, basis.settings, token, basis.engine, None, basis.authority)), token)


def _report_trespass(basis: Basis, lease: object, paths: object, by: object) -> Order:
    try:
        names_ = tuple(checks.resource_names(paths))
    except InvalidInput as error:
        raise InvalidInput("paths", error.message) from None
    return Order(c.ReportTrespass(checks.lease_id(lease), names_, checks.text(by, "by", 256), basis.authority))


def _extend(basis: Basis, lease: object, ttl: object, by: object, reason: object) -> Order:
    admin, why = checks.text(by, "by", 256), checks.text(reason, "reason", 1024)
    return Order(c.Extend(admin, why, checks.lease_id(lease), checks.ttl(ttl, basis.settings), basis.authority))


def _note(basis: Basis, resource: object, text: object, by: object, space: object) -> Order:
    about, told = checks.resource(resource), checks.optional_text(text, "text", 1024)
    return Order(c.AddNote(checks.text(by, "by", 256), checks.space(space), about, told, basis.authority))


def _declare_pool(basis: Basis, resource: object, members: object, by: object, space: object) -> Order:
    from leasehold.requests import pool_checks  # noqa: PLC0415 (rare)

    name, where = pool_checks.pool_name(resource), checks.space(space)
    node = names.claims(where, name, EXCLUSIVE)[0].node
    told = pool_checks.members(members, name)
    return Order(c.DeclarePool(checks.text(by, "by", 256), where, name, node, told, basis.authority))


def _rotate_key(basis: Basis, key: object, overlap: object, **why: Any) -> Order:
    from leasehold.requests import key_checks  # noqa: PLC0415 (rare)

    id_, secret = os.urandom(8).hex(), draw()
    command = c.RotateKey(
        key_checks.key_id(key), id_, keys.secret_hash(secret), key_checks.overlap(overlap), *_why(basis, **why)
    )
    return Order(command, f"lh_{id_}_{secret}")


def _create_key(basis: Basis, role: object, space: object, name: object, prefixes: object, **why: Any) -> Order:
    from leasehold.requests import key_checks  # noqa: PLC0415 (rare)

    id_, secret = os.urandom(8).hex(), draw()
    command = c.AddKey(
        id_,
        key_checks.role(role),
        checks.space(space),
        checks.text(name, "name", 256),
        key_checks.prefixes(prefixes),
        keys.secret_hash(secret),
        *_why(basis, **why),
    )
    return Order(command, f"lh_{id_}_{secret}")


def _revoke_key(basis: Basis, key: object, **why: Any) -> Order:
    from leasehold.requests import key_checks  # noqa: PLC0415 (rare)

    return Order(c.RevokeKey(key_checks.key_id(key), *_why(basis, **why)))


def _why(
    basis: Basis, by: object = None, reason: object = None
) -> tuple[str | None, str | None, calls.Authority | None]:
    """Check who does it and why; the key that it is done by is known."""
    return checks.optional_text(by, "by", 256), checks.optional_text(reason, "reason", 1024), basis.authority


_ORDERS: dict[str, Callable[..., Order]] = {
    "renew": _renew,
    "release": _release,
    "update": _update,
    "cancel": _cancel,
    "start_session": _start_session,
    "renew_session": _renew_session,
    "end_session": _end_session,
    "force_release": _force_release,
    "steal": _steal,
    "plan": _plan,
    "clear": _clear,
    "report_trespass": _report_trespass,
    "extend": _extend,
    "note": _note,
    "declare_pool": _declare_pool,
    "create_key": _create_key,
    "rotate_key": _rotate_key,
    "revoke_key": _revoke_key,
}

_drawn: list[str] = []
os.register_at_fork(after_in_child=_drawn.clear)  # two processes must never hand out the same secrets


def draw() -> str:
    """Return a fresh secret of 128 bits. They are drawn in bulk: a system call for each costs more than the rules."""
    try:
        return _drawn.pop()
    except IndexError:
        pool = os.urandom(16 * 64).hex()
        _drawn.extend(pool[start : start + 32] for start in range(32, len(pool), 32))
        return pool[:32]
