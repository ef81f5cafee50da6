"""Bugs by which a grant is lost on its way to the client, or stays with one that never read it."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

WAITING = "tests/server/test_waiting.py"
CLIENT = "tests/client/test_client.py"
DELIVERING = (
    Mutant(
        "a network's reset ends a lease whose holder did not wait",
        "server/http/protocol.py",
        "time.monotonic() - self._quick.answered_at < SOON and self._has_waited():",
        "time.monotonic() - self._quick.answered_at < SOON:",
        (f"{WAITING}::test_a_grant_is_kept_when_a_network_resets_its_connection",),
    ),
    Mutant(
        "a network's reset ends a lease that was renewed",
        "domain/rules/waiting.py",
        "command.expires is not None and entry.expires_at > command.expires:",
        "command.expires is not None and entry.expires_at < command.expires:",
        ("tests/domain/test_promises.py::test_a_lease_that_was_renewed_since_is_not_given_up",),
    ),
    Mutant(
        "a client relies on what it waited for before the server knows that it was received",
        "client/deciding.py",
        "now - self._begun > CONFIRMED_AFTER and isinstance(outcome, Granted):",
        "now < self._begun and isinstance(outcome, Granted):",
        (f"{CLIENT}::test_a_grant_that_was_waited_for_is_renewed_before_the_caller_gets_it",),
    ),
    Mutant(
        "a killed waiter keeps what it never read",
        "server/http/protocol.py",
        "self._quick.answered_at - wait.since > WAITED",
        "self._quick.answered_at < wait.since",
        (f"{WAITING}::test_a_grant_that_nobody_read_is_released",),
    ),
)
