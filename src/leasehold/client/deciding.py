"""Decide after each answer of the server, or after none: return it, retry, or go on waiting. Pure."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.client import decoding
from leasehold.client.encoding import HttpRequest, again, request
from leasehold.client.unexpected import NoServer, ProxyRefused
from leasehold.domain import keys
from leasehold.domain.leases import Queue
from leasehold.domain.outcomes import Granted, Released, TimedOut
from leasehold.errors import LeaseholdError, OutcomeUnknown, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.requests.calls import Call
    from leasehold.steps import Steps

TRIES = 6
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
RETRY_AFTER_MOST = 30.0
KEPT_OPEN = 50.0
"""Seconds for which a server usually keeps a waiting request open; then it answers with a ticket."""
LONG = 5.0
"""Seconds of waiting beyond which a call first checks that the server answers at all."""
HEARD = 30.0
"""Seconds since the last answer within which that check is left out."""
SLACK = 15.0
"""Seconds after which an answer that is due counts as missing."""
SILENCES = 2
"""Most missing answers in a row; with more servers, one for each of them."""
GOING_AWAY = 503
"""Status after which another server is tried."""
TOO_MUCH = 429
_ONCE = ("create_key", "steal", "plan")
"""Verbs that are not idempotent: they are sent again only if they certainly had no effect."""


_ANYBODY = HttpRequest("GET", "/healthz", None)
_UNREADABLE = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""Raised while an answer is decoded that is not of the expected shape."""
HUNG_UP = "the server closed the connection"
CONFIRMED_AFTER = 0.03
"""Seconds of waiting after which a grant is renewed once before the caller gets it. If the connection of a client that
waited is reset, the server releases the grant, which the client may never have read, unless it was renewed (ADR 19).
Less than the server's `undelivered.WAITED`: it sees less of the wait."""
UNDO_WITHIN = 5.0
"""Seconds within which a request is cancelled whose answer could not be read."""


CONNECT_WITHIN = 5.0
"""Seconds within which a connection must be established."""


class NotSent(OSError):
    """The request was not sent: it had no effect."""


class NoAnswer(OSError):
    """The request was sent, and the connection broke or timed out before its answer."""


class Resend(NamedTuple):
    """Send this request after a pause."""

    request: HttpRequest
    pause: float


class PendingCall:
    """One call, until it has its answer. It sends nothing itself: it turns each answer or failure into the next step.

    Raises `InvalidInput` for a wrong argument.
    """

    __slots__ = (
        "_acquire",
        "_asked",
        "_begun",
        "_granted",
        "_is_once",
        "_is_there",
        "_may_hold",
        "_patience",
        "_silences",
        "_silences_most",
        "_tries",
        "_unheard_since",
        "_verb",
        "_wait_until",
        "_was_lost",
        "next",
        "time_out",
    )

    def __init__(
        self, call: Call, now: float, servers: int = 1, heard_at: float = -HEARD, patience: float | None = None
    ) -> None:
        self._verb = call.verb
        self._patience = patience
        """Seconds without an answer after which the call fails; None: after `TRIES` or `SILENCES`."""
        self._unheard_since: float | None = None
        """Since when no server has answered, once a try has failed."""
        self._is_once = is_once(call.verb, call.arguments)
        self._tries = self._silences = 0
        self._was_lost = False
        """True if a request was sent whose answer did not arrive."""
        self._may_hold = False
        """True if an acquire was sent whose answer could not be read: it may have been granted."""
        self._begun = now
        self._granted: Granted | None = None
        """A grant that was waited for, while it is being confirmed."""
        self._silences_most = max(SILENCES, servers)
        self._is_there = now - heard_at < HEARD
        """True if the last request was answered."""
        self._asked = self.next = asked = request(call)
        self._acquire: tuple[HttpRequest, float | None] = (asked, None)
        """The request for that grant, with the end of its wait."""
        self.time_out = self._slack
        """Seconds to wait for the answer to `next`."""
        self._wait_until: float | None = None
        if asked.body is not None and asked.body.get("wait_seconds"):
            self._wait_until = now + asked.body["wait_seconds"]
            self._prepare(now)

    @property
    def _slack(self) -> float:
        return SLACK if self._patience is None else min(SLACK, self._patience)

    def _prepare(self, now: float) -> None:
        """Set the next request, and how long to wait for its answer."""
        self.next, self.time_out = self._asked, self._slack
        if self._wait_until is None:
            return
        left = max(0.0, self._wait_until - now)
        if left > LONG and not self._is_there:
            self.next = _ANYBODY
        else:
            self.next = self._asked._replace(body={**(self._asked.body or {}), "wait_seconds": left})
            self.time_out += min(left, KEPT_OPEN)

    def answered(self, status: int, body: dict[str, Any], retry_after: float | None, now: float) -> Any | Resend:  # noqa: ANN401
        """Return the outcome, or the next request."""
        unheard_since = self._unheard_since
        self._is_there, self._silences, self._unheard_since = True, 0, None
        if self.next is _ANYBODY:  # any answer shows that a server is there
            self._prepare(now)
            return Resend(self.next, 0.0)
        self._is_there = status != GOING_AWAY  # then the next server is asked, if there is one
        if status == 202 and isinstance(body.get("ticket"), str):
            self._tries = 0  # it got on: what went wrong before it does not count any more
            self._asked = self._asked._replace(body={**(self._asked.body or {}), "request_id": body["ticket"]})
            return self._once_more(now, 0.0)
        try:
            return self._understood(status, body, retry_after, now)
        except _UNREADABLE as error:
            why = NoServer(status, f"its answer to {self._verb} cannot be understood")
            why.__cause__ = error
            self._unheard_since = unheard_since  # no server was heard: something else may answer there for ever
            return self.failed(why, now)

    def _understood(self, status: int, body: dict[str, Any], retry_after: float | None, now: float) -> Any | Resend:  # noqa: ANN401
        """Return the outcome of an answer, or a `Resend` if its cause may pass."""
        if status < 400:
            if self._granted is not None:
                return self._granted._replace(lease=decoding.answer("renew", body).lease)
            outcome = decoding.answer(self._verb, body)
            if self._wait_until is not None and now - self._begun > CONFIRMED_AFTER and isinstance(outcome, Granted):
                return self._confirm(outcome, now)
            if (
                self._was_lost
                and isinstance(outcome, Released)
                and not outcome.released
                and outcome.reason == "released"
            ):
                # A retried release counts as ours, although the retry found nothing to release.
                return outcome._replace(released=True, reason="completed")
            return outcome
        code = body.get("code")
        # A limit that the caller has reached ("too_many") does not pass by itself.
        may_pass = status == GOING_AWAY or (status == TOO_MUCH and code != "too_many")
        if may_pass and self._tries < TRIES and not (self._is_once and code == "outcome_unknown"):
            self._was_lost = self._was_lost or code == "outcome_unknown"
            return self._again(now, retry_after)
        if self._granted is not None:
            if code != "lost":
                return self._granted
            # The grant was released before it was confirmed: send the acquire again.
            (self._asked, self._wait_until), self._granted, self._begun = self._acquire, None, now
            return self._once_more(now, 0.0)
        if code == "spent" and self._was_lost and self._wait_until is not None and now >= self._wait_until:
            asked = (self._asked.body or {})["resources"]  # a copy of this request timed out, and its answer was lost
            return TimedOut((asked,) if isinstance(asked, str) else tuple(asked), (), Queue(0, 0), 0)
        return decoding.refusal(body)

    def _confirm(self, granted: Granted, now: float) -> Resend:
        """Renew what was waited for, so that the server knows that it was received."""
        self._granted, self._acquire = granted, (self._asked, self._wait_until)
        self._asked = HttpRequest("POST", "/v1/renew", {"lease": granted.lease.id, "token": granted.token})
        self._wait_until, self._tries = None, 0
        return self._once_more(now, 0.0)

    def failed(self, error: Exception, now: float, *, was_sent: bool = True) -> Resend:
        """Return the retry after a broken connection or a time-out, which is safe; raise if it is time to give up."""
        if was_sent and self._is_once:
            raise OutcomeUnknown(
                f"the answer to {self._verb} was lost ({str(error) or type(error).__name__}): look whether it happened"
            ) from error
        self._is_there = False
        self._was_lost = self._was_lost or was_sent
        self._may_hold = self._may_hold or (was_sent and self.next is not _ANYBODY)
        if isinstance(error, ProxyRefused):
            raise error
        self._silences += _is_silence(error)
        if self._is_enough(error, now, was_sent=was_sent):
            if isinstance(error, LeaseholdError):
                raise error
            within = "" if self._patience is None else f" within {self._patience:g} s"
            raise Unreachable(f"no answer from the server{within}: {str(error) or type(error).__name__}") from error
        again = self._again(now, None)
        return again if self._patience is None else again._replace(pause=min(again.pause, self._left(now)))

    def _is_enough(self, error: Exception, now: float, *, was_sent: bool) -> bool:
        """Return True if the call fails after this failure."""
        if self._patience is None:
            return self._tries >= TRIES or self._silences >= self._silences_most
        if self._unheard_since is None:
            silent = self._slack if was_sent else min(CONNECT_WITHIN, self._patience)
            self._unheard_since = now - silent if _is_silence(error) else now
        return self._left(now) <= 0

    def _left(self, now: float) -> float:
        """Return the seconds until the caller's patience is over."""
        if self._patience is None or self._unheard_since is None:
            return 0.0
        return self._unheard_since + self._patience - now

    def undo(self) -> Steps[None] | None:
        """Return the steps that cancel this failed request; None if nothing can have been granted.

        Each step is a request: send the body of its answer back, or throw its failure, as a time-out once `time_out`,
        the time for all of them, is over.
        No caller has the token of a lease that was granted: it would block others for its whole TTL.
        """
        asked = self._asked if self._granted is None else self._acquire[0]
        if not self._may_hold or asked.secret is None:
            return None  # or the caller chose the request_id, and can retry or cancel it
        self.time_out = min(self._slack, UNDO_WITHIN)
        return _giving_up(asked)

    def _again(self, now: float, retry_after: float | None) -> Resend:
        self._tries += 1
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._tries)
        jitter = random.uniform(longest / 2, longest)  # noqa: S311 (so that not everybody comes back at once)
        pause = jitter if retry_after is None else min(retry_after, RETRY_AFTER_MOST) + jitter
        return self._once_more(now, pause)

    def _once_more(self, now: float, pause: float) -> Resend:
        if self.next is not _ANYBODY:
            self._asked = again(self._asked)
        self._prepare(now)
        return Resend(self.next, pause)


def _giving_up(asked: HttpRequest) -> Steps[None]:
    """Cancel an acquire until an answer can be read, or after `TRIES`. A garbled answer has cancelled it as well."""
    body = asked.body or {}
    fields = ("request_id", "holder", "session", "space")
    told: dict[str, Any] = {field: body[field] for field in fields if field in body}
    for _ in range(TRIES):
        with suppress(OSError, Unreachable):
            yield HttpRequest("POST", "/v1/cancel", {**told, "token": asked.secret})
            return


def is_once(verb: str, arguments: Mapping[str, Any]) -> bool:
    """Return True if a call must not be sent again once it may have had an effect.

    A forced release of a resource, sent again, would end the lease of the next holder.
    """
    return verb in _ONCE or (verb == "force_release" and not keys.is_lease_id(arguments.get("target")))


def connect_within(patience: float | None) -> float:
    """Return the seconds within which a connection must be established, for a caller of this patience."""
    return CONNECT_WITHIN if patience is None else min(CONNECT_WITHIN, patience)


def told(server: str, error: OSError) -> str:
    """Describe what went wrong with this server."""
    if isinstance(error, TimeoutError):
        return f"{server}: nothing came in time; is it overloaded, or something else than a Leasehold server?"
    return f"{server}: {error.strerror or str(error) or type(error).__name__}"


def _is_silence(error: Exception) -> bool:
    """Return True if the failure is a time-out; any other is noticed at once."""
    return isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError)
