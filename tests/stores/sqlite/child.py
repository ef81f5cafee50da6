"""Another process that uses a store, told what to do line by line: ``python -m tests.stores.sqlite.child PATH``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.domain.entries import Put, Ref
from leasehold.errors import StoreError
from leasehold.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from leasehold.stores.sqlite import SqliteTransaction

ROOT = Path(__file__).parents[3]
COUNTER = "acounter"


class Child:
    """The parent's end."""

    def __init__(self, path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.stores.sqlite.child", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    def tell(self, line: str) -> None:
        """Have something done; the answer is read later."""
        if self.process.stdin is None:
            raise AssertionError("no pipe")
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Wait for the next answer; empty once the child is gone."""
        if self.process.stdout is None:
            raise AssertionError("no pipe")
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, line: str) -> str:
        """Have something done and wait for it."""
        self.tell(line)
        return self.answer()

    def kill(self) -> list[str]:
        """SIGKILL; the whole lines that it still said before are handed back."""
        self.process.kill()
        if self.process.stdout is None:
            raise AssertionError("no pipe")
        # Not communicate() at once: it reads past what readline() has buffered, and the first line would be torn.
        lines = self.process.stdout.read().splitlines(keepends=True)
        self.process.communicate()
        return [line.rstrip("\n") for line in lines if line.endswith("\n")]

    def close(self) -> None:
        """Let it end by itself."""
        if self.process.poll() is None:
            self.process.communicate()


class Worker:
    """The child's end: one method a command."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.store: SqliteStore | None = None
        self.transaction: SqliteTransaction | None = None

    def opened(self) -> SqliteStore:
        if self.store is None:
            self.store = SqliteStore(self.path)
        return self.store

    def open(self) -> str:
        self.opened()
        return "open"

    def begin(self) -> str:
        self.transaction = self.opened().begin()
        return "begun"

    def leave(self) -> str:
        if self.transaction is None:
            raise AssertionError("no transaction")
        self.transaction.close()
        return "left"

    def put(self, key: str, id_: str) -> str:
        transaction = self.opened().begin()
        transaction.commit([Put(key, Ref(id_))], [], transaction.fence + 1)
        transaction.close()
        return f"put {transaction.fence}"

    def has(self, key: str, id_: str) -> str:
        _, records = self.opened().read([key])
        return "yes" if id_ in records[key].notes else "no"

    def count(self, times: str) -> str:
        """Add to a number that all children share; each addition is a transaction of its own."""
        for _ in range(int(times)):
            transaction = self.opened().begin()
            known = transaction.load([COUNTER])[COUNTER].notes
            transaction.commit([Put(COUNTER, Ref(str(len(known))))], [], transaction.fence + 1)
            transaction.close()
        return "counted"

    def forever(self, key: str) -> str:
        """Commit and say so, until killed."""
        number = 0
        while True:
            self.put(key, f"{os.getpid()}-{number}")
            print(f"{os.getpid()}-{number}", flush=True)
            number += 1


def main(path: str) -> None:
    worker = Worker(path)
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            print(getattr(worker, command)(*arguments), flush=True)
        except StoreError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
