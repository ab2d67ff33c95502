"""Adapters: listing, updating, publishing and deleting them."""

from dataclasses import replace

import pytest

from storage.ids import new_id
from storage.model import Visibility
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.toolbox.adapters import Adapters
from storage.toolbox.tools import Tools
from tests.storage.factories import NOW, SECOND, adapter, stored_organization, tool


@pytest.fixture
def adapters(pool: Pool) -> Adapters:
    return Adapters(pool)


async def test_get_returns_adapter_as_inserted(adapters: Adapters, pool: Pool) -> None:
    weather = adapter((await stored_organization(pool)).id, config_schema={"type": "object"})

    await adapters.insert(weather)

    assert await adapters.get(weather.id) == weather
    assert await adapters.get(new_id()) is None


async def test_page_shows_own_and_public_adapters_newest_first(adapters: Adapters, pool: Pool) -> None:
    ours, theirs = (await stored_organization(pool)).id, (await stored_organization(pool)).id
    own = adapter(ours)
    public = adapter(theirs, visibility=Visibility.PUBLIC, created_at=NOW + SECOND)
    for new in (own, public, adapter(theirs)):
        await adapters.insert(new)

    assert await adapters.list_page((ours,), None, Page()) == [public, own]
    assert await adapters.list_page((ours,), None, Page(after=(public.created_at, public.id))) == [own]
    assert await adapters.list_page((ours,), Visibility.PRIVATE, Page()) == [own]
    assert await adapters.list_page((), None, Page()) == [public]


async def test_update_and_publish_return_the_changed_adapter(adapters: Adapters, pool: Pool) -> None:
    weather = adapter((await stored_organization(pool)).id)
    await adapters.insert(weather)

    assert await adapters.update(weather.id, {"name": "Climate"}) == replace(weather, name="Climate")
    assert await adapters.update(weather.id, {}) == replace(weather, name="Climate")
    published = replace(weather, name="Climate", visibility=Visibility.PUBLIC)
    assert await adapters.publish(weather.id) == published
    assert await adapters.publish(new_id()) is None


async def test_delete_removes_adapter_with_its_tools(adapters: Adapters, pool: Pool) -> None:
    weather = adapter((await stored_organization(pool)).id)
    await adapters.insert(weather)
    forecast = tool(weather.id)
    await Tools(pool).insert(forecast)

    assert await adapters.delete(weather.id)

    assert await Tools(pool).get(forecast.id) is None
    assert not await adapters.delete(weather.id)
