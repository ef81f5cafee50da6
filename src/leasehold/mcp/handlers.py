"""The actions of the tools: call the verbs for a party, and encode the answer with advice. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.domain.keys import is_lease_id, is_plan_id
from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import Granted, Planned, Refused
from leasehold.mcp import advice
from leasehold.mcp.callers import ask, credential
from leasehold.mcp.ownership import CallingAgent, Handed, in_its_own_way
from leasehold.mcp.tickets import Claims, TicketedWaits, unused
from leasehold.pictures.waits import together
from leasehold.requests.checks import resource as resource_name
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasehold.mcp.callers import Party
    from leasehold.wire.shapes import Json

    Progress = Callable[[float, str], Awaitable[None]]

LISTED_MOST = 200
CONTEXT_LISTED = 500
"""Characters of JSON; a listing leaves out longer contexts, which check_lock has."""
PLANS_LISTED, OVERLAPS_LISTED = 50, 10
TRIED_MOST = 100
"""Most leases on a resource to try with a token that is unknown here."""
OPENS_NOTHING = "none"
"""A token that no lease has. Without any token the call would be an admin's, who may end any lease."""
_TERMS: dict[str, Any] = {"wait": 0, "priority": 0, "grace": 0, "on_expiry": "free", "request_id": None, "space": None}


class ToolHandlers:
    """Answers the calls of tools."""

    def __init__(self, waits: TicketedWaits | None = None) -> None:
        self.waits = waits or TicketedWaits()
        self._handed = Handed()

    async def acquire(self, party: Party, agent: str | None, terms: dict[str, Any]) -> Json:
        """Try at once. A refusal leaves an intent, so that deadlocks of polling agents are noticed."""
        who = await _who(party, agent)
        if isinstance(who, Refused):
            return _answer(who)
        outcome = await ask(party, "acquire", {**self._asked(party, who, terms), "intent": True})
        return self._granted(party, who, outcome, Claims(1))

    async def plan(self, party: Party, agent: str | None, terms: dict[str, Any]) -> Json:
        """Announce what the agent is about to touch, in place of its earlier plan."""
        who = await _who(party, agent)
        if isinstance(who, Refused):
            return _answer(who)
        asked = self._asked(party, who, terms)
        given = {
            name: asked[name] for name in ("resources", "ttl", "name", "reason", "holder", "session", "space", "token")
        }
        outcome = await ask(party, "plan", {**given, "trace": None})
        if isinstance(outcome, Planned):
            self._handed.remember_plan(_keeper(party, who), who, outcome, party.connection)
        return _answer(outcome)

    async def wait(
        self,
        party: Party,
        agent: str | None,
        terms: dict[str, Any],
        ticket: str | None,
        seconds: float,
        told: Progress | None,
    ) -> Json:
        """Wait in the queue for a while, and report progress; the ticket in the answer continues the wait."""
        who = await _who(party, agent)
        if isinstance(who, Refused):
            return _answer(who)
        asked = self._asked(party, who, terms)

        async def report(waited: float) -> None:
            seen = await self._seen(party, who, asked) if told is not None else None
            if seen is not None and told is not None:
                await told(waited, advice.place(seen, who.place(seen.waiting)))

        got, outcome, claims = await self.waits.wait(party, {**asked, "intent": False}, ticket, seconds, report)
        if outcome is not None:
            return self._granted(party, who, outcome, claims)
        return await self._ticket(party, who, asked, got)

    async def stop_waiting(self, party: Party, agent: str | None, ticket: str) -> None:
        """Leave the queue, and release what was granted meanwhile."""
        who = await _who(party, agent)
        if not isinstance(who, Refused):
            await self.waits.stop(party, who.name, ticket)

    def _granted(self, party: Party, who: CallingAgent, outcome: Any, claims: Claims) -> Json:  # noqa: ANN401 (whatever an acquire ends in)
        if isinstance(outcome, Granted):
            party.granted(outcome.lease.id, outcome.token, claims)
            self._handed.remember(_keeper(party, who), who, outcome.lease, outcome.token, party.connection)
        answer = _answer(outcome)
        own = in_its_own_way(outcome)
        return {**answer, "advice": advice.on_own(own, is_certain=who.is_named)} if own else answer

    def _asked(self, party: Party, who: CallingAgent, terms: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of an acquire. An agent with its own name gets a lease that it holds already once more.

        Its session proves that it has it, or the tokens that were handed out to it here. Agents that nothing tells
        apart are refused instead: one of them must not get a yes for what another holds.
        """
        tokens = self._handed.proofs(_keeper(party, who), who, party.connection) if who.session is None else None
        own = {"holder": who.name, "session": who.session, "reentrant": who.is_named, "token": tokens}
        return {**_TERMS, **terms, **own}

    async def _ticket(self, party: Party, who: CallingAgent, asked: dict[str, Any], ticket: str) -> Json:
        seen = await self._seen(party, who, asked)
        data: dict[str, Any] = {"ticket": ticket}
        if seen is not None:
            data["queue"] = {"length": len(seen.waiting), "position": who.place(seen.waiting)}
            data["holders"] = [wire.lease(each) for each in seen.leases]
        return {"ok": False, "advice": advice.on_ticket(), "data": data}

    async def _seen(self, party: Party, who: CallingAgent, asked: dict[str, Any]) -> Inspection | None:
        """Inspect all resources of a request: any of them may be the one that is held."""
        names = [asked["resources"]] if isinstance(asked["resources"], str) else asked["resources"]
        looks = [await ask(party, "inspect", {"resource": name, "space": None}) for name in names]
        seen = [each for each in looks if isinstance(each, Inspection)]
        return together(seen, who.place, any_of=bool(asked.get("any_of"))) if seen else None

    async def leave(self, party: Party) -> None:
        """Release what was granted on a connection that its client ends; leases of sessions live on."""
        for lease, token in self._handed.leave(party.connection).items():
            await ask(party, "release", unused(lease, token))

    async def renew(self, party: Party, agent: str | None, target: str, token: str | None, ttl: float | None) -> Json:
        """Renew a lease."""
        return await self._change(party, agent, "renew", target, {"token": token, "ttl": ttl})

    async def release(
        self, party: Party, agent: str | None, target: str, token: str | None, status: str, error: str | None
    ) -> Json:
        """Release a lease."""
        given = {"token": token, "status": status, "error": error}
        return await self._change(party, agent, "release", target, given)

    async def _change(self, party: Party, agent: str | None, verb: str, target: str, given: dict[str, Any]) -> Json:
        token = given["token"] or None
        who = await _who(party, agent, is_proven=token is not None and _is_id(target))
        if isinstance(who, Refused):
            return _answer(who)
        meant = await self._meant(party, who, target, token)
        if isinstance(meant, Refused):
            is_over = verb == "renew" and meant.code == "not_found"
            return {**_answer(meant), **({"advice": advice.NOT_HELD} if is_over else {})}
        proof = self._proof(party, who, meant[0], token)
        outcome = await _first(party, verb, {**given, **proof}, meant)
        is_unproven = _is_not_opened(outcome) and token is None and who.session is None
        return {**_answer(outcome), **({"advice": advice.UNPROVEN} if is_unproven else {})}

    def _proof(self, party: Party, who: CallingAgent, lease: str, token: str | None) -> dict[str, Any]:
        """Return the proof: the given token, the session, or the token that this process gave to the agent."""
        if token is None and who.session is not None:
            return {"token": None, "session": who.session}
        return {
            "token": token or self._handed.tokens(_keeper(party, who), who).get(lease, OPENS_NOTHING),
            "session": None,
        }

    async def _meant(self, party: Party, who: CallingAgent, target: str, token: str | None) -> list[str] | Refused:
        """Return the ids of the leases that a name or an id may mean, also of one that is gone."""
        if _is_id(target):
            return [target]
        listed = await ask(party, "list", {"space": None, "holder": None, "resource": target})
        if isinstance(listed, Refused):
            return listed
        name = resource_name(target)
        known = self._handed.by(token, name)
        if known is not None:
            return [known]
        named = who.named(listed)
        exact = [lease for lease in named if name in lease.resources]
        gone = None if exact else self._handed.to(_keeper(party, who), who, name)
        if gone is not None:
            return [gone]
        if not named and token is not None and who.session is None and not who.is_named:
            named = list(listed)  # an MCP session ends with its name, and the token may be from before
        found = [lease.id for lease in reversed(exact or named)][: 1 if token is None else TRIED_MOST]
        return found or Refused(
            "not_found", "resource", f"{who.name} holds no lease on it: it was released, lost, or never acquired"
        )

    async def force_release(self, party: Party, agent: str | None, target: str, reason: str) -> Json:
        """End the lease of another holder."""
        asked = {"target": target, "by": party.agent(agent), "reason": reason, "space": None}
        return _answer(await ask(party, "force_release", asked))

    async def check(self, party: Party, resource: str) -> Json:
        """Inspect a resource."""
        return _answer(await ask(party, "inspect", {"resource": resource, "space": None}))

    async def list(self, party: Party, holder: str | None, resource: str | None) -> Json:
        """List live leases up to a limit, and count the others."""
        found = await ask(party, "list", {"space": None, "holder": holder, "resource": resource})
        if isinstance(found, Refused):
            return _answer(found)
        told = [  # a long context of each would fill the context window of the agent
            each._replace(context=None) if len(each.context or "") > CONTEXT_LISTED else each
            for each in found[:LISTED_MOST]
        ]
        data = {**wire.leases(told), "more": max(0, len(found) - LISTED_MOST)}
        data |= await self._plans(party, holder, resource)
        words = "Leave alone what others hold." if found else "Nothing is held."
        if told != list(found[:LISTED_MOST]):
            words += " Long contexts are left out here: check_lock has them."
        return {"ok": True, "advice": words, "data": data}

    async def _plans(self, party: Party, holder: str | None, resource: str | None) -> Json:
        """Return the first plans, each with its first overlaps."""
        found = await ask(party, "plans", {"space": None, "holder": holder, "resource": resource})
        if isinstance(found, Refused):
            return {"plans": []}
        few = [each._replace(overlaps=each.overlaps[:OVERLAPS_LISTED]) for each in found[:PLANS_LISTED]]
        return {"plans": wire.encoded("Plan[]", few)}

    async def history(self, party: Party, resource: str | None, holder: str | None, limit: int) -> Json:
        """List past events."""
        asked = {"space": None, "resource": resource, "holder": holder, "lease": None, "kinds": ()}
        found = await ask(party, "history", {**asked, "since": None, "before": None, "limit": limit})
        if isinstance(found, Refused):
            return _answer(found)
        return {"ok": True, "advice": "", "data": wire.events(found)}


async def _who(party: Party, agent: str | None, *, is_proven: bool = False) -> CallingAgent | Refused:
    """Return the calling agent. A call with a token of its own starts no session."""
    name = party.agent(agent)
    session = None if is_proven else await credential(party, name)
    return (
        session
        if isinstance(session, Refused)
        else CallingAgent(name, session, party.is_one(agent), party.is_named(agent))
    )


def _keeper(party: Party, who: CallingAgent) -> str:
    """Return what keeps the agent's leases: its MCP session, whose name others may give as their own, or its party."""
    is_by_connection = who.session is None and not who.is_named and party.connection
    return party.connection if is_by_connection else party.id


async def _first(party: Party, verb: str, given: dict[str, Any], leases: list[str]) -> Any:  # noqa: ANN401 (an outcome)
    """Return the outcome for the first of these leases that the proof opens; there is at least one."""
    outcome: Any = None
    for lease in leases:
        outcome = await ask(party, verb, {**given, "lease": lease})
        if not _is_not_opened(outcome):
            break
    return outcome


def _is_id(target: str) -> bool:
    """Return True for the id of a lease or of a plan."""
    return is_lease_id(target) or is_plan_id(target)


def _is_not_opened(outcome: object) -> bool:
    return isinstance(outcome, Refused) and (outcome.code, outcome.field) == ("not_allowed", "token")


def _answer(outcome: Any) -> Json:  # noqa: ANN401 (see `wire.answer`)
    told = wire.envelope(outcome)
    del told["schema_version"]
    return {**told, "advice": advice.on(outcome)}
