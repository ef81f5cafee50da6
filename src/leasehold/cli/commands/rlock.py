"""rlock, runlock, rlock-heartbeat: Action Llama's commands. They print the gateway's JSON; the exit code says the rest.

With a server they ask its `/locks/…` routes, otherwise the store itself. A missing configuration is never a yes.
"""

from __future__ import annotations

import os
import sys

from leasehold.cli.output import complain, forget, write
from leasehold.compat import action_llama as llama
from leasehold.config.identity import is_of_run
from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput, LeaseholdError, Unreachable
from leasehold.requests import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from leasehold.config.settings import Choice
    from leasehold.locks.sync import Locks
    from leasehold.steps import Steps

ANSWER_WITHIN = 30.0
_ABOUT = {
    "rlock": ("acquire", "take an exclusive lock on a URI, or say who has it"),
    "runlock": ("release", "release a lock that you hold"),
    "rlock-heartbeat": ("heartbeat", "reset the TTL of a lock that you hold"),
}
_HELP = """usage: {command} <uri>

{about}, for example: {command} "github://acme/app/issues/42"

It prints one JSON object. Exit codes: 0 ok, 1 held by another or deadlock, 2 not found, 3 not allowed,
4 bad request, 5 busy, 6 unreachable, 7 other, 9 usage.

Store: LEASEHOLD_URL, else GATEWAY_URL, else as configured, else the embedded store.
Secret: LEASEHOLD_SESSION_SECRET, else LEASEHOLD_SESSION, else SHUTDOWN_SECRET; a server needs one of them.
"""


def rlock() -> int:
    """Acquire a lock."""
    return main("rlock", sys.argv[1:], os.environ)


def runlock() -> int:
    """Release a lock."""
    return main("runlock", sys.argv[1:], os.environ)


def rlock_heartbeat() -> int:
    """Reset the TTL of a lock."""
    return main("rlock-heartbeat", sys.argv[1:], os.environ)


def main(command: str, words: list[str], env: Mapping[str, str]) -> int:
    """Run one of the commands and return its exit code."""
    verb, about = _ABOUT[command]
    if words in (["-h"], ["--help"]):
        _print(_HELP.format(command=command, about=about))
        return 0
    if words[:1] == ["--"]:
        words = words[1:]
    if len(words) != 1 or words[0].startswith("--"):
        complain(f"usage: {command} <uri>")
        return llama.USAGE
    reply, code = _answer(verb, words[0], env)
    import json  # noqa: PLC0415 (not for --help)

    speaks_utf8 = sys.stdout is not None and sys.stdout.encoding.lower() in ("utf-8", "utf8")
    text = json.dumps(reply, separators=(",", ":"), ensure_ascii=not speaks_utf8)
    return code if _print(text + "\n") else code or llama.OTHER


def _print(text: str) -> bool:
    """Print the answer; False if it could not be written. A closed reader is no failure."""
    try:
        write(sys.stdout, text)
    except OSError as error:
        complain(f"the answer could not be written: {error.strerror}")
        forget(sys.stdout)
        return False
    return True


def _answer(verb: str, uri: str, env: Mapping[str, str]) -> tuple[Any, int]:
    try:
        key = llama.key_of(_as_utf8(uri))
        reply = _ask(verb, key, _as_utf8(uri), env)
    except InvalidInput as error:
        reply = llama.bad(error.message if error.field == "resourceKey" else str(error))
    except (Unreachable, OSError) as error:
        return {"ok": False, "error": f"gateway unreachable: {error}"}, llama.UNREACHABLE
    except LeaseholdError as error:
        busy = error.code in ("closed", "store", "outcome_unknown", "conflict")
        reply = llama.bad(str(error), 503 if busy else 500)
    except Exception as error:  # noqa: BLE001 (the last resort: a bug must not look like "held", which is 1)
        from traceback import format_exc  # noqa: PLC0415

        complain(format_exc())
        reply = llama.bad(f"{type(error).__name__}: {error}; this is a bug, please report it", 500)
    return reply.body, reply.exit_code


def _as_utf8(uri: str) -> str:
    return os.fsencode(uri).decode("utf-8", "surrogateescape")


def _ask(verb: str, key: str, given: str, env: Mapping[str, str]) -> llama.LlamaReply:
    """Run the verb at a server or on an embedded store. Without a secret, the process is the actor."""
    from leasehold.config import settings as config  # noqa: PLC0415
    from leasehold.locks.connect import is_served  # noqa: PLC0415

    shown = env.get("LEASEHOLD_SESSION_SECRET") or ("" if is_of_run(env) else env.get("LEASEHOLD_SESSION"))
    secret = shown or env.get("SHUTDOWN_SECRET")
    choice = config.find(None if env.get("LEASEHOLD_URL") else env.get("GATEWAY_URL") or None, env=env)
    if is_served(choice.url):
        if not secret:
            return llama.bad(
                "missing secret: set LEASEHOLD_SESSION_SECRET, or SHUTDOWN_SECRET, to that of your session"
            )
        return _of_server(choice, verb, given, secret)
    with _embedded(choice, env) as locks:
        if not secret:
            run: llama.LlamaRun | None = _by_tokens(locks, choice, env)
        else:
            run = _run_of(locks, secret) or (None if shown else _begin(locks, choice, secret))
        if run is None:
            return llama.bad(llama.INVALID_SECRET, 403)
        from leasehold.compat.steps import ask  # noqa: PLC0415

        return ask(locks, _STEPS[verb](key, given, choice)(run))


_STEPS: dict[str, Callable[[str, str, Choice], Callable[[llama.LlamaRun], Steps[llama.LlamaReply]]]] = {
    "acquire": lambda key, given, choice: lambda run: llama.acquire(run, key, choice.ttl, given),
    "release": lambda key, _given, _choice: lambda run: llama.release(run, key),
    "heartbeat": lambda key, _given, _choice: lambda run: llama.heartbeat(run, key),
}


# ---------------------------------------------------------------------------------------- a server's locks


def _of_server(choice: Choice, verb: str, given: str, secret: str) -> llama.LlamaReply:
    from leasehold.client.one_request import ask  # noqa: PLC0415 (only for those who have a server)

    body = {"secret": secret, "resourceKey": given}
    if "space" in choice.settings:
        body["space"] = choice.space
    status, told = ask(choice.url, "POST", f"/locks/{verb}", body, within=ANSWER_WITHIN)
    return llama.LlamaReply(status, told)


# --------------------------------------------------------------------------------------- an embedded store


def _embedded(choice: Choice, env: Mapping[str, str]) -> Locks:
    from leasehold.config import identity  # noqa: PLC0415
    from leasehold.locks.connect import connect  # noqa: PLC0415

    return connect(choice, holder=identity.of_copy(choice, env=env), threaded=False)


def _by_tokens(locks: Locks, choice: Choice, env: Mapping[str, str]) -> llama.LlamaRun:
    """Return a run without a secret: its processes alone tell it from other agents of the same directory."""
    from leasehold.cli.tokens import Tokens  # noqa: PLC0415
    from leasehold.config import identity  # noqa: PLC0415

    caller = identity.find(choice, env=env)
    return llama.LlamaRun(caller.holder, locks.space, None, Tokens(choice.url, locks.space, caller, env=env))


def _run_of(locks: Locks, secret: str) -> llama.LlamaRun | None:
    sessions = locks.sessions(space=locks.space)
    found = None if isinstance(sessions, Refused) else llama.session_of(secret, sessions)
    return None if found is None else llama.LlamaRun(found[0].holder, locks.space, found[1])


def _begin(locks: Locks, choice: Choice, secret: str) -> llama.LlamaRun | None:
    """Begin a run for a container whose scheduler does not use this store; its secret identifies it.

    No one ends such a run: its locks expire.
    """
    if len(secret) < checks.SECRET_LEAST:
        return None
    credential = checks.BY_SECRET + secret
    base = locks.holder.encode()[:200].decode("utf-8", "ignore")
    holder = f"{base}/{checks.session_id(credential)[:9]}"
    locks.start_session(ttl=choice.rules().ttl_most / SECOND, holder=holder, session=credential)
    return _run_of(locks, secret)  # also if another command of the same container was quicker
