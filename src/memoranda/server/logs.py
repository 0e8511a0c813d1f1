"""Logging as JSON Lines. Neither content nor secrets are ever logged."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from memoranda.model.clock import EPOCH
from memoranda.server.settings import LogLevel

REQUESTS = "memoranda.requests"
"""The logger with a line for each request."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, with the fields of `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
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
    """Drops uvicorn's warnings about connection upgrades, which any client can trigger."""

    _DROPPED = ("Unsupported upgrade request", "No supported WebSocket library")

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        return not str(record.msg).startswith(self._DROPPED)


def log_configuration(level: LogLevel) -> dict[str, Any]:
    """Return the logging configuration of a server and its workers: JSON Lines on stderr."""
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
