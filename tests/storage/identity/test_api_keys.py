"""API keys: finding them by prefix, and storing their use."""

import pytest

from storage.identity.api_keys import ApiKeys
from storage.postgres.pool import Pool
from tests.storage.factories import MINUTE, NOW, SECOND, api_key, stored_organization

HASH = bytes(range(32))


@pytest.fixture
def api_keys(pool: Pool) -> ApiKeys:
    return ApiKeys(pool)


async def test_deleted_key_is_unknown_to_next_find(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)
    await api_keys.get_by_prefix(key.prefix, NOW)

    assert await api_keys.delete(key.id)

    assert await api_keys.get_by_prefix(key.prefix, NOW) is None
    assert not await api_keys.delete(key.id)


async def test_last_use_is_stored_at_most_once_a_minute(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)
    used = []
    for moment in (NOW, NOW + MINUTE - SECOND, NOW + MINUTE):
        await api_keys.record_use(key.id, moment)
        stored = await api_keys.get(key.id)
        used.append(stored and stored.last_used_at)

    assert used == [NOW, NOW, NOW + MINUTE]
