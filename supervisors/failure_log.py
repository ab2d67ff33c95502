"""One way to log a failure that is tried again."""

import logging

import structlog

from storage.errors import DatabaseUnavailable, LeadershipLost, RowLocked


def log_failure(log: structlog.stdlib.BoundLogger, event: str, error: Exception, **fields: object) -> None:
    """Log the failure as a warning; if the database failed, only for debugging: the write probe reports that.

    Otherwise everything that uses the database would log the same outage, again at each attempt.
    """
    is_outage = isinstance(error, DatabaseUnavailable | LeadershipLost) and not isinstance(error, RowLocked)
    log.log(logging.DEBUG if is_outage else logging.WARNING, event, error=str(error), **fields)
