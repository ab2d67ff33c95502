"""The error tree of supervisors."""

import pytest
import structlog
from structlog.testing import capture_logs

from storage.errors import DatabaseUnavailable, NoAnswer, NodeEnded, RowLocked, StorageError
from supervisors.errors import MailboxFull, NoStarts, SupervisorError, TryAgainLater, log_failure


@pytest.mark.parametrize(("error", "seconds"), [(MailboxFull, 1), (NoStarts, 5)])
def test_error_to_retry_says_after_how_many_seconds(error: type[TryAgainLater], seconds: int) -> None:
    assert issubclass(error, TryAgainLater)
    assert issubclass(error, SupervisorError)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (DatabaseUnavailable("gone"), "debug"),
        (NoAnswer("no answer in time"), "debug"),
        (NodeEnded("condemned"), "debug"),
        (RowLocked("locked"), "warning"),
        (StorageError("odd"), "warning"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failure_of_the_database_is_logged_for_debugging(error: StorageError, level: str) -> None:
    with capture_logs() as logged:
        log_failure(structlog.get_logger(), "not stored yet", error, count=2)
    assert logged == [{"event": "not stored yet", "log_level": level, "error": str(error), "count": 2}]
