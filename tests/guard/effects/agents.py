"""Agents whose hooks run in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import leasehold
from leasehold.compat.steps import ask
from leasehold.guard.editors import hook, local
from leasehold.guard.editors.adapters import AFTER, BEFORE
from leasehold.guard.editors.decision import Decision, HookTerms
from leasehold.guard.editors.payloads import HookCall
from tests.guard.effects.repository import sh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasehold.guard.editors.decision import Deciding


class Agent(NamedTuple):
    """An agent whose hooks run in this process."""

    name: str
    locks: leasehold.Locks
    here: Path
    env: dict[str, str]
    around: Callable[[Deciding], Deciding] = lambda steps: steps
    """Drives the conversation of a hook."""

    def hook(self, moment: str, number: int, command: str = "", path: str = "", policy: str = "require") -> Decision:
        """Answer one hook."""
        paths = (path,) if path else ()
        about = HookCall("claude", moment, self.name, cwd=str(self.here), command=command, paths=paths, event=moment)
        call = about._replace(call=f"{self.name}-{number}")
        credential, known = hook.credential(call, self.env, "here"), hook.known(call, self.env, "here")
        terms = HookTerms(hook.holder_of(call), credential, policy, 600, known=known)
        found = local.trees_of(call, str(self.here), self.env)
        decision = ask(self.locks, self.around(local.steps(call, terms, found, self.env, "here")))
        hook.remember(call, self.env, "here", decision)
        return decision._replace(taken=())

    def run(self, command: str, where: Path | None = None, number: int = 1, policy: str = "require") -> Decision:
        """Run a command between its hooks; a script that stands somewhere else, if `where` does not match."""
        words = command if where is None else "./build"  # nothing in these words tells what is written
        before = self.hook(BEFORE, number, words, policy=policy)
        if not before.allowed:
            return before
        sh(command, where or self.here)
        return self.hook(AFTER, number, words, policy=policy)


def held(agent: Agent) -> dict[str, str]:
    leases = agent.locks.list()
    assert not isinstance(leases, leasehold.Refused)
    return {name: lease.holder for lease in leases for name in lease.resources}


def until_stamped_later(path: Path) -> None:
    """Wait until a new file would be stamped later than this one: the clock that stamps files ticks slowly."""
    probe = path.with_name("probe")
    for _ in range(100_000):
        probe.write_bytes(b"")
        moment = probe.stat().st_ctime_ns
        probe.unlink()
        if moment > path.stat().st_ctime_ns:
            return
    raise AssertionError("the clock of the file system stands still")
