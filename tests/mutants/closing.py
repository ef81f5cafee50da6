"""Bugs by which a no becomes a yes, or a secret is shown: private stores, planted files, clocks that were set."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

PLANTED = ("tests/stores/sqlite/test_planted.py",)
CLOSING = (
    Mutant(
        "a repository that cannot be shared has a store nevertheless",
        "config/settings.py",
        "        if self.trouble:\n",
        "        if self.trouble and not self.is_default:\n",
        ("tests/config/test_paths.py", "-k", "refused"),
    ),
    Mutant(
        "the directory of a mistyped path is created",
        "stores/sqlite/files.py",
        "    if not options.creates_directory:\n",
        "    if not options:\n",
        (*PLANTED, "-k", "not_there"),
    ),
    Mutant(
        "a FIFO passes for a file",
        "stores/sqlite/files.py",
        "        if not S_ISREG(status.st_mode):\n",
        "        if not status.st_mode:\n",
        (*PLANTED, "-k", "with_words"),
    ),
    Mutant(
        "a link that others may replace is followed",
        "config/paths.py",
        "(status.st_uid not in own or (place == path and _is_replaceable(place)))",
        "status.st_uid not in own",
        (*PLANTED, "-k", "others_may_replace"),
    ),
    Mutant(
        "state is kept behind a link of another user",
        "config/paths.py",
        '    refuse_strange_link(place, "set XDG_STATE_HOME to a directory of yours")\n',
        "",
        (*PLANTED, "-k", "state_is_not_kept"),
    ),
    Mutant(
        "the secret of a hook is read from whatever is there",
        "guard/editors/hook.py",
        "    if not S_ISREG(status.st_mode) or places.exposure(status):\n",
        "    if False:\n",
        (*PLANTED, "-k", "secret_of_a_hook"),
    ),
    Mutant(
        "a hook reads a command however long it is",
        "guard/editors/shell_words.py",
        "        if self._left < 0:\n",
        "        if False:\n",
        ("tests/guard/test_editor_hooks.py", "-k", "too_long_to_read_may"),
    ),
    Mutant(
        "a connection takes any holder",
        "locks/connect.py",
        'else checks.text(holder, "holder", 256),',
        "else holder,",
        ("tests/locks/test_wrong_arguments.py", "-k", "where_it_is_made"),
    ),
    Mutant(
        "the git cache of another user is used",
        "stores/git/repository.py",
        "    _refuse_planted(directory)\n    own",
        "    own",
        (*PLANTED, "-k", "git_cache"),
    ),
    Mutant(
        "a wait lasts until the store's clock agrees",
        "engine/waiters.py",
        "is_over=wait.deadline + APART <= now) for",
        "is_over=False) for",
        ("tests/engine/test_engine_clocks.py",),
    ),
    Mutant(
        "a wait ends when the store's clock is set forward",
        "engine/waiters.py",
        "        return wait.deadline - self._clock() > APART\n",
        "        return False\n",
        ("tests/engine/test_engine_clocks.py",),
    ),
    Mutant(
        "a server whose writes all fail is ready",
        "locks/hosted.py",
        "        await self.driver.ask(Beat(self.engine.key, BEATS * self.store.capabilities.beat))\n",
        "        await self.driver.ask(Beat(self.engine.key, None))\n",
        ("tests/server/test_health.py", "-k", "each_write"),
    ),
    Mutant(
        "a suggestion repeats the password of a URL",
        "cli/context.py",
        'if same["url"] is not None and ("@" in same["url"] or "=" in same["url"]):\n',
        'if same["url"] is not None and "@" in same["url"]:\n',
        ("tests/project/test_no_secrets.py", "-k", "command_line"),
    ),
    Mutant(
        "a key beside a key file is printed",
        "cli/commands/keys.py",
        '{outcome.key.role}", told)\n',
        '{outcome.key.role}")\n',
        ("tests/cli/test_keys.py",),
    ),
)
