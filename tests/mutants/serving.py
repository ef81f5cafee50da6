"""Classic bugs about who may have it, whose turn it is, and who is gone."""

from __future__ import annotations

from tests.mutants.kinds import MACHINE, PROMISES, SOME_SEEDS, Mutant, simulated, suite

SERVING = (
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
        ".holds.values() if hold.expires_at <= now]:\n",
        ".holds.values() if hold.expires_at <= now + SECOND]:\n",
        simulated(1),
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
        ("tests/rules/test_slots_in_line.py",),
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
        "    for claim in claims[1:]:\n        grip =",
        "    for claim in claims[1:1]:\n        grip =",
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
        "        if (mode, waiter.mode) not in _COMPATIBLE and is_alive(draft, waiter):\n",
        "        if mode != SHARED and (mode, waiter.mode) not in _COMPATIBLE and is_alive(draft, waiter):\n",
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
        "attendance.py",
        "            self._missing = self._gone(result.view.get)\n",
        "            self._missing = []\n",
        ("tests/engine", *SOME_SEEDS),
    ),
    Mutant(
        "lost wake-up: a deadline that could not be looked at is forgotten",
        "attendance.py",
        "                self._waits.look_at_deadline(wait, now)\n",
        "                pass\n",
        ("tests/engine", *SOME_SEEDS),
    ),
    Mutant(
        "lost wake-up: queued and served in the same batch",
        "attendance.py",
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
        PROMISES,
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
        PROMISES,
    ),
    Mutant(
        "a forced lease is picked up by its waiter",
        "rules/waiting.py",
        "            if hold.ticket == waiter and not hold.closed:\n",
        "            if hold.ticket == waiter:\n",
        PROMISES,
    ),
)
