"""JSON as stores write it: also what only escapes can tell, and lines that nothing in them breaks."""

from __future__ import annotations

import json

import pytest

from leasehold.stores import quick_json

ODD = [["h", "line\nbreak\r\u2028"], ["half \ud800"], [1, None, {"a": "ü"}]]


@pytest.mark.parametrize("has_library", [True, False])
def test_each_value_has_a_line(has_library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_library:
        monkeypatch.setattr(quick_json, "msgspec", None)
    for values in (ODD, ODD[:1], [ODD[0], ODD[2]]):
        lines = quick_json.encode_lines(values).split(b"\n")
        assert [json.loads(line) for line in lines] == values
    assert quick_json.encode_lines([]) == b""


def test_a_text_is_written_in_one_of_two_ways() -> None:
    letters = [chr(number) for number in range(0x3100)] + ["\U0001f512", "\ud800", '"', "\\"]
    for letter in letters:
        text = f"a{letter}b"
        written = {quick_json.encode(text).decode(), quick_json.in_ascii(text)}
        assert written <= set(quick_json.spellings(text)), text
        assert all(each.encode() for each in quick_json.spellings(text))
