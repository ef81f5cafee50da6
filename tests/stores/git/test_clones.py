"""`git:.` works wherever git does, and touches nothing there: worktrees, submodules, bare and partial clones, hooks."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from tests.kit.remotes import bare, git, others
from tests.kit.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.shell import Shell

HERE = {"LEASEHOLD_URL": "git:."}


@pytest.fixture
def clone(remote: Path, tmp_path: Path) -> Path:
    git("clone", "-q", "-b", "main", str(remote), str(tmp_path / "clone"))
    (tmp_path / "clone" / "file").write_text("x\n")
    git("add", "file", cwd=tmp_path / "clone")
    (tmp_path / "clone" / "file").write_text("y\n")
    return tmp_path / "clone"


def fingerprint(place: Path) -> dict[str, str]:
    """Every file below, with the hash of what is in it."""
    files = [path for path in sorted(place.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def leases(shell: Shell, place: Path, **env: str) -> list[str]:
    done = shell.sh(f"cd '{place}' && leasehold list --json", env={**HERE, **env})
    assert done.code == 0, done
    return [name for lease in done.said["data"]["leases"] for name in lease["resources"]]


def test_everywhere_in_a_clone_it_is_the_same_remote(shell: Shell, clone: Path, remote: Path, tmp_path: Path) -> None:
    (clone / "deep" / "er").mkdir(parents=True)
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"), cwd=clone)
    git("clone", "-q", "--bare", str(remote), str(tmp_path / "bare.git"))
    git("clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{remote}", str(tmp_path / "partial"))
    git("clone", "-q", "--depth=1", f"file://{remote}", "-b", "main", str(tmp_path / "shallow"))
    places = [
        clone,
        clone / "deep" / "er",
        tmp_path / "tree",
        tmp_path / "bare.git",
        tmp_path / "partial",
        tmp_path / "shallow",
    ]
    before, theirs = {place: fingerprint(place) for place in places}, others(remote)
    for number, place in enumerate(places):
        done = shell.sh(f"cd '{place}' && leasehold acquire issue:{number} && leasehold renew issue:{number}", env=HERE)
        assert done.code == 0, done
    for place in places:
        assert leases(shell, place) == [f"issue:{number}" for number in range(len(places))]
    for number, place in enumerate(reversed(places)):
        if place.parent == tmp_path and "clone" not in place.name:
            continue
        assert shell.sh(f"cd '{place}' && leasehold release issue:{len(places) - 1 - number}", env=HERE).code == 0
    assert {place: fingerprint(place) for place in places} == before, "neither index nor tree nor refs were touched"
    assert others(remote) == theirs


def test_in_a_submodule_it_is_the_submodule_s_remote(shell: Shell, clone: Path, remote: Path, tmp_path: Path) -> None:
    inner = bare(tmp_path / "inner.git")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "-b", "main", str(inner), "sub", cwd=clone)
    assert shell.sh(f"cd '{clone}/sub' && leasehold acquire inside", env=HERE).code == 0
    assert leases(shell, clone) == []
    assert leases(shell, clone / "sub") == ["inside"]


def test_a_path_that_names_a_remote_is_taken_as_git_takes_it(shell: Shell, clone: Path, tmp_path: Path) -> None:
    inner = bare(tmp_path / "inner.git")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "-b", "main", str(inner), "sub", cwd=clone)
    assert shell.sh(f"cd '{clone}/sub' && leasehold acquire inside", env=HERE).code == 0
    (shell.home / "inner.git").symlink_to(inner)
    for path in ("../../inner.git", "~/inner.git"):
        git("config", "remote.origin.url", path, cwd=clone / "sub")
        assert leases(shell, clone / "sub") == ["inside"], path


def test_from_a_hook_of_git(shell: Shell, clone: Path, tmp_path: Path) -> None:
    """A hook has GIT_DIR, GIT_INDEX_FILE and more in its environment."""
    hook = clone / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nleasehold acquire issue:1 >&2\n")
    hook.chmod(0o755)
    script = f"cd '{clone}' && git -c user.name=a -c user.email=a@example.invalid commit -q -m x file"
    done = shell.sh(script, env={**HERE, "GIT_CONFIG_NOSYSTEM": "1"})
    assert done.code == 0, done
    assert leases(shell, clone) == ["issue:1"]
    assert git("status", "--porcelain", cwd=clone) == ""


def test_a_pushurl_and_another_remote(shell: Shell, clone: Path, remote: Path, tmp_path: Path) -> None:
    other = bare(tmp_path / "other.git")
    git("remote", "add", "upstream", str(other), cwd=clone)
    script = f"cd '{clone}' && leasehold acquire r --url 'git:.?remote=upstream'"
    assert shell.sh(script).code == 0
    assert leases(shell, clone) == []
    git("config", "remote.origin.pushurl", str(other), cwd=clone)
    assert leases(shell, clone) == ["r"]


def test_config_names_the_repository_too(shell: Shell, clone: Path) -> None:
    (clone / "leasehold.toml").write_text('url = "git:."\n')
    (clone / "sub").mkdir()
    assert shell.sh(f"cd '{clone}/sub' && leasehold acquire r").code == 0
    assert shell.sh(f"cd '{clone}' && leasehold release r").code == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("git:.", "is not in a git repository"),
        ("git:..?remote=x", "is not in a git repository"),
        ("git+file://", "git+file://"),
        ("git+ssh:host/x", "git+ssh://"),
        ("git+file:///x?speed=9", "speed"),
        ("git+file:///x?poll=never", "poll"),
        ("git+file:///x?timeout=1ms", "at least 1s"),
        ("git+file:///x?remote=a", "remote="),
    ],
)
def test_what_is_wrong_with_a_url_is_said(shell: Shell, url: str, said: str) -> None:
    done = shell.run("acquire", "r", "--url", url)
    assert done.code in (1, 2), done
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_repository_without_a_remote(shell: Shell, tmp_path: Path) -> None:
    git("init", "-q", str(tmp_path / "alone"))
    done = shell.sh(f"cd '{tmp_path}/alone' && leasehold acquire r", env=HERE)
    assert done.code == 1
    assert "no remote" in done.err


def test_a_repository_whose_configuration_cannot_be_read(shell: Shell, clone: Path) -> None:
    with (clone / ".git" / "config").open("a") as file:
        file.write("[broken")
    done = shell.sh(f"cd '{clone}' && leasehold acquire r", env=HERE)
    assert done.code == 1
    assert "bad config line" in done.err, "not that there is no remote: there is"


def test_an_unreachable_remote_is_exit_code_9(shell: Shell, tmp_path: Path) -> None:
    for url in (f"git+file://{tmp_path}/nowhere.git", "git+git://127.0.0.1:9/x.git", "git+http://127.0.0.1:9/x.git"):
        done = shell.run("acquire", "r", "--url", url)
        assert done.code == 9, done
        assert "cannot be reached" in done.err
        told = shell.run("list", "--url", url, "--json")
        assert (told.code, told.said["error"]["code"]) == (9, "unreachable")


def test_a_password_in_a_url_is_not_shown(shell: Shell) -> None:
    done = shell.run("acquire", "r", "--url", "git+http://ada:s3cr3t@127.0.0.1:9/x.git")
    assert done.code == 9
    assert "s3cr3t" not in done.err + done.out


def test_without_git_it_is_said(shell: Shell, clone: Path) -> None:
    done = shell.run("acquire", "r", "--url", f"git+file://{clone}", env={"PATH": "/nowhere"})
    assert done.code == 1
    assert "git was not found on PATH" in done.err


def test_whatever_else_a_hook_has_in_its_environment(shell: Shell, clone: Path, tmp_path: Path) -> None:
    """A hook at the server's side has more of it; none of it may lead us elsewhere."""
    nowhere = str(tmp_path / "nowhere")
    env = dict.fromkeys(
        ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_QUARANTINE_PATH", "GIT_WORK_TREE", "GIT_INDEX_FILE"), nowhere
    )
    done = shell.sh(f"cd '{clone}' && leasehold acquire r", env={**HERE, **env, "GIT_NAMESPACE": "other"})
    assert done.code == 0, done
    assert leases(shell, clone) == ["r"]


def test_nobody_is_asked_on_the_terminal(shell: Shell, tmp_path: Path) -> None:
    asking = tmp_path / "ssh"
    asking.write_text(
        '#!/bin/sh\n[ "$1" != -G ] || exit 0\n'
        "read answer < /dev/tty && exit 1\necho 'Host key verification failed.' >&2\nexit 255\n"
    )
    asking.chmod(0o755)
    env = {"LEASEHOLD_URL": "git+ssh://git@host/x.git", "GIT_SSH_COMMAND": str(asking)}
    with Terminal(shell, "acquire", "issue:42", columns=400, env=env) as terminal:
        terminal.until("Host key verification failed.")
        assert terminal.end() == 9
