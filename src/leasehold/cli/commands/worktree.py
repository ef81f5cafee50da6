"""worktree add, list, env, remove: a git worktree for each agent, with a name, values of pools and what it holds."""

from __future__ import annotations

import os
import re

from leasehold.cli import git_worktrees, output
from leasehold.cli.context import accepted
from leasehold.cli.git_worktrees import Worktree, WorktreePlan, WorktreeValue
from leasehold.cli.output import clock, quoted, step
from leasehold.cli.terminal.columns import counted, table, width_of_terminal
from leasehold.config import identity
from leasehold.domain import durations, pools
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Granted, Refused, Renewed
from leasehold.errors import InvalidInput
from leasehold.requests import checks
from leasehold.wire import shapes as wire
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.domain.graph import Graph
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Deadlock, Held, TimedOut
    from leasehold.domain.plans import Plan

TTL = "24h"
"""How long a worktree keeps its values unless it is added again, or its environment is asked for."""
SETUP = "15m"
"""The TTL while git makes the worktree: after a crash, the values are free again soon."""
SHOWN = 5
"""Files with changes that a refusal names."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class WorktreeRefused(Exception):
    """A refusal that ends the command, with the next step; None after a refusal of the locks, which has its own."""

    def __init__(self, outcome: Held | TimedOut | Deadlock | Refused, next_step: str | None = None) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.next_step = next_step


def add(context: Context) -> int:
    """Add a worktree with its branch, agent and values, or renew the values of one that is there."""
    return _answered(context, _add)


def env(context: Context) -> int:
    """Print the variables of a worktree for a shell, and renew its values."""
    return _answered(context, _env)


def remove(context: Context) -> int:
    """Remove a worktree, and release what its agent holds. Refuses to lose uncommitted work without `--discard`."""
    return _answered(context, _remove)


def list_worktrees(context: Context) -> int:
    """Print each worktree with its agent, what that holds, and where it meets the others."""
    found = git_worktrees.linked(git_worktrees.repository()[1])
    leases = accepted(context.locks.list(space=context.space))
    graph = accepted(context.locks.graph(space=context.space))
    plans = {each.id: each for each in accepted(context.locks.plans(space=context.space))}
    told = []
    for each in found:
        plan = plans.get(each.plan.id) if each.plan is not None else None
        overlaps = [*_overlaps(graph, each.agent), *_plan_overlaps(plan, each.agent)]
        told.append(_told(each, _of(leases, each.agent), overlaps, plan))
    rows: list[tuple[str, ...]] = [_row(each) for each in told]
    heads = ("AGENT", "BRANCH", "VALUES", "HOLDS", "PLANS", "OVERLAPS", "WORKTREE")
    text = table(rows, heads, width_of_terminal()) if rows else "No worktrees beside the main one."
    return context.end(None, text, {"worktrees": told})


def _answered(context: Context, verb: Callable[[Context], int]) -> int:
    """Run a command, and explain its refusal."""
    try:
        return verb(context)
    except WorktreeRefused as error:
        if context.out.json or error.next_step is None:
            return context.end(error.outcome, "")
        context.deny(f"leasehold {context.verb}: {sentence(error.outcome)}\n{error.next_step}")
        return output.exit_code(error.outcome)


def _add(context: Context) -> int:
    root, common = git_worktrees.repository()
    name, wanted = context.values["name"], _wanted(context.values["value"])
    if _NAME.fullmatch(name) is None or ".." in name or name.endswith((".", ".lock")):
        raise InvalidInput("name", "must have letters, digits, '.', '_' and '-', such as coder-3")
    if any(each.startswith(pools.PREFIX) for each in checks.resource_names(context.values["plan"] or [name])):
        raise InvalidInput("plan", "cannot have a pool: give that with --value")
    known = _find(common, name)
    if known is None:
        made, leases = _made(context, root, name, wanted)
    else:
        _refuse_other_place(context, known)
        made, leases = _kept(context, known, wanted)
    made, plan = _planned(context, made)
    enter = f'cd {quoted((os.path.relpath(made.path),))} && eval "$(leasehold worktree env)"'
    lines = [f"Worktree of {name} at {shown(made.path)}, on branch {shown(made.branch or '?')}"]
    lines += [f"  {each.variable}={each.value}  ({shown(each.pool)})" for each in made.values]
    lines += [f"  until {clock(leases[0].expires_us, leases[0].as_of_us)}"] if leases else []
    told = _told(made, leases, _plan_overlaps(plan, name), plan)
    lines += [f"  plan {shown(' '.join(told['plan']))}"] if told["plan"] else []
    lines += [f"  careful: {_overlap(each)}" for each in told["overlaps"]]
    return context.end(None, "\n".join([*lines, step("work there", enter)]), told)


def _env(context: Context) -> int:
    kept, leases = _kept(context, _named_or_around(context.values["name"]), {})
    kept, plan = _planned(context, kept)
    told = {"LEASEHOLD_HOLDER": kept.agent or "", **{each.variable: each.value for each in kept.values}}
    lines = [f"export {variable}={quoted((value,))}" for variable, value in told.items()]
    answer = _told(kept, leases, _plan_overlaps(plan, kept.agent), plan)
    return context.end(None, "\n".join(lines), answer)


def _remove(context: Context) -> int:
    root, common = git_worktrees.repository()
    worktree, discard = _named_or_around(context.values["name"]), context.values["discard"]
    around = git_worktrees.around(common)
    if around is not None and around.path == worktree.path:
        away = f"cd {quoted((root,))} && {context.suggest('worktree remove', worktree.agent or '')}"
        raise WorktreeRefused(Refused("invalid", "name", "is the worktree that you are in"), step("leave it", away))
    unsaved = git_worktrees.unsaved(root, worktree)
    if unsaved and not discard:
        raise _unsaved(context, worktree, unsaved)
    proofs = _proofs(context, worktree)
    git_worktrees.remove(root, worktree, discard=discard)
    ended = [id_ for id_, token in proofs.items() if context.locks.release(id_, token)]
    if worktree.plan is not None:
        context.locks.release(worktree.plan.id, worktree.plan.token)
    lines = [f"Removed {shown(worktree.path)}; {counted(len(ended), 'lease')} released"]
    if unsaved:
        lines.append(f"Discarded: {_some(unsaved)}")
    if worktree.branch is not None:
        lines.append(f"Its branch {shown(worktree.branch)} is still there.")
        lines.append(step("delete it once it is merged", f"git branch -d {quoted((worktree.branch,))}"))
    told = {**_told(worktree, ()), "released": len(ended), "discarded": unsaved}
    return context.end(None, "\n".join(lines), told)


# ---------------------------------------------------------------------------------------------- the arguments


def _wanted(values: list[str]) -> dict[str, str]:
    """Return the pool behind each variable."""
    found: dict[str, str] = {}
    for text in values:
        variable, equals, pool = text.partition("=")
        if not equals or _VARIABLE.fullmatch(variable) is None or not pool.startswith(pools.PREFIX):
            raise InvalidInput("value", f"must be like PORT=pool://ports/3000-3099, not {shown(text)[:80]!r}")
        if variable in found:
            raise InvalidInput("value", f"{variable} is given twice")
        found[variable] = pool
    return found


def _ttl(context: Context) -> str | float:
    """Return the TTL as given; otherwise a day, or what the configuration allows if that is shorter."""
    given: str | float | None = context.values.get("ttl")
    return given if given is not None else durations.format(min(durations.parse(TTL), context.choice.rules().ttl_most))


def _find(common: str, name: str) -> Worktree | None:
    return next((each for each in git_worktrees.linked(common) if each.agent == name), None)


def _named_or_around(name: str | None) -> Worktree:
    """Return the worktree of this agent, or the one around the working directory."""
    common = git_worktrees.repository()[1]
    found = git_worktrees.around(common) if name is None else _find(common, name)
    if found is not None and found.agent is not None:
        return found
    what = f"no worktree of {shown(name)} here" if name else "this is no worktree that `leasehold worktree add` made"
    look = step("see which there are", "leasehold worktree list")
    raise WorktreeRefused(Refused("not_found", "", what), look)


def _refuse_other_place(context: Context, known: Worktree) -> None:
    values = context.values
    for option, value, now in (("branch", values["branch"], known.branch), ("path", values["path"], known.path)):
        if value is not None and (os.path.abspath(value) if option == "path" else value) != now:  # noqa: PTH100
            raise InvalidInput(option, f"is {shown(str(now))} already for the worktree of {shown(known.agent or '')}")
    if values["from"] is not None:
        raise InvalidInput("from", f"does not go with a worktree that is there: {shown(known.path)}")


# ------------------------------------------------------------------------------------------------- its values


def _made(context: Context, root: str, name: str, wanted: dict[str, str]) -> tuple[Worktree, list[Lease]]:
    """Acquire the values, make the worktree and save its files; release the values if any of that fails."""
    values = context.values
    path = values["path"] or f"{root.rstrip('/')}-{name}"
    taken: list[WorktreeValue] = []
    try:
        for variable, pool in wanted.items():
            taken.append(_acquired(context, name, variable, pool, (pool,), _ttl(context)))
        for each in taken:
            context.locks.renew(each.lease, each.token, ttl=SETUP)
        made = git_worktrees.add(root, os.path.abspath(path), values["branch"] or name, values["from"])  # noqa: PTH100
        made = made._replace(agent=name, values=tuple(taken))
        given = {"url": context.choice.url, "space": context.space}
        git_worktrees.save(made, {key: each for key, each in given.items() if values[key] is not None})
    except BaseException:
        for each in taken:
            context.locks.release(each.lease, each.token, status="cancelled")
        raise
    return _kept(context, made, {})


def _kept(context: Context, worktree: Worktree, wanted: dict[str, str]) -> tuple[Worktree, list[Lease]]:
    """Renew the values of a worktree, acquire the lost ones again, and those that are wanted besides."""
    agent, ttl = worktree.agent or "", _ttl(context)
    has = {each.variable: each.pool for each in worktree.values}
    for variable, pool in wanted.items():
        if has.get(variable, pool) != pool:
            raise InvalidInput("value", f"{variable} is from {shown(has[variable])} already: choose another variable")
    for each in worktree.values:
        renewed = context.locks.renew(each.lease, each.token, ttl=ttl)
        if isinstance(renewed, Refused):
            raise WorktreeRefused(renewed)
        if isinstance(renewed, Renewed):
            continue
        again = _acquired(context, agent, each.variable, each.pool, (each.resource, each.pool), ttl)
        worktree = _with(worktree, again)
    for variable in wanted.keys() - has.keys():
        worktree = _with(worktree, _acquired(context, agent, variable, wanted[variable], (wanted[variable],), ttl))
    ids = {each.lease for each in worktree.values}
    listed = accepted(context.locks.list(space=context.space, holder=agent)) if ids else ()
    return worktree, [lease for lease in listed if lease.id in ids]


def _planned(context: Context, worktree: Worktree) -> tuple[Worktree, Plan | None]:
    """Announce what the agent plans, or what is left of its plan for another while. Raises WorktreeRefused."""
    agent, wanted = worktree.agent or "", context.values.get("plan") or []
    if not wanted and worktree.plan is not None:
        listed = accepted(context.locks.plans(space=context.space, holder=agent))
        wanted = [name for each in listed if each.id == worktree.plan.id for name in each.resources]
    if not wanted:
        return worktree, None
    token = None if worktree.plan is None else worktree.plan.token
    outcome = context.locks.plan(wanted, ttl=_ttl(context), holder=agent, name=f"worktree {agent}", token=token)
    if isinstance(outcome, Refused):
        raise WorktreeRefused(outcome)
    changed = worktree._replace(plan=WorktreePlan(outcome.plan.id, outcome.token))
    git_worktrees.save_state(changed)
    return changed, outcome.plan


def _with(worktree: Worktree, value: WorktreeValue) -> Worktree:
    """Save a value in the place of the one of its variable."""
    others = tuple(each for each in worktree.values if each.variable != value.variable)
    changed = worktree._replace(values=(*others, value))
    git_worktrees.save_state(changed)
    return changed


def _acquired(
    context: Context, agent: str, variable: str, pool: str, names: tuple[str, ...], ttl: str | float
) -> WorktreeValue:
    """Acquire the first of these names that has a free member. Raises WorktreeRefused."""
    refused: Held | TimedOut | Deadlock | Refused = Refused("not_found", "resources", "no member is named")
    for name in names:
        outcome = context.locks.acquire(
            name, ttl=ttl, holder=agent, name=f"worktree {agent}", context={"variable": variable}
        )
        if isinstance(outcome, Granted):
            return WorktreeValue(variable, pool, outcome.lease.resources[0], outcome.lease.id, outcome.token)
        refused = outcome
    raise WorktreeRefused(refused)


# ------------------------------------------------------------------------------------------------ its removal


def _unsaved(context: Context, worktree: Worktree, unsaved: list[str]) -> WorktreeRefused:
    look = step("look at it, and commit it", f"git -C {quoted((worktree.path,))} status")
    discard = context.suggest("worktree remove", worktree.agent or "", more=" --discard")
    message = f"{shown(worktree.path)} has what no branch has: {_some(unsaved)}"
    return WorktreeRefused(Refused("unsaved", "", message), f"{look}\nOr throw it away for good:\n  {discard}")


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(map(shown, names[:SHOWN])) + (f" and {more} more" if more > 0 else "")


def _proofs(context: Context, worktree: Worktree) -> dict[str, str]:
    """Return the tokens of everything that the worktree's agent holds. Refuses if another process holds some of it."""
    agent = worktree.agent or ""
    found = {each.lease: each.token for each in worktree.values}
    from leasehold.cli.tokens import Tokens  # noqa: PLC0415 (`list` does without)

    tokens = Tokens(context.choice.url, context.space, identity.find(context.choice, agent))
    for lease in _of(accepted(context.locks.list(space=context.space, holder=agent)), agent):
        saved = tokens.recall(lease.id)
        if saved is not None:
            found.setdefault(*saved)
        if lease.id not in found:
            names = shown(" ".join(lease.resources))
            look = step("see what it does, and end it first", context.suggest("list", more=f" --of {quoted((agent,))}"))
            raise WorktreeRefused(Refused("at_work", "", f"{shown(agent)} still works: it holds {names}"), look)
    return found


# ------------------------------------------------------------------------------------------------- the answer


def _of(leases: tuple[Lease, ...], agent: str | None) -> list[Lease]:
    return [lease for lease in leases if lease.holder == agent]


def _overlaps(graph: Graph, agent: str | None) -> list[dict[str, str]]:
    """Return what this agent waits for, and what others wait for that it has."""
    names = {each.id: each.holder for each in graph.agents}
    found = []
    for edge in graph.edges:
        waiter, blocker = names[edge.waiter], names[edge.blocker]
        if agent in (waiter, blocker) and waiter != blocker:
            state, other = ("waits", blocker) if waiter == agent else ("blocks", waiter)
            found.append({"resource": edge.resource, "other": edge.resource, "holder": other, "state": state})
    return found


def _plan_overlaps(plan: Plan | None, agent: str | None) -> list[dict[str, str]]:
    """Return what others plan, hold or wait for that overlaps with the plan of this agent."""
    return [
        {"resource": each.resource, "other": each.other, "holder": each.holder, "state": each.state}
        for each in (plan.overlaps if plan is not None else ())
        if each.holder != agent
    ]


def _told(
    worktree: Worktree,
    leases: Iterable[Lease],
    overlaps: list[dict[str, str]] | None = None,
    plan: Plan | None = None,
) -> dict[str, Any]:
    """Return a worktree as JSON, without its tokens."""
    return {
        "agent": worktree.agent,
        "path": worktree.path,
        "branch": worktree.branch,
        "values": [
            {"variable": each.variable, "value": each.value, "resource": each.resource, "lease": each.lease}
            for each in worktree.values
        ],
        "plan": [] if plan is None else list(plan.resources),
        "leases": wire.leases(tuple(leases))["leases"],
        "overlaps": overlaps or [],
    }


_HOW = {
    "waits": "waits for {}",
    "blocks": "is waited for by {}",
    "planned": "{} plans",
    "held": "{} holds",
    "waiting": "{} waits for",
    "grace": "closed after {}:",
    "quarantined": "closed after {}:",
}


def _overlap(told: dict[str, str]) -> str:
    """Return one overlap in words."""
    words = _HOW[told["state"]].format(told["holder"])
    return f"{words} ({told['other']})" if told["state"] in ("waits", "blocks") else f"{words} {told['other']}"


def _row(told: dict[str, Any]) -> tuple[str, ...]:
    live = {lease["id"] for lease in told["leases"]}
    values = {each["lease"] for each in told["values"]}
    held = [name for lease in told["leases"] if lease["id"] not in values for name in lease["resources"]]
    return (
        told["agent"] or "",
        told["branch"] or "(no branch)",
        " ".join(
            f"{each['variable']}={each['value'] if each['lease'] in live else 'expired'}" for each in told["values"]
        ),
        " ".join(held),
        " ".join(told["plan"]),
        ", ".join(map(_overlap, told["overlaps"])),
        told["path"],
    )
