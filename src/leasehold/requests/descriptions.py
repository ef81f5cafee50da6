"""Describe every argument of the verbs, with an example. Only generators of schemas import it."""

from __future__ import annotations

from typing import Final

_LEASE = "l42-0123456789abcdef0123456789abcdef"
_CALL = {"verb": "release", "lease": _LEASE, "token": "5f0c9a1e"}
_RUN = "wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9"
_SESSION = "s0123456789abcdef.5f0c9a1e5f0c9a1e"

ARGUMENTS: Final[dict[str, tuple[str, object]]] = {
    "any_of": ("Take the first of the resources that is free.", False),
    "before": ("Only events older than the one with this `seq`: the place to page on from.", 1207),
    "by": ("The person or agent that does it; on a server with keys, the name of the key.", "ops"),
    "calls": ("The calls, at most 64; none of them can wait.", [_CALL]),
    "context": ("JSON for others to see, at most 16 KiB.", {"branch": "main"}),
    "error": ("The error, if the work failed.", "3 tests failed"),
    "first": ("True: this request_id was never sent before. Only for a request_id drawn at random.", False),
    "grace": ("Seconds after an unclean end for which the resource stays closed.", 0),
    "holder": ("Name of the agent, job or person; by default the name of the key.", "coder-3"),
    "host": ("The name of the machine that acquires it, for others to see.", "build-3"),
    "holders": ("Only of these holders.", ["coder-3"]),
    "id": ("Id of the run.", _RUN),
    "intent": ("A refused try counts as waiting for a minute when deadlocks are looked for.", False),
    "key": ("Id of the key, as `keys list` shows it.", "0123456789abcdef"),
    "kinds": ("Only events of these kinds; repeat it for several.", ["granted"]),
    "last_event_id": ("Id of the last event that was received.", 1207),
    "lease": ("Id of the lease.", _LEASE),
    "leases": ("Ids of leases that the caller holds: those that are over are reported first.", [_LEASE]),
    "limit": ("The most results to return.", 100),
    "merge": ("Merge into the context that is there, instead of replacing it.", False),
    "mode": ("Held by one, by many readers, or by `slots` holders; the default with several slots.", "exclusive"),
    "name": ("A short title of the work, for others to see.", "fix the parser"),
    "on_expiry": ("After an unclean end, `quarantine` closes it until an admin clears it.", "free"),
    "overlap": ("Seconds for which the key before still works.", 3600),
    "prefixes": ("Names that the key is for begin with one of these; none: every name.", ["path:src/"]),
    "priority": ("A larger one is served first.", 0),
    "project": ("Id of the project that the run locks.", "web"),
    "paths": ("The files that were changed, each as a `path:` name; at most 64.", ["path:src/auth.py"]),
    "reason": ("Why, for others to see.", "release 1.4"),
    "reentrant": ("Extend a lease that `token` or the session proves to be yours, if it covers the resources.", False),
    "request_id": ("A retry with the same id gets the same answer.", "deploy-812"),
    "resource": ("Name of the resource.", "issue:42"),
    "resources": ("One name, or several that are taken together or not at all.", ["issue:42"]),
    "role": ("The role of the key.", "agent"),
    "secret": ("For admins: a secret of their own, instead of `session`.", "5f0c9a1e5f0c9a1e"),
    "session": ("ID.SECRET of a session; for admins its id is enough.", _SESSION),
    "since": ("Only events since this time of the store's clock, in microseconds since 1970.", 1763199000000000),
    "slots": ("How many may hold it at the same time; all callers must give the same number.", 1),
    "space": ("The tenant that names live in; by default that of the key.", "default"),
    "status": ("How the work ended.", "completed"),
    "target": ("Id of the lease, or the name of a resource that it holds.", "issue:42"),
    "task": ("Id of the task that the run locks.", "12"),
    "members": ("The members, each with its labels after it; [] forgets them.", ["g0 a100", "g1 h100"]),
    "text": ("The note; none removes the one before.", "reserved for the demo on Friday"),
    "token": ("The token that came with the lease.", "5f0c9a1e5f0c9a1e5f0c9a1e5f0c9a1e"),
    "trace": (
        "The `traceparent` of the caller (W3C), or another id: kept with the lease, and in its events.",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ),
    "ttl": ("Seconds that it lives unless it is renewed; at most 24 h unless the server allows more.", 1800),
    "wait": ("Seconds to wait in the queue; 0 answers at once.", 0),
    "work_unit": ("Id of the work unit that the run locks.", "7"),
    "acquire.session": ("ID.SECRET of a session: the lease ends with it.", _SESSION),
    "acquire.token": ("Tokens of leases that you hold: proof for `reentrant` and for `yours`.", ["5f0c9a1e"]),
    "cancel.token": ("The token of the lease, needed once the request is granted.", "5f0c9a1e5f0c9a1e5f0c9a1e5f0c9a1e"),
    "create_key.name": ("The owner of the key; the history records what an admin does under this name.", "ci"),
    "create_run.id": ("Id for the run; by default a new one.", _RUN),
    "create_run.name": ("The name of the run.", "deploy-staging"),
    "list_runs.status": ("Only runs that stand, or ended, like this.", "running"),
    "plan.resources": ("The names and patterns that you are about to touch.", ["path:src/auth"]),
    "plan.session": ("ID.SECRET of a session: the plan ends with it.", _SESSION),
    "plan.token": ("Tokens of plans and leases that you have: such a plan is replaced.", ["5f0c9a1e"]),
    "plans.resource": ("Only plans that overlap with this name.", "path:src/auth.py"),
    "release_run.status": ("How the run ended.", "completed"),
    "start_session.session": ("ID.SECRET for the session; by default a new one.", _SESSION),
}
"""By the name of the argument, or by `verb.argument` if it has another meaning for that verb."""


def words(verb: str, argument: str) -> tuple[str, object]:
    """Return the description and the example of an argument."""
    own = f"{verb}.{argument}"
    return ARGUMENTS[own] if own in ARGUMENTS else ARGUMENTS[argument]
