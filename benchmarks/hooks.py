"""An editor's hook before an edit: as a command, a fresh process each; and over HTTP, where none is started.

And the picture of a working tree, which it takes before and after a command that may write.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import time
from pathlib import Path

from benchmarks import scratch, startup
from benchmarks.report import Figure, at_most, is_quick
from leasehold.guard.effects import picture
from leasehold.guard.effects.trees import around

BY_COMMAND = 1.9
BY_HTTP_MS = 5.0
PICTURE_MS = 60.0
FILES, FILES_EACH = 50_000, 100
"""The files of the repository, and those in each of its folders."""
JSON = {"Content-Type": "application/json"}
HOOK = [*startup.MODULE, "hook", "claude"]


def _input(root: str, session: str) -> str:
    """An edit of a file of some size, since the whole change is in there."""
    change = {"file_path": f"{root}/src/a.py", "old_string": "x" * 2_000, "new_string": "y" * 2_000}
    given = {"session_id": session, "cwd": root, "hook_event_name": "PreToolUse", "tool_name": "Edit"}
    return json.dumps({**given, "tool_input": change})


def _took(command: list[str], env: dict[str, str], text: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=env["PWD"], env=env, input=text, text=True, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def by_command(rounds: int) -> list[Figure]:
    """The agent's own file again (allowed), and one that another agent holds (denied)."""
    with scratch.folder() as folder:
        env = startup._environment(folder)
        Path(env["PWD"], "src").mkdir()
        calls = {
            "python -c pass": (startup.PASS, ""),
            "allowed": (HOOK, _input(env["PWD"], "one")),
            "denied": (HOOK, _input(env["PWD"], "two")),
        }
        taken: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(rounds + 2):
            for name, (command, text) in calls.items():
                seconds = _took(command, env, text)
                if number >= 2:  # the first ones create the database and compile
                    taken[name].append(seconds)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    floor = medians.pop("python -c pass")
    return [
        at_most(
            f"leasehold hook, an edit that is {name}, a fresh process, median",
            f"{median * 1e3:.1f} ms",
            f"python -c pass {floor * 1e3:.1f} ms",
            median / floor,
            BY_COMMAND,
        )
        for name, median in medians.items()
    ]


def by_http(rounds: int) -> list[Figure]:
    """One connection that is kept, as an editor keeps it; the goal is in milliseconds."""
    with scratch.folder() as folder:
        env = startup._environment(folder)
        command = [*startup.MODULE, "serve", "--port", "0", "--store", f"sqlite:///{folder}/locks.db"]
        with subprocess.Popen(command, cwd=env["PWD"], env=env, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                port = int(server.stdout.readline().rpartition(":")[2])
                taken = _asked(port, _input(env["PWD"], "one"), env["PWD"], rounds)
            finally:
                server.terminate()
    median = statistics.median(taken) * 1e3
    return [
        at_most("a hook over HTTP, an edit, median", f"{median:.2f} ms", "5 ms", median / BY_HTTP_MS, 1.0),
    ]


def _asked(port: int, text: str, root: str, rounds: int) -> list[float]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        line.request("POST", f"/v1/hooks/claude?policy=require&root={root}", text, JSON)
        reply = line.getresponse()
        assert reply.status == 200, reply.read()
        reply.read()
        taken.append(time.perf_counter() - started)
    line.close()
    return taken[len(taken) // 10 :]


def of_picture(files: int, rounds: int) -> list[Figure]:
    """The picture of a repository of many files, after the first one, which warms git's caches."""
    with scratch.folder() as folder:
        root = Path(folder)
        for number in range(files // FILES_EACH):
            inner = root / "src" / f"{number // 20}" / f"{number}"
            inner.mkdir(parents=True)
            for name in range(FILES_EACH):
                (inner / f"{name}.py").write_text(f"{number} {name}\n")
        # Many loose objects make git collect garbage in the background, beside the measurement and its clean-up.
        author = ("-c", "user.name=ada", "-c", "user.email=ada@example.com", "-c", "gc.auto=0")
        for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "one"), ("status",)):
            subprocess.run(["git", "-C", folder, *words], check=True, stdout=subprocess.DEVNULL)  # noqa: S607
        (root / "src" / "0" / "0" / "0.py").write_text("changed\n")
        taken = [_pictured(folder, files) for _ in range(rounds + 1)][1:]
    median = statistics.median(taken) * 1e3
    what = f"the picture of a repository of {files:,} files, median"
    return [at_most(what, f"{median:.1f} ms", "60 ms", median / PICTURE_MS, 1.0)]


def _pictured(folder: str, files: int) -> float:
    trees = around([folder])
    started = time.perf_counter()
    (seen,) = picture.take(trees, ["src/0/0/1.py"])
    seconds = time.perf_counter() - started
    assert set(seen.states) == {"src/0/0/0.py", "src/0/0/1.py"}, (len(seen.states), files)
    return seconds


def decisions(*, smoke: bool) -> list[Figure]:
    pictures = of_picture(2_000, 3) if smoke else of_picture(FILES, 10 if is_quick() else 30)
    return [*by_command(2 if smoke else 10 if is_quick() else 30), *by_http(20 if smoke else 500), *pictures]
