"""A noun is made like a named tuple, whether its constructor was compiled already or not."""

from __future__ import annotations

import ast
import pickle
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from leasehold.domain import commands
from leasehold.domain import nouns as noun
from leasehold.domain.entries import Hold, Put, Ref
from leasehold.domain.nouns import Noun, new
from tests.kit.nouns import NOUNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Given = tuple[tuple[int, ...], Mapping[str, int]]


class Model(NamedTuple):
    """What it must be like."""

    x: int
    y: int = 3
    z: int = 4


RIGHT: list[Given] = [
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 9), {}),
    ((), {"x": 1}),
    ((1,), {"z": 7}),
    ((), {"z": 7, "x": 1}),
    ((1, 2), {"z": 5}),
]
WRONG: list[Given] = [
    ((), {}),
    ((), {"y": 1}),
    ((1, 2, 3, 4), {}),
    ((1,), {"x": 2}),
    ((1, 2, 3), {"z": 3}),
    ((1,), {"q": 2}),
    ((1, 2, 3), {"q": 2}),
]


def fresh(made: int) -> Any:  # noqa: ANN401 (a class of its own each time, made so many times before)
    class Point(Noun):
        x: int
        y: int = 3
        z: int = 4

    for number in range(made):
        assert Point(number) == (number, 3, 4)
    return Point


@pytest.mark.parametrize("made", [0, 100])
@pytest.mark.parametrize(("args", "kwargs"), RIGHT)
def test_it_is_made_as_a_named_tuple_is(made: int, args: tuple[int, ...], kwargs: Mapping[str, int]) -> None:
    point = fresh(made)(*args, **kwargs)
    assert point == Model(*args, **kwargs)
    assert (point.x, point.y, point.z) == Model(*args, **kwargs)


@pytest.mark.parametrize("made", [0, 100])
@pytest.mark.parametrize(("args", "kwargs"), WRONG)
def test_wrong_arguments_are_refused_as_a_named_tuple_does(
    made: int, args: tuple[int, ...], kwargs: Mapping[str, int]
) -> None:
    with pytest.raises(TypeError) as expected:
        Model(*args, **kwargs)
    with pytest.raises(TypeError) as said:
        fresh(made)(*args, **kwargs)
    assert str(said.value).partition("__new__()")[2] == str(expected.value).partition("__new__()")[2]


def test_a_few_instances_compile_nothing_and_many_do(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    real = noun._constructor  # type: ignore[attr-defined] # not for type checkers

    def noticed(kind: object) -> object:
        compiled.append(kind)
        return real(kind)

    monkeypatch.setattr(noun, "_constructor", noticed)
    point = fresh(10)
    assert compiled == []
    for number in range(100):
        point(number)
    assert compiled == [point]


def test_it_survives_a_change_and_a_pickle() -> None:
    put = Put("na", Ref("x"))
    assert put._replace(key="nb") == Put("nb", Ref("x"))
    assert pickle.loads(pickle.dumps(put)) == put


def test_it_is_of_an_ordinary_class() -> None:
    assert type(Put) is type
    assert not isinstance(Ref("x"), Hold)


def test_without_its_constructor_it_is_the_same() -> None:
    put = new(Put, ("na", Ref("x")))
    assert put == Put("na", Ref("x"))
    assert type(put) is Put


class Direct(NamedTuple):
    """A noun that is made of a tuple, by `new`."""

    where: str
    function: str
    kind: Any
    values: int


@cache
def made_directly() -> list[Direct]:
    sources = Path(__file__).parents[2] / "src" / "leasehold"
    return [
        each
        for path in sorted(sources.rglob("*.py"))
        if path.name != "nouns.py"
        if "new(" in (text := path.read_text(encoding="utf-8"))
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for each in _made_in(function, path)
    ]


def _made_in(function: ast.FunctionDef, path: Path) -> Iterator[Direct]:
    nodes = list(ast.walk(function))
    assigned = [(each.targets[0], each.value) for each in nodes if isinstance(each, ast.Assign)]
    tuples = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "new":
            kind, values = node.args
            name = kind.attr if isinstance(kind, ast.Attribute) else ast.unparse(kind)
            told = tuples[values.id] if isinstance(values, ast.Name) else values
            where = f"{path.name}:{node.lineno}"
            assert isinstance(told, ast.Tuple), where
            assert not any(isinstance(each, ast.Starred) for each in told.elts)
            noun = NOUNS.get(name) or getattr(commands, name)
            yield Direct(where, f"{path.name}:{function.name}", noun, len(told.elts))


def test_what_is_made_without_its_constructor_has_all_fields() -> None:
    assert made_directly()
    assert [each for each in made_directly() if each.values != len(each.kind._fields)] == []


def test_only_the_five_hottest_functions_do_without_constructors() -> None:
    assert len({each.function for each in made_directly()}) <= 5
