"""Classic bugs of the drop-ins: the faults of the originals, and the ways to bring them back."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

LLAMA = "tests/acceptance/test_seed_action_llama.py"
GATEWAY = "tests/compat/test_action_llama.py"
RUNS = "tests/compat/test_agiflow.py"

MOVING = (
    Mutant(
        "agents that only poll are not seen in a deadlock",
        "compat/action_llama.py",
        '"intent": True',
        '"intent": False',
        (LLAMA, "-k", "deadlock"),
    ),
    Mutant(
        "a TTL that is no number becomes the default",
        "compat/action_llama.py",
        "if raw is not None and (isinstance(raw, bool)",
        "if raw is None and (isinstance(raw, bool)",
        (LLAMA, "-k", "senseless"),
    ),
    Mutant(
        "a body of null is taken for an empty one",
        "server/api/gateway.py",
        "    if not isinstance(body, dict):\n",
        "    body = body or {}\n    if not isinstance(body, dict):\n",
        (GATEWAY, "-k", "cannot_be_understood"),
    ),
    Mutant(
        "a lock is cut short by its session without a word",
        "compat/action_llama.py",
        "lease.expires_us - lease.as_of_us >= lease.ttl_us:",
        "lease.expires_us - lease.as_of_us >= 0:",
        (GATEWAY, "-k", "cut_short"),
    ),
    Mutant(
        "a session on the gateway escapes the bounds of its key",
        "server/api/dispatch.py",
        "verb)(**permissions.bound(who, verb, dict(asked)))\n",
        "verb)(**dict(asked))\n",
        (GATEWAY, "-k", "keys_are_on"),
    ),
    Mutant(
        "a secret that can be guessed is taken",
        "requests/checks.py",
        "    if len(secret) < SECRET_LEAST:\n",
        "    if len(secret) < 1:\n",
        ("tests/requests/test_credentials.py",),
    ),
    Mutant(
        "anybody ends anybody's run",
        "compat/agiflow.py",
        "        return self.rules or (",
        "        return bool(lease) or (",
        (RUNS, "-k", "belongs"),
    ),
    Mutant(
        "a retried create is a conflict with itself",
        "compat/agiflow.py",
        '            "request_id": id_,\n',
        "",
        (RUNS, "-k", "retry"),
    ),
    Mutant(
        "a forced release is sent twice",
        "client/deciding.py",
        '    return verb in _ONCE or (verb == "force_release" and not keys.is_lease_id(arguments.get("target")))\n',
        "    return verb in _ONCE\n",
        ("tests/client/test_client.py", "-k", "forced_release"),
    ),
    Mutant(
        "a stored key goes to any server",
        "config/credentials.py",
        'wanted in map(urls.one_spelling, servers.split(","))',
        "wanted",
        (RUNS, "-k", "own_server"),
    ),
    Mutant(
        "an id releases the lock of another key",
        "compat/fireflow.py",
        " and mark == _mark(name)",
        "",
        ("tests/acceptance/test_seed_fireflow.py", "-k", "another_holders"),
    ),
    Mutant(
        "two keys share a name",
        "compat/fireflow.py",
        '(_ESCAPED, _DIGESTED, "//")',
        '(_DIGESTED, "//")',
        ("tests/compat/test_fireflow.py", "-k", "any_string"),
    ),
)
