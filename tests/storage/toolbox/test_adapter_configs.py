"""Adapter configs: listing, updating and deleting them."""

from dataclasses import replace
from typing import Any

import pytest

from storage.agents.templates import Templates
from storage.encryption import KEY_BYTES, SecretCipher
from storage.errors import NotUnique, ReferenceMissing
from storage.ids import new_id
from storage.model import Template
from storage.postgres.json_values import MAX_DECODED_BYTES, decoded
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.toolbox.adapter_configs import AdapterConfig, AdapterConfigs
from storage.toolbox.adapters import Adapter, Adapters
from tests.storage.factories import HOUR, NOW, SECOND, adapter, stored_organization, template


@pytest.fixture
def configs(pool: Pool) -> AdapterConfigs:
    return AdapterConfigs(pool)


@pytest.fixture
async def desk(pool: Pool) -> Template:
    stored = template((await stored_organization(pool)).id)
    await Templates(pool).insert(stored)
    return stored


async def stored_adapter(pool: Pool, of: Template) -> Adapter:
    stored = adapter(of.organization_id)
    await Adapters(pool).insert(stored)
    return stored


def adapter_config(of: Template, to: Adapter, **fields: Any) -> AdapterConfig:
    plain = AdapterConfig(new_id(), of.organization_id, of.id, to.id, {"city": "Linz"}, NOW, NOW)
    return replace(plain, **fields)


async def test_template_has_one_config_for_each_adapter(
    configs: AdapterConfigs, pool: Pool, desk: Template
) -> None:
    weather = await stored_adapter(pool, desk)
    config = adapter_config(desk, weather)
    await configs.insert(config)

    assert await configs.get(config.id) == config
    with pytest.raises(NotUnique) as refusal:
        await configs.insert(adapter_config(desk, weather))
    assert refusal.value.fields == ("template", "adapter")
    for field in ("template", "adapter"):
        with pytest.raises(ReferenceMissing, match=field):
            await configs.insert(adapter_config(desk, weather, **{f"{field}_id": new_id()}))


async def test_page_filters_configs_newest_first(configs: AdapterConfigs, pool: Pool, desk: Template) -> None:
    weather, mail = await stored_adapter(pool, desk), await stored_adapter(pool, desk)
    older, newer = adapter_config(desk, weather), adapter_config(desk, mail, created_at=NOW + SECOND)
    for new in (older, newer):
        await configs.insert(new)
    owner = (desk.organization_id,)

    assert await configs.list_page(owner, None, None, Page()) == [newer, older]
    assert await configs.list_page(owner, None, None, Page(after=(newer.created_at, newer.id))) == [older]
    assert await configs.list_page(owner, desk.id, weather.id, Page()) == [older]
    assert await configs.list_page(owner, new_id(), None, Page()) == []
    assert await configs.list_page((new_id(),), None, None, Page()) == []


async def test_update_never_sets_the_time_back(configs: AdapterConfigs, pool: Pool, desk: Template) -> None:
    config = adapter_config(desk, await stored_adapter(pool, desk))
    await configs.insert(config)

    later = await configs.update(config.id, {"config": {"city": "Graz"}}, NOW + HOUR)
    earlier = await configs.update(config.id, {"config": {"city": "Wien"}}, NOW - HOUR)

    assert later == replace(config, config={"city": "Graz"}, updated_at=NOW + HOUR)
    assert earlier == replace(config, config={"city": "Wien"}, updated_at=NOW + HOUR)
    assert await configs.delete(config.id)
    assert not await configs.delete(config.id)
    assert await configs.update(config.id, {"config": {}}, NOW) is None


@pytest.mark.parametrize("length", [10, MAX_DECODED_BYTES])
async def test_encrypted_config_of_any_length_is_read(pool: Pool, desk: Template, length: int) -> None:
    configs = AdapterConfigs(pool, SecretCipher([b"k" * KEY_BYTES]))
    written = adapter_config(desk, await stored_adapter(pool, desk), config={"city": "L" * length})
    await configs.insert(written)

    stored = await configs.get(written.id)

    assert stored is not None
    assert decoded(stored.config) == written.config
