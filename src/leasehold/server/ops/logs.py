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
        """Return the line."""
        told: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said = vars(record)
        told.update({name: said[name] for name in _FIELDS if name in said})
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told)


def begin() -> None:
    """Write everything that is logged to standard error as JSON lines, from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # clients that send nonsense must not fill the disk
    logging.getLogger("mcp").setLevel(logging.WARNING)  # nor clients that connect; and what agents sent is theirs
