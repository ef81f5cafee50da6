"""Whoever has lost too often goes first: a mark that keeps others from committing meanwhile. It decides nothing.

Nobody is kept out of etcd, and who commits first wins; so who takes longer to decide could lose for ever. Each commit
therefore compares that nobody has the mark but itself. It goes with the commit of whoever set it; and if that one is
gone, somebody else removes it after a while.
"""

from __future__ import annotations

import time

from leasehold.stores.etcd import messages, rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stepwise import Steps
    from leasehold.stores.etcd import EtcdStore

LOSSES = 20
"""After so many in a row somebody wants to go first."""
LONGEST = 1.0
"""So many seconds others wait for the same one."""
LOOK_EVERY = 0.005


class Precedence:
    """Who goes first, as far as one server knows."""

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self._name = store.names.first
        self._claims = 0
        self._ours = b""
        """Our mark, while it is set;"""
        self._theirs = b""
        """or somebody else's."""

    @property
    def is_theirs(self) -> bool:
        """Whether somebody else goes first."""
        return bool(self._theirs)

    # ------------------------------------------------------------------------------- within a commit

    @property
    def compare(self) -> bytes:
        """That nobody else goes first."""
        return messages.equal(self._name, self._ours) if self._ours else messages.absent(self._name)

    @property
    def removal(self) -> list[bytes]:
        """Those who were kept waiting may go on."""
        return [messages.delete(self._name)] if self._ours else []

    @property
    def question(self) -> bytes:
        """Who it is, should the compare have failed."""
        return messages.get(self._name)

    def has_gone(self) -> None:
        """Our commit was carried out, and the mark is gone with it."""
        self._ours = b""

    def learn(self, answer: messages.RangeAnswer) -> bool:
        """Whether somebody else goes first."""
        mark = rows.only(answer)
        if mark != self._ours:  # nobody, or somebody else; ours may have been there for too long
            self._ours, self._theirs = b"", mark
        return self.is_theirs

    # --------------------------------------------------------------------------------- between them

    def prepare(self, losses: int) -> None:
        """Before somebody begins who has lost so often in a row: let others go first, or be the one who does."""
        if self._theirs:
            self._give_way()
        if losses >= LOSSES and not self._ours:
            self._claim()

    def _claim(self) -> None:
        self._claims += 1
        mark = f"{self._store.id}-{self._claims}".encode()
        answer = self._store.txn([messages.absent(self._name)], [messages.put(self._name, mark)], [self.question])
        found = mark if answer.succeeded else rows.only(answer.responses[0])
        if found == mark:  # also if it was asked twice, as the first answer was lost
            self._ours = mark
        else:
            self._theirs = found

    def _give_way(self) -> None:
        """Wait until that one has gone; but not for ever."""
        end = time.monotonic() + LONGEST
        theirs, self._theirs = self._theirs, b""
        while time.monotonic() < end:
            time.sleep(LOOK_EVERY)
            answer = self._store.txn([], [self.question], [])
            if rows.only(answer.responses[0]) != theirs:
                return
        self._remove(theirs)

    def dropping(self) -> Steps[None]:
        """We have no need to go first any more."""
        if self._ours:
            yield None
            self._remove(self._ours)
            self._ours = b""

    def _remove(self, mark: bytes) -> None:
        self._store.txn([messages.equal(self._name, mark)], [messages.delete(self._name)], [])
