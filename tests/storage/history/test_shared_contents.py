"""System prompts and tool definitions: one row for each text of an organization."""

from datetime import timedelta
from hashlib import sha256

from storage.history.shared_contents import SharedContents
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, stored_organization

DAY = timedelta(days=1)


async def test_text_is_stored_once_for_an_organization(pool: Pool) -> None:
    one, other = [(await stored_organization(pool)).id for _ in range(2)]
    first, second = SharedContents(pool), SharedContents(pool)

    digests = [await contents.store(one, b'["a"]', NOW) for contents in (first, second, first)]
    await first.store(other, b'["a"]', NOW)
    await first.store(one, b'["b"]', NOW)

    assert digests == [sha256(b'["a"]').digest()] * 3
    rows = await pool.fetch("SELECT organization_id, digest, content FROM shared_content")
    assert {(row["organization_id"], row["digest"], str(row["content"])) for row in rows} == {
        (one, digests[0], "['a']"),
        (other, digests[0], "['a']"),
        (one, sha256(b'["b"]').digest(), "['b']"),
    }


async def test_use_is_noted_once_a_day(pool: Pool) -> None:
    organization, contents = (await stored_organization(pool)).id, SharedContents(pool)
    used = []
    for now in (NOW, NOW + HOUR, NOW + DAY, NOW):
        await contents.store(organization, b'["a"]', now)
        used.append(await pool.fetchval("SELECT used_at FROM shared_content"))

    assert used == [NOW, NOW, NOW + DAY, NOW + DAY]
