"""Errors of supervisors.

SupervisorError
├── AgentGone           the agent does not exist or was deleted
├── AgentArchived       the agent is archived: it starts no run
├── RunIsOver           the run that sent the request has ended, or is being stopped
├── UnusableModel       no provider has the agent's model, or a spending cap refuses it
└── TryAgainLater       nothing was done; the same request may succeed soon
    ├── MailboxFull     too many requests to this agent wait for an answer
    ├── ChecksPending   too many JSON Schema checks of the organization wait for their turn
    └── NoStarts        this node is shutting down or not confirmed, or no node starts runs
"""

import logging

import structlog

from storage.errors import DatabaseUnavailable, NodeEnded, RowLocked


class SupervisorError(Exception):
    """A supervisor could not do what it was asked."""


class AgentGone(SupervisorError):
    """The agent does not exist or was deleted."""


class AgentArchived(SupervisorError):
    """The agent is archived; restore it first (PATCH status to sleeping)."""


class RunIsOver(SupervisorError):
    """The run has ended or is being stopped, so it can no longer sleep."""


class UnusableModel(SupervisorError):
    """An agent could make no call of its model; the message says why."""


class TryAgainLater(SupervisorError):
    """Nothing was done; try again in `retry_after_seconds`."""

    retry_after_seconds = 1


class MailboxFull(TryAgainLater):
    """Too many requests to this agent wait for an answer."""


class ChecksPending(TryAgainLater):
    """Too many JSON Schema checks of this organization wait for their turn, or this one waited too long."""

    retry_after_seconds = 5


class NoStarts(TryAgainLater):
    """No run may start: this node is shutting down or not confirmed, or no node starts runs."""

    retry_after_seconds = 5


def log_failure(log: structlog.stdlib.BoundLogger, event: str, error: Exception, **fields: object) -> None:
    """Log the failure as a warning; if the database failed, only for debugging: the write probe reports that.

    Otherwise everything that uses the database would log the same outage, again at each attempt.
    """
    is_outage = isinstance(error, DatabaseUnavailable | NodeEnded) and not isinstance(error, RowLocked)
    log.log(logging.DEBUG if is_outage else logging.WARNING, event, error=str(error), **fields)
