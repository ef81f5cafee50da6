"""POST /v1/hooks/EDITOR: the answer of `leasehold hook`, without a process for each edit, within the bounds of a key.

The secrets of the agents' sessions are drawn here and kept in memory. After a restart an agent goes on under its name:
what it held before counts as its own until it expires.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.compat.steps import aask
from leasehold.config.settings import POLICIES
from leasehold.guard.editors import adapters, payloads
from leasehold.guard.editors import hook as hooking
from leasehold.guard.editors.answers import answer
from leasehold.guard.editors.decision import HookTerms
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
"""A hook's input contains whole files. Only the fields below are made into objects."""
_FIELDS = (
    "session_id", "conversation_id", "agent_id", "subagent_id", "cwd", "workspace_roots", "hook_event_name",
    "tool_name", "tool_input", "command",
)  # fmt: skip
_TOOL_FIELDS = ("command", "file_path", "notebook_path", "agent_id")
_NOTHING = msgspec.Raw(b"null")


def _decoder(name: str, fields: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Return a decoder that keeps these fields of a JSON object as they are written, and skips the others."""
    kind = msgspec.defstruct(name, [(field, msgspec.Raw, _NOTHING) for field in fields])
    return msgspec.json.Decoder(kind)


_given = _decoder("Given", _FIELDS)
_of_tool = _decoder("OfTool", _TOOL_FIELDS)
SECRETS_EACH, SECRETS_MOST = 2_000, 10_000
"""Secrets of agents that are kept for one principal, and in all."""


def endpoints(app: App) -> dict[str, dict[str, Endpoint]]:
    """Return the handlers, by path and method."""
    agents = HookedAgents()
    return {f"/v1/hooks/{editor}": {"POST": _endpoint(app, editor, agents)} for editor in adapters.SERVED}


class HookedAgents:
    """The secrets of agents' sessions, and the leases that their hooks acquired.

    If there are too many agents, the principal with most loses the one that was not used for longest.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._leases: dict[tuple[str, str], dict[str, KnownLease]] = {}
        self._shares = Shares[tuple[str, str]](SECRETS_EACH, SECRETS_MOST, self._drop, lambda _: True)

    def _drop(self, seat: tuple[str, str]) -> None:
        del self._known[seat]
        self._leases.pop(seat, None)

    def credential(self, who: Principal, session: str) -> str:
        """Return `ID.SECRET` of this agent's session, the same until it is dropped."""
        seat = (party_of(who), session)
        if seat in self._known:
            self._shares.use(payer(who), seat)
        elif self._shares.take(payer(who), seat):
            self._known[seat] = os.urandom(16).hex()
        else:
            raise Problem("too_many", "too many agents use the hooks of this server at once; try again later")
        return f"{session}.{self._known[seat]}"

    def leases(self, who: Principal, session: str) -> tuple[KnownLease, ...]:
        """Return the leases that hooks of this agent acquired, but those whose loss it knows of."""
        return tuple(self._leases.get((party_of(who), session), {}).values())

    def remember(self, who: Principal, session: str, decision: Decision) -> None:
        """Add the leases that a hook acquired, and remove those whose loss it reported."""
        leases = self._leases.setdefault((party_of(who), session), {})
        leases.update((each.lease, each) for each in decision.taken)
        for lease in decision.lost:
            leases.pop(lease, None)

    def forget(self, who: Principal, session: str) -> None:
        """Drop an agent whose session has ended."""
        seat = (party_of(who), session)
        if seat in self._known:
            self._drop(seat)
            self._shares.leave(payer(who), seat)


def _endpoint(app: App, editor: str, agents: HookedAgents) -> Endpoint:
    """Return the endpoint that answers the hooks of this editor."""

    async def respond(request: Request) -> Response:
        who = await app.admit(request)
        permissions.allow(who, "acquire")
        content = await read_body(request, BODY_MOST)
        decoding.check_media_type(request.headers.get("content-type"))
        given = _decoded(content)
        occasion = payloads.of(editor, payloads.flatten(given))
        verdict = await _verdict(app, who, occasion, given, request, agents)
        return problems.ok(verdict or {})

    return respond


def _decoded(content: bytes) -> dict[str, Any]:
    """Return the fields of a hook's input that matter. The rest may be large, and is skipped."""
    try:
        given = msgspec.structs.asdict(_given.decode(content))
        found: dict[str, Any] = {name: _decoded_text(raw) for name, raw in given.items()}
        tool_input = bytes(given["tool_input"])
        if tool_input.startswith(b"{"):
            is_ours = found["tool_name"].rpartition("__")[2].rpartition(":")[2] in adapters.LOCK_TOOLS
            if is_ours:
                found["tool_input"] = msgspec.json.decode(tool_input)
            else:
                fields = msgspec.structs.asdict(_of_tool.decode(tool_input)).items()
                found["tool_input"] = {name: _decoded_text(raw) for name, raw in fields if bytes(raw).startswith(b'"')}
        roots = bytes(given["workspace_roots"])
        if roots.startswith(b"[") and len(roots) < BODY_BYTES:
            found["workspace_roots"] = msgspec.json.decode(roots)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("invalid", f"the body must be a JSON object: {error}") from None
    return found


def _decoded_text(raw: msgspec.Raw) -> str:
    text: str = msgspec.json.decode(raw) if bytes(raw).startswith(b'"') else ""
    return text


async def _verdict(
    app: App, who: Principal, occasion: HookCall, given: dict[str, Any], request: Request, agents: HookedAgents
) -> dict[str, Any] | None:
    session = hooking.session_id(occasion)
    credential = agents.credential(who, session)
    terms = _terms(app, occasion, request, credential)._replace(known=agents.leases(who, session))
    root = request.query_params.get("root") or occasion.cwd
    # In a thread: it parses a command of any length, and reads folders.
    steps = await asyncio.to_thread(hooking.steps, occasion, terms, root)
    if steps is None:
        return None
    decision = await aask(partial(_ask, app, who), steps)
    agents.remember(who, session, decision)
    if occasion.moment == adapters.END:
        agents.forget(who, session)
    return answer(occasion, decision, given.get("tool_input"))


def _terms(app: App, occasion: HookCall, request: Request, credential: str) -> HookTerms:
    policy = request.query_params.get("policy", "require")
    if policy not in POLICIES:
        raise Problem("invalid", f"policy: must be one of {', '.join(POLICIES)}", field="policy")
    return HookTerms(hooking.holder_of(occasion), credential, policy, app.ttl)


async def _ask(app: App, who: Principal, verb: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 (see `locks.Locks`)
    """Return the outcome of one verb, in this principal's space and on its names. The server chose the session's id."""
    try:
        if verb == "renew":
            return await app.dispatcher.ask(who, verb, {"token": None, "ttl": None, **asked})
        if verb != "start_session":
            return await app.dispatcher.ask(who, verb, {"space": None, **asked})
        asked = {**asked, "space": permissions.space_of(who, verb, None)}
    except Problem as problem:
        return problems.as_refusal(problem)
    return await app.served.locks_for(who.authority).start_session(**asked)
