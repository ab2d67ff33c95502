"""The resources that a body names decide about the organization of a new one."""

import pytest

from storage.ids import new_id
from storage.model import Role
from tests.web.access.stores import Resource, request_to, storage_of
from web.access.auth import Caller
from web.access.references import organization_for_new
from web.errors import Invalid

OURS, THEIRS = new_id(), new_id()
SECOND = new_id()
CALLER = Caller(new_id(), {OURS: Role.MEMBER, SECOND: Role.MEMBER})


async def test_caller_with_several_organizations_must_name_one() -> None:
    with pytest.raises(Invalid) as refused:
        await organization_for_new(request_to(storage_of()), CALLER, {})
    assert refused.value.body == {
        "organization": ["You belong to several organizations: name one in X-Organization."]
    }


@pytest.mark.parametrize("field", ["agent", "contact", "project"])
async def test_new_resource_belongs_to_owner_of_named_one(field: str) -> None:
    resource = Resource(SECOND)
    body = {f"{field}_id": resource.id}
    assert await organization_for_new(request_to(storage_of(resource)), CALLER, body) == SECOND
