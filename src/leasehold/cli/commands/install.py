"""install, uninstall, prompt: set up editors, git and skills, with the difference shown first."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from leasehold.cli.output import DONE
from leasehold.config import paths as places
from leasehold.config import urls
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.guard import policy as policies
from leasehold.guard.checking import REQUIRE, known_policy
from leasehold.guard.install import editors, skill
from leasehold.guard.install.changes import Ledger
from leasehold.guard.install.targets import TARGETS
from leasehold.wire.shapes import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.cli.context import Context
    from leasehold.guard.install.changes import FileChange, FileMove

SHARED = ("leasehold",)
"""How files of a project call this program: others use them too, on machines where it is elsewhere."""
WHAT = (*editors.EDITORS, "git", "skill")
_HEARD = {"git": {"server"}, "skill": {"user", "target"}}
"""The options that mean something for what is no editor."""


def install(context: Context) -> int:
    """Set up an integration. Doing it again changes nothing."""
    return _do(context, remove=False)


def uninstall(context: Context) -> int:
    """Remove an integration; every other byte of the files stays."""
    return _do(context, remove=True)


def prompt(context: Context) -> int:
    """Print the text that a scheduler puts into an agent's prompt."""
    if context.out.json:
        context.out.give({"schema_version": SCHEMA_VERSION, "ok": True, "data": {"prompt": skill.BLOCK}})
    else:
        context.out.say(skill.BLOCK.rstrip())
    return DONE


def _do(context: Context, *, remove: bool) -> int:
    ledger = Ledger(os.environ)
    try:
        found = [change for change in _changes(context, ledger, remove=remove) if change.is_one]
    except OSError as error:
        raise LeaseholdError(f"{error.filename} cannot be read: {error.strerror}; nothing is changed") from error
    is_trial = context.values["dry_run"]
    for change in found:
        context.out.say(change.diff())
        if not is_trial:
            _make(ledger, change)
    _tell(context, found, is_trial=is_trial, remove=remove)
    return DONE


def _make(ledger: Ledger, change: FileChange | FileMove) -> None:
    try:
        ledger.make(change)
    except OSError as error:
        raise LeaseholdError(
            f"{change.path} cannot be changed: {error.strerror}; what was shown above it is done, and nothing after it"
        ) from error


def _changes(context: Context, ledger: Ledger, *, remove: bool) -> Sequence[FileChange | FileMove]:
    """Return the changes of files that install or remove this target."""
    what = context.values["what"]
    if what not in WHAT:
        raise InvalidInput("what", f"must be one of {', '.join(WHAT)}")
    _refuse_what_does_nothing(context, what)
    user = context.values["user"]
    place = Path(places.home(os.environ)) if user else _project()
    if what == "skill":
        target = context.values["target"]
        if target not in skill.TARGETS:
            raise InvalidInput("target", f"must be one of {', '.join(skill.TARGETS)}")
        return skill.changes(target, place, ledger, user=user, remove=remove)
    if what == "git":
        from leasehold.guard.install import githooks  # noqa: PLC0415 (not for editors)

        return githooks.changes(_project(), ledger, _command(), server=context.values["server"], remove=remove)
    policy = known_policy(context.values["policy"] or (REQUIRE if user else _policy_of_project(context)))
    values = context.values
    command = _command() if user else SHARED
    wish = editors.InstallOptions(command, policy, values["on_failure"], values["http"], str(_project()), user)
    return editors.changes(what, wish, place, ledger, remove=remove)


def _policy_of_project(context: Context) -> str:
    """Return the policy that the project sets, in whichever file; the strict one if it sets none."""
    policy, origin = policies.find(context.choice)
    return REQUIRE if origin == policies.DEFAULT else policy


def _refuse_what_does_nothing(context: Context, what: str) -> None:
    """Refuse options without effect: a user who gives a policy relies on it."""
    values = context.values
    given = {name for name in ("user", "policy", "http", "server") if values[name]}
    given |= {name for name, default in (("target", "claude"), ("on_failure", "open")) if values[name] != default}
    for name in sorted(given - _HEARD.get(what, {"user", "policy", "http", "on_failure"})):
        if (what, name) == ("git", "policy"):
            instead = f"set lock_policy in leasehold.toml, or: git config leasehold.lockPolicy {values['policy']}"
            raise InvalidInput("policy", f"is no option for git, whose hooks go by lock_policy: {instead}")
        raise InvalidInput(name, f"is no option for {what}: leave it out")
    if values["http"] and not values["http"].startswith(("http://", "https://")):
        raise InvalidInput("http", "must be the URL of a server, such as http://127.0.0.1:7420")
    if values["http"] and urls.shown(values["http"]) != values["http"]:
        raise InvalidInput("http", "must hold no password: others read these files; hooks show LEASEHOLD_API_KEY")


def _project() -> Path:
    here = os.path.realpath(Path.cwd())
    copy = places.working_copy(here, os.environ)
    return Path(copy.root if copy is not None else here)


def _command() -> tuple[str, ...]:
    """Return the command that calls this program: its name if PATH has it, since others use these files, too."""
    if shutil.which("leasehold"):
        return ("leasehold",)
    beside = shutil.which("leasehold", path=Path(sys.executable).parent)
    return (beside,) if beside else (sys.executable, "-m", "leasehold.cli")


def _tell(context: Context, found: Sequence[FileChange | FileMove], *, is_trial: bool, remove: bool) -> None:
    done = "uninstalled" if remove else "set up"
    if context.out.json:
        files = [{"path": str(change.path), "changed": not is_trial} for change in found]
        data = {"what": context.values["what"], "dry_run": is_trial, "files": files}
        context.out.give({"schema_version": SCHEMA_VERSION, "ok": True, "data": data})
    elif not found:
        context.out.say(f"Nothing to change: it is {done} already.")
    elif is_trial:
        context.out.say("Nothing was changed: this was a trial (--dry-run).")
    else:
        what = context.values["what"]
        more = " Restart the editor so that it reads its files again." if what in editors.EDITORS else ""
        context.out.say(f"Done: {what} is {done}.{more}")
        if what in editors.EDITORS and not remove:
            _tell_todo(context, what)


def _tell_todo(context: Context, what: str) -> None:
    """Say what the user still has to do, and how to prove that the hooks fire."""
    if TARGETS[what].todo:
        context.out.say(f"Still to do: {TARGETS[what].todo}")
    if not context.values["user"] and shutil.which("leasehold") is None:
        context.out.say("Still to do: put leasehold on the PATH of the editor; the files call it by its name alone.")
    context.out.say("Check that the hooks fire:\n  leasehold doctor")
