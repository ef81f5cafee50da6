"""Classic bugs of the guard: effects that are not compared, the wrong repository, the wrong agent blamed."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

EFFECTS = "tests/guard/effects/test_effects.py"
ROUND = "tests/guard/effects/test_ways_round.py"

GUARDING = (
    Mutant(
        "the effects of a command are not compared",
        "guard/editors/local.py",
        "        if recording.is_recorded(scene.private):\n",
        "        if not guarding:\n",
        (EFFECTS, "-k", "under_warn"),
    ),
    Mutant(
        "a command is judged in the repository of its working directory alone",
        "guard/editors/reach.py",
        "    return trees.around(dict.fromkeys([*found, *(tree.root for tree in others)]))\n",
        "    return of_paths(here, cwd, ())\n",
        (EFFECTS, "-k", "another_worktree"),
    ),
    Mutant(
        "a holder's own change is held against another agent",
        "guard/effects/calls.py",
        "        if path in call.left and call.left[path] == state:\n",
        "        if path in call.left and not call.left:\n",
        (EFFECTS, "-k", "its_holder_edits_meanwhile"),
    ),
    Mutant(
        "an agent's own lease counts as another agent's",
        "guard/effects/judging.py",
        "        self._others = [lease for lease in leases if not owner.owns(lease)]\n",
        "        self._others = [lease for lease in leases if owner]\n",
        (EFFECTS, "-k", "two_calls_overlap_nobody"),
    ),
    Mutant(
        "a call may have made a change from before it began",
        "guard/effects/calls.py",
        "        ran = state is None or (self.began <= state[3] and (",
        "        ran = state is None or (True and (",
        (EFFECTS, "-k", "changed_before_is_its_own"),
    ),
    Mutant(
        "an agent is refused the undo of its own trespass",
        "guard/editors/local.py",
        "        if trespass.undo and trespass.undo in call.command\n",
        "        if not trespass.undo\n",
        (EFFECTS, "-k", "can_undo"),
    ),
    Mutant(
        "a file that an agent restored is its trespass again",
        "guard/effects/judging.py",
        "        if known is not None and known.is_undone:\n",
        "        if known is not None and not known:\n",
        (EFFECTS, "-k", "can_undo"),
    ),
    Mutant(
        "doctor is content with hooks before a tool alone",
        "guard/install/probing.py",
        "                if lacking := _lacking(agent, path):\n",
        "                if lacking := ():\n",
        ("tests/guard/test_probing.py", "-k", "events_for_which"),
    ),
    Mutant(
        "a call whose end is not reported is never judged",
        "guard/effects/guarding.py",
        "    for id_, private in scene.earlier:\n",
        "    for id_, private in ():\n",
        (ROUND, "-k", "interrupted or leaves_running"),
    ),
    Mutant(
        "a file that git is told to overlook is overlooked",
        "guard/effects/comparing.py",
        "    doubtful = new & {*after.staged, *after.hidden}",
        "    doubtful = new & {*after.staged}",
        (ROUND, "-k", "sparse"),
    ),
    Mutant(
        "a repository that a command mentions is not compared",
        "guard/editors/reach.py",
        "    others = filter(None, map(_mentioned, mentioned))\n",
        "    others = filter(None, map(_mentioned, ()))\n",
        (ROUND, "-k", "mentions"),
    ),
    Mutant(
        "an edit in the plan of another agent passes where plans count",
        "guard/checking.py",
        "allowed=policy != REQUIRE_PLANS",
        "allowed=True",
        ("tests/guard/test_editor_hooks.py", "-k", "anothers_plan"),
    ),
    Mutant(
        "the end of an MCP session leaves its leases held",
        "server/api/mcp_sessions.py",
        "            await self.endpoint.leave(caller)\n",
        "",
        ("tests/mcp/test_identity.py", "-k", "releases_what_it_took"),
    ),
)
