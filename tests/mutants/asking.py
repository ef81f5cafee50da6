"""Bugs by which one process acts in another's name, or goes on without its lease."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

DESCENT = "tests/config/test_identity_descent.py"
RUN = "tests/cli/test_run_agent.py"
ASKING = (
    Mutant(
        "a token is used by a holder's name while the process that took it lives",
        "config/identity/__init__.py",
        "        if judged in (descent.MINE, descent.OTHERS):\n",
        "        if judged == descent.MINE:\n",
        (DESCENT, "-k", "another_owner_lives"),
    ),
    Mutant(
        "a process id that was given out again is the owner",
        "config/identity/descent.py",
        "        return process.start == start\n",
        "        return bool(process.start)\n",
        (DESCENT, "-k", "another_process_has_now"),
    ),
    Mutant(
        "processes of one pid in two containers have one name",
        "config/identity/__init__.py",
        "    mark = places.digest(line.view.place, str(owner.pid), owner.start)[:8]\n",
        "    mark = places.digest(str(owner.pid))[:8]\n",
        ("tests/acceptance/test_who_asks.py", "-k", "request_id"),
    ),
    Mutant(
        "runs that share a process use each other's tokens",
        "config/identity/__init__.py",
        "        if layer == NAMED and holder != self.holder and self._is_beside(holder):\n",
        "        if layer == GIVEN and holder != self.holder and self._is_beside(holder):\n",
        (DESCENT, "-k", "share_a_process"),
    ),
    Mutant(
        "a name of grite's owner is enough for what another process acquired",
        "config/identity/__init__.py",
        "        return descent.of_this_command().judge(saved) == descent.MINE\n",
        "        return descent.of_this_command().judge(saved) != descent.UNKNOWN\n",
        ("tests/acceptance/test_who_asks.py", "-k", "grites_locks"),
    ),
    Mutant(
        "rlock without a secret is re-entrant",
        "compat/action_llama.py",
        '            "reentrant": run.session is not None,\n',
        '            "reentrant": True,\n',
        ("tests/acceptance/test_who_asks.py", "-k", "child_of_a_script"),
    ),
    Mutant(
        "a zombie is alive",
        "config/identity/descent.py",
        'fields[0] in (b"Z", b"X", b"x")',
        'fields[0] in (b"X", b"x")',
        (DESCENT, "-k", "zombie"),
    ),
    Mutant(
        "descent goes above the leader of a session",
        "config/identity/descent.py",
        "        if process.session == process.pid and not is_carried:\n",
        "        if process.session == process.pid and is_carried:\n",
        (DESCENT, "-k", "unknown_harness"),
    ),
    Mutant(
        "a daemon that starts the background sessions of an agent is the owner of what all of them take",
        "config/identity/descent.py",
        '        return f"{name} daemon"\n',
        "        return name\n",
        (DESCENT, "-k", "sessions_of_one_daemon"),
    ),
    Mutant(
        "an agent whose program is named after its version is unknown",
        "config/identity/descent.py",
        "        name = _by_place(view.program(process.pid)) or name\n",
        "        name = _by_place(name) or name\n",
        (DESCENT, "-k", "version_for_a_name"),
    ),
    Mutant(
        "an agent in a sandbox is unknown",
        "config/identity/descent.py",
        "    is_cut = is_inside if end else not (parent == 0 and view.is_whole)\n",
        "    is_cut = not is_inside and not end and not (parent == 0 and view.is_whole)\n",
        ("tests/config/test_identity_agents.py", "-k", "may_be_hidden and claude"),
    ),
    Mutant(
        "an id that outlived its agent names a command",
        "config/identity/__init__.py",
        "    return next((each for each in known if line.end in each[0].processes | each[0].listeners), None)\n",
        "    return next((each for each in known if line.chain), None)\n",
        ("tests/config/test_identity_agents.py", "-k", "outlived"),
    ),
    Mutant(
        "the command line is re-entrant by default",
        "cli/commands/acquire.py",
        'reentrant=values["reentrant"]',
        "reentrant=True",
        ("tests/acceptance/test_who_asks.py", "-k", "sub_agents and later"),
    ),
    Mutant(
        "nobody releases the lease of a run that was killed",
        "cli/supervisor/watchdog.py",
        "        if self._group == 0 or not is_alive(self._group):\n",
        "        if self._group == 0:\n",
        (RUN, "-k", "watchdog_releases and alone"),
    ),
    Mutant(
        "nobody ends the session of a run that was killed",
        "cli/supervisor/final_release.py",
        "env={SESSION: self._session.credential})",
        "env=self._session.exported())",
        (RUN, "-k", "watchdog_releases and alone"),
    ),
    Mutant(
        "a command of a run releases the lease of the run",
        "cli/commands/own_leases.py",
        '    if own is None or context.verb == "release":\n',
        "    if own is None:\n",
        (RUN, "-k", "no_command_of_a_run"),
    ),
    Mutant(
        "a run offers to release its lease",
        "cli/refusals.py",
        '    return blocker.state == "held" and blocker.lease == os.environ.get("LEASEHOLD_LEASE")\n',
        '    return blocker.state != "held"\n',
        (RUN, "-k", "nothing_offers"),
    ),
    Mutant(
        "a holder learns of its loss at its next renewal only",
        "locks/holding/losses.py",
        "                for id_ in lost:\n",
        "                for id_ in ():\n",
        ("tests/locks/test_losses.py", "-k", "another_thread_takes"),
    ),
    Mutant(
        "an agent may do what is for people at a server without keys",
        "locks/connect.py",
        "    return all(base.token is not None for base in bases(url))\n",
        "    return all(base.port for base in bases(url))\n",
        ("tests/cli/test_people.py", "-k", "without_keys and steal"),
    ),
    Mutant(
        "an agent may end another's session",
        "cli/commands/session.py",
        '    if context.values["by"] is not None:\n',
        '    if context.values["by"] == "":\n',
        ("tests/cli/test_people.py", "-k", "anothers_session"),
    ),
    Mutant(
        "an agent may force a lock open over HTTP without a key",
        "server/api/mcp.py",
        '        if verb == "force_release" and who is OPEN and not self._may_force:\n',
        '        if verb == "force_release" and who is None and not self._may_force:\n',
        ("tests/cli/test_people.py", "-k", "tool_of_mcp and http"),
    ),
)
