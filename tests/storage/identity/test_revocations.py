"""Revocations: once one is answered, no node accepts the credential any more."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from storage.ids import new_id
from storage.model import ApiKey, Role, User
from storage.postgres.pool import Pool
from storage.storage import Storage
from tests.storage.factories import (
    NOW,
    SECOND,
    api_key,
    organization,
    stored_member,
    stored_organization,
    user,
)

GET_USER_ID = "SELECT user_id FROM membership WHERE id = $1"


class Cluster:
    """Two nodes on one database, and a clock that only their waits move."""

    def __init__(self, pool: Pool, count: int) -> None:
        self.now = NOW
        self.here, self.there = (
            Storage(pool, lambda _: None, sleep=self._sleep, node_count=lambda: count) for _ in range(2)
        )

    async def _sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    async def version_there(self, ada: User) -> int | None:
        holder = await self.there.token_holders.get(ada.id, self.now)
        return None if holder is None else holder.token_version

    async def is_key_active_there(self, key: ApiKey) -> bool:
        found = await self.there.api_keys.get_by_prefix(key.prefix, self.now)
        return found is not None and found[0].is_active


@pytest.fixture
def cluster(pool: Pool) -> Cluster:
    return Cluster(pool, 2)


async def _log_out(storage: Storage, ada: User) -> None:
    await storage.accounts.revoke_tokens(ada.id)


async def _change_password(storage: Storage, ada: User) -> None:
    await storage.accounts.replace_password(ada, "another hash")


async def _reset_password(storage: Storage, ada: User) -> None:
    await storage.accounts.set_reset_code(ada.email, b"code", NOW + SECOND)
    assert await storage.accounts.reset_password(ada.email, b"code", "another hash", NOW)


@pytest.mark.parametrize("revoke", [_log_out, _change_password, _reset_password])
async def test_revoked_token_is_refused_by_the_other_node(
    cluster: Cluster, revoke: Callable[[Storage, User], Awaitable[None]]
) -> None:
    ada = user()
    await cluster.here.accounts.insert_account(ada, organization())
    assert await cluster.version_there(ada) == 1
    await revoke(cluster.here, ada)
    assert await cluster.version_there(ada) == 2


async def _deactivate(storage: Storage, key: ApiKey) -> None:
    await storage.api_keys.update(key.id, {"is_active": False})


async def _delete(storage: Storage, key: ApiKey) -> None:
    await storage.api_keys.delete(key.id)


@pytest.mark.parametrize("revoke", [_deactivate, _delete])
async def test_revoked_key_is_refused_by_the_other_node(
    cluster: Cluster, pool: Pool, revoke: Callable[[Storage, ApiKey], Awaitable[None]]
) -> None:
    key = api_key((await stored_organization(pool)).id)
    await cluster.here.api_keys.insert(key, bytes(32))
    assert await cluster.is_key_active_there(key)
    await revoke(cluster.here, key)
    assert not await cluster.is_key_active_there(key)


async def test_changed_role_is_seen_by_the_other_node(cluster: Cluster, pool: Pool) -> None:
    owner = (await stored_organization(pool)).id
    membership_id = await stored_member(pool, owner, Role.ADMIN)
    user_id = await pool.fetchval(GET_USER_ID, membership_id)

    async def role_there() -> Role | None:
        holder = await cluster.there.token_holders.get(user_id, cluster.now)
        assert holder is not None
        return holder.roles.get(owner)

    assert await role_there() is Role.ADMIN
    await cluster.here.memberships.update_role(membership_id, Role.MEMBER, Role.OWNER)
    assert await role_there() is Role.MEMBER
    await cluster.here.memberships.delete(membership_id, Role.OWNER)
    assert await role_there() is None


async def test_revocation_does_not_wait_for_caches_of_a_lone_node(pool: Pool) -> None:
    alone = Cluster(pool, 1)
    ada = user()
    await alone.here.accounts.insert_account(ada, organization())
    await alone.here.accounts.revoke_tokens(ada.id)
    assert not await alone.here.api_keys.delete(new_id())
    assert alone.now == NOW
