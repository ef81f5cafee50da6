"""The frozen noun that every model type is made of; it must stay cheap to import.

``typing.NamedTuple`` costs 10 ms of a fresh interpreter's 10 ms start-up, because ``typing`` brings
``re`` and ``enum`` along, and a one-shot ``leasehold acquire`` pays that on every call. Type checkers
see the real ``NamedTuple``; at run time the same class comes from ``collections``, which SQLite's
binding imports anyway (docs/adr/0004).
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as Noun
else:

    class _NounType(type):
        """Builds a named tuple from the annotations of a class body."""

        def __new__(mcls, name, bases, body):  # noqa: ANN001, ANN204 (type checkers see NamedTuple)
            if not bases:
                return super().__new__(mcls, name, bases, body)
            fields = list(body.get("__annotations__", ()))
            defaults = [body[field] for field in fields if field in body]
            noun = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024
            for key, value in body.items():
                if key not in fields and key not in ("__annotations__", "__module__", "__qualname__"):
                    setattr(noun, key, value)
            return noun

    class Noun(metaclass=_NounType):
        """Base of the model's types: ``class Point(Noun): x: int``."""


__all__ = ["Noun"]
