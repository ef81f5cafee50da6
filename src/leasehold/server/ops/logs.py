"""Structured logs on standard error: one line a record, as JSON or as text. No secret is ever logged, and no body."""

from __future__ import annotations

import json
import logging
import sys
import time

FORMATS = ("json", "text")
_USUAL = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
"""Fields of every record. All others come from the code that logs, as `extra`."""


def _at(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _given(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL and value is not None}


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_given(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class TextLines(logging.Formatter):
    """Formats a record for people: time, level, message, and the fields that came with it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        fields = [f"{name}={json.dumps(value, default=str)}" for name, value in _given(record).items()]
        # A name from a client may have line breaks or terminal escapes: as JSON they are inert.
        message = json.dumps(record.getMessage(), ensure_ascii=False)[1:-1]
        line = " ".join([_at(record), f"{record.levelname.lower():7}", message, *fields])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def begin(format_: str = "json") -> None:
    """Log to standard error from now on, as `json` or as `text`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if format_ == "text" else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # malformed requests must not fill the disk
    logging.getLogger("mcp").setLevel(logging.WARNING)  # nor connections; and the messages of agents are private
