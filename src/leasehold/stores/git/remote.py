"""The remote: fetch refs, and push changes with the values that the refs must still have. It knows no record.

A push returns if all changes were made. It raises `Conflict` if another push came first and nothing was written, and
`OutcomeUnknown` if the changes may or may not have been made.
"""

# pathlib costs a one-shot process more than this whole module
# ruff: noqa: PTH108, PTH118, PTH123

from __future__ import annotations

import os
import time
from contextlib import suppress

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, OutcomeUnknown, StoreUnsuitable, Unreachable
from leasehold.stores.git import repository
from leasehold.stores.git.command import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.stores.git.address import GitAddress
    from leasehold.stores.git.command import Finished

_QUIET = (
    "core.hooksPath=/dev/null",
    "core.fsync=none",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "fetch.fsckObjects=false",
    "advice.fetchShowForcedUpdates=false",
    "push.followTags=false",
    "push.gpgSign=false",
    "push.negotiate=false",
    "push.pushOption=",
    "push.recurseSubmodules=no",
    "pack.threads=1",
)
"""Settings that override the user's for work on branches. The user's settings for logging in stay in effect."""
_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-prune", "--force", "--refmap=", "--no-recurse-submodules"),
    *("--no-auto-maintenance", "--no-show-forced-updates", "--stdin", "--"),
)
_PUSH = ("push", "--porcelain", "--atomic", "--no-verify")
_LOST_RACE = (
    "stale info",
    "fetch first",
    "failed to update ref",
    "failed to lock",
    "cannot lock ref",
    "incorrect old value provided",
    "reference already exists",
    "atomic push failed",
    "atomic transaction failed",
    "transaction failed",
    "failed transaction",
)
"""Reasons of a rejection that means another push came first."""
_NEVER_CONNECTED = (
    "does not appear to be a git repository",
    "Connection refused",
    "Could not resolve",
    "Failed to connect to",
    "Name or service not known",
    "Network is unreachable",
    "No route to host",
    "Permission denied (",
    "unable to connect to",
)
"""Errors of a connection that was never made, so nothing was written. After any other the outcome is unknown."""
_PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses, in seconds, before a lock file in the private repository counts as left over."""


class Change(Noun):
    """The change of one ref."""

    ref: str
    old: str
    """The ref's expected value; empty if it must not exist."""
    new: str
    """The ref's new value; empty to delete it. If it equals `old`, the ref is only compared."""


class Remote:
    """One remote, accessed through our private repository."""

    def __init__(self, address: GitAddress, own: str) -> None:
        self._address = address
        self._own = own
        """The git directory that only this process uses (see ``repository``)."""
        self._fetched = os.path.join(own, "FETCH_HEAD")

    def fetch(self, refspecs: Iterable[str]) -> dict[str, str]:
        """Fetch these refs with their objects; return the value of each ref that exists."""
        with suppress(FileNotFoundError):
            os.unlink(self._fetched)
        wanted = "".join(f"{refspec}\n" for refspec in refspecs)
        done = self._run((*_FETCH, self._address.url), wanted)
        for pause in _PATIENCE:
            if not done.code or "Unable to create '" not in done.err:
                break
            # Another git has locked a file in our private repository: it was killed, or outlives its killed parent.
            time.sleep(pause)
            if pause == _PATIENCE[-1] and not repository.unlock(self._address.cache, done.err):
                break
            done = self._run((*_FETCH, self._address.url), wanted)
        if done.code:
            raise _unreachable(self._address.url, done)
        return self._fetched_refs()

    def tidy(self) -> None:
        """Pack the private repository and drop objects that it does not need.

        A failure is not reported: the caller's work is done, and the next clean-up tries again.
        """
        with suppress(Unreachable):
            self._run(("gc", "--quiet", "--prune=1.day.ago"))

    def _fetched_refs(self) -> dict[str, str]:
        try:
            with open(self._fetched, encoding="utf-8", errors="surrogateescape") as file:
                lines = [line.split("\t") for line in file]
        except FileNotFoundError:
            return {}
        return {told.split("'")[1]: oid for oid, _, told in lines}

    def push(self, changes: Sequence[Change]) -> None:
        """Make all of these changes, or none of them."""
        leases = [f"--force-with-lease={change.ref}:{change.old}" for change in changes]
        moves = [f"{change.new}:{change.ref}" for change in changes]
        try:
            done = self._run((*_PUSH, *leases, "--", self._address.url, *moves))
        except Unreachable as error:
            raise OutcomeUnknown(str(error)) from error
        if done.code:
            raise _explained(self._address.url, done)

    def _run(self, words: Sequence[str], give: str = "") -> Finished:
        address = self._address
        settings = [word for setting in _QUIET for word in ("-c", setting)]
        if address.config is not None:
            settings = ["-c", f"include.path={address.config}", *settings]
        whole = ["--git-dir", self._own, *settings, *words]
        return run(whole, give=give, timeout=address.timeout / SECOND)


def _unreachable(url: str, done: Finished) -> Unreachable:
    return Unreachable(f"the git remote {_without_password(url)} cannot be reached: {done.complaint}")


def _explained(url: str, done: Finished) -> Exception:
    """Return the error for a failed push. Its output names each rejected ref in a line that begins with `!`."""
    rejected = [line.split("\t")[-1] for line in done.out.splitlines() if line.startswith("!")]
    whole = f"{' '.join(rejected)} {done.err}"
    if "does not support --atomic" in whole:
        return StoreUnsuitable(f"{_without_password(url)} does not support atomic pushes, so locks are not safe there")
    if "hash algorithm" in whole:
        return StoreUnsuitable(f"{_without_password(url)} uses another object hash than SHA-1")
    if not rejected and any(reason in done.err for reason in _NEVER_CONNECTED):
        return _unreachable(url, done)
    if not rejected or any("[remote failure]" in line for line in rejected):
        return OutcomeUnknown(f"the push to {_without_password(url)} broke off: {done.complaint}")
    said = f"{' '.join(dict.fromkeys(rejected))}; {done.complaint}"
    if any(reason in whole for reason in _LOST_RACE):
        return Conflict(said)
    return StoreUnsuitable(f"{_without_password(url)} refuses to store locks: {said}")


def _without_password(url: str) -> str:
    """Return the URL without a password or, over HTTP, without its user: that may be a token."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    name = "***" if at and scheme in ("http", "https") else user.partition(":")[0]
    return f"{scheme}{mark}{name}{at}{host}{slash}{path}"
