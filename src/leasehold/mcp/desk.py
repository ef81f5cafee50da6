"""What the tools do, apart from how they are declared: ask for a party, and shape the answer. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from leasehold import wire
from leasehold.checks import session_id
from leasehold.keys import is_lease_id
from leasehold.mcp import advice
from leasehold.mcp.parties import ask, credential
from leasehold.mcp.pursuits import Pursuits
from leasehold.model import Granted, Held, Inspection, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasehold.mcp.parties import Party
    from leasehold.mcp.shapes import Acquired, Checked, Listed, Released, Renewed, Told
    from leasehold.model import Lease, Waiting

    Progress = Callable[[float, str], Awaitable[None]]
    T = TypeVar("T", Lease, Waiting)

LISTED_MOST = 200
_TERMS: dict[str, Any] = {"wait": 0, "priority": 0, "grace": 0, "on_expiry": "free", "request_id": None, "space": None}


class Desk:
    """Where tools are answered."""

    def __init__(self, pursuits: Pursuits | None = None) -> None:
        self.pursuits = pursuits or Pursuits()

    async def acquire(self, party: Party, agent: str | None, terms: dict[str, Any]) -> Acquired:
        """Try at once. A refusal leaves an intent, so that a circle of agents who only try is noticed."""
        asked = await _asked(party, agent, terms)
        if isinstance(asked, Refused):
            return _granted(party, asked)
        outcome = await ask(party, "acquire", {**asked, "intent": True})
        own = _in_its_own_way(outcome, asked["holder"])
        answer = _granted(party, outcome)
        return {**answer, "advice": advice.on_own(own)} if own else answer

    async def wait(
        self,
        party: Party,
        agent: str | None,
        terms: dict[str, Any],
        ticket: str | None,
        seconds: float,
        told: Progress | None,
    ) -> Acquired:
        """Wait in the queue for a while; the ticket is good for the next call. Whoever listens is told how it goes."""
        asked = await _asked(party, agent, terms)
        if isinstance(asked, Refused):
            return _granted(party, asked)

        async def report(waited: float) -> None:
            seen = await self._seen(party, asked) if told is not None else None
            if seen is not None and told is not None:
                await told(waited, advice.place(seen, _place(seen, asked)))

        got, outcome = await self.pursuits.wait(party, {**asked, "intent": False}, ticket, seconds, report)
        if outcome is not None:
            return _granted(party, outcome)
        return await self._ticket(party, asked, got)

    async def _ticket(self, party: Party, asked: dict[str, Any], ticket: str) -> Acquired:
        seen = await self._seen(party, asked)
        data: dict[str, Any] = {"ticket": ticket}
        if seen is not None:
            data["queue"] = {"length": len(seen.waiting), "position": _place(seen, asked)}
            data["holders"] = [wire.lease(each) for each in seen.leases]
        own = () if seen is None else _of(seen.leases, asked["holder"], asked["session"])
        if seen is not None and own and len(own) == len(seen.leases):  # this wait would never end
            words = advice.on_own(tuple(name for lease in own for name in lease.resources))
        else:
            words = advice.on_ticket()
        return {"ok": False, "advice": words, "data": data}  # type: ignore[typeddict-item] # as `wire` shapes it

    async def _seen(self, party: Party, asked: dict[str, Any]) -> Inspection | None:
        first = asked["resources"] if isinstance(asked["resources"], str) else asked["resources"][0]
        seen = await ask(party, "inspect", {"resource": first, "space": None})
        return seen if isinstance(seen, Inspection) else None

    async def renew(
        self, party: Party, agent: str | None, target: str, token: str | None, ttl: float | None
    ) -> Renewed:
        """A full TTL again."""
        answer: Renewed = await self._change(party, agent, "renew", target, {"token": token, "ttl": ttl})
        return answer

    async def release(
        self, party: Party, agent: str | None, target: str, token: str | None, status: str, error: str | None
    ) -> Released:
        """Give it back."""
        given = {"token": token, "status": status, "error": error}
        answer: Released = await self._change(party, agent, "release", target, given)
        return answer

    async def _change(self, party: Party, agent: str | None, verb: str, target: str, given: dict[str, Any]) -> Any:  # noqa: ANN401 (the answer of that verb)
        name = party.agent(agent)
        session = None if given["token"] and is_lease_id(target) else await credential(party, name)
        if isinstance(session, Refused):
            return _answer(session)
        lease = target if is_lease_id(target) else await _own(party, name, session, target)
        if not isinstance(lease, str):
            is_over = verb == "renew" and lease.code == "not_found"
            return {**_answer(lease), **({"advice": advice.NOT_HELD} if is_over else {})}
        session = None if given["token"] else session
        return _answer(await ask(party, verb, {**given, "lease": lease, "session": session}))

    async def force_release(self, party: Party, agent: str | None, target: str, reason: str) -> Released:
        """End somebody else's lease."""
        asked = {"target": target, "by": party.agent(agent), "reason": reason, "space": None}
        answer: Released = _answer(await ask(party, "force_release", asked))
        return answer

    async def check(self, party: Party, resource: str) -> Checked:
        """How it stands."""
        answer: Checked = _answer(await ask(party, "inspect", {"resource": resource, "space": None}))
        return answer

    async def list(self, party: Party, holder: str | None, resource: str | None) -> Listed:
        """Live leases; the first so many, and how many more there are."""
        found = await ask(party, "list", {"space": None, "holder": holder, "resource": resource})
        if isinstance(found, Refused):
            refused: Listed = _answer(found)
            return refused
        data = {**wire.leases(found[:LISTED_MOST]), "more": max(0, len(found) - LISTED_MOST)}
        words = "Leave alone what others hold." if found else "Nothing is held."
        return {"ok": True, "advice": words, "data": data}  # type: ignore[typeddict-item] # as `wire` shapes it

    async def history(self, party: Party, resource: str | None, holder: str | None, limit: int) -> Told:
        """Past events."""
        asked = {"space": None, "resource": resource, "holder": holder, "lease": None, "kinds": ()}
        found = await ask(party, "history", {**asked, "since": None, "before": None, "limit": limit})
        if isinstance(found, Refused):
            refused: Told = _answer(found)
            return refused
        return {"ok": True, "advice": "", "data": wire.events(found)}  # type: ignore[typeddict-item] # as `wire` shapes it


async def _asked(party: Party, agent: str | None, terms: dict[str, Any]) -> dict[str, Any] | Refused:
    """An acquire as the agents' surfaces make it: an agent that has it already gets the same lease, extended."""
    name = party.agent(agent)
    session = await credential(party, name)
    if isinstance(session, Refused):
        return session
    who = {"holder": name, "session": session, "reentrant": party.is_one(agent)}
    return {**_TERMS, **terms, **who}


def _granted(party: Party, outcome: Any) -> Acquired:  # noqa: ANN401 (whatever an acquire ends in)
    if isinstance(outcome, Granted):
        party.granted(outcome.lease.id, outcome.token)
    answer: Acquired = _answer(outcome)
    return answer


def _in_its_own_way(outcome: object, holder: str) -> tuple[str, ...]:
    """What this agent holds itself, if that is all that keeps it from what it wants."""
    if not isinstance(outcome, Held) or any(each.holder != holder or each.state != "held" for each in outcome.blockers):
        return ()
    return tuple(each.resource for each in outcome.blockers)


def _place(seen: Inspection, asked: dict[str, Any]) -> int:
    """The place in the queue of whoever asks; 0 if it is in none."""
    return next((each.position for each in _of(seen.waiting, asked["holder"], asked["session"])), 0)


def _of(found: tuple[T, ...], agent: str, session: str | None) -> list[T]:
    """Those of this agent. A session acts in its own name, which may be another than the agent's here."""
    if session is not None:
        own = [each for each in found if each.session == session_id(session)]
        if own:
            return own
    return [each for each in found if each.holder == agent]


async def _own(party: Party, agent: str, session: str | None, resource: str) -> str | Refused:
    """The id of this agent's lease on a resource; a refusal if there is none."""
    listed: tuple[Lease, ...] | Refused = await ask(
        party, "list", {"space": None, "holder": None, "resource": resource}
    )
    if isinstance(listed, Refused):
        return listed
    found = _of(listed, agent, session)
    exact = [lease for lease in found if resource in lease.resources] or found
    if exact:
        return exact[-1].id
    return Refused("not_found", "resource", f"{agent} holds no lease on it: it was released, lost, or never acquired")


def _answer(outcome: Any) -> Any:  # noqa: ANN401 (see `wire.answer`)
    told = wire.envelope(outcome)
    del told["schema_version"]
    return {**told, "advice": advice.on(outcome)}
