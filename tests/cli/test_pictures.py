"""graph and history --plot, as they are typed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit.shell import Shell, until


def test_graph_shows_a_real_wait_and_a_real_deadlock(shell: Shell) -> None:
    shell.call("acquire", "fork-1", holder="dan")
    shell.call("acquire", "fork-2", holder="eve")
    waiter = shell.start("acquire", "fork-2", "--wait", "10m", holder="dan")
    until(lambda: shell.waiting("fork-2") == ["dan"])
    assert shell.call("acquire", "fork-1", "--wait", "1m", holder="eve").code == 6
    text = shell.call("graph").out
    assert "dan waits for fork-2, held by eve" in text
    assert "eve → fork-1 → dan → fork-2 → eve" in text
    assert shell.call("graph", "--format", "mermaid").out.startswith("flowchart LR\n")
    assert shell.call("graph", "--format", "dot").out.startswith("digraph waits {\n")
    assert shell.call("graph", "--format", "svg").out.startswith("<svg ")
    said = shell.call("graph", "--json").said["data"]
    assert [edge["resource"] for edge in said["edges"]] == ["fork-2"]
    assert said["deadlocks"][0]["detail"]["cycle"] == ["eve", "fork-1", "dan", "fork-2"]
    assert shell.call("graph", "--space", "elsewhere").out == "Nobody waits.\n"
    waiter.kill()


@pytest.mark.parametrize(("file", "begins"), [("x.svg", b"<svg "), ("x.png", b"\x89PNG")])
def test_history_is_drawn_into_a_file(shell: Shell, file: str, begins: bytes) -> None:
    shell.call("acquire", "issue:42", "--name", "fix the parser")
    shell.call("release", "issue:42", "--status", "failed", "--error", "red")
    shell.call("acquire", "issue:43")
    done = shell.call("history", "--plot", file)
    assert done.out == f"Drew 2 leases: {file}\n"
    assert (shell.home / file).read_bytes().startswith(begins)


def test_a_plot_that_cannot_be_drawn_is_told(shell: Shell) -> None:
    for file, told in {"x.gif": "must end in .svg or .png", "none/x.svg": "cannot be written"}.items():
        done = shell.call("history", "--plot", file)
        assert done.code == 2
        assert told in done.err
    assert "do not go together" in shell.call("history", "--plot", "x.svg", "--kind", "granted").err


def test_without_pillow_png_says_what_to_install_and_svg_works(shell: Shell) -> None:
    script = "import sys; sys.modules['PIL'] = None; from leasehold.cli import main; sys.exit(main(sys.argv[1:]))"
    for file, code in {"x.png": 1, "x.svg": 0}.items():
        done = subprocess.run(
            [sys.executable, "-c", script, "history", "--plot", file],
            cwd=shell.home,
            env=shell.env(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done
        assert ("pip install 'leasehold[plot]'" in done.stderr) == (code == 1)
