"""Valid rows with as few words as possible: fields that a test does not name have the defaults of the API."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from storage.ids import new_id
from storage.model import Agent, Organization, Priority, Source, Template
from storage.notifications.notifications import NewNotification
from supervisors.new_agents import build_agent
from web.api.agents.agents import AgentBody
from web.api.agents.templates import TemplateBody

# Later than any time that the database takes from its own clock, whenever the tests run.
NOW = datetime(2126, 11, 21, 9, 0, tzinfo=UTC)


def organization(**fields: Any) -> Organization:
    return replace(Organization(id=new_id(), name="Analytical Engines", created_at=NOW), **fields)


def template(organization_id: UUID, **fields: Any) -> Template:
    body = {"name": "Concierge", "system_prompt": "Be kind.", "default_model": "builtin/inbox"}
    plain = TemplateBody().checked(body) | {"environment_secrets": ()}
    return replace(Template(new_id(), organization_id, created_at=NOW, **plain), **fields)


def agent(organization_id: UUID, **fields: Any) -> Agent:
    plain = AgentBody().checked({"name": "Scout", "model": "builtin/inbox"})
    return replace(build_agent(plain, organization_id, None, None, NOW), **fields)


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
