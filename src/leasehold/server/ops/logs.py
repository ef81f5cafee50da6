"""Structured logs: one JSON object a line, on standard error. No secret is ever logged: bodies are not."""

from __future__ import annotations

import json
import logging
import sys
import time

_FIELDS = ("url",)
"""Fields that a record may have besides its message."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        given = vars(record)
        fields.update({name: given[name] for name in _FIELDS if name in given})
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def begin() -> None:
    """Log to standard error as JSON lines from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # malformed requests must not fill the disk
    logging.getLogger("mcp").setLevel(logging.WARNING)  # nor connections; and the messages of agents are private
