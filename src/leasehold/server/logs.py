"""Structured logs: one JSON object a line, on standard error. No secret ever gets here: bodies are not logged."""

from __future__ import annotations

import json
import logging
import sys
import time

_FIELDS = ("url",)
"""What a record may say besides its message."""


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        told: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told.update({name: getattr(record, name) for name in _FIELDS if hasattr(record, name)})
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told)


def begin() -> None:
    """From now on, everything that is logged goes to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # whoever sends nonsense must not fill the disk
    logging.getLogger("mcp").setLevel(logging.WARNING)  # nor whoever connects; what agents sent is theirs
