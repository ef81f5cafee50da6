"""What is read without tomllib means the same to tomllib, or is left to it."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leasehold.config import plain_toml

PLAIN = b"""
# how we lock
url = "sqlite:.locks/leasehold.db"   # beside this file
space = 'acme/app'
ttl = "15m"
ttl_max=86400
hierarchical = ["s3", 'gs',]
lock_policy = ""
bare-key_1 = 0
"""
# fmt: off
PIECES = st.sampled_from([
    *"abc01=\"'#,.-_[]{}\\\n\r\t \x00é\u202e\ufeff", '"""', "'''", "true", "key = ", '"x"', "\r\n", "[t]", "+1", "0x1",
])
KEYS = ("a", "b", "c-d", "é", '"q"', "a.b", "")
VALUES = (
    "1", "007", "0", "-1", "1_000", "1.5", "true", "[]", '["a"]', "['a', \"b\"]", "[1]", '["a" "b"]', '"x"', "'x'",
    '"x" # c', '"a#b"', r'"a\nb"', r"'a\nb'", "\"a'b\"", '""', '"""', '"""x"""', "[,]", '["a",,]', '"x"y', '"x" y', "",
    "#", "9" * 20, "1979-05-27", "[[]]", '["a,b"]', "{}", "'it''s'", "1 2", '"\x7f"', '["a"] # c', "12#", "[ ]",
)
# fmt: on
LINES = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from(["=", " = ", " ", "= #"]),
        st.sampled_from(VALUES),
        st.sampled_from(["\n", "\r\n", "\r", " \n", " # c\n"]),
    ).map("".join),
    max_size=4,
).map("".join)


def by_tomllib(data: bytes) -> object:
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return "invalid"


def test_a_plain_file_is_read() -> None:
    assert plain_toml.read(PLAIN) == tomllib.loads(PLAIN.decode())
    assert plain_toml.read(PLAIN.replace(b"\n", b"\r\n")) == tomllib.loads(PLAIN.decode())
    assert plain_toml.read(b"") == {}


BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""However busy the machine is."""


@BUSY
@given(st.one_of(st.lists(PIECES).map("".join), LINES, st.text(max_size=20)).map(str.encode) | st.binary(max_size=20))
@example(b"a = '''\nb = 1\n'''")
@example(b"a = 1\na = 2")
@example(b'a = "x\\" # y"')
@example("\ufeffa = 1".encode())
def test_what_is_read_is_what_tomllib_reads(data: bytes) -> None:
    found = plain_toml.read(data)
    assert found is None or found == by_tomllib(data)


@BUSY
@given(LINES, LINES, LINES)
def test_what_is_read_of_a_table_is_what_tomllib_reads(before: str, ours: str, after: str) -> None:
    data = f"[x]\n{before}\n[tool.leasehold]\n{ours}\n[y]\n{after}".encode()
    whole = by_tomllib(data)
    found = plain_toml.read_table(data, "tool.leasehold")
    if found is not None and isinstance(whole, dict):  # what is wrong in other tables is none of our business
        assert found == whole["tool"]["leasehold"]


@pytest.mark.parametrize(
    "text",
    [
        '[x]\ny = """\n[tool.leasehold]\nspace = "not ours"\n"""',
        "[tool.leasehold]\nspace = 'a'\n[x]\n[tool.leasehold]\n",
        "[tool]\nleasehold.space = 'a'",
        "[tool.leasehold] # with more\nspace = 'a'",
        "[tool.leasehold]\nhierarchical = [\n  's3',\n]",
        "[tool.leasehold]\nspace = 'a",
    ],
)
def test_a_table_that_is_not_plain_is_left_to_tomllib(text: str) -> None:
    assert plain_toml.read_table(text.encode(), "tool.leasehold") is None
