"""Why a supervisor could not do what it was asked.

SupervisorError
├── AgentGone           no such agent (any more)
├── AgentArchived       the agent is archived: it starts no run
├── RunIsOver           the run that asks has ended, or is being stopped
└── TryAgainLater       nothing was done; the same question may succeed soon
    ├── MailboxFull     too many unanswered questions to this agent
    └── NoStarts        the service is shutting down, or another instance may lead
"""


class SupervisorError(Exception):
    """A supervisor could not do what it was asked."""


class AgentGone(SupervisorError):
    """There is no such agent (any more)."""


class AgentArchived(SupervisorError):
    """The agent is archived; restore it first (PATCH status to sleeping)."""


class RunIsOver(SupervisorError):
    """This run has ended or is being stopped; it may not sleep any more."""


class TryAgainLater(SupervisorError):
    """Nothing was done; try again in `retry_after_seconds`."""

    retry_after_seconds = 1


class MailboxFull(TryAgainLater):
    """Too many questions to this agent wait for an answer."""


class NoStarts(TryAgainLater):
    """No run may start: the service is shutting down, or another instance may lead."""

    retry_after_seconds = 5
