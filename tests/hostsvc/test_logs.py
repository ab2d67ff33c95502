"""Logging: the form of the lines, and the secrets that they hide."""

import errno
import io
import json
import logging
import re
import sys
import threading
import warnings
from typing import Any

import pytest
import structlog

from hostsvc.logs import LogSettings, configure_logging, log_uncaught_errors


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream() -> io.StringIO:
    """A stream to which the lines of the process go."""
    stream = io.StringIO()
    configure_logging(LogSettings(), stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_line_is_json_with_level_time_logger_and_context(stream: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        structlog.get_logger("storage.postgres.pool").warning("connection lost", attempt=2)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "connection lost",
        "attempt": 2,
        "request_id": "r-1",
        "logger": "storage.postgres.pool",
        "level": "warning",
    }


def test_line_of_a_library_has_the_same_form(stream: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        logging.getLogger("aiohttp.server").error("bad %s", "request", extra={"peer": "::1"})
    (line,) = lines(stream)
    assert (line["event"], line["peer"], line["request_id"]) == ("bad request", "::1", "r-1")


def test_lines_below_the_level_are_omitted() -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(level="error"), stream)
    structlog.get_logger("ours").warning("not shown")
    logging.getLogger("theirs").warning("not shown")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("key", ["token", "password", "authorization", "api_key"])
def test_value_under_a_secret_key_is_hidden(key: str, stream: io.StringIO) -> None:
    structlog.get_logger("ours").info("logged in", **{key: "hunter2"})
    logging.getLogger("theirs").info("logged in", extra={key: "hunter2"})
    assert [line[key] for line in lines(stream)] == ["(hidden)", "(hidden)"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_traceback_has_no_local_variables(form: Any) -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(format=form), stream)
    password = "hunter2"
    try:
        raise RuntimeError(f"a password of {len(password)} characters")
    except RuntimeError:
        structlog.get_logger("ours").exception("failed")
    assert "RuntimeError: a password of 7 characters" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_terminal_gets_readable_lines_unless_json_is_configured() -> None:
    terminal, json_terminal = Terminal(), Terminal()
    configure_logging(LogSettings(), terminal)
    structlog.get_logger("ours").info("ready", port=80)
    configure_logging(LogSettings(format="json"), json_terminal)
    structlog.get_logger("ours").info("ready", port=80)
    assert not terminal.getvalue().startswith("{")
    assert lines(json_terminal)[0]["port"] == 80


def test_warning_is_logged() -> None:
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging(LogSettings(), stream)
        warnings.warn("careful", UserWarning, stacklevel=1)
        logging.captureWarnings(False)
    (line,) = lines(stream)
    assert "careful" in line["event"]


FORGED = "a\r\n2026-01-01 [error    ] forged\x1b]0;title\x07\x1b[2J\u2028\x9b31m"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_text_of_others_cannot_forge_a_line(*, is_terminal: bool) -> None:
    stream = Terminal() if is_terminal else io.StringIO()
    configure_logging(LogSettings(), stream)
    log = structlog.get_logger("web")
    log.warning("request refused", reason=FORGED, path=[FORGED])
    logging.getLogger("aiohttp.server").error("bad %s", FORGED, extra={"peer": FORGED})
    text = stream.getvalue()
    assert len(text.splitlines()) == 2, text
    assert "forged" in text
    plain = re.sub(r"\x1b\[\d*m", "", text)  # without the colours
    assert all(character.isprintable() for character in plain.replace("\n", "")), repr(plain)


def test_traceback_on_a_terminal_keeps_its_lines_only() -> None:
    stream = Terminal()
    configure_logging(LogSettings(), stream)
    try:
        raise ValueError(FORGED)
    except ValueError:
        structlog.get_logger("web").exception("request failed")
    text = stream.getvalue()
    assert "Traceback (most recent call last):\n" in text
    assert "\x1b]0;" not in text
    assert "\x9b" not in text


def test_line_names_the_module_that_logs(stream: io.StringIO) -> None:
    structlog.get_logger().warning("here")
    assert lines(stream)[0]["logger"] == __name__


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_log_that_cannot_be_written_ends_nothing() -> None:
    configure_logging(LogSettings(), FullDisk())
    structlog.get_logger("ours").warning("lost")


def test_uncaught_errors_of_interpreter_and_threads_are_logged(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    for module, name in ((sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, name, getattr(module, name))  # to be restored
    log_uncaught_errors()
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    sys.excepthook(LookupError, LookupError("a bug"), None)
    errors = [(line["event"], line["level"], line["exception"].splitlines()[-1]) for line in lines(stream)]
    assert errors == [
        ("uncaught error", "critical", "ZeroDivisionError: integer division or modulo by zero"),
        ("uncaught error", "critical", "LookupError: a bug"),
    ]


@pytest.mark.parametrize("value", ["\ud800", "Zoë\u2028", 2**70, {1, 2}, {1: 2}, float("nan")])
def test_every_value_makes_a_line_of_ascii(value: Any, stream: io.StringIO) -> None:
    structlog.get_logger("ours").info("said", value=value)
    assert stream.getvalue().isascii()
    [line] = lines(stream)
    assert (line["event"], "value" in line) == ("said", True)
