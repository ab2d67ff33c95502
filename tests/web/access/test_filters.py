"""Queries that filter by a resource: their own, another organization's, an unknown one."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from storage.ids import new_id
from storage.model import Role, Visibility
from storage.storage import Storage
from tests.web.access.stores import Resource, Resources, request_to, storage_of
from web.access.auth import Caller
from web.access.path_access import (
    agent_of_path,
    may_see,
    require_agent,
    require_organization,
    require_owned,
    require_visible,
)
from web.errors import NotFound, PermissionDenied

OURS, THEIRS = new_id(), new_id()
CALLER = Caller(new_id(), {OURS: Role.MEMBER})


async def test_filter_by_foreign_agent_is_refused() -> None:
    own, foreign = Resource(OURS), Resource(THEIRS)
    request = request_to(storage_of(own, foreign))
    for accepted in (own.id, new_id(), None):
        await require_agent(request, CALLER, accepted)
    with pytest.raises(PermissionDenied):
        await require_agent(request, CALLER, foreign.id)


async def test_filter_by_foreign_resource_is_refused() -> None:
    own, foreign = Resource(OURS), Resource(THEIRS)
    store = Resources(own, foreign)
    for accepted in (own.id, new_id(), None):
        await require_owned(CALLER, store.get, accepted)
    with pytest.raises(PermissionDenied):
        await require_owned(CALLER, store.get, foreign.id)


async def test_filter_by_foreign_organization_is_refused() -> None:
    foreign = Resource(THEIRS, THEIRS)
    organizations = SimpleNamespace(organizations=storage_of(foreign).agents)
    request = request_to(cast(Storage, organizations))
    for accepted in (OURS, new_id(), None):
        await require_organization(request, CALLER, accepted)
    with pytest.raises(PermissionDenied):
        await require_organization(request, CALLER, THEIRS)


@pytest.mark.parametrize(
    ("owner", "visibility", "is_visible"),
    [
        (OURS, Visibility.PRIVATE, True),
        (THEIRS, Visibility.PUBLIC, True),
        (THEIRS, Visibility.PRIVATE, False),
    ],
)
def test_foreign_adapter_is_visible_if_public(owner: Any, visibility: Visibility, is_visible: bool) -> None:
    adapter: Any = SimpleNamespace(organization_id=owner, visibility=visibility)
    assert may_see(CALLER, adapter) == is_visible
    if is_visible:
        require_visible(CALLER, adapter)
    else:
        with pytest.raises(PermissionDenied):
            require_visible(CALLER, adapter)


async def test_agent_of_path_must_exist_and_be_own() -> None:
    own, foreign = Resource(OURS), Resource(THEIRS)
    request = request_to(storage_of(own, foreign))
    for agent_id, error in ((foreign.id, PermissionDenied), (new_id(), NotFound)):
        request.match_info["id"] = str(agent_id)
        with pytest.raises(error):
            await agent_of_path(request, CALLER)
    request.match_info["id"] = str(own.id)
    assert await agent_of_path(request, CALLER) == own.id
