"""The template, the parent and the adapters that the body of an agent names."""

from typing import Any
from uuid import UUID

import pytest

from storage.errors import ConstraintError, NotUnique, ParentCycle, ReferenceMissing
from storage.ids import new_id
from tests.web.access.stores import Resource, storage_of
from web.access.references import NO_CIRCLES, refusal, resolve
from web.errors import Invalid

OURS, THEIRS = new_id(), new_id()
UNKNOWN = new_id()
MISSING = f'Invalid pk "{UNKNOWN}" - object does not exist.'


def ours(_: object) -> UUID:
    """Choose our organization, whatever the body refers to."""
    return OURS


async def test_unknown_ids_are_reported_by_field_and_index() -> None:
    adapter = Resource(OURS)
    body = {"template_id": UNKNOWN, "parent_id": UNKNOWN, "adapters": [adapter.id, UNKNOWN]}
    with pytest.raises(Invalid) as refused:
        await resolve(storage_of(adapter), ours, body)
    assert refused.value.body == {"template": [MISSING], "parent": [MISSING], "adapters": {1: [MISSING]}}


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
