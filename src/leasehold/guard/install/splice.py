"""Insert into and remove from a JSON text without changing any other byte."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_BLANK = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


@dataclass
class JsonNode:
    """A value and its position in the text."""

    start: int
    end: int
    value: Any
    members: dict[str, JsonNode] = field(default_factory=dict)
    items: list[JsonNode] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """The position of each child, with its key."""

    @property
    def children(self) -> list[JsonNode]:
        """Return the members or items in order."""
        return list(self.members.values()) or self.items


def parse(text: str) -> JsonNode:
    """Parse the whole text. Raises ValueError if it is not JSON."""
    node = _value(text, _skip(text, 0))
    if _skip(text, node.end) != len(text):
        raise ValueError(f"there is something after the end of the JSON, at character {node.end}")
    return node


def checked(text: str) -> str:
    """Return the text. Raises TypeError if it is no object."""
    if not isinstance(parse(text).value, dict):
        raise TypeError("it is no JSON object")
    return text


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _value(text: str, at: int) -> JsonNode:
    if text[at : at + 1] not in ("{", "["):
        value, end = _decoder.raw_decode(text, at)
        return JsonNode(at, end, value)
    is_object = text[at] == "{"
    close = "}" if is_object else "]"
    node = JsonNode(at, at, {} if is_object else [])
    place = _skip(text, at + 1)
    while text[place : place + 1] != close:
        place = _child(text, place, node, is_object=is_object)
        place = _skip(text, place)
        if text[place : place + 1] == ",":
            place = _skip(text, place + 1)
        elif text[place : place + 1] != close:
            raise ValueError(f"a comma or {close} is missing at character {place}")
    node.end = place + 1
    return node


def _child(text: str, place: int, node: JsonNode, *, is_object: bool) -> int:
    node.starts.append(place)
    if not is_object:
        child = _value(text, place)
        node.items.append(child)
        node.value.append(child.value)
        return child.end
    if text[place : place + 1] != '"':
        raise ValueError(f"a key is missing at character {place}")
    key, after = _decoder.raw_decode(text, place)
    colon = _skip(text, after)
    if text[colon : colon + 1] != ":":
        raise ValueError(f"a colon is missing at character {colon}")
    child = _value(text, _skip(text, colon + 1))
    node.members[key] = child
    node.value[key] = child.value
    return child.end


# ------------------------------------------------------------------------------------------- changing


def add(text: str, where: tuple[str, ...], value: Any, key: str | None = None) -> str:  # noqa: ANN401 (any JSON)
    """Append a member (or an item, without a key) to the value at `where`, which is created if it is missing."""
    node = parse(text)
    for depth, name in enumerate(where):
        if name not in node.members:
            rest = where[depth + 1 :]
            inner: Any = [value] if key is None else {key: value}
            for outer in reversed(rest):
                inner = {outer: inner}
            return _insert(text, node, inner, name)
        node = node.members[name]
    return _insert(text, node, value, key)


def _insert(text: str, node: JsonNode, value: Any, key: str | None) -> str:  # noqa: ANN401 (any JSON)
    if not isinstance(node.value, dict if key is not None else list):
        raise TypeError(f"{text[node.start : node.start + 20]!r} is not {'an object' if key is not None else 'a list'}")
    match = re.search(r"[{\[]\r?\n([ \t]+)", text)
    unit = match.group(1) if match else "  "  # the indentation of one level
    base = _indent_of(text, node.start)
    label = "" if key is None else f"{json.dumps(key)}: "
    is_flat = "\n" not in text.strip() and bool(parse(text).children)
    depth = None if is_flat else unit
    written = label + json.dumps(value, indent=depth, ensure_ascii=False).replace("\n", f"\n{base}{unit}")
    if not node.children:
        inside = written if is_flat else f"\n{base}{unit}{written}\n{base}"
        return text[: node.start + 1] + inside + text[node.end - 1 :]
    last = node.children[-1].end
    is_inline = "\n" not in text[node.start : node.starts[-1]]
    gap = " " if is_inline else f"\n{_indent_of(text, node.starts[-1])}"
    return f"{text[:last]},{gap}{written}{text[last:]}"


def drop(text: str, where: tuple[str | int, ...]) -> str:
    """Remove the value at `where`, and containers that become empty, except the outermost."""
    nodes = [parse(text)]
    for step in where:
        nodes.append(nodes[-1].members[step] if isinstance(step, str) else nodes[-1].items[step])
    while len(nodes) > 2 and len(nodes[-2].children) == 1:
        nodes.pop()
    holder, gone = nodes[-2], nodes[-1]
    place = next(number for number, child in enumerate(holder.children) if child is gone)
    if len(holder.children) == 1:
        return text[: holder.start + 1] + text[holder.end - 1 :]
    if place == 0:
        return text[: holder.starts[0]] + text[holder.starts[1] :]
    return text[: holder.children[place - 1].end] + text[gone.end :]


def _indent_of(text: str, at: int) -> str:
    """Return the blanks at the beginning of the line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
