"""Every field and every argument of OpenAPI has a description and an example, and no word is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from leasehold.requests import verbs
from leasehold.requests.descriptions import ARGUMENTS
from leasehold.server.api.openapi import document
from leasehold.wire import table
from leasehold.wire.vocabulary import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_MCP = {"more"}
"""Fields that only the tools' answers have."""


def properties(name: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for field, each in schema.get("properties", {}).items():
        yield f"{name}.{field}", each


def test_every_field_has_a_description_and_an_example() -> None:
    components = document()["components"]["schemas"]
    for name, schema in components.items():
        assert schema["description"], name
        for field, each in properties(name, schema):
            assert each["description"], field
            assert "examples" in each or "$ref" in str(each), field  # another shape has examples of its own


def test_every_example_is_valid() -> None:
    told = document()
    definitions = {"components": told["components"]}
    for name, schema in told["components"]["schemas"].items():
        for field, each in properties(name, schema):
            for example in each.get("examples", ()):
                assert Draft202012Validator({**each, **definitions}).is_valid(example), f"{field}: {example!r}"


def test_every_parameter_and_every_operation_is_described() -> None:
    told = document()
    tags = {each["name"] for each in told["tags"]}
    for methods in told["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert set(operation["tags"]) <= tags
            for each in operation.get("parameters", ()):
                assert each["description"]
                assert Draft202012Validator(each["schema"]).is_valid(each["example"]), each


def test_no_word_of_the_vocabulary_is_left_over() -> None:
    shapes = {name: {field.name for field in table.shape(name).fields} for name in table.NAMES}
    fields = {f"{name}.{field}" for name, each in shapes.items() for field in each} | set().union(*shapes.values())
    assert set(FIELDS) - fields == OF_MCP
    named = {name: {each.name for each in verbs.verb(name).sent} for name in verbs.NAMES}
    arguments = {f"{name}.{each}" for name, every in named.items() for each in every} | set().union(*named.values())
    assert set(ARGUMENTS) - arguments == set()
