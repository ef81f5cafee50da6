"""Where benchmarks keep what they write: on the disk of the working directory, and gone afterwards. Measures nothing.

Below the working directory, since a temporary directory may be in memory, where every fsync is free; and in `build`,
which git does not look at, in case nobody is left to remove it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

HERE = Path.cwd() / "build"


def folder() -> tempfile.TemporaryDirectory[str]:
    """A directory of one's own, until the end of the block."""
    HERE.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="bench-", dir=HERE)
