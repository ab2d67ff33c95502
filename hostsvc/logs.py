"""Logging: our lines and those of libraries go to stderr, as JSON or, on a terminal, as readable text."""

import logging
import sys
from dataclasses import dataclass
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from web.observability.request_id import name_request

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
    """`auto` is `console` on a terminal and `json` elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


def configure_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send every log line of the process, with its bound context variables, to `stream` (None: stderr)."""
    stream = stream or sys.stderr
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    console = settings.format == "console" or (settings.format == "auto" and stream.isatty())
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
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(console, stream),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # httpx2 logs a line for each model call; the span of the call says more.
    logging.getLogger("httpx2").setLevel(max(level, logging.WARNING))
    logging.captureWarnings(True)


def _renderers(console: bool, stream: TextIO) -> list[Processor]:
    # Both use plain tracebacks: rich ones print local variables, which may hold secrets.
    if console:
        return [
            escape_control_characters,
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


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
