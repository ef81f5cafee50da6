"""A store that was opened before a fork is its parent's: a child is told so, and closing it there harms nobody."""

from __future__ import annotations

import subprocess
import sys

from tests.kit.postgres import schema

SCRIPT = """
import os, sys, threading
import leasehold
from leasehold.errors import LeaseholdError
from leasehold.stores.postgres import PostgresStore

store = PostgresStore(sys.argv[1])
store.hint()
store._listener.listening.wait(30)
child = os.fork()
if child == 0:
    try:
        store.begin()
    except LeaseholdError as error:
        store.close()
        os._exit(0 if "before a fork" in str(error) else 1)
    os._exit(2)
_, status = os.waitpid(child, 0)
transaction = store.begin()
transaction.load(["n1"])
transaction.close()
assert store.read(["n1"])
store.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_leaves_its_parents_store_alone() -> None:
    with schema() as url:
        done = subprocess.run([sys.executable, "-c", SCRIPT, url], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
