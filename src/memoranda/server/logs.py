"""What the server did in, one JSON object a line out. Neither content nor secrets are ever given to it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from memoranda.model.clock import EPOCH, SystemClock
from memoranda.server.settings import LogLevel

REQUESTS = "memoranda.requests"
"""The logger that has a line for each request."""

_REQUEST = logging.LogRecord(REQUESTS, logging.INFO, __file__, 0, "request", None, None).__dict__
_requests = logging.getLogger(REQUESTS)
_clock = SystemClock()


class JsonLines(logging.Formatter):
    """A record as one line of JSON: when, how bad, what, and the fields given as `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        line = {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class WithoutUpgradeWarnings(logging.Filter):
    """Drop uvicorn's warnings about upgrades of a connection, which anybody can ask for and nobody gets here."""

    _DROPPED = ("Unsupported upgrade request", "No supported WebSocket library")

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        return not str(record.msg).startswith(self._DROPPED)


def log_request(fields: dict[str, Any]) -> None:
    """Log what is told of a request that is over.

    As `Logger.info` would, which each time looks for its caller, thread and process: half of what a line takes, and
    all requests have the same.
    """
    if _requests.isEnabledFor(logging.INFO):
        record = logging.LogRecord.__new__(logging.LogRecord)
        created = _clock.now().timestamp()
        record.__dict__.update(_REQUEST, created=created, msecs=created % 1 * 1_000, fields=fields)
        _requests.handle(record)


def log_configuration(level: LogLevel) -> dict[str, Any]:
    """Return how logging is set up in this process and in its workers: all of it as JSON lines on stderr."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "memoranda.server.logs.JsonLines"}},
        "filters": {"upgrades": {"()": "memoranda.server.logs.WithoutUpgradeWarnings"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "json"}},
        "loggers": {
            "memoranda": {"handlers": ["stderr"], "level": level.upper(), "propagate": False},
            "uvicorn": {"handlers": ["stderr"], "level": level.upper(), "propagate": False},
            "uvicorn.error": {"filters": ["upgrades"]},
        },
    }


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC) if seconds else EPOCH
