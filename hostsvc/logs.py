"""Logging: our lines and those of libraries go to stderr, as JSON or, on a terminal, as readable text."""

import json
import logging
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from supervisors.clock import SystemClock
from supervisors.text import format_timestamp
from web.observability.requests import name_request

log = structlog.get_logger()

CLOCK = SystemClock()
ENCODER = json.JSONEncoder(default=repr, separators=(",", ":"))
LEVELS = {"warn": "warning", "exception": "error"}  # of methods whose names differ
HIDDEN = "(hidden)"
SECRET_KEYS = frozenset(
    {
        "api_key",
        "authorization",
        "encryption_keys",
        "key",
        "key_hash",
        "password",
        "secret",
        "token",
        "token_secret",
        "tool_call_secret",
    },
)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """`auto` is `console` on a terminal and `json` elsewhere. `access`: whether each request has a line."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"
    access: bool = False

    def is_json(self, stream: TextIO) -> bool:
        """Return whether the lines on this stream are JSON."""
        return self.format == "json" or (self.format == "auto" and not stream.isatty())


def configure_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send every log line of the process, with its bound context variables, to `stream` (None: stderr)."""
    stream = stream or sys.stderr
    renderers = _renderers(not settings.is_json(stream), stream)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),  # the level may change later
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
            processors=[complete, structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    logging.raiseExceptions = False  # a log that cannot be written does not end what it reports on
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(settings)
    logging.captureWarnings(True)


def set_level(settings: LogSettings) -> None:
    """Log lines of at least this level from now on."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    logging.getLogger().setLevel(level)
    # httpx2 logs a line for each model call; the span of the call says more.
    logging.getLogger("httpx2").setLevel(max(level, logging.WARNING))


def log_uncaught_errors() -> None:
    """Log the uncaught errors that the interpreter would otherwise print."""
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda error: _log_uncaught(error.exc_type, error.exc_value, error.exc_traceback)
    sys.unraisablehook = lambda error: _log_uncaught(error.exc_type, error.exc_value, error.exc_traceback)


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    log.critical("uncaught error", exc_info=(kind, error or kind(), traceback))


def _renderers(console: bool, stream: TextIO) -> list[Processor]:
    # Both use plain tracebacks: rich ones print local variables, which may hold secrets.
    if console:
        return [
            escape_control_characters,
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    return [render_json]


def complete(logger: Any, method: str, event: EventDict) -> EventDict:
    """Add what every line has, and hide secrets.

    One function does it all, because the steps of a chain cost more than their work, and each run has two
    lines.
    """
    line = {
        "timestamp": format_timestamp(CLOCK.now()),
        "level": LEVELS.get(method, method),
        "event": event["event"],
        **structlog.contextvars.get_contextvars(),
        **event,
        "logger": event["_record"].name,
    }
    return hide_secrets(logger, method, name_request(logger, method, line))


def render_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Return the line as JSON in ASCII, so that no terminal and no reader finds other ends of lines in it."""
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    with suppress(TypeError):  # half a surrogate pair, or a number of more than 64 bits
        line = orjson.dumps(event, default=repr)
        if line.isascii():
            return line.decode()
    return ENCODER.encode(event)


def escape_control_characters(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape what would act on a terminal or begin a new line; JSON does so by itself.

    A traceback becomes text here, and keeps its lines.
    """
    event = structlog.processors.format_exc_info(_logger, _method, event)
    for key, value in event.items():
        text = value if isinstance(value, str) else None
        if text is not None and not text.isprintable():
            lines = text.split("\n") if key == "exception" else [text]
            event[key] = "\n".join(map(_escaped, lines))
    return event


def _escaped(text: str) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace values under SECRET_KEYS, as a last line of defence."""
    if not SECRET_KEYS.isdisjoint(event):
        for key in SECRET_KEYS & event.keys():
            event[key] = HIDDEN
    return event
