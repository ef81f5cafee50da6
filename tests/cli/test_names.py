"""Names and texts that try to be something else: shown inert, or refused clearly."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.cli.output import dumps

if TYPE_CHECKING:
    from tests.kit.shell import Shell

RIGHT_TO_LEFT = "abc\u202edef"
HOSTILE = [
    "\u202eevil",
    "a\u200bb",
    "a\u2066b\u2069",
    "zero\ufeffwidth",
    "tag\U000e0041",
    "soft\u00adhyphen",
    "a\ufe0fb",
]
REFUSED = {
    "a\x1b[31mred": "no control characters",
    "a\nb": "no control characters",
    "a\rb": "no control characters",
    "a\tb": "no control characters",
    "a\x9b31m": "no control characters",
    "a\u2028b": "no control characters",
    " a": "no blanks are allowed",
    "a ": "no blanks are allowed",
    "": "bytes are needed",
    "x" * 513: "bytes of UTF-8 are allowed",
    "é" * 257: "bytes of UTF-8 are allowed",
    "path:../x": "must stay inside the root",
    "path:/etc": "is relative to the root",
}


def is_inert(text: str) -> bool:
    return all(one.isprintable() or one == "\n" for one in text)


@pytest.mark.parametrize(("name", "rule"), REFUSED.items())
def test_what_cannot_be_a_name_is_refused_with_the_rule(shell: Shell, name: str, rule: str) -> None:
    for words in (["acquire", name], ["release", name], ["inspect", name]):
        done = shell.call(*words)
        assert done.code == 2
        assert rule in done.err
        assert is_inert(done.err)
        assert "\x1b" not in done.out + done.err
    assert shell.call("acquire", name, "--json").said["error"]["code"] == "invalid"
    assert shell.call("list").out == "No live leases.\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_invisible_is_spelled_out(shell: Shell, name: str) -> None:
    taken = shell.call("acquire", name, "--name", name, "--reason", name)
    assert taken.code == 0
    for done in (
        taken,
        shell.call("acquire", name, holder="bob"),
        shell.call("acquire", name, "--wait", "20ms", holder="bob"),
        shell.call("list"),
        shell.call("inspect", name),
        shell.call("history"),
        shell.call("watch", "--count", "1"),
        shell.call("list", "--json"),
        shell.call("release", name, holder="bob"),
        shell.call("doctor"),
        shell.call("release", name),
    ):
        assert name not in done.out + done.err
        assert is_inert(done.out + done.err)


def test_the_suggested_command_means_the_same_name(shell: Shell) -> None:
    for name in (RIGHT_TO_LEFT, "it's a \\ name", 'say "hi" $HOME `x`'):
        done = shell.call("acquire", name)
        suggested = done.out.rpartition("Release it with:\n")[2].strip()
        script = shell.with_command(shell.env())
        back = subprocess.run(
            ["/bin/bash", "-c", suggested], cwd=shell.home, env=script, capture_output=True, check=False
        )
        assert back.returncode == 0, (suggested, back)
        assert shell.holders(name) == []


def test_names_of_512_bytes_are_fine_everywhere(shell: Shell) -> None:
    for name in ("x" * 512, "é" * 256, "path:" + "a/" * 253 + "b"):
        assert shell.call("acquire", name).code == 0
        assert shell.call("inspect", name, "--json").said["data"]["leases"][0]["resources"] == [name]
        assert shell.call("list").code == 0
        assert shell.call("release", name).code == 0


@pytest.mark.parametrize("option", ["--holder", "--name", "--reason", "--space", "--request-id"])
@pytest.mark.parametrize("value", ["a\x1b[2Jb", "a\nb", "", " x", "y" * 5000])
def test_texts_with_control_characters_are_refused(shell: Shell, option: str, value: str) -> None:
    done = shell.call("acquire", "x", option, value)
    assert done.code == 2
    assert is_inert(done.err)
    assert option[2:].replace("-", "_") in done.err
    assert shell.call("list").out == "No live leases.\n"


def test_contexts_and_errors_are_shown_inert(shell: Shell) -> None:
    hostile = "x\x1b[31m\u202e\ny"
    shell.call("acquire", "x", "--context", json.dumps({"a": hostile}))
    seen = shell.call("inspect", "x")
    assert is_inert(seen.out)
    assert shell.call("inspect", "x", "--json").said["data"]["leases"][0]["context"] == {"a": hostile}
    shell.call("release", "x", "--status", "failed", "--error", hostile)
    history = shell.call("history")
    assert is_inert(history.out)
    assert len(history.out.splitlines()) == 3
    assert shell.call("history", "--json").said["data"]["events"][0]["detail"]["error"] == hostile


def test_contexts_that_are_no_json_or_too_large_are_refused(shell: Shell) -> None:
    for context in ("{", "nan", "\x1b", "[" * 100_000, json.dumps("x" * 16_384)):
        done = shell.call("acquire", "x", "--context", context)
        assert done.code == 2
        assert is_inert(done.err)
        assert len(done.err) < 1_000


def test_what_argparse_complains_about_is_inert_too(shell: Shell) -> None:
    for words in (
        ["\x1b[31mx"],
        ["acquire", "--\x1b[31m"],
        ["acquire", "x", "--mode", "\x1b[31m"],
        ["list", "\x1b[31m"],
    ):
        done = shell.call(*words)
        assert done.code == 2
        assert is_inert(done.err), done.err


def test_hostile_environment(shell: Shell) -> None:
    for variable in ("LEASEHOLD_URL", "LEASEHOLD_HOLDER", "LEASEHOLD_SPACE", "LEASEHOLD_TTL", "LEASEHOLD_SESSION"):
        for value in ("\x1b[31m", "no such thing\u202e\x07", "x" * 10_000):
            done = shell.call("acquire", "x", env={variable: value})
            assert done.code == 2, (variable, done)
            assert is_inert(done.err), (variable, done.err)
            assert "Traceback" not in done.err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3) | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_json_is_written_as_json_writes_it(value: object) -> None:
    assert dumps(value) == json.dumps(value)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), object(), b"x", {1: 2}])
def test_what_is_no_json_is_not_written(value: object) -> None:
    with pytest.raises(TypeError):
        dumps(value)
