"""Classic bugs of lock services, each a small change of one file, with the tests that must notice it.

`old` must be found exactly once in the file, so that a mutant that went stale is noticed too.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One bug."""

    name: str
    file: str
    """Below src/leasehold."""
    old: str
    new: str
    tests: tuple[str, ...]
    """What pytest is asked to run."""


def suite(words: str) -> tuple[str, ...]:
    """These tests of the conformance suite, in memory."""
    return ("tests/stores/test_conformance_memory.py", "-k", words)


def simulated(*seeds: int) -> tuple[str, ...]:
    """The simulation, with these seeds."""
    return tuple(f"tests/faults/test_simulation.py::test_no_promise_is_broken[{seed}]" for seed in seeds)


SOME_SEEDS = simulated(1, 2, 3, 4, 5, 6, 7, 8)
MACHINE = ("tests/rules/test_machine.py",)

MUTANTS = (
    # ---------------------------------------------------------------------------------- who may have it
    Mutant(
        "two holders of one exclusive resource",
        "rules/conflicts.py",
        "        SHARED: (SHARED, INTENT_SHARED),\n",
        "        EXCLUSIVE: (EXCLUSIVE,),\n        SHARED: (SHARED, INTENT_SHARED),\n",
        suite("modes_exclusive"),
    ),
    Mutant(
        "takeover of a hold that still lives",
        "rules/ending.py",
        "        if hold.expires_at <= draft.now:\n",
        "        if hold.expires_at <= draft.now + SECOND:\n",
        suite("ttl_is_not_cut_short or ttl_is_told or leases_renewed"),
    ),
    Mutant(
        "one slot too many",
        "rules/conflicts.py",
        "    return rivals if len(rivals) >= slots else []\n",
        "    return rivals if len(rivals) > slots else []\n",
        suite("modes_slots_are_counted"),
    ),
    Mutant(
        "slots of waiters ahead are not counted",
        "rules/conflicts.py",
        "    return ahead if taken + len(ahead) >= slots else []\n",
        "    return ahead if taken >= slots else []\n",
        MACHINE,
    ),
    Mutant(
        "overlap is not checked on ancestors",
        "names.py",
        "    return (Claim(own, mode), *(Claim(node, intention) for node in above))\n",
        "    return (Claim(own, mode), *(Claim(node, intention) for node in above[:0]))\n",
        suite("overlap_conflicts"),
    ),
    Mutant(
        "several at once: only the first is checked",
        "rules/conflicts.py",
        "    for claim in option.claims:\n        record = draft.record(claim.node)\n        if record.holds and",
        "    for claim in option.claims[:1]:\n        record = draft.record(claim.node)\n        if record.holds and",
        suite("several_or_nothing"),
    ),
    Mutant(
        "several at once: only the first is taken",
        "rules/granting.py",
        "    for claim in option.claims:\n        slots =",
        "    for claim in option.claims[:1]:\n        slots =",
        suite("several"),
    ),
    # --------------------------------------------------------------------------------- whose turn it is
    Mutant(
        "barging by tries",
        "rules/acquiring.py",
        "    order = (-command.priority, draft.fence)\n",
        "    order = (-command.priority, draft.fence if command.wait else -1)\n",
        suite("order_is_not_jumped_by_a_try"),
    ),
    Mutant(
        "barging by later waiters",
        "rules/granting.py",
        "        if not in_the_way(draft, option, ask.slots, waiter.order):\n",
        "        if not in_the_way(draft, option, ask.slots, (0, -1)):\n",
        suite("order_"),
    ),
    Mutant(
        "readers starve a writer",
        "rules/conflicts.py",
        "        if (mode, waiter.mode) not in _COMPATIBLE and is_alive(draft, waiter)\n",
        "        if mode != SHARED and (mode, waiter.mode) not in _COMPATIBLE and is_alive(draft, waiter)\n",
        suite("order_does_not_starve_a_writer"),
    ),
    Mutant(
        "priority is ignored",
        "rules/acquiring.py",
        "    order = (-command.priority, draft.fence)\n",
        "    order = (0, draft.fence)\n",
        suite("order_of_priority"),
    ),
    Mutant(
        "lost wake-up: a release serves nobody",
        "rules/leases.py",
        "    give_back(draft, hold, ask, command.status, command.error)\n    settle(draft)\n",
        "    give_back(draft, hold, ask, command.status, command.error)\n",
        MACHINE,
    ),
    Mutant(
        "lost wake-up: with all hints lost nobody looks",
        "engine.py",
        "            due.extend(self._served_elsewhere(certainly=is_beat))\n",
        "            due.extend(self._served_elsewhere(certainly=False))\n",
        SOME_SEEDS,
    ),
    Mutant(
        "lost wake-up: a deadline that could not be looked at is forgotten",
        "engine.py",
        "                self._waits.look_at_deadline(wait, now)\n",
        "                pass\n",
        ("tests/engine", *SOME_SEEDS),
    ),
    Mutant(
        "lost wake-up: queued and served in the same batch",
        "engine.py",
        "            self._served(id_, lease, result.view)\n",
        "            if id_ not in {outcome.waiter for outcome in result.outcomes if isinstance(outcome, Queued)}:\n"
        "                self._served(id_, lease, result.view)\n",
        ("tests/engine", *SOME_SEEDS),
    ),
    Mutant(
        "a choice leaves waiters behind in the other queues",
        "rules/granting.py",
        "    for node in nodes_of(ask):\n        draft.drop(node, waiter.id)\n",
        "    for node in nodes_of(ask)[:1]:\n        draft.drop(node, waiter.id)\n",
        suite("choices or several"),
    ),
    # ------------------------------------------------------------------------------------- who is gone
    Mutant(
        "grant to a dead waiter",
        "rules/conflicts.py",
        "    return isinstance(presence, Presence) and presence.until > draft.now\n",
        "    return isinstance(presence, Presence)\n",
        ("tests/engine", "tests/faults/test_simulation.py"),
    ),
    Mutant(
        "grant to a waiter whose time is over",
        "rules/conflicts.py",
        "    if waiter.deadline <= draft.now:\n        return False\n",
        "",
        MACHINE,
    ),
    Mutant(
        "grant to a caller who went away",
        "engine.py",
        "        if given is not None and not self._closed:\n",
        "        if given is not None and self._closed:\n",
        ("tests/engine",),
    ),
    Mutant(
        "a caller who went away takes the lease of its own retry along",
        "rules/waiting.py",
        "    others = tuple(token for token in entry.ask.tokens if token != command.token)\n",
        "    others = ()\n",
        ("tests/engine", *SOME_SEEDS),
    ),
    Mutant(
        "a session that ends leaves its leases behind",
        "rules/sessions.py",
        '            give_back(draft, hold, ask, "cancelled", "its session ended")\n',
        "",
        suite("sessions_that_end"),
    ),
    Mutant(
        "a session's heartbeat picks up what was promised to a waiter",
        "rules/sessions.py",
        "        if hold is not None and hold.ticket is None:",
        "        if hold is not None:",
        SOME_SEEDS,
    ),
    Mutant(
        "a forced lease is picked up by its waiter",
        "rules/waiting.py",
        "            if hold.ticket == waiter and not hold.closed:\n",
        "            if hold.ticket == waiter:\n",
        SOME_SEEDS,
    ),
    # ----------------------------------------------------------------------------------- how it ends
    Mutant(
        "release by owner instead of by id",
        "rules/ending.py",
        "        draft.drop(claim.node, home.id)\n"
        "        draft.dirty[claim.node] = None\n    draft.drop(home.actor, home.id)\n",
        "        for hold in tuple(draft.record(claim.node).holds.values()):\n"
        "            if hold.actor == home.actor:\n"
        "                draft.drop(claim.node, hold.id)\n"
        "        draft.dirty[claim.node] = None\n    draft.drop(home.actor, home.id)\n",
        suite("leases"),
    ),
    Mutant(
        "renew after expiry",
        "rules/leases.py",
        "    lapse(draft, keys.home(lease))\n    settle(draft)\n    return still_held(draft, lease)\n",
        "    return draft.record(keys.home(lease)).holds.get(lease)\n",
        suite("leases_that_expired_are_never_revived"),
    ),
    Mutant(
        "expiry by the caller's clock",
        "batch.py",
        "            result = step(self.view, command, self.transaction.now, self.fence, self.engine)\n",
        '            now = __import__("time").time_ns() // 1000\n'
        "            result = step(self.view, command, now, self.fence, self.engine)\n",
        simulated(1),
    ),
    Mutant(
        "anybody may release",
        "rules/leases.py",
        "(proof.token is not None and proof.token in ask.tokens)",
        "(proof.token is not None)",
        suite("entitled"),
    ),
    Mutant(
        "grace is ignored",
        "rules/ending.py",
        "    opens_at = FOREVER if home.after >= FOREVER else at + home.after\n",
        "    opens_at = FOREVER if home.after >= FOREVER else at\n",
        suite("unclean_grace"),
    ),
    Mutant(
        "quarantine is ignored",
        "rules/granting.py",
        "    after = FOREVER if ask.quarantine else ask.grace\n",
        "    after = ask.grace\n",
        suite("unclean_quarantine"),
    ),
    # ------------------------------------------------------------------------------------- deadlocks
    Mutant(
        "deadlocks are not looked for",
        "rules/acquiring.py",
        "    return _deadlock(draft, command, order) or _enqueue(draft, command, order)\n",
        "    return _enqueue(draft, command, order)\n",
        suite("deadlocks_of_two"),
    ),
    Mutant(
        "deadlock by an expired hold",
        "rules/waitgraph.py",
        "            if hold.expires_at > self.draft.now and not hold.closed and",
        "            if not hold.closed and",
        suite("deadlocks or intents"),
    ),
    Mutant(
        "deadlock although there is another way out",
        "deadlock.py",
        "    return any(all(_is_met(need, live) for need in choice) for choice in wait)\n",
        "    return all(all(_is_met(need, live) for need in choice) for choice in wait)\n",
        suite("deadlocks_of_a_choice"),
    ),
    # --------------------------------------------------------------------------------------- retries
    Mutant(
        "a retry gets a second lease",
        "rules/acquiring.py",
        "    if command.ask.request is not None:\n        answer =",
        "    if command.ask.request is not None and command.wait:\n        answer =",
        suite("retries_get_the_same_lease"),
    ),
    Mutant(
        "a delayed copy of a cancelled request is granted",
        "rules/acquiring.py",
        "    if known.became is None:\n        return Refused(",
        "    if known.became is None:\n        return None\n        return Refused(",
        suite("cancelling"),
    ),
    Mutant(
        "a retry gets what is left of a promise",
        "rules/acquiring.py",
        "    extend = extend or home.ticket is not None",
        "    extend = extend",
        SOME_SEEDS,
    ),
    # -------------------------------------------------------------------------------- what is durable
    Mutant(
        "answered although the commit failed",
        "batch.py",
        "        except OutcomeUnknown as unknown:\n",
        "        except Conflict:\n            return\n        except OutcomeUnknown as unknown:\n",
        SOME_SEEDS,
    ),
    Mutant(
        "a lost reply is taken for a failure",
        "batch.py",
        "            if not is_there:\n",
        "            if is_there or not is_there:\n",
        SOME_SEEDS,
    ),
    Mutant(
        "a lost reply is taken for a success",
        "batch.py",
        "            if not is_there:\n",
        "            if not is_there and is_there:\n",
        SOME_SEEDS,
    ),
    Mutant(
        "a fence is given twice",
        "rules/draft.py",
        "        self.fence = number + 1\n",
        "        self.fence = number + number % 2\n",
        suite("fences"),
    ),
    Mutant(
        "fences begin again with each connection",
        "stores/sqlite/database.py",
        "        meta = self.meta._replace(fence=fence,",
        "        meta = self.meta._replace(fence=self.meta.fence,",
        ("tests/stores/test_sqlite_transactions.py",),
    ),
    Mutant(
        "fences begin again after a backup was restored",
        "stores/sqlite/database.py",
        "        return mark is not None and mark <= self.meta.fence and",
        "        return mark is not None and",
        ("tests/stores/test_sqlite_restore.py",),
    ),
    Mutant(
        "another process's writes are not noticed",
        "stores/sqlite/database.py",
        "        if version == self.version:\n            return\n",
        "        if version != _UNKNOWN:\n            return\n",
        ("tests/stores/test_sqlite_processes.py", "tests/stores/test_sqlite_transactions.py"),
    ),
    Mutant(
        "the store's clock runs backwards",
        "stores/sqlite/database.py",
        "        self._latest = max(meta.offset + self.clock.elapsed(), meta.now, self._latest)\n",
        "        self._latest = meta.offset + self.clock.elapsed()\n",
        ("tests/stores/test_sqlite_clock.py",),
    ),
    Mutant(
        "a process dies in the middle of a commit",
        "stores/sqlite/database.py",
        '            self.connection.execute("BEGIN IMMEDIATE")\n            self._catch_up()\n',
        "            self._catch_up()\n",
        ("tests/stores/test_sqlite_transactions.py",),
    ),
)
