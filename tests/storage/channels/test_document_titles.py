"""The list of documents without their contents."""

from storage.channels.documents import Documents, Writer
from storage.model import Agent
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.channels.resources import document
from tests.storage.factories import NOW, SECOND, stored_agent

LONG = "x" * 200_000


async def test_titles_are_listed_newest_first_and_bounded_in_bytes(pool: Pool, scout: Agent) -> None:
    documents, sibling = Documents(pool), await stored_agent(pool, scout.organization_id)
    mine = [
        document(scout, title=LONG, agent_id=scout.id if n % 2 else None, created_at=NOW + n * SECOND)
        for n in range(3)
    ][::-1]
    gone = document(scout)
    for each in [*mine, document(sibling), gone]:
        await documents.insert(each)
    await documents.update(gone, {"deleted_at": NOW}, Writer("key:1"), NOW)

    everything = await documents.list_titles(scout.id, None, Page(max_bytes=10**9))
    assert [(title.id, title.size_bytes) for title in everything] == [(each.id, 4) for each in mine]
    first = await documents.list_titles(scout.id, None, Page())
    assert (first, first.is_cut) == (everything[:1], True)
    after = await documents.list_titles(scout.id, None, Page((mine[0].created_at, mine[0].id), limit=1))
    assert after == everything[1:2]
