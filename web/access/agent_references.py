"""The ids that the body of an agent refers to: they must exist and belong to its organization."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from storage.errors import ConstraintError, NotUnique, ParentCycle, ReferenceMissing
from storage.model import Agent, Template
from storage.storage import Storage
from web.errors import Invalid, PermissionDenied
from web.fields import unknown_id

NO_CIRCLES = "An agent may not be its own ancestor."


@dataclass(frozen=True, slots=True)
class References:
    """The template and the parent of an agent; None if the body does not name one."""

    template: Template | None
    parent: Agent | None


async def resolve(storage: Storage, organization_id: UUID, body: Mapping[str, Any]) -> References:
    """Return the template and the parent that a body names.

    Raise Invalid for ids that do not exist, PermissionDenied for those of another organization.
    """
    template_id, parent_id = body.get("template_id"), body.get("parent_id")
    template = await storage.templates.get(template_id) if template_id else None
    parent = await storage.agents.get(parent_id) if parent_id else None
    adapters = body.get("adapters", ())
    visible = await storage.agents.get_adapter_visibility(organization_id, adapters) if adapters else {}

    unknown: dict[str, Any] = _unknown_items(adapters, visible)
    if template_id and template is None:
        unknown["template"] = [unknown_id(template_id)]
    if parent_id and parent is None:
        unknown["parent"] = [unknown_id(parent_id)]
    if unknown:
        raise Invalid(unknown)

    owners = {resource.organization_id for resource in (template, parent) if resource is not None}
    if owners - {organization_id} or not all(visible.values()):
        raise PermissionDenied
    return References(template, parent)


def _unknown_items(adapters: Sequence[UUID], known: Mapping[UUID, bool]) -> dict[str, Any]:
    messages = {
        index: [unknown_id(adapter)] for index, adapter in enumerate(adapters) if adapter not in known
    }
    return {"adapters": messages} if messages else {}


def refusal(error: ConstraintError, body: Mapping[str, Any]) -> Invalid:
    """Return the error for a constraint that failed after all checks had passed.

    An alias was taken, or a resource deleted, between the checks and the statement.
    """
    match error:
        case ParentCycle():
            return Invalid({"parent": [NO_CIRCLES]})
        case NotUnique():
            return Invalid({field: [f"agent with this {field} already exists."] for field in error.fields})
        case ReferenceMissing(field="template" | "parent" as field):
            return Invalid({field: [unknown_id(body[f"{field}_id"])]})
        case _:
            return Invalid({"adapters": ["Invalid pk - object does not exist."]})
