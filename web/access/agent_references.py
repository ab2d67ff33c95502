"""The ids that the body of an agent refers to: they must exist and belong to its organization."""

from collections.abc import Callable, Mapping, Sequence, Set
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
    """The organization of an agent, its template and its parent; None if the body does not name one."""

    organization_id: UUID
    template: Template | None
    parent: Agent | None


async def resolve(
    storage: Storage, choose_organization: Callable[[Set[UUID]], UUID], body: Mapping[str, Any]
) -> References:
    """Return the template and the parent that a body names.

    `choose_organization` returns the organization of the agent, given those of the template and the parent.
    Raise Invalid for ids that do not exist, PermissionDenied for those of another organization.
    """
    template_id, parent_id = body.get("template_id"), body.get("parent_id")
    template = await storage.templates.get(template_id) if template_id else None
    parent = await storage.agents.get(parent_id) if parent_id else None
    owners = {resource.organization_id for resource in (template, parent) if resource is not None}
    adapters = body.get("adapters", ())
    viewer = next(iter(owners)) if owners else choose_organization(owners)
    visible = await storage.agents.get_adapter_visibility(viewer, adapters) if adapters else {}

    unknown: dict[str, Any] = _unknown_items(adapters, visible)
    if template_id and template is None:
        unknown["template"] = [unknown_id(template_id)]
    if parent_id and parent is None:
        unknown["parent"] = [unknown_id(parent_id)]
    if unknown:
        raise Invalid(unknown)

    organization_id = choose_organization(owners)
    if owners - {organization_id} or not all(visible.values()):
        raise PermissionDenied
    return References(organization_id, template, parent)


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
