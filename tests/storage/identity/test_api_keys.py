"""API keys: finding them by prefix, storing their use, and changing them."""

import asyncio
from dataclasses import replace

import pytest

from storage.errors import NotUnique
from storage.identity.api_keys import ApiKeys
from storage.ids import new_id
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import MINUTE, NOW, SECOND, api_key, stored_organization

HASH = bytes(range(32))


@pytest.fixture
def api_keys(pool: Pool) -> ApiKeys:
    return ApiKeys(pool)


async def test_key_is_found_by_prefix_with_its_hash(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)

    assert await api_keys.get_by_prefix(key.prefix, NOW) == (key, HASH)
    assert await api_keys.get(key.id) == key
    assert await api_keys.get_by_prefix("unknown0", NOW) is None
    assert await api_keys.get(new_id()) is None


async def test_concurrent_finds_each_get_their_own_key(api_keys: ApiKeys, pool: Pool) -> None:
    owner = (await stored_organization(pool)).id
    keys = [api_key(owner) for _ in range(20)]
    for key in keys:
        await api_keys.insert(key, key.id.bytes)
    prefixes = [key.prefix for key in keys] * 2 + ["unknown0"]

    keys_and_hashes = await asyncio.gather(*(api_keys.get_by_prefix(prefix, NOW) for prefix in prefixes))

    assert keys_and_hashes == [(key, key.id.bytes) for key in keys] * 2 + [None]


async def test_prefix_is_unique(api_keys: ApiKeys, pool: Pool) -> None:
    owner = (await stored_organization(pool)).id
    await api_keys.insert(api_key(owner, prefix="abcd1234"), HASH)

    with pytest.raises(NotUnique) as refusal:
        await api_keys.insert(api_key(owner, prefix="abcd1234"), HASH)

    assert refusal.value.fields == ("prefix",)


async def test_deleted_key_is_unknown_to_next_find(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)
    await api_keys.get_by_prefix(key.prefix, NOW)

    assert await api_keys.delete(key.id)

    assert await api_keys.get_by_prefix(key.prefix, NOW) is None
    assert not await api_keys.delete(key.id)


async def test_key_deleted_during_find_is_not_cached(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)

    await asyncio.gather(api_keys.get_by_prefix(key.prefix, NOW), api_keys.delete(key.id))

    assert await api_keys.get_by_prefix(key.prefix, NOW) is None


async def test_key_deleted_by_another_program_is_cached_one_second(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)
    await api_keys.get_by_prefix(key.prefix, NOW)
    await pool.execute("DELETE FROM api_key")

    assert await api_keys.get_by_prefix(key.prefix, NOW + SECOND) is None


async def test_keys_of_given_organizations_are_listed_newest_first(api_keys: ApiKeys, pool: Pool) -> None:
    ours, theirs = (await stored_organization(pool)).id, (await stored_organization(pool)).id
    first, second = api_key(ours), api_key(ours, created_at=NOW + SECOND)
    for key in (second, first, api_key(theirs)):
        await api_keys.insert(key, HASH)

    assert await api_keys.list_page([ours], Page()) == [second, first]
    assert await api_keys.list_page([ours], Page(after=(second.created_at, second.id))) == [first]
    assert await api_keys.list_page([], Page()) == []


async def test_last_use_is_stored_at_most_once_a_minute(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)
    used = []
    for moment in (NOW, NOW + MINUTE - SECOND, NOW + MINUTE):
        await api_keys.record_use(key.id, moment)
        stored = await api_keys.get(key.id)
        used.append(stored and stored.last_used_at)

    assert used == [NOW, NOW, NOW + MINUTE]


async def test_deactivated_key_is_inactive_for_next_find(api_keys: ApiKeys, pool: Pool) -> None:
    key = api_key((await stored_organization(pool)).id)
    await api_keys.insert(key, HASH)
    await api_keys.get_by_prefix(key.prefix, NOW)

    changed = await api_keys.update(key.id, {"is_active": False, "name": "old"})

    assert changed == replace(key, is_active=False, name="old")
    assert await api_keys.get_by_prefix(key.prefix, NOW) == (changed, HASH)
    assert await api_keys.update(key.id, {}) == changed
    assert await api_keys.update(new_id(), {"name": "x"}) is None
