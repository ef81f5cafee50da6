"""POST /v1/hooks/EDITOR: what `leasehold hook` answers, without a process for each edit. Keys and bounds count, too.

The sessions' secrets are drawn here and kept in memory. After a restart an agent goes on under its name: what it held
before counts as its own until it expires.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.compat.steps import aask
from leasehold.config.settings import POLICIES
from leasehold.guard.editors import hook as hooking
from leasehold.guard.editors import payloads as occasions
from leasehold.guard.editors.decision import HookTerms
from leasehold.guard.editors.payloads import answer
from leasehold.server.access import permissions
from leasehold.server.access.shares import Shares, party_of, payer
from leasehold.server.api import decoding, problems
from leasehold.server.api.problems import Problem
from leasehold.server.http.bodies import BODY_BYTES, read_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.guard.editors.decision import Decision, KnownLease
    from leasehold.guard.editors.payloads import HookCall
    from leasehold.server.access.principals import Principal
    from leasehold.server.api.app import App

    Endpoint = Callable[[Request], Awaitable[Response]]

BODY_MOST = 2 * 1024 * 1024
"""A hook's input carries whole files, of which only what is named here is made into objects."""
_FIELDS = (
    "session_id", "conversation_id", "agent_id", "subagent_id", "cwd", "workspace_roots", "hook_event_name",
    "tool_name", "tool_input", "command",
)  # fmt: skip
_TOOL_FIELDS = ("command", "file_path", "notebook_path", "agent_id")
_NOTHING = msgspec.Raw(b"null")


def _picking(name: str, fields: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Reads these fields of a JSON object, each as it stands there, and skips the others."""
    kind = msgspec.defstruct(name, [(field, msgspec.Raw, _NOTHING) for field in fields])
    return msgspec.json.Decoder(kind)


_given = _picking("Given", _FIELDS)
_of_tool = _picking("OfTool", _TOOL_FIELDS)
REMEMBERED_EACH, REMEMBERED = 2_000, 10_000
"""So many agents of one principal have their secret remembered, and so many in all."""


def endpoints(app: App) -> dict[str, dict[str, Endpoint]]:
    """The handlers, by path and method."""
    secrets = Secrets()
    return {f"/v1/hooks/{editor}": {"POST": _endpoint(app, editor, secrets)} for editor in occasions.EDITORS}


class Secrets:
    """The secrets of agents' sessions, and the leases that their hooks took.

    Of too many, the principal that has most loses the one not used for longest.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._leases: dict[tuple[str, str], dict[str, KnownLease]] = {}
        self._shares = Shares[tuple[str, str]](REMEMBERED_EACH, REMEMBERED, self._drop, lambda _: True)

    def _drop(self, seat: tuple[str, str]) -> None:
        del self._known[seat]
        self._leases.pop(seat, None)

    def of(self, who: Principal, session: str) -> str:
        """`ID.SECRET`, the same until it is forgotten."""
        seat = (party_of(who), session)
        if seat in self._known:
            self._shares.use(payer(who), seat)
        elif self._shares.take(payer(who), seat):
            self._known[seat] = os.urandom(16).hex()
        else:
            raise Problem("too_many", "too many agents use the hooks of this server at once; try again later")
        return f"{session}.{self._known[seat]}"

    def leases(self, who: Principal, session: str) -> tuple[KnownLease, ...]:
        """The leases that hooks of this agent took, and of whose loss it was not told."""
        return tuple(self._leases.get((party_of(who), session), {}).values())

    def remember(self, who: Principal, session: str, decision: Decision) -> None:
        """What a hook took, and which losses it told."""
        leases = self._leases.setdefault((party_of(who), session), {})
        leases.update((each.lease, each) for each in decision.taken)
        for lease in decision.lost:
            leases.pop(lease, None)

    def forget(self, who: Principal, session: str) -> None:
        """It has ended."""
        seat = (party_of(who), session)
        if seat in self._known:
            self._drop(seat)
            self._shares.leave(payer(who), seat)


def _endpoint(app: App, editor: str, secrets: Secrets) -> Endpoint:
    async def respond(request: Request) -> Response:
        who = await app.admit(request, None)
        permissions.allow(who, "acquire")
        content = await read_body(request, BODY_MOST)
        decoding.check_media_type(request.headers.get("content-type"))
        given = _decoded(content)
        occasion = occasions.of(editor, occasions.flatten(given))
        told = await _told(app, who, occasion, given, request, secrets)
        return problems.ok(told or {})

    return respond


def _decoded(content: bytes) -> dict[str, Any]:
    """What matters of a hook's input; the rest may be large, and costs nothing but to be skipped."""
    try:
        given = msgspec.structs.asdict(_given.decode(content))
        found: dict[str, Any] = {name: _decoded_text(raw) for name, raw in given.items()}
        tool_input = bytes(given["tool_input"])
        if tool_input.startswith(b"{"):
            is_ours = found["tool_name"].rpartition("__")[2] in occasions.LOCK_TOOLS
            found["tool_input"] = msgspec.json.decode(tool_input) if is_ours else _picked(tool_input)
        roots = bytes(given["workspace_roots"])
        if roots.startswith(b"[") and len(roots) < BODY_BYTES:
            found["workspace_roots"] = msgspec.json.decode(roots)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("invalid", f"the body must be a JSON object: {error}") from None
    return found


def _picked(tool_input: bytes) -> dict[str, str]:
    fields = msgspec.structs.asdict(_of_tool.decode(tool_input))
    return {name: _decoded_text(raw) for name, raw in fields.items() if bytes(raw).startswith(b'"')}


def _decoded_text(raw: msgspec.Raw) -> str:
    text: str = msgspec.json.decode(raw) if bytes(raw).startswith(b'"') else ""
    return text


async def _told(
    app: App, who: Principal, occasion: HookCall, given: dict[str, Any], request: Request, secrets: Secrets
) -> dict[str, Any] | None:
    session = hooking.session_id(occasion)
    credential = secrets.of(who, session)
    terms = _terms(app, occasion, request, credential)._replace(known=secrets.leases(who, session))
    root = request.query_params.get("root") or occasion.cwd
    # It looks at a command of any length, and at folders.
    steps = await asyncio.to_thread(hooking.steps, occasion, terms, root)
    if steps is None:
        return None
    decision = await aask(lambda verb, asked: _ask(app, who, verb, asked), steps)
    secrets.remember(who, session, decision)
    if occasion.moment == occasions.END:
        secrets.forget(who, session)
    return answer(occasion, decision, given.get("tool_input"))


def _terms(app: App, occasion: HookCall, request: Request, credential: str) -> HookTerms:
    policy = request.query_params.get("policy", "require")
    if policy not in POLICIES:
        raise Problem("invalid", f"policy: must be one of {', '.join(POLICIES)}", field="policy")
    return HookTerms(hooking.holder_of(occasion), credential, policy, app.ttl)


_ASKED: dict[str, dict[str, Any]] = {
    "acquire": {"space": None},
    "inspect": {"space": None},
    "start_session": {"space": None, "name": None},
    "renew_session": {"space": None},
    "end_session": {"space": None},
    "renew": {"token": None, "ttl": None},
}


async def _ask(app: App, who: Principal, verb: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (see `locks.Locks`)
    """One verb, in this principal's space and on its names only; the session is one that this server chose for it."""
    full = {**_ASKED[verb], **asked}
    try:
        if verb == "start_session":
            full["space"] = permissions.space_of(who, verb, None)
        else:
            full = permissions.bound(who, verb, full)
    except Problem as problem:
        return problems.as_refusal(problem)
    return await getattr(app.served.locks_for(who.authority), verb)(**full)
