"""Classic bugs of locks in git: two winners, clocks that are trusted, lost replies, too much fetched."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

CLOCK = "tests/stores/git/test_clock.py"
RIVALS = "tests/faults/test_git_rivals.py"
TRUST = ("tests/stores/git/test_trust.py",)

OVER_GIT = (
    Mutant(
        "git: pushes without an expected value",
        "stores/git/remote.py",
        'leases = [f"--force-with-lease={change.ref}:{change.old}" for change in changes]',
        'leases = ["--force"]',
        (RIVALS, "-k", "several"),
    ),
    Mutant(
        "git: the writer's clock is trusted",
        "stores/git/observing.py",
        "moment - stamp.at + first,",
        "moment,",
        (CLOCK, "-k", "skewed"),
    ),
    Mutant(
        "git: a dead lease is refreshed by who comes and goes",
        "stores/git/transaction.py",
        "dict(snapshot.stored[change.key])",
        "{i: each._replace(stamp=stamp) for i, each in snapshot.stored[change.key].items()}",
        (CLOCK, "-k", "come_and_go"),
    ),
    Mutant(
        "git: sightings are not kept",
        "stores/git/observing.py",
        'self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", new)',
        "pass",
        (CLOCK, "-k", "add_up"),
    ),
    Mutant(
        "git: a reboot is not noticed",
        "stores/git/observing.py",
        'database.execute("DELETE FROM seen")',
        "pass",
        (CLOCK, "-k", "reboot"),
    ),
    Mutant("git: no receipts", "stores/git/head.py", "if known == engine:", "if False:", (RIVALS, "-k", "lost_reply")),
    Mutant(
        "git: a lost reply is taken for a rejection",
        "stores/git/remote.py",
        'return OutcomeUnknown(f"the push to',
        'return Conflict(f"the push to',
        (RIVALS, "-k", "lost_reply"),
    ),
    Mutant(
        "git: everything is fetched to see one",
        "stores/git/snapshot.py",
        "specs = [refs.exact(refs.of_key(key)) for key in wanted]",
        "specs = [refs.EVERYTHING]",
        ("tests/stores/git/test_processes.py", "-k", "many"),
    ),
    Mutant(
        "git: answers rest on what was seen last",
        "stores/git/transaction.py",
        "        if self._snapshot.is_trusted:\n            self._distrust()\n",
        "        return\n",
        TRUST,
    ),
    Mutant(
        "git: what was assumed is not compared",
        "stores/git/transaction.py",
        "if not snapshot.assumed <= created:",
        "if False:",
        TRUST,
    ),
    Mutant(
        "git: a hook's environment leads elsewhere",
        "stores/git/command.py",
        "if name not in _ELSEWHERE}",
        "}",
        ("tests/stores/git/test_clones.py", "-k", "whatever"),
    ),
    Mutant(
        "git: a remote that was wiped counts from one again",
        "stores/git/head.py",
        "return self if self.fence >= mark else",
        "return self if True else",
        ("tests/stores/git/test_losses.py",),
    ),
    Mutant(
        "guard: a merge may drop what a side has done",
        "guard/git_changes.py",
        "set(in_neither | undone)",
        "set(in_neither)",
        ("tests/guard/test_git_hooks_merging.py", "-k", "by_itself"),
    ),
    Mutant(
        "guard: a part of it is enough to own it",
        "guard/checking.py",
        "if any(_covers(lease, resource) for lease in own):",
        "if own:",
        ("tests/guard/test_guard.py", "-k", "wants_all"),
    ),
    Mutant(
        "grite's own locks are not respected",
        "compat/grite_refs.py",
        "return [lock for lock in locks if lock.left > 0]",
        "return []",
        ("tests/cli/test_lock.py", "-k", "respected"),
    ),
)
