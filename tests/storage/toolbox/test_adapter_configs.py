"""Adapter configs: updating, deleting and encrypting them."""

from dataclasses import replace
from typing import Any

import pytest

from storage.agents.templates import Templates
from storage.encryption import KEY_BYTES, SecretCipher
from storage.ids import new_id
from storage.model import Template
from storage.postgres.json_values import MAX_DECODED_BYTES, decoded
from storage.postgres.pool import Pool
from storage.toolbox import Adapter, AdapterConfig, AdapterConfigs, Adapters
from tests.storage.factories import HOUR, NOW, adapter, stored_organization, template


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
