"""Bugs that let one principal act in another's name, or cost a principal what it has when its key rotates."""

from __future__ import annotations

from tests.mutants.kinds import Mutant, suite

SERVER = "tests/server/test_principals.py"
PRINCIPALS = (
    Mutant(
        "an actor is a holder, whichever principal it is of",
        "domain/keys.py",
        "    elif principal is None:\n",
        "    elif principal is None or holder:\n",
        (SERVER, "-k", "replay_is_of or nodes_of or phantom or cycle_of"),
    ),
    Mutant(
        "a cancel does not say which principal it is of",
        "requests/to_command.py",
        "    principal = None if authority is None else authority.principal\n",
        "    principal = None\n",
        (SERVER, "-k", "cancels"),
    ),
    Mutant(
        "a guess of holder and request_id ends a granted lease",
        "domain/rules/waiting.py",
        "        if is_received and not is_requester and not is_entitled(draft, hold, ask, command.proof):",
        "        if is_received and not command.request:",
        suite("granted_takes_its_token"),
    ),
    Mutant(
        "any token shows that a request_id was drawn by the caller",
        "requests/to_command.py",
        "is_from_requester=proof.token == asked",
        "is_from_requester=proof.token is not None",
        suite("granted_takes_its_token"),
    ),
    Mutant(
        "a client that cannot read a grant cannot cancel it either",
        "client/encoding.py",
        'body["request_id"], body["first"] = keys.secret_hash(secret), True',
        'body["request_id"], body["first"] = secret, True',
        ("tests/client/test_client.py", "-k", "cannot_be_read_is_given_up"),
    ),
    Mutant(
        "on an open server, a guess of holder and request_id ends a granted lease",
        "server/access/permissions.py",
        '        is_admin = who.role == "admin" and who is not OPEN\n',
        '        is_admin = who.role == "admin"\n',
        ("tests/server/test_matrix.py", "-k", "guess"),
    ),
    Mutant(
        "holders of one session replay each other's requests",
        "domain/keys.py",
        '_digest(actor_key, request_id, holder, principal or "")',
        "_digest(actor_key, request_id)",
        ("tests/stores/test_conformance_memory.py", "-k", "two_holders_in_one_session"),
    ),
    Mutant(
        "a replay with another body is answered",
        "domain/rules/acquiring.py",
        "    if known.body != command.ask.body:\n",
        "    if known.body == command.ask.request:\n",
        (SERVER, "-k", "another_body and noted-ttl"),
    ),
    Mutant(
        "a token opens a lease beyond the bounds of the key",
        "domain/rules/leases.py",
        "    if not is_within(ask, proof.authority):\n",
        "    if proof.authority is None and ask.ttl < 0:\n",
        (SERVER, "-k", "handed_on"),
    ),
    Mutant(
        "everybody sees whose key a lease was taken with",
        "server/access/permissions.py",
        '    if who.role == "admin":\n        return outcome\n',
        "    if who.role:\n        return outcome\n",
        (SERVER, "-k", "admins_alone"),
    ),
    Mutant(
        "a rotated key is another principal",
        "domain/rules/keyring.py",
        "    fresh = before._replace(id=command.id, secret",
        "    fresh = before._replace(id=command.id, principal=command.id, secret",
        (SERVER, "-k", "rotation_keeps"),
    ),
    Mutant(
        "a session ends with the key that it was begun with",
        "server/access/authentication.py",
        "        key = self._of_principal.get(id_)\n        if key is None or",
        "        key = self._by_id.get(id_)\n        if key is None or",
        (SERVER, "-k", "rotation_keeps"),
    ),
    Mutant(
        "a rotated key counts for ever",
        "domain/rules/keyring.py",
        "until_us=min(before.until_us, draft.now + command.overlap)",
        "until_us=before.until_us",
        (SERVER, "-k", "no_longer_than"),
    ),
    Mutant(
        "an agent is not told that its lease was taken",
        "mcp/server.py",
        "[*news, answer.",
        "[answer.",
        ("tests/mcp/test_tools.py", "-k", "next_answer"),
    ),
    Mutant(
        "sub-agents of one connection get each other's leases over MCP",
        "mcp/stdio.py",
        "        return given is not None\n",
        "        return True\n",
        ("tests/mcp/test_owning.py", "-k", "sub_agents and stdio"),
    ),
    Mutant(
        "agents of one name in two connections get each other's leases over MCP",
        "mcp/ownership.py",
        "for token, where in known.values() if where == connection]\n",
        "for token, where in known.values() if where is not None]\n",
        ("tests/mcp/test_owning.py", "-k", "same_name"),
    ),
    Mutant(
        "an agent that gives the name of an MCP session releases the leases of that session",
        "mcp/handlers.py",
        "    return party.connection if is_by_connection else party.id\n",
        "    return party.id\n",
        ("tests/mcp/test_identity.py", "-k", "without_a_name_is and legacy"),
    ),
    Mutant(
        "hooks let two agents of one configured name edit the same file",
        "guard/checking.py",
        "and not (self.is_hook and is_of_hook(lease.session))",
        "and not (self.is_hook and is_of_hook(None))",
        ("tests/guard/test_editor_hooks.py", "-k", "two_agents_share and variable"),
    ),
    Mutant(
        "a hook does not tell the agent that its lease was taken",
        "guard/editors/decision.py",
        "        if alive is None or each.lease in alive:\n",
        "        if alive is not None or each.lease:\n",
        ("tests/guard/test_editor_hooks.py", "-k", "after_a_loss and force"),
    ),
    Mutant(
        "an agent that clears its environment may do what is for people",
        "config/identity/__init__.py",
        "return self.lineage.agent is not None or (",
        "return (",
        ("tests/config/test_identity_agents.py", "-k", "cleared"),
    ),
)
