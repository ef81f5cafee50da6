"""What is likely to be asked next, decided and written before anybody asks (docs/adr/0040). It grants nothing.

Rules are pure, and what is not committed never happened: if something else is asked, everything is as it was.
"""

from __future__ import annotations

from leasehold import batch, keys
from leasehold import commands as c
from leasehold.errors import LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.batch import Closing, Prepared, Result
    from leasehold.commands import Command
    from leasehold.model import Lease
    from leasehold.stores import EarlyStore


class Rehearsal:
    """Of an engine that hands leases on."""

    __slots__ = ("_engine", "_likely", "_prepared", "_store")

    def __init__(self, store: EarlyStore, engine: str) -> None:
        self._store = store
        self._engine = engine
        self._likely: c.Release | None = None
        """The release of what somebody got last who had waited for it, as its holder would ask for it."""
        self._prepared: Prepared | None = None

    def expect(self, result: Result) -> None:
        """Somebody was handed what it had waited for: it will give it back."""
        for lease in result.picked_up.values():
            home = result.view.get(keys.home(lease.id))
            hold = home.holds.get(lease.id) if home is not None else None
            if hold is not None and hold.ask is not None:
                self._likely = c.Release(lease.id, c.Proof(token=hold.ask.tokens[0]))

    def prepare(self) -> dict[str, Lease]:
        """Nobody asks anything now: have our turn begin, and all done in it but the commit. Whom that would serve."""
        if self._likely is not None:
            try:
                self._drop()
                if self._store.begin_early():
                    self._prepared = batch.prepare(self._store, self._likely, self._engine)
            except LeaseholdError:
                self._likely = None  # whoever asks next is told what is wrong with the store
        return self._prepared.picked_up if self._prepared is not None else {}

    def take(self, commands: list[Command], closing: Closing) -> Prepared | None:
        """What was prepared, if it is this that is asked and there is nothing to add to it. It is the caller's now."""
        prepared = self._prepared
        if prepared is None:
            return None
        if prepared.is_of(commands) and not closing(prepared.outcomes, prepared.transaction):
            self._prepared = None
            return prepared
        self._drop()
        return None

    def rest(self) -> None:
        """Nobody is about to ask: others may have their turn."""
        self._drop()
        self._store.leave_early()

    def _drop(self) -> None:
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.close()
