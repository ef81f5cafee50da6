"""The linked worktrees of a git repository, and the files that `leasehold worktree` keeps for each.

They lie in the worktree's private git directory, so that no commit has them and `git worktree remove` removes them:
`leasehold.toml` names the agent for all commands in the worktree, `leasehold-worktree.json` has its tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from leasehold.config import paths as places
from leasehold.config.settings import working_directory
from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput, LeaseholdError

STATE = "leasehold-worktree.json"
ELSEWHERE = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables of git's hooks that would lead it to another worktree."""
_BRANCH = "ref: refs/heads/"


class WorktreeValue(Noun):
    """A member of a pool that a worktree's agent holds, and the variable that tells it."""

    variable: str
    pool: str
    resource: str
    """The member, such as `pool://ports/3000`."""
    lease: str
    token: str

    @property
    def value(self) -> str:
        """The member without its pool, such as `3000`."""
        return self.resource.rpartition("/")[2]


class WorktreePlan(Noun):
    """The plan that was announced for a worktree's agent."""

    id: str
    token: str


class Worktree(Noun):
    """A linked worktree."""

    path: str
    private: str
    """Its own git directory."""
    branch: str | None
    agent: str | None = None
    """The holder's name; None for a worktree that `leasehold worktree` did not add."""
    values: tuple[WorktreeValue, ...] = ()
    plan: WorktreePlan | None = None


def repository() -> tuple[str, str]:
    """Return the main directory of the repository around the working directory, and its common git directory."""
    copy = places.working_copy(working_directory(), os.environ)
    if copy is None:
        raise InvalidInput("cwd", "is in no git repository: change to one, and try again")
    is_bare = os.path.basename(copy.common) != ".git"  # noqa: PTH119 (as in `config.paths`)
    return (copy.common.removesuffix(".git") if is_bare else str(Path(copy.common).parent)), copy.common


def linked(common: str) -> list[Worktree]:
    """Return the linked worktrees of this repository, in the order of their paths."""
    folder = Path(common) / "worktrees"
    found = [_read(each) for each in folder.iterdir()] if folder.is_dir() else []
    return sorted((each for each in found if each is not None), key=lambda each: each.path)


def _read(private: Path) -> Worktree | None:
    try:
        entry = (private / "gitdir").read_text().strip()
        head = (private / "HEAD").read_text().strip()
    except OSError:
        return None  # git is adding or removing it
    path = os.path.normpath(private / entry / "..")
    branch = head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else None
    plain = Worktree(path, str(private), branch)
    try:
        kept = json.loads((private / STATE).read_text())
        values = tuple(WorktreeValue(**each) for each in kept["values"])
        plan = WorktreePlan(**kept["plan"]) if kept.get("plan") else None
        return plain._replace(agent=str(kept["agent"]), values=values, plan=plan)
    except FileNotFoundError:
        return plain
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LeaseholdError(f"{private / STATE} cannot be read: {error}") from None


def plan_of(private: str, agent: str) -> str | None:
    """Return the token of the plan of the worktree with this private git directory, for its own agent."""
    found = _read(Path(private)) if (Path(private) / STATE).is_file() else None
    return found.plan.token if found is not None and found.plan is not None and found.agent == agent else None


def around(common: str) -> Worktree | None:
    """Return the linked worktree around the working directory; None in the main one."""
    here = Path(working_directory())
    return next((each for each in linked(common) if here.is_relative_to(os.path.realpath(each.path))), None)


def save(worktree: Worktree, settings: dict[str, str]) -> None:
    """Write both files of a worktree; each is replaced as a whole."""
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in {"holder": worktree.agent, **settings}.items()]
    _write(Path(worktree.private) / places.OWN, "".join(lines))
    save_state(worktree)


def save_state(worktree: Worktree) -> None:
    """Write the tokens of a worktree's values and plan."""
    plan = None if worktree.plan is None else worktree.plan._asdict()
    kept = {"agent": worktree.agent, "values": [each._asdict() for each in worktree.values], "plan": plan}
    _write(Path(worktree.private) / STATE, json.dumps(kept) + "\n")


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, all or nothing."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.touch(0o600, exist_ok=False)
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise LeaseholdError(f"{shown(str(path))} cannot be written: {error.strerror}") from None


# ------------------------------------------------------------------------------------------------------- git


def add(root: str, path: str, branch: str, start: str | None) -> Worktree:
    """Make a worktree at this path with this branch, a new one from `start` unless it exists."""
    is_known = _run(root, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}").returncode == 0
    if is_known and start is not None:
        raise InvalidInput("from", f"does not go with {shown(branch)}, which is a branch already: leave it out")
    words = (path, branch) if is_known else ("-b", branch, path, start or "HEAD")
    git(root, "worktree", "add", *words)
    return Worktree(path, git(path, "rev-parse", "--absolute-git-dir"), branch)


def remove(root: str, worktree: Worktree, *, discard: bool) -> None:
    """Remove a worktree; git refuses one with uncommitted changes unless `discard`. Its branch stays."""
    git(root, "worktree", "remove", *(("--force",) if discard else ()), worktree.path)


def unsaved(root: str, worktree: Worktree) -> list[str]:
    """Return what only this worktree has: changed and untracked files, and a commit that no branch has."""
    if not Path(worktree.path).is_dir():
        return []
    found = [line[3:] for line in git(worktree.path, "status", "--porcelain", "-z").split("\0") if line[2:3] == " "]
    if worktree.branch is None:
        head = git(worktree.path, "rev-parse", "HEAD")
        if not git(root, "for-each-ref", "--count=1", f"--contains={head}"):
            found.append(f"commit {head[:12]}")
    return found


def git(folder: str, *words: str) -> str:
    """Run git in a folder and return its output. Raises LeaseholdError with git's message."""
    done = _run(folder, *words)
    if done.returncode:
        said = " / ".join(line.strip() for line in done.stderr.splitlines() if not line.startswith(("hint:", "Prep")))
        raise LeaseholdError(f"git {' '.join(words[:2])} failed: {shown(said)}")
    return done.stdout.removesuffix("\n")


def _run(folder: str, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    try:
        return subprocess.run(  # noqa: S603 (the words are checked)
            ["git", "-C", folder, *words],  # noqa: S607 (git, as the user's PATH has it)
            env={**kept, "LC_ALL": "C"},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except FileNotFoundError:
        raise LeaseholdError("git was not found on PATH: install it, and try again") from None
