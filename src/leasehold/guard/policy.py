"""The policy of an installation: `lock_policy` from leasehold.toml, git's configuration or grite's."""

from __future__ import annotations

import os
import subprocess

from leasehold.config import paths as places
from leasehold.config import settings as config
from leasehold.config.settings import POLICIES
from leasehold.errors import InvalidInput, LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.config.settings import Choice

DEFAULT = "the default"
"""The origin of a policy that nothing sets."""
GIT_KEY = "leasehold.lockPolicy"
UNSET = 1
"""Exit code of `git config --get` for a key that is not set."""


def find(choice: Choice, given: str | None = None, here: str | None = None) -> tuple[str, str]:
    """Return the policy and its origin: the argument, the configuration files, git, grite, or the default."""
    if given is not None:
        return _checked(given, "the option --policy"), "the option --policy"
    if "lock_policy" in choice.settings:
        return choice.lock_policy, choice.origins["lock_policy"]
    of_git = _of_git(here)
    if of_git is not None:
        return _checked(of_git, f"git config {GIT_KEY}"), f"git config {GIT_KEY}"
    path, of_grite = places.of_grite(config.working_directory(here), os.environ)
    if of_grite is not None:
        return _checked(of_grite, path), path
    return choice.lock_policy, DEFAULT


def _of_git(here: str | None) -> str | None:
    """Ask git for its setting: git has several files and includes for it."""
    try:
        done = subprocess.run(  # noqa: S603 (the words are ours)
            ["git", "config", "--get", GIT_KEY],  # noqa: S607 (as the user's PATH has it)
            cwd=here,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        return None
    if done.returncode not in (0, UNSET):  # a file that cannot be read may be the one that says `require`
        raise LeaseholdError(f"git cannot tell {GIT_KEY}: {done.stderr.strip()}")
    return done.stdout.strip() or None


def _checked(policy: object, origin: str) -> str:
    if not isinstance(policy, str) or policy not in POLICIES:
        raise InvalidInput("lock_policy", f"must be one of {', '.join(POLICIES)}, not {policy!r} (from {origin})")
    return policy
