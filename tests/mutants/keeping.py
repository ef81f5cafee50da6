"""Classic bugs about how leases end, deadlocks, retries, and what is durable."""

from __future__ import annotations

from tests.mutants.kinds import PROMISES, SOME_SEEDS, Mutant, simulated, suite

KEEPING = (
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
        "    lapse(draft, node)\n    if draft.dirty:\n        settle(draft)\n        lapse(draft, node)\n",
        "",
        suite("leases_that_expired_are_never_revived"),
    ),
    Mutant(
        "expiry by the caller's clock",
        "batch.py",
        "        return step(view.loaded, command, self.transaction.now, ",
        '        now = __import__("time").time_ns() // 1000\n        return step(view.loaded, command, now, ',
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
        "    deadlock = _deadlock(draft, command, order)\n",
        "    deadlock = None\n",
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
        "rules/waitgraph.py",
        "        return tuple(self._choice(seeker, option) for option in options)\n",
        "        return (tuple(need for option in options for need in self._choice(seeker, option)),)\n",
        suite("deadlocks_of_a_choice"),
    ),
    Mutant(
        "waits that count again are in no cycle",
        "attendance.py",
        "                self._to_reconsider = self._waits.all()\n",
        "                pass\n",
        ("tests/engine/test_engine_apart.py",),
    ),
    Mutant(
        "a wait that goes on elsewhere is in no cycle",
        "rules/acquiring.py",
        "    if not is_alive(draft, waiter):",
        "    if False:",
        ("tests/engine/test_engine_apart.py",),
    ),
    # --------------------------------------------------------------------------------------- retries
    Mutant(
        "a retry gets a second lease",
        "rules/acquiring.py",
        "    if ask.request is not None:\n        answer =",
        "    if ask.request is not None and command.wait:\n        answer =",
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
        PROMISES,
    ),
    # -------------------------------------------------------------------------------- what is durable
    Mutant(
        "answered although the commit failed",
        "batch.py",
        "        except OutcomeUnknown as unknown:\n",
        "        except Conflict:\n            return\n        except OutcomeUnknown as unknown:\n",
        ("tests/engine", *SOME_SEEDS),
    ),
    Mutant(
        "the loop waits for its turn after a conflict",
        "batch.py",
        "            why = str(error)\n        yield None\n",
        "            why = str(error)\n",
        ("tests/engine/test_stepwise.py",),
    ),
    Mutant(
        "the loop begins although the store is not ready",
        "batch.py",
        '    if not hasattr(store, "ready") or not store.ready(keys):\n',
        '    if not hasattr(store, "ready"):\n',
        ("tests/engine/test_stepwise.py",),
    ),
    Mutant(
        "closing does not wait for the answer that is on its way",
        "loop_drivers.py",
        "            if is_midway and self._turning is not None:\n",
        "            if is_midway and self._turning is None:\n",
        ("tests/engine/test_stepwise.py",),
    ),
    Mutant(
        "a lost reply is taken for a failure",
        "batch.py",
        "            if not is_there:\n",
        "            if is_there or not is_there:\n",
        ("tests/engine", *SOME_SEEDS),
    ),
    Mutant(
        "a lost reply is taken for a success",
        "batch.py",
        "            if not is_there:\n",
        "            if not is_there and is_there:\n",
        ("tests/engine", *SOME_SEEDS),
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
        "        meta = Meta(fence, before.seq",
        "        meta = Meta(before.fence, before.seq",
        ("tests/stores/test_sqlite_transactions.py",),
    ),
    Mutant(
        "fences are taken from the row, though the newest event knows better",
        "stores/sqlite/database.py",
        "SELECT coalesce(last.fence, newest.next, meta.fence),",
        "SELECT coalesce(last.fence, meta.fence),",
        ("tests/stores/test_sqlite_numbers.py",),
    ),
    Mutant(
        "fences are taken from the tables, though the journal knows better",
        "stores/sqlite/database.py",
        "SELECT coalesce(last.fence, newest.next, meta.fence),",
        "SELECT coalesce(newest.next, meta.fence),",
        ("tests/stores/test_sqlite_journal.py",),
    ),
    Mutant(
        "who writes to the tables leaves the journal as it is",
        "stores/sqlite/__init__.py",
        "            if database.journal is None:\n",
        "            if database.journal is None or not database.is_lasting:\n",
        ("tests/stores/test_sqlite_journal.py",),
    ),
    Mutant(
        "what a journal dropped stays in the table",
        "stores/netting.py",
        "        return False\n    return not record.waiters",
        "        return True\n    return not record.waiters",
        ("tests/stores/test_sqlite_journal.py", "tests/stores/test_postgres_journal.py"),
    ),
    Mutant(
        "a journal that came to nothing is remembered in PostgreSQL's store",
        "stores/postgres/transaction.py",
        "        self._store.doubt()  # see above\n",
        "",
        ("tests/stores/test_postgres_journal.py",),
    ),
    Mutant(
        "what PostgreSQL's journal dropped is seen as put",
        "stores/postgres/rows.py",
        "_places([*self._puts, *self._drops])",
        "_places([*self._drops, *self._puts])",
        ("tests/stores/test_postgres_journal.py",),
    ),
    Mutant(
        "who looks does not see the journal",
        "stores/sqlite/reading.py",
        "    if meta.number == meta.folded:\n        return None\n",
        "    if meta.number >= meta.folded:\n        return None\n",
        ("tests/stores/test_sqlite_journal.py",),
    ),
    Mutant(
        "a journal that never came to be is remembered",
        "stores/sqlite/database.py",
        "        if self.journal is None or is_doubted:",
        "        if self.journal is None:",
        ("tests/stores/test_sqlite_journal.py",),
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
        "what is committed is not one transaction",
        "stores/sqlite/database.py",
        '        self.cursor.execute("BEGIN IMMEDIATE")\n        self._catch_up()\n',
        "        self._catch_up()\n",
        ("tests/stores/test_sqlite_transactions.py",),
    ),
)
