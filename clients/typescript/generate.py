# ruff: noqa: INP001 (a script beside a package of another language)
"""Make the TypeScript types from the OpenAPI document: `python generate.py [--check]`. It knows no route by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeAlias

from leasehold.server.api.openapi import document

Json: TypeAlias = dict[str, Any]
TARGET = Path(__file__).parent / "src" / "openapi.d.ts"
HEAD = "// Made from the OpenAPI document by generate.py. Do not edit: change the server's types and run it again.\n"
PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}
STREAM = "text/event-stream"


def type_of(schema: Json) -> str:
    """A schema as a TypeScript type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_of(each) for each in schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(type_of({**schema, "type": each}) for each in kind)
    if kind == "array":
        inner = type_of(schema.get("items", {}))
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object" and "properties" in schema:
        return "{ " + " ".join(_fields(schema)) + " }"
    return "Record<string, unknown>" if kind == "object" else PLAIN.get(str(kind), "unknown")


def _fields(schema: Json) -> list[str]:
    required = schema.get("required", [])
    return [f"{name}{'' if name in required else '?'}: {type_of(each)};" for name, each in schema["properties"].items()]


def _described(schema: Json) -> str:
    lines = zip(schema["properties"].values(), _fields(schema), strict=True)
    return "".join(f"{_says(each.get('description'), '  ')}  {field}\n" for each, field in lines)


def _interface(name: str, schema: Json) -> str:
    fields = _described(schema) if "properties" in schema else ""
    return f"{_says(schema.get('description'), '')}export interface {name} {{\n{fields}}}\n"


def _says(text: str | None, indent: str) -> str:
    return f"{indent}/** {' '.join(text.split())} */\n" if text else ""


def _operation(method: str, path: str, operation: Json) -> str:
    parts = []
    if "requestBody" in operation:
        parts.append(f"body: {type_of(_content(operation['requestBody']))};")
    if operation.get("parameters"):
        fields = {each["name"]: each["schema"] for each in operation["parameters"]}
        required = [each["name"] for each in operation["parameters"] if each["required"]]
        parts.append(f"query: {type_of({'type': 'object', 'properties': fields, 'required': required})};")
    parts.append(f"answer: {type_of(_content(operation['responses']['200']))};")
    said = _says(operation.get("summary"), "  ")
    return f'{said}  "{method.upper()} {path}": {{ {" ".join(parts)} }};\n'


def _content(holder: Json) -> Json:
    schema: Json = next(iter(holder["content"].values())).get("schema", {})
    return schema


def generate() -> str:
    """The whole file."""
    told = document()
    types = [_interface(name, schema) for name, schema in told["components"]["schemas"].items()]
    routes = [
        _operation(method, path, operation)
        for path, methods in told["paths"].items()
        for method, operation in methods.items()
        if STREAM not in operation["responses"]["200"]["content"]  # it never ends, so there is no answer to wait for
    ]
    paths = "/** Every route that has an answer: what it takes, and what it answers when it is a yes. */\n"
    return "\n".join((HEAD, *types, f"{paths}export interface Routes {{\n{''.join(routes)}}}\n"))


def main(words: list[str]) -> int:
    """Write the file, or say whether it is current."""
    text = generate()
    if "--check" not in words:
        TARGET.write_text(text)
        return 0
    if TARGET.exists() and TARGET.read_text() == text:
        return 0
    sys.stdout.write(f"not current: {TARGET.name}; run: python clients/typescript/generate.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
