"""Precedence for a store whose commits failed too often: a mark in etcd that makes other stores' commits fail.

The first commit wins, so a store that takes longer to decide could fail for ever. Each commit therefore compares that
no other store has set the mark. The commit of the store that set it removes it; if that store is gone, another one
removes it after a second.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasehold.stores.etcd import messages, rows

if TYPE_CHECKING:
    from leasehold.steps import Steps
    from leasehold.stores.etcd import EtcdStore

LOSSES = 20
"""Failed commits in a row after which a store sets the mark."""
LONGEST = 1.0
"""Seconds that other stores wait for the same mark."""
POLL = 0.005
"""Seconds between two reads of another store's mark."""


class Precedence:
    """The mark, as far as this store knows it."""

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self._name = store.names.first
        self._claims = 0
        self._ours = b""
        """Our mark, while it is set."""
        self._theirs = b""
        """Another store's mark, once a commit of ours failed because of it."""

    @property
    def is_theirs(self) -> bool:
        """True if another store has precedence."""
        return bool(self._theirs)

    # ------------------------------------------------------------------------------- within a commit

    @property
    def compare(self) -> bytes:
        """The compare that no other store has precedence."""
        return messages.equal(self._name, self._ours) if self._ours else messages.absent(self._name)

    @property
    def removal(self) -> list[bytes]:
        """The operation that removes our mark, if it is set."""
        return [messages.delete(self._name)] if self._ours else []

    @property
    def question(self) -> bytes:
        """The operation that reads the mark, for a commit that fails."""
        return messages.get(self._name)

    def note_commit(self) -> None:
        """Note that our commit has removed our mark."""
        self._ours = b""

    def learn(self, answer: messages.RangeAnswer) -> bool:
        """Note the mark that a failed commit has read. Return True if another store has precedence."""
        mark = rows.only(answer)
        if mark != self._ours:  # no mark, or another store's; ours may have been removed as stale
            self._ours, self._theirs = b"", mark
        return self.is_theirs

    # --------------------------------------------------------------------------------- between them

    def prepare(self, losses: int) -> None:
        """Before a transaction, after this many failed commits in a row: wait for another store's mark, or set ours."""
        if self._theirs:
            self._wait_for_theirs()
        if losses >= LOSSES and not self._ours:
            self._claim()

    def _claim(self) -> None:
        self._claims += 1
        mark = f"{self._store.id}-{self._claims}".encode()
        answer = self._store.txn([messages.absent(self._name)], [messages.put(self._name, mark)], [self.question])
        found = mark if answer.succeeded else rows.only(answer.responses[0])
        if found == mark:  # also if the first answer was lost and the call repeated
            self._ours = mark
        else:
            self._theirs = found

    def _wait_for_theirs(self) -> None:
        """Wait until the other store's mark is gone; remove it if that takes too long."""
        end = time.monotonic() + LONGEST
        theirs, self._theirs = self._theirs, b""
        while time.monotonic() < end:
            time.sleep(POLL)
            answer = self._store.txn([], [self.question], [])
            if rows.only(answer.responses[0]) != theirs:
                return
        self._remove(theirs)

    def dropping(self) -> Steps[None]:
        """Remove our mark if it is set: this transaction writes nothing."""
        if self._ours:
            yield None
            self._remove(self._ours)
            self._ours = b""

    def _remove(self, mark: bytes) -> None:
        self._store.txn([messages.equal(self._name, mark)], [messages.delete(self._name)], [])
