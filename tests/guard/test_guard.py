"""`leasehold guard`, and the function behind it: may this holder change these paths?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold.domain.outcomes import Granted
from leasehold.domain.sessions import SessionStarted
from leasehold.errors import InvalidInput
from leasehold.guard import checking
from leasehold.guard.checking import (
    REQUIRE,
    REQUIRE_OWN,
    WARN,
    LeaseOwner,
    Nameless,
    is_allowed,
    judged,
    resources_of,
    verdicts,
)
from tests.kit.remotes import git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasehold import Locks
    from leasehold.guard.checking import Verdict
    from tests.kit.shell import Shell

MANY = [f"path:lib/{number}.py" for number in range(checking.FEW + 1)]


@pytest.fixture
def repository(shell: Shell) -> Path:
    git("init", "-q", str(shell.home))
    (shell.home / "src").mkdir()
    for name in ("src/a.py", "src/b.py", "top.py"):
        (shell.home / name).write_text("x\n")
    return shell.home


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Locks]:
    locks = leasehold.connect(f"sqlite://{tmp_path}/locks.db", holder="ada")
    yield locks
    locks.close()


def take(locks: Locks, resource: str, **options: Any) -> Granted:
    taken = locks.acquire(resource, ttl=60, **options)
    assert isinstance(taken, Granted)
    return taken


def states(locks: Locks, *resources: str, policy: str = REQUIRE, holder: str = "bob") -> list[tuple[str, bool]]:
    """One by one and, which must say the same, among many."""
    alone = [verdicts(locks, [each], holder=holder, policy=policy)[0] for each in resources]
    among = verdicts(locks, [*resources, *MANY], holder=holder, policy=policy)[: len(resources)]
    told = [(each.state, each.allowed) for each in alone]
    assert told == [(each.state, each.allowed) for each in among]
    assert [each.message for each in alone] == [each.message for each in among]
    return told


# ----------------------------------------------------------------------------------------- the function


def test_what_nobody_holds_is_free(locks: Locks) -> None:
    take(locks, "path:other")
    take(locks, "issue:1")
    assert states(locks, "path:src/a.py", "path:src") == [("free", True), ("free", True)]


@pytest.mark.parametrize("held", ["path:src/a.py", "path:src", "path:.", "repo:all", "path:src/a.py/deeper"])
def test_a_lease_of_another_holder_counts_however_they_hold_it(locks: Locks, held: str) -> None:
    take(locks, held, name="refactoring", mode="shared" if held == "path:src" else "exclusive")
    assert states(locks, "path:src/a.py") == [("held", False)]
    assert states(locks, "path:src/a.py", policy=WARN) == [("held", True)]
    (verdict,) = verdicts(locks, ["path:src/a.py"], holder="bob", policy=REQUIRE)
    assert "held by ada (refactoring)" in verdict.message
    assert [lease.holder for lease in verdict.leases] == ["ada"]


def test_what_you_hold_is_yours(locks: Locks) -> None:
    take(locks, "path:src")
    for policy in (WARN, REQUIRE, REQUIRE_OWN):
        assert states(locks, "path:src/a.py", "path:src", policy=policy, holder="ada") == [("yours", True)] * 2


def test_require_own_wants_all_of_it(locks: Locks) -> None:
    take(locks, "path:src/a.py")
    take(locks, "path:docs", mode="shared")
    told = states(locks, "path:src/a.py", "path:src", "path:other", "path:docs/x", policy=REQUIRE_OWN, holder="ada")
    assert told == [("yours", True), ("not_yours", False), ("not_yours", False), ("not_yours", False)]
    assert states(locks, "path:src", holder="ada") == [("free", True)]


def test_what_an_accident_has_closed_is_closed(locks: Locks) -> None:
    take(locks, "path:src", on_expiry="quarantine")
    locks.force_release("path:src", by="ops", reason="hangs")
    assert states(locks, "path:src/a.py", holder="ada") == [("closed", False)]


def test_what_a_session_holds_is_its_own(locks: Locks) -> None:
    begun = locks.start_session(ttl=60, holder="ada")
    assert isinstance(begun, SessionStarted)
    take(locks, "path:src", session=begun.secret)
    session = begun.session.session
    (mine,) = verdicts(locks, ["path:src"], holder="bob", policy=REQUIRE_OWN, session=session)
    assert mine.state == "yours"


def test_off_asks_nobody() -> None:
    asked = judged(["path:src"], LeaseOwner("bob"), "off")
    with pytest.raises(StopIteration) as end:
        next(asked)
    assert is_allowed(end.value.value)


def test_a_policy_that_does_not_exist(locks: Locks) -> None:
    with pytest.raises(InvalidInput, match="require-own"):
        verdicts(locks, ["path:src"], holder="bob", policy="strict")


def test_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "link").symlink_to("/etc/passwd")
    (tmp_path / "alias").symlink_to("src")
    root, here = str(tmp_path), str(tmp_path / "src")
    told = resources_of(["a.py", "../top.py", "./link", "../alias/b.py", ".", f"{root}/src//c"], root, here)
    assert list(told.values()) == [
        "path:src/a.py",
        "path:top.py",
        "path:src/link",
        "path:src/b.py",
        "path:src",
        "path:src/c",
    ]
    for outside in ("../../x", "/etc/passwd"):
        with pytest.raises(InvalidInput, match="outside"):
            resources_of([outside], root, here)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("src/a ", "path:src"),
        ("a ", "path:."),
        ("src/a\tb", "path:src"),
        ("src/\udcff", "path:src"),
        ("src/lib /\udcff", "path:src"),
        ("C:/x", "path:."),
        ("a/" + "x" * 600, "path:a"),
        ("y" * 400 + "/" + "x" * 600, "path:" + "y" * 400),
        ("y" * 600 + "/x", "path:."),
    ],
)
def test_a_file_that_no_lease_can_name_goes_with_its_folder(path: str, folder: str) -> None:
    named = resources_of([path], "/app", "/app")[path]
    assert isinstance(named, Nameless)
    assert named.folder == folder


def test_only_who_holds_the_folder_is_in_the_way_of_what_no_lease_can_name(locks: Locks) -> None:
    odd = checking.name_of("src/a ")

    def judged_for(holder: str, policy: str) -> Verdict:
        (alone,) = verdicts(locks, [odd], holder=holder, policy=policy)
        among = verdicts(locks, [odd, "path:src", *MANY], holder=holder, policy=policy)
        assert alone[:4] == among[0][:4]
        return alone

    beside = take(locks, "path:src/b.py")
    free = judged_for("bob", REQUIRE)
    assert (free.state, free.allowed) == ("free", True)
    assert "no blanks are allowed" in free.message
    assert judged_for("bob", REQUIRE_OWN).state == "not_yours"
    locks.release(beside.lease.id, beside.token)
    take(locks, "path:src", on_expiry="quarantine")
    assert "path:src is held by ada" in judged_for("bob", REQUIRE).message
    assert [judged_for("bob", policy).allowed for policy in (WARN, REQUIRE)] == [True, False]
    assert judged_for("ada", REQUIRE_OWN)[1:4] == ("yours", True, "")
    locks.force_release("path:src", by="ops", reason="hangs")
    assert judged_for("ada", REQUIRE).state == "closed"


# ------------------------------------------------------------------------------------------- the command


def test_guard_tells_of_what_no_lease_can_name(shell: Shell, repository: Path) -> None:
    for name in ("src/trail ", "src/trail2 "):
        (repository / name).write_text("x\n")
    git("add", ".", cwd=repository)
    told = shell.call("guard", "--staged", "--policy", "require", holder="bob")
    assert (told.code, told.err.partition(":")[0]) == (0, "Careful")
    shell.call("acquire", "path:src/a.py")
    assert shell.call("guard", "src/trail ", "--policy", "require", holder="bob").code == 0
    done = shell.call("guard", "src/trail ", "src/trail2 ", "src", "--policy", "require", "--json", holder="bob")
    assert [(each["path"], each["allowed"]) for each in done.said["error"]["paths"]] == [
        ("src/trail ", True),
        ("src/trail2 ", True),
        ("src", False),
    ]


def test_guard_suggests_what_a_shell_takes(shell: Shell, repository: Path) -> None:
    done = shell.call("guard", "src/b c.py", "--policy", "require-own")
    assert done.code == 4
    assert "leasehold acquire 'path:src/b c.py'" in done.err


def test_guard_says_who_holds_what(shell: Shell, repository: Path) -> None:
    shell.call("acquire", "path:src", "--name", "refactoring")
    done = shell.call("guard", "src/a.py", "a\tname", "--policy", "require", holder="bob")
    assert done.code == 4
    assert done.out == ""
    assert done.err.startswith("Not allowed: 1 of 2 paths, by policy require")
    assert "path:src/a.py is held by ada (refactoring), by way of path:src" in done.err
    warned = shell.call("guard", "src/a.py", holder="bob")
    assert (warned.code, warned.err.partition(":")[0]) == (0, "Careful")
    quiet = shell.call("guard", "src/a.py", "--policy", "require")
    assert quiet == (0, "", "")


def test_guard_lets_nobody_pass_by_the_name_that_another_process_has_too(shell: Shell, repository: Path) -> None:
    """As where a profile sets `LEASEHOLD_HOLDER` for all terminals."""
    held = "leasehold acquire path:src > /dev/null; : > up; while test -e up; do sleep 0.01; done"
    script = f"sh -c '{held}' & until test -e up; do sleep 0.01; done; leasehold guard top.py src/a.py --policy require"
    done = shell.sh(f"{script}; echo $?; rm up; wait; leasehold guard src/a.py --policy require; echo $?", "ada")
    assert done.out.split() == ["4", "0"], done
    assert "path:src/a.py is held by ada, by way of path:src" in done.err


def test_guard_in_json(shell: Shell, repository: Path) -> None:
    shell.call("acquire", "path:src")
    done = shell.call("guard", "src/a.py", "--policy", "require", "--json", holder="bob")
    assert done.code == 4
    error = done.said["error"]
    assert (error["code"], error["policy"]) == ("held", "require")
    (told,) = error["paths"]
    assert (told["path"], told["resource"], told["state"], told["allowed"]) == (
        "src/a.py",
        "path:src/a.py",
        "held",
        False,
    )
    assert told["holders"][0]["holder"] == "ada"


def test_guard_looks_at_what_is_staged(shell: Shell, repository: Path) -> None:
    shell.call("acquire", "path:src/b.py")
    git("add", "src/a.py", cwd=repository)
    assert shell.call("guard", "--staged", "--policy", "require", holder="bob").code == 0
    git("add", "src/b.py", cwd=repository)
    assert shell.call("guard", "--staged", "--policy", "require", holder="bob").code == 4
    git("commit", "-q", "-m", "x", cwd=repository)
    assert shell.call("guard", "--staged", "--policy", "require", holder="bob").code == 0
    git("rm", "-q", "src/b.py", cwd=repository)
    assert shell.call("guard", "--staged", "--policy", "require", holder="bob").code == 4, "a removal is a change"


def test_guard_means_the_same_in_a_worktree(shell: Shell, repository: Path, tmp_path: Path) -> None:
    git("add", ".", cwd=repository)
    git("commit", "-q", "-m", "x", cwd=repository)
    git("worktree", "add", "-q", str(tmp_path / "other"), cwd=repository)
    shell.call("acquire", "path:src")
    script = f"cd {tmp_path}/other/src && leasehold guard a.py --policy require"
    assert shell.sh(script, "bob").code == 4
    assert shell.sh(script, "ada").code == 0


@pytest.mark.parametrize("where", ["leasehold.toml", "git config"])
def test_guard_takes_its_policy_from(shell: Shell, repository: Path, where: str) -> None:
    shell.call("acquire", "path:src")
    for policy, code in (("off", 0), ("warn", 0), ("require", 4), ("require-own", 4)):
        if where == "git config":
            git("config", "leasehold.lockPolicy", policy, cwd=repository)
        else:
            (repository / "leasehold.toml").write_text(f'lock_policy = "{policy}"\n')
        assert shell.call("guard", "src/a.py", holder="bob").code == code, policy
    assert shell.call("guard", "top.py", holder="bob").code == 4, "it is not bob's own"
    for unknown in ("strict", "\udcff"):
        git("config", "leasehold.lockPolicy", unknown, cwd=repository)
        done = shell.call("guard", "top.py", "--json")
        assert done.code == (2 if where == "git config" else 4)


def test_guard_takes_its_policy_from_grite_s_own_file(shell: Shell, repository: Path, tmp_path: Path) -> None:
    """As grite's page has it, with its comment; every other key in there is grite's."""
    shell.call("acquire", "path:src")
    (repository / ".git" / "grite").mkdir()
    config = repository / ".git" / "grite" / "config.toml"
    for policy, code in (("off", 0), ("warn", 0), ("require", 4)):
        config.write_text(
            f'actor = "64d15a2c"\nlock_policy = "{policy}"  # off, warn, require\n[sync]\nremote = "origin"\n'
        )
        assert shell.call("guard", "src/a.py", holder="bob").code == code, policy
    told = shell.call("guard", "src/a.py", holder="bob").err
    assert f"by policy require (from {config})" in told
    git("add", ".", cwd=repository)
    git("commit", "-q", "-m", "x", cwd=repository)
    git("worktree", "add", "-q", str(tmp_path / "other"), cwd=repository)
    assert shell.sh(f"cd {tmp_path}/other/src && leasehold guard a.py", "bob").code == 4, "a worktree shares it"
    git("config", "leasehold.lockPolicy", "warn", cwd=repository)
    assert shell.call("guard", "src/a.py", holder="bob").code == 0, "what git is told goes before it"
    git("config", "--unset", "leasehold.lockPolicy", cwd=repository)
    config.write_text('lock_policy = "strict"\n')
    wrong = shell.call("guard", "src/a.py", holder="bob")
    assert wrong.code == 2
    assert str(config) in wrong.err


def test_guard_does_not_guess_a_policy_that_git_cannot_tell(shell: Shell, repository: Path) -> None:
    shell.call("acquire", "path:src")
    git("config", "leasehold.lockPolicy", "require", cwd=repository)
    with (repository / ".git" / "config").open("a") as file:
        file.write("[broken")
    done = shell.call("guard", "src/a.py", holder="bob")
    assert done.code == 1
    assert "git cannot tell leasehold.lockPolicy" in done.err
    assert shell.call("guard", "src/a.py", "--policy", "require", holder="bob").code == 4, "which needs no telling"


@pytest.mark.parametrize(
    ("words", "field"),
    [((), "paths"), (("--staged", "a"), "paths"), (("../../x",), "paths"), (("a", "--policy", "x"), "lock_policy")],
)
def test_guard_names_what_is_wrong(shell: Shell, repository: Path, words: tuple[str, ...], field: str) -> None:
    done = shell.call("guard", *words, "--json")
    assert done.code == 2
    assert done.said["error"]["field"] == field


def test_nothing_is_staged_where_there_is_no_repository(shell: Shell) -> None:
    done = shell.call("guard", "--staged", "--json")
    assert done.code == 2
    assert done.said["error"]["field"] == "staged"
    assert "git diff" not in done.said["error"]["message"]
