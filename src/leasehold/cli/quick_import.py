"""Import the modules of this package with half of importlib's work, for a process that lives for some milliseconds.

A one-shot command imports some sixty modules, and importlib takes as long to find and open one as to run it. The
finder here goes straight to a module's `.pyc`, and leaves everything else (a missing or outdated `.pyc`, compiled
extensions, other packages) to importlib. It makes an acquire a millisecond quicker (docs/adr/0014).
"""

# ruff: noqa: PTH110, PTH116 (pathlib costs a one-shot process more than all of this)

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import extension_suffixes
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

_PYC = f".{sys.implementation.cache_tag}.pyc"
_EXTENSION = extension_suffixes()[0]
"""The end of the name of a compiled module, which comes before its source."""
_HEAD = MAGIC_NUMBER + b"\0\0\0\0"
"""The beginning of a `.pyc` that names the time and size of its source."""


class _QuickLoader(SourceFileLoader):
    """importlib's loader, with the code that the finder has read already."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code: CodeType | None = code

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code, and forget it."""
        code, self._code = self._code, None
        return super().get_code(fullname) if code is None else code


class QuickFinder:
    """Finds modules of this package by their `.pyc`."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG004 (as importlib calls it)
        """Return the module's spec; None leaves the module to importlib."""
        if path is None or not name.startswith("leasehold."):
            return None
        head, tail = path[0], name.rpartition(".")[2]
        if os.path.exists(f"{head}/{tail}{_EXTENSION}"):
            return None
        for folder, stem in ((head, tail), (f"{head}/{tail}", "__init__")):
            source, cached = f"{folder}/{stem}.py", f"{folder}/__pycache__/{stem}{_PYC}"
            code = _code(source, cached)
            if code is None:
                continue
            spec = ModuleSpec(name, _QuickLoader(name, source, code), origin=source, is_package=folder is not head)
            spec.has_location = True
            spec.cached = cached
            if folder is not head:
                spec.submodule_search_locations = [folder]
            return spec
        return None


def _code(source: str, cached: str) -> CodeType | None:
    """Return the code in this `.pyc` if it is that of the source as it is now."""
    try:
        fd = os.open(cached, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.stat(source)
        data = os.read(fd, os.fstat(fd).st_size)
    except OSError:
        return None
    finally:
        os.close(fd)
    numbers = (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    if not data.startswith(_HEAD + b"".join([number.to_bytes(4, "little") for number in numbers])):
        return None
    code: CodeType = loads(memoryview(data)[16:])  # noqa: S302 (as importlib loads it) # nosec B302
    return code if code.co_filename == source else None  # compiled elsewhere: importlib corrects its file name


def install() -> None:
    """Use the finder from now on, if this package is a plain directory."""
    own = sys.modules["leasehold"].__spec__
    if own is not None and type(own.loader) is SourceFileLoader:
        sys.meta_path.insert(0, QuickFinder)
