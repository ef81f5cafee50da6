"""Classic bugs of locks in etcd: what is remembered is trusted, calls that get in each other's way, doubt forgotten."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

STEPS = "tests/stores/etcd/test_steps.py"
STORE = "tests/stores/etcd/test_etcd.py"
PRECEDENCE = "tests/stores/etcd/test_precedence.py"

OVER_ETCD = (
    Mutant(
        "etcd: a commit compares nothing",
        "stores/etcd/transaction.py",
        "compares = [replica.unchanged(store.names), *assumed, *compares]",
        "compares = [*assumed, *compares]",
        (STORE, "-k", "comes_second"),
    ),
    Mutant(
        "etcd: what is assumed is not compared",
        "stores/etcd/transaction.py",
        "compares = [replica.unchanged(store.names), *assumed, *compares]",
        "compares = [replica.unchanged(store.names), *compares]",
        ("tests/stores/etcd/test_journal.py",),
    ),
    Mutant(
        "etcd: two calls at a time on one connection",
        "stores/etcd/calls.py",
        "pooled = self._idle.pop()",
        "pooled = self._idle[-1]",
        (STEPS, "-k", "carries_no_other"),
    ),
    Mutant(
        "etcd: a commit that was given up is forgotten",
        "stores/etcd/transaction.py",
        "if not isinstance(error, StoreError) or isinstance(error, OutcomeUnknown):",
        "if isinstance(error, OutcomeUnknown):",
        (STEPS, "-k", "commit_that_is_given_up"),
    ),
    Mutant(
        "etcd: the answer to who gave up is taken for another's",
        "stores/etcd/calls.py",
        "        except BaseException:  # interrupted or cancelled: the answer may still come\n"
        "            self._drop(connection)\n",
        "        except BaseException:\n            self._idle.append(pooled)\n",
        (STEPS, "-k", "commit_that_is_given_up"),
    ),
    Mutant(
        "etcd: a commit in doubt may still be carried out",
        "stores/etcd/__init__.py",
        "self.txn([doubt[0]], [doubt[1]], [])",
        "pass",
        (STORE, "-k", "arrives_after"),
    ),
    Mutant(
        "etcd: a call that may have been carried out is made again",
        "stores/etcd/calls.py",
        "if changes and connection.is_sent:",
        "if False:",
        ("tests/stores/etcd/test_wire.py", "-k", "not_made_again"),
    ),
    Mutant(
        "etcd: an event loop waits for what is not known",
        "stores/etcd/journal.py",
        "        if any(overlay.known(key) is None for key in laid_over):\n            return None\n",
        "",
        (STEPS, "-k", "decides_without_waiting"),
    ),
    Mutant(
        "etcd: history is looked for in one spelling",
        "stores/etcd/history.py",
        "for each in spellings(word))",
        "for each in spellings(word)[:1])",
        ("tests/stores/etcd/test_history.py", "-k", "asked_for"),
    ),
    Mutant(
        "etcd: who goes first can be beaten",
        "stores/etcd/transaction.py",
        "[precedence.compare, *spilled.compares]",
        "spilled.compares",
        (PRECEDENCE,),
    ),
    Mutant(
        "etcd: who went first keeps others waiting",
        "stores/etcd/transaction.py",
        "        operations += precedence.removal\n",
        "",
        (PRECEDENCE,),
    ),
    Mutant(
        "etcd: one that is gone is waited for",
        "stores/etcd/precedence.py",
        "        self._remove(theirs)\n",
        "",
        (PRECEDENCE,),
    ),
)
