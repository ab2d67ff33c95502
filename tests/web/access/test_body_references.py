"""The resources that a body names decide about the organization of a new one."""

import pytest

from storage.ids import new_id
from storage.model import Role
from tests.web.access.stores import Resource, Resources, request_to, storage_of
from web.access.auth import ORGANIZATION_HEADER, Caller
from web.access.references import load_named, organization_for_new, require_same_owner
from web.errors import BadRequest, Invalid, PermissionDenied

OURS, THEIRS = new_id(), new_id()
SECOND = new_id()
CALLER = Caller(new_id(), {OURS: Role.MEMBER, SECOND: Role.MEMBER})


async def test_new_resource_belongs_to_only_organization_of_caller() -> None:
    caller = Caller(new_id(), {OURS: Role.MEMBER})
    assert await organization_for_new(request_to(storage_of()), caller, {}) == OURS


async def test_caller_with_several_organizations_must_name_one() -> None:
    with pytest.raises(Invalid) as refused:
        await organization_for_new(request_to(storage_of()), CALLER, {})
    assert refused.value.body == {
        "organization": ["You belong to several organizations: name one in X-Organization."]
    }


async def test_new_resource_belongs_to_organization_of_header() -> None:
    request = request_to(storage_of(), **{ORGANIZATION_HEADER: str(SECOND)})
    assert await organization_for_new(request, CALLER, {}) == SECOND


@pytest.mark.parametrize(
    ("header", "error"), [("x", BadRequest), (str(THEIRS), PermissionDenied)], ids=["malformed", "foreign"]
)
async def test_header_must_name_own_organization(header: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await organization_for_new(request_to(storage_of(), **{ORGANIZATION_HEADER: header}), CALLER, {})


@pytest.mark.parametrize("field", ["agent", "contact", "project"])
async def test_new_resource_belongs_to_owner_of_named_one(field: str) -> None:
    resource = Resource(SECOND)
    body = {f"{field}_id": resource.id}
    assert await organization_for_new(request_to(storage_of(resource)), CALLER, body) == SECOND


async def test_named_resources_must_share_organization() -> None:
    agent, contact = Resource(OURS), Resource(SECOND)
    body = {"agent_id": agent.id, "contact_id": contact.id}
    with pytest.raises(PermissionDenied):
        await organization_for_new(request_to(storage_of(agent, contact)), CALLER, body)


async def test_confined_caller_cannot_name_resource_elsewhere() -> None:
    agent = Resource(SECOND)
    confined = CALLER.confined_to(OURS)
    with pytest.raises(PermissionDenied, match="X-Organization names another organization"):
        await organization_for_new(request_to(storage_of(agent)), confined, {"agent_id": agent.id})


async def test_foreign_resource_is_refused() -> None:
    agent = Resource(THEIRS)
    with pytest.raises(PermissionDenied):
        await organization_for_new(request_to(storage_of(agent)), CALLER, {"agent_id": agent.id})


async def test_unknown_ids_are_reported_by_field() -> None:
    body = {"agent_id": new_id(), "project_id": new_id()}
    with pytest.raises(Invalid) as refused:
        await organization_for_new(request_to(storage_of()), CALLER, body)
    assert refused.value.body == {
        field: [f'Invalid pk "{body[f"{field}_id"]}" - object does not exist.']
        for field in ("agent", "project")
    }


async def test_changes_may_name_only_same_organization() -> None:
    own, second = Resource(OURS), Resource(SECOND)
    request = request_to(storage_of(own, second))
    await require_same_owner(request, CALLER, own, {"contact_id": own.id, "project_id": None})
    with pytest.raises(PermissionDenied):
        await require_same_owner(request, CALLER, own, {"contact_id": second.id})


async def test_load_named_returns_resource_that_caller_may_reach() -> None:
    own, foreign = Resource(OURS), Resource(THEIRS)
    resources = Resources(own, foreign)
    assert await load_named(CALLER, resources.get, "agent", own.id) == own
    with pytest.raises(PermissionDenied):
        await load_named(CALLER, resources.get, "agent", foreign.id)
    with pytest.raises(Invalid) as refused:
        await load_named(CALLER, resources.get, "agent", CALLER.credential)
    assert refused.value.body == {"agent": [f'Invalid pk "{CALLER.credential}" - object does not exist.']}
