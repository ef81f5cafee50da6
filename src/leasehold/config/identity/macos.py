"""Processes on macOS, by libproc and sysctl: there is no `/proc`."""

from __future__ import annotations

import ctypes
import os
import struct

from leasehold.config.identity.descent import Process

_LIBRARY = "/usr/lib/libSystem.dylib"
_PROC_PIDTBSDINFO = 3
_BSD_INFO = struct.Struct("=12I16s32s6I2Q")
"""`struct proc_bsdinfo` of <sys/proc_info.h>; 136 bytes."""
_STATUS, _PARENT, _COMM, _NAME, _TERMINAL, _SECONDS, _MICROSECONDS = 1, 4, 12, 13, 17, 20, 21
_ZOMBIE = 5
_PATH_MOST = 4_096
"""PROC_PIDPATHINFO_MAXSIZE of <sys/proc_info.h>."""
_KERN, _KERN_PROCARGS2 = 1, 49
_NO_TERMINAL = 0xFFFFFFFF


class MacProcesses:
    """The processes of this Mac. Raises OSError if the system does not answer."""

    is_whole = True

    def __init__(self) -> None:
        self._system = ctypes.CDLL(_LIBRARY, use_errno=True)
        self.place = self._text(b"kern.bootsessionuuid") + "/macos"

    def _text(self, name: bytes) -> str:
        buffer, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        if self._system.sysctlbyname(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            raise OSError(ctypes.get_errno(), "sysctl kern.bootsessionuuid")
        return buffer.value.decode("ascii")

    def read(self, pid: int) -> Process | None:
        """Return a living process; those of other users are hidden from us."""
        buffer = ctypes.create_string_buffer(_BSD_INFO.size)
        size = self._system.proc_pidinfo(
            ctypes.c_int(pid), ctypes.c_int(_PROC_PIDTBSDINFO), ctypes.c_uint64(0), buffer, ctypes.c_int(_BSD_INFO.size)
        )
        if size != _BSD_INFO.size:
            return None
        info = _BSD_INFO.unpack(buffer.raw)
        if info[_STATUS] == _ZOMBIE:
            return None
        name = (info[_NAME] or info[_COMM]).partition(b"\0")[0] or info[_COMM].partition(b"\0")[0]
        try:
            session = os.getsid(pid)
        except OSError:
            return None
        start = f"{info[_SECONDS]}.{info[_MICROSECONDS]:06}"
        terminal = info[_TERMINAL]
        told = f"ttys{terminal & 0xFFFFFF:03}" if terminal not in (0, _NO_TERMINAL) else ""
        return Process(pid, start, info[_PARENT], session, told, name.decode("utf-8", "replace"))

    def words(self, pid: int) -> list[str]:
        """Return the command line of a process, parsed from KERN_PROCARGS2."""
        query = (ctypes.c_int * 3)(_KERN, _KERN_PROCARGS2, pid)
        buffer, size = ctypes.create_string_buffer(65_536), ctypes.c_size_t(65_536)
        if self._system.sysctl(query, 3, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            return []
        text = buffer.raw[: size.value]
        count = int.from_bytes(text[:4], "little") if len(text) > 4 else 0
        words = text[4:].partition(b"\0")[2].lstrip(b"\0").split(b"\0")
        return [word.decode("utf-8", "replace") for word in words[:count]]

    def program(self, pid: int) -> str:
        """Return the path of a process's program, with its links resolved."""
        buffer = ctypes.create_string_buffer(_PATH_MOST)
        size = self._system.proc_pidpath(ctypes.c_int(pid), buffer, ctypes.c_uint32(_PATH_MOST))
        return buffer.raw[: max(0, size)].decode("utf-8", "replace")
