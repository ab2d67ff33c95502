"""Logging: our lines and those of libraries go to stderr, as JSON or, on a terminal, as readable text."""

import logging
import sys
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from web.observability.request_id import name_request

log = structlog.get_logger()

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
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    renderers = _renderers(not settings.is_json(stream), stream)
    handler = _LineHandler(stream)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        name_request,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_LineLogger,
        cache_logger_on_first_use=True,
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # httpx2 logs a line for each model call; the span of the call says more.
    logging.getLogger("httpx2").setLevel(max(level, logging.WARNING))
    logging.captureWarnings(True)


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes to the stream: records of libraries, and the finished lines of our own."""

    def write(self, line: str) -> None:
        """Write a line. A log that cannot be written does not end what it reports on."""
        self.acquire()
        try:
            self.stream.write(f"{line}\n")
            self.flush()
        except (OSError, ValueError):  # the disk is full, the reader has gone, or the stream is closed
            pass
        finally:
            self.release()


class _LineLogger:
    """Passes finished lines to the handler. It takes half the time of a logger of the standard library."""

    def __init__(self, *name: str) -> None:
        self.name = _name_after_caller(*name).name

    def write(self, line: str) -> None:
        for handler in logging.root.handlers:
            if isinstance(handler, _LineHandler):
                handler.write(line)

    debug = info = warning = error = critical = write


_name_after_caller = structlog.stdlib.LoggerFactory(ignore_frame_names=[__name__])


def log_uncaught_errors() -> None:
    """Have the interpreter log the errors that it would print, for which nobody else is left."""
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
    return [structlog.processors.format_exc_info, begin_with_event, structlog.processors.JSONRenderer()]


def begin_with_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put first what each line has."""
    return {"timestamp": event["timestamp"], "level": event["level"], "event": event["event"], **event}


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
    for key in SECRET_KEYS & event.keys():
        event[key] = HIDDEN
    return event
