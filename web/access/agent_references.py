"""The ids in an agent's body: that they exist and belong to its organization."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from storage.errors import Circle, ConstraintError, NotUnique, ReferenceMissing
from storage.model import Agent, Template
from storage.storage import Storage
from web.errors import Invalid, PermissionDenied
from web.fields import unknown_id

NO_CIRCLES = "An agent may not be its own ancestor."


@dataclass(frozen=True, slots=True)
class References:
    """What a body names; None for what it does not."""

    template: Template | None
    parent: Agent | None


async def resolve(storage: Storage, organization_id: UUID, body: Mapping[str, Any]) -> References:
    """The named template and parent of an agent.

    Invalid for ids that name nothing, PermissionDenied for another organization's.
    """
    template_id, parent_id = body.get("template_id"), body.get("parent_id")
    template = await storage.templates.get(template_id) if template_id else None
    parent = await storage.agents.get(parent_id) if parent_id else None
    adapters = body.get("adapters", ())
    visible = await storage.agents.classify_adapters(organization_id, adapters) if adapters else {}

    unknown: dict[str, Any] = _unknown_items(adapters, visible)
    if template_id and template is None:
        unknown["template"] = [unknown_id(template_id)]
    if parent_id and parent is None:
        unknown["parent"] = [unknown_id(parent_id)]
    if unknown:
        raise Invalid(unknown)

    owners = {named.organization_id for named in (template, parent) if named is not None}
    if owners - {organization_id} or not all(visible.values()):
        raise PermissionDenied
    return References(template, parent)


def _unknown_items(adapters: Sequence[UUID], known: Mapping[UUID, bool]) -> dict[str, Any]:
    messages = {
        index: [unknown_id(adapter)] for index, adapter in enumerate(adapters) if adapter not in known
    }
    return {"adapters": messages} if messages else {}


def refusal(error: ConstraintError, body: Mapping[str, Any]) -> Invalid:
    """What the data forbade though the checks had passed: a taken alias, or what was deleted meanwhile."""
    match error:
        case Circle():
            return Invalid({"parent": [NO_CIRCLES]})
        case NotUnique():
            return Invalid({field: [f"agent with this {field} already exists."] for field in error.fields})
        case ReferenceMissing(field="template" | "parent" as field):
            return Invalid({field: [unknown_id(body[f"{field}_id"])]})
        case _:
            return Invalid({"adapters": ["Invalid pk - object does not exist."]})
