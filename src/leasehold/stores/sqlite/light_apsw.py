"""Loads SQLite's binding, and for a one-shot process nothing else. It must come before any other `import apsw`.

All that apsw takes from `collections` when it is loaded is an abstract class of `collections.abc`, which every
interpreter has in memory already under another name. The package around it is a fifth of all the code that a plain
`leasehold acquire` would load (docs/adr/0014).
"""

from __future__ import annotations

import _collections_abc
import sys

__all__ = ["apsw"]

SPARED = ("collections", "collections.abc")


def _load_alone() -> None:
    # No other thread can come by meanwhile: `threading` would have imported `collections`.
    sys.modules.update(dict.fromkeys(SPARED, _collections_abc))
    try:
        __import__("apsw")
    except (ImportError, AttributeError):
        pass  # a version that wants more: it is imported again below, with all there is
    finally:
        for name in SPARED:
            if sys.modules.get(name) is _collections_abc:
                del sys.modules[name]


if "collections" not in sys.modules:
    _load_alone()

import apsw  # noqa: E402 (it is there already, or there was nothing to spare)
