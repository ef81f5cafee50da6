"""The remote: fetch some refs, push some changes with the values they must still have. It knows no record.

What a push came to is told in three ways: it returns (done), raises `Conflict` (somebody else was quicker, nothing
was written) or `OutcomeUnknown` (nobody can tell).
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH108, PTH118, PTH123

from __future__ import annotations

import os
import time
from contextlib import suppress

from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Conflict, OutcomeUnknown, StoreUnsuitable, Unreachable
from leasehold.stores.git import place
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
"""Whatever the user has set for work on branches does not concern us; how to log in does, and stays."""
_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-prune", "--force", "--refmap=", "--no-recurse-submodules"),
    *("--no-auto-maintenance", "--no-show-forced-updates", "--stdin", "--"),
)
_PUSH = ("push", "--porcelain", "--atomic", "--no-verify")
_SOMEBODY_WAS_QUICKER = (
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
"""Reasons of a rejection that go away by deciding again."""


_NEVER_GOT_THERE = (
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
"""Complaints about a connection that was never made: nothing can have been written. Of any other it cannot be told."""
_PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses, in seconds, before a lock file in the private repository counts as left over."""


class Change(Noun):
    """One ref that is to change."""

    ref: str
    old: str
    """What it must be until then; empty: it must not be there."""
    new: str
    """What it becomes; empty: it goes. The same as `old`: it stays, and is only compared."""


class Remote:
    """One remote, by way of our private repository."""

    def __init__(self, address: GitAddress, own: str) -> None:
        self._address = address
        self._own = own
        """The git directory that is this process's alone (see ``place``)."""
        self._fetched = os.path.join(own, "FETCH_HEAD")

    def fetch(self, refspecs: Iterable[str]) -> dict[str, str]:
        """What these refs point to, with the objects; a ref that is not there is not among them."""
        with suppress(FileNotFoundError):
            os.unlink(self._fetched)
        wanted = "".join(f"{refspec}\n" for refspec in refspecs)
        done = self._run((*_FETCH, self._address.url), wanted)
        for pause in _PATIENCE:
            if not done.code or "Unable to create '" not in done.err:
                break
            # A git that was killed, or that outlives its killed parent, has locked something in our private repository.
            time.sleep(pause)
            if pause == _PATIENCE[-1] and not place.unlock(self._address.cache, done.err):
                break
            done = self._run((*_FETCH, self._address.url), wanted)
        if done.code:
            raise _unreachable(self._address.url, done)
        return self._told()

    def tidy(self) -> None:
        """Let git pack what the private repository needs, and drop what it does not.

        It is a cache. If that fails or takes too long, nobody is told: what was asked for is done, and the next one
        tries again.
        """
        with suppress(Unreachable):
            self._run(("gc", "--quiet", "--prune=1.day.ago"))

    def _told(self) -> dict[str, str]:
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
    """What a failed push means. Rejected refs are named in lines that begin with `!`."""
    rejected = [line.split("\t")[-1] for line in done.out.splitlines() if line.startswith("!")]
    whole = f"{' '.join(rejected)} {done.err}"
    if "does not support --atomic" in whole:
        return StoreUnsuitable(f"{_without_password(url)} does not support atomic pushes, so locks are not safe there")
    if "hash algorithm" in whole:
        return StoreUnsuitable(f"{_without_password(url)} names its objects by another hash than SHA-1")
    if not rejected and any(reason in done.err for reason in _NEVER_GOT_THERE):
        return _unreachable(url, done)
    if not rejected or any("[remote failure]" in line for line in rejected):
        return OutcomeUnknown(f"the push to {_without_password(url)} broke off: {done.complaint}")
    said = f"{' '.join(dict.fromkeys(rejected))}; {done.complaint}"
    if any(reason in whole for reason in _SOMEBODY_WAS_QUICKER):
        return Conflict(said)
    return StoreUnsuitable(f"{_without_password(url)} refuses to keep locks: {said}")


def _without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    user, at, host = rest.partition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}" if mark and at and "/" not in user else url
