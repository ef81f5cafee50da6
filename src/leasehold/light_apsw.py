"""Import apsw without `collections`, for one-shot processes. Import this before any other `import apsw`.

All that apsw takes from `collections` at import is an abstract class of `collections.abc`, which every interpreter has
in memory under another name. The rest of the package is a fifth of all code that a plain `leasehold acquire` would
load (docs/adr/0014).
"""

from __future__ import annotations

import _collections_abc
import sys

__all__ = ["apsw"]

SPARED = ("collections", "collections.abc")


def _load_alone() -> None:
    # No other thread can import meanwhile: `threading` would have imported `collections`.
    sys.modules.update(dict.fromkeys(SPARED, _collections_abc))
    try:
        __import__("apsw")
    except (ImportError, AttributeError):
        pass  # a version that needs more: it is imported again below, with all of `collections`
    finally:
        for name in SPARED:
            if sys.modules.get(name) is _collections_abc:
                del sys.modules[name]


if "collections" not in sys.modules:
    _load_alone()

import apsw  # noqa: E402 (it is there already, or there was nothing to spare)
