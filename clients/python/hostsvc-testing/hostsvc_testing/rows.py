"""Valid rows with as few words as possible: the fields that a test does not name have plain values."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from storage.ids import new_id
from storage.model import (
    Agent,
    AgentStatus,
    Organization,
    Priority,
    Purpose,
    ReasoningEffort,
    Source,
    Template,
)
from storage.notifications.notifications import NewNotification

# Later than any time that the database takes from its own clock, whenever the tests run.
NOW = datetime(2126, 11, 21, 9, 0, tzinfo=UTC)


def organization(**fields: Any) -> Organization:
    return replace(Organization(id=new_id(), name="Analytical Engines", created_at=NOW), **fields)


def template(organization_id: UUID, **fields: Any) -> Template:
    defaults = Template(
        id=new_id(),
        organization_id=organization_id,
        name="Concierge",
        description="",
        system_prompt="Be kind.",
        default_model="builtin/inbox",
        default_reasoning_effort=ReasoningEffort.NONE,
        thinking_max_tokens=0,
        max_turns=0,
        debounce_window_seconds=0,
        harness_git_ref="",
        agent_created_webhook_url="",
        tool_call_secret="",
        created_at=NOW,
    )
    return replace(defaults, **fields)


def agent(organization_id: UUID, **fields: Any) -> Agent:
    defaults = Agent(
        id=new_id(),
        organization_id=organization_id,
        template_id=None,
        template_name=None,
        parent_id=None,
        parent_name="",
        adapters=(),
        tags=(),
        name="Scout",
        model="builtin/inbox",
        created_at=NOW,
        timezone="UTC",
        system_prompt="",
        email_alias=None,
        max_turns=0,
        max_sleep_hours=None,
        harness_git_ref=None,
        reasoning_effort="",
        debounce_window_seconds=None,
        call_voice_id="",
        purpose=Purpose.PRODUCTION,
        status=AgentStatus.SLEEPING,
        sleep_until=None,
        run_started_at=None,
        last_wake_reason="",
        last_wake_interrupted_sleep_until=None,
    )
    return replace(defaults, **fields)


def new_notification(agent_id: UUID, **fields: Any) -> NewNotification:
    """Make a notification: by default a high one from the API."""
    defaults = NewNotification(
        id=new_id(),
        agent_id=agent_id,
        source=Source.API,
        source_id="",
        title="Look here",
        body="",
        priority=Priority.HIGH,
        created_at=NOW,
        scheduled_for=None,
    )
    return replace(defaults, **fields)
