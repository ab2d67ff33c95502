"""The record of encryption keys in use."""

import pytest

from storage.errors import DatabaseRefused
from storage.identity.instance import EncryptionKeys
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, stored_organization


async def test_key_in_use_that_is_unknown_is_refused(pool: Pool) -> None:
    keys = EncryptionKeys(pool)
    await keys.require_known([])
    await keys.insert("aaaa0000", NOW)
    await keys.insert("bbbb0000", NOW + HOUR)
    await keys.insert("aaaa0000", NOW + HOUR)
    assert await keys.list_in_use() == ["aaaa0000", "bbbb0000"]

    await keys.require_known(["bbbb0000", "aaaa0000"])
    for known in ([], ["aaaa0000"]):
        with pytest.raises(DatabaseRefused, match=r"the key .*bbbb0000, which is not in accounts"):
            await keys.require_known(known)


async def test_first_key_of_new_installation_needs_no_rotation(pool: Pool) -> None:
    keys = EncryptionKeys(pool)
    await keys.insert("aaaa0000", NOW)
    assert await keys.is_rotated("aaaa0000")


async def test_key_added_later_is_rotated_once_others_retire(pool: Pool) -> None:
    await stored_organization(pool)
    keys = EncryptionKeys(pool)
    await keys.insert("aaaa0000", NOW)
    await keys.insert("bbbb0000", NOW + HOUR)
    assert not await keys.is_rotated("bbbb0000")

    await keys.insert("cccc0000", NOW + HOUR)  # the service was started with another key during the rotation
    await keys.retire("bbbb0000", ["aaaa0000"], NOW)
    assert await keys.is_rotated("bbbb0000")
    assert await keys.list_in_use() == ["bbbb0000", "cccc0000"]
