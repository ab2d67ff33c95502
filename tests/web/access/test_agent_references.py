"""The template, the parent and the adapters that the body of an agent names."""

from typing import Any
from uuid import UUID

import pytest

from storage.errors import ConstraintError, NotUnique, ParentCycle, ReferenceMissing
from storage.ids import new_id
from tests.web.access.stores import Resource, storage_of
from web.access.references import NO_CIRCLES, References, refusal, resolve
from web.errors import Invalid, PermissionDenied

OURS, THEIRS = new_id(), new_id()
UNKNOWN = new_id()
MISSING = f'Invalid pk "{UNKNOWN}" - object does not exist.'


def ours(_: object) -> UUID:
    """Choose our organization, whatever the body refers to."""
    return OURS


async def test_body_without_references_resolves_to_none() -> None:
    assert await resolve(storage_of(), ours, {}) == References(OURS, None, None)


async def test_own_resources_are_resolved() -> None:
    template, parent, adapter = Resource(OURS), Resource(OURS), Resource(OURS)
    body = {"template_id": template.id, "parent_id": parent.id, "adapters": [adapter.id]}
    found: Any = await resolve(storage_of(template, parent, adapter), ours, body)
    assert (found.template, found.parent) == (template, parent)


async def test_unknown_ids_are_reported_by_field_and_index() -> None:
    adapter = Resource(OURS)
    body = {"template_id": UNKNOWN, "parent_id": UNKNOWN, "adapters": [adapter.id, UNKNOWN]}
    with pytest.raises(Invalid) as refused:
        await resolve(storage_of(adapter), ours, body)
    assert refused.value.body == {"template": [MISSING], "parent": [MISSING], "adapters": {1: [MISSING]}}


@pytest.mark.parametrize("field", ["template_id", "parent_id", "adapters"])
async def test_foreign_resources_are_refused(field: str) -> None:
    foreign = Resource(THEIRS)
    value: Any = [foreign.id] if field == "adapters" else foreign.id
    with pytest.raises(PermissionDenied):
        await resolve(storage_of(foreign), ours, {field: value})


@pytest.mark.parametrize(
    ("error", "messages"),
    [
        (ParentCycle(), {"parent": [NO_CIRCLES]}),
        (NotUnique("email_alias"), {"email_alias": ["agent with this email_alias already exists."]}),
        (ReferenceMissing("template"), {"template": [MISSING]}),
        (ReferenceMissing("adapter"), {"adapters": ["Invalid pk - object does not exist."]}),
    ],
)
def test_constraint_errors_name_field(error: ConstraintError, messages: dict[str, Any]) -> None:
    assert refusal(error, {"template_id": UNKNOWN}).body == messages
