"""New agents, however they are created: their models, the fields that nobody gives, what parents are told."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.ids import new_id
from storage.model import Agent, AgentStatus, Notification, Priority, Source, Template
from storage.storage import Storage
from supervisors.errors import UnusableModel
from supervisors.policy.decisions import refusing_cap
from supervisors.ports import KnownModels

UNPRICED = (
    "The price of {model} is not known, and the spending cap of the {owner} refuses such models. Set "
    '`unpriced` of the {owner} to "allow", or have the operator set a price in [models.{provider}.prices].'
)

SUPERVISOR_FIELD_DEFAULTS: dict[str, Any] = {
    "paused": False,
    "status": AgentStatus.SLEEPING,
    "sleep_until": None,
}
# Only runs change these: a value that a client gives is checked, but has no effect.
RUN_FIELD_DEFAULTS: dict[str, Any] = {
    "run_started_at": None,
    "last_wake_reason": "",
    "last_wake_interrupted_sleep_until": None,
}


def unpriced(catalog: KnownModels, model: str, owner: str) -> UnusableModel:
    """Return the error for a model without a price, which the cap of the owner refuses."""
    model = catalog.qualify(model)
    return UnusableModel(UNPRICED.format(model=model, owner=owner, provider=model.partition("/")[0]))


async def require_usable_model(
    catalog: KnownModels | None,
    stores: Storage,
    organization_id: UUID,
    agent: Mapping[str, Any],
    template: Template | None,
    now: datetime,
    *,
    is_new: bool = True,
) -> None:
    """Raise UnusableModel if an agent with these fields could make no model call.

    Without a catalog the agents' own code calls the models, and any may be named. `is_new`: the model was not
    checked before, so its provider might be unknown, too.
    """
    if catalog is None:
        return
    if is_new:
        catalog.require_known(agent["model"])
    if await catalog.is_priced(agent["model"], now):
        return
    organization = await stores.organizations.get(organization_id)
    if organization is not None:
        owner = refusing_cap(agent["max_cost_usd_per_day"], agent["unpriced"], template, organization)
        if owner:
            raise unpriced(catalog, agent["model"], owner)


def build_agent(
    settings: Mapping[str, Any],
    organization_id: UUID,
    template: Template | None,
    parent: Agent | None,
    now: datetime,
) -> Agent:
    """Return a new agent that sleeps, with these settings, among them the ids of its template and parent."""
    lists = {"tags": tuple(settings["tags"]), "adapters": tuple(dict.fromkeys(settings["adapters"]))}
    return Agent(
        id=new_id(),
        organization_id=organization_id,
        template_name=template.name if template else None,
        parent_name=parent.name if parent else "",
        created_at=now,
        **{**settings, **lists},
        **SUPERVISOR_FIELD_DEFAULTS,
        **RUN_FIELD_DEFAULTS,
    )


def parent_notification(agent: Agent) -> Notification | None:
    """Return the notification for the agent's parent, if it has one. Its low priority wakes nobody."""
    if agent.parent_id is None:
        return None
    return Notification(
        id=new_id(),
        organization_id=agent.organization_id,
        agent_id=agent.parent_id,
        source=Source.SYSTEM,
        source_id=str(agent.id),
        title="Agent created",
        body=f"{agent.name} was created with this agent as its parent.",
        priority=Priority.LOW,
        created_at=agent.created_at,
        scheduled_for=None,
        cleared=False,
        cleared_at=None,
        activated_at=None,
    )
