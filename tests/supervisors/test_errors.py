"""The error tree of supervisors."""

import pytest

from supervisors.errors import MailboxFull, NoStarts, SupervisorError, TryAgainLater


@pytest.mark.parametrize(("error", "seconds"), [(MailboxFull, 1), (NoStarts, 5)])
def test_error_to_retry_says_after_how_many_seconds(error: type[TryAgainLater], seconds: int) -> None:
    assert issubclass(error, TryAgainLater)
    assert issubclass(error, SupervisorError)
    assert error.retry_after_seconds == seconds
