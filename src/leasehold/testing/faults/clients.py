"""A process with several clients that work until it has to stop, and record all that they ask and hear.

``python -m leasehold.testing.faults.clients TERMS``, where the terms are JSON (see `ClientTerms`). It stops once its
standard input ends; a client finishes its turn first.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import traceback
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Granted, Lost, Refused, Released
from leasehold.errors import LeaseholdError
from leasehold.testing.faults.recording import Recorder, kind_of, true_clock
from leasehold.testing.observations import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPECTED = frozenset(("store", "unreachable", "outcome_unknown", "closed", "conflict", "store_behind"))
"""Codes of errors that a fault explains: nobody knows what became of the call."""
TRIES = 8
"""So often a client repeats a request whose outcome it does not know."""


class ClientTerms(Noun):
    """The orders of a process of clients."""

    url: str
    name: str
    """Of the process; the clients are `NAME-0`, `NAME-1`, …"""
    clients: int
    workloads: list[str]
    folder: str
    """Where the history goes, and where the guarded things are."""
    ttl: float
    share: float
    """The part of a TTL that a holder counts on: less, if clocks run at other rates."""
    seed: int
    pause: float
    """Between two turns of a client, in seconds, at most."""


class Client:
    """One client: asks by a verb, and records call and reply."""

    def __init__(self, locks: leasehold.Locks, recorder: Recorder, terms: ClientTerms, name: str) -> None:
        self.locks = locks
        self.recorder = recorder
        self.terms = terms
        self.name = name
        self.folder = Path(terms.folder)
        self.chance = random.Random(f"{terms.seed} {name}")
        self.stopping = threading.Event()

    def ask(self, verb: str, *words: str, **asked: Any) -> Any:  # noqa: ANN401 (an outcome; None: it is unknown)
        """Call a verb; None if nobody knows what became of it."""
        resources = asked.pop("resources", None)
        arguments = words if resources is None else (resources,)
        shown = {"what": resources if resources is not None else [*words[:1]], **asked}
        for secret in ("token", "session"):
            shown.pop(secret, None)
        number, _ = self.recorder.called(self.name, verb, shown)
        try:
            outcome = getattr(self.locks, verb)(*arguments, **asked)
        except LeaseholdError as error:
            self.recorder.replied(
                number, "unknown" if error.code in EXPECTED else "broken", said=f"{error.code}: {error}"
            )
            return None
        except Exception as error:
            self.recorder.replied(number, "broken", said=repr(error))
            raise
        self._told(number, outcome)
        return outcome

    def _told(self, number: int, outcome: object) -> None:
        if isinstance(outcome, Granted):
            self.recorder.replied(number, "granted", outcome.lease.id, outcome.lease.fence)
        elif isinstance(outcome, Refused):
            self.recorder.replied(number, "refused", said=outcome.code)
        elif isinstance(outcome, Lost):
            self.recorder.replied(number, "lost", outcome.lease, said=outcome.reason)
        elif isinstance(outcome, Released):
            self.recorder.replied(
                number, "released" if outcome.released else "gone", outcome.lease, said=outcome.reason
            )
        else:
            self.recorder.replied(number, kind_of(outcome))

    def take(self, resources: str | Sequence[str], wait: float = 0, **options: Any) -> Taken | None:
        """Acquire; repeat the request while its outcome is unknown. A lease that was waited for is renewed once."""
        request, sent = uuid.uuid4().hex, true_clock()
        options.setdefault("ttl", self.terms.ttl)
        outcome = None
        for _ in range(TRIES):
            outcome = self.ask("acquire", resources=resources, wait=wait, request_id=request, **options)
            if outcome is not None or self.stopping.is_set():
                break
        if not isinstance(outcome, Granted):
            return None
        taken = Taken(self, outcome, sent, options["ttl"])
        return taken if not wait or taken.renew() else None

    def give_up(self, taken: Taken) -> None:
        """Release; repeat the request while its outcome is unknown."""
        for _ in range(TRIES):
            if self.ask("release", taken.lease, token=taken.token) is not None:
                return


class Taken:
    """A lease in the hands of a client that counts on it for a part of its TTL, from before it asked."""

    def __init__(self, client: Client, granted: Granted, sent: int, ttl: float) -> None:
        self._client = client
        self._granted = granted
        self.resources = granted.lease.resources
        self._ttl = ttl
        self._until = self._counting_from(sent)
        self._since: int | None = None

    def _counting_from(self, sent: int) -> int:
        return sent + round(self._ttl * self._client.terms.share * 1_000_000_000)

    @property
    def lease(self) -> str:
        """The id of the lease."""
        return self._granted.lease.id

    @property
    def token(self) -> str:
        """Its token."""
        return self._granted.token

    @property
    def fence(self) -> int:
        """Its fence."""
        return self._granted.lease.fence

    def counts(self) -> bool:
        """Return True while the client may count on it."""
        return true_clock() < self._until

    def renew(self) -> bool:
        """Renew; False if that did not work."""
        sent = true_clock()
        outcome = self._client.ask("renew", self.lease, token=self.token)
        if not outcome:
            return False
        self._until = self._counting_from(sent)
        return True

    def enter(self) -> bool:
        """Enter the critical section; False if it is too late for that."""
        self._since = true_clock()
        return self.counts()

    def leave(self, mode: str = "exclusive", slots: int = 1) -> None:
        """Leave the critical section, and record that; it ended when the client could not count on its lease."""
        assert self._since is not None
        end = min(true_clock(), self._until)
        if end <= self._since:
            return
        for resource in self.resources:
            self._client.recorder.stayed(
                Observation(self._client.name, resource, self._since, end, self.fence, mode, slots)
            )


def work(client: Client, stop: threading.Event) -> None:
    """Take turns at the workloads until the end."""
    from leasehold.testing.faults.workloads import TURNS  # noqa: PLC0415 (which knows what a client is)

    client.stopping = stop
    while not stop.is_set():
        turn = TURNS[client.chance.choice(client.terms.workloads)]
        try:
            turn(client)
        except Exception:  # noqa: BLE001 (recorded: nothing of ours may raise it)
            client.recorder.complain(f"{client.name}: {traceback.format_exc()}")
        stop.wait(client.chance.uniform(0, client.terms.pause))


def main() -> None:
    """Let all clients of this process work until standard input ends."""
    terms = ClientTerms(**json.loads(sys.argv[1]))
    recorder = Recorder(Path(terms.folder) / f"history-{terms.name}.jsonl")
    stop, threads = threading.Event(), []
    embedded = leasehold.connect(terms.url, holder=terms.name)
    for number in range(terms.clients):
        name = f"{terms.name}-{number}"
        if terms.url.startswith("http"):
            locks = leasehold.connect(terms.url, holder=name)
        else:  # another holder on the engine that this process has already
            locks = leasehold.Locks(embedded._answers, holder=name, space=embedded.space)
        threads.append(threading.Thread(target=work, args=(Client(locks, recorder, terms, name), stop)))
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    embedded.close()
    recorder.close()


if __name__ == "__main__":
    main()
