"""Memories: documents found by their paths, and directories of them."""

import pytest

from storage.channels.documents import Document, Documents, Writer
from storage.channels.memories import DirectoryEntry, Memories
from storage.errors import NotUnique
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.pool import Pool
from storage.versions import Versions
from tests.storage.channels.resources import document
from tests.storage.factories import HOUR, NOW, stored_agent


@pytest.fixture
def memories(pool: Pool) -> Memories:
    return Memories(pool)


async def remember(pool: Pool, agent: Agent, path: str, content: str = "text") -> Document:
    memory = document(agent, path=path, title=path.rpartition("/")[2], content=content)
    await Documents(pool).insert(memory)
    return memory


async def paths(memories: Memories, agent: Agent, path: str = "/memories") -> list[str]:
    return [file.path for file in await memories.list_files(agent.id, path)]


async def test_directory_is_summed_up_two_levels_deep(pool: Pool, memories: Memories, scout: Agent) -> None:
    for path in ("b", "a/1", "a/d/x", "a/d/y/z", "a.md", "a0", "A"):
        await remember(pool, scout, f"/memories/{path}", "ää")
    await remember(pool, await stored_agent(pool, scout.organization_id), "/memories/other")
    await Documents(pool).insert(document(scout))

    assert await memories.list_directory(scout.id, "/memories", 100) == [
        DirectoryEntry("A", "", False, 4),
        DirectoryEntry("a", "1", False, 4),
        DirectoryEntry("a", "d", True, 8),
        DirectoryEntry("a.md", "", False, 4),
        DirectoryEntry("a0", "", False, 4),
        DirectoryEntry("b", "", False, 4),
    ]
    assert await memories.list_directory(scout.id, "/memories/a/d", 100) == [
        DirectoryEntry("x", "", False, 4),
        DirectoryEntry("y", "z", False, 4),
    ]
    assert len(await memories.list_directory(scout.id, "/memories", 2)) == 2
    assert await memories.list_directory(scout.id, "/memories/b", 100) == []


async def test_deleted_memories_keep_their_versions(pool: Pool, memories: Memories, scout: Agent) -> None:
    run_id = new_id()
    memory = await remember(pool, scout, "/memories/a/b", "secret")
    await remember(pool, scout, "/memories/ab")

    files = await memories.list_files(scout.id, "/memories/a")
    await memories.delete(files, Writer("agent:scout", run_id), NOW + HOUR)
    await memories.delete(files, Writer("agent:scout", run_id), NOW + 2 * HOUR)

    assert await paths(memories, scout) == ["/memories/ab"]
    assert await memories.get(scout.id, "/memories/a/b") is None
    deleted = await Documents(pool).get(memory.id)
    assert deleted is not None
    assert (deleted.content, deleted.version, deleted.author, deleted.run_id, deleted.deleted_at) == (
        "",
        2,
        "agent:scout",
        run_id,
        NOW + HOUR,
    )
    kept = await Versions(pool).get(memory.id, 1)
    assert kept is not None
    assert kept.content == "secret"


async def test_renamed_directory_moves_its_files(pool: Pool, memories: Memories, scout: Agent) -> None:
    for path in ("a/1", "a/d/2", "ab"):
        await remember(pool, scout, f"/memories/{path}")

    await memories.rename(
        await memories.list_files(scout.id, "/memories/a"), "/memories/a", "/memories/x/y", "y"
    )

    assert await paths(memories, scout) == ["/memories/ab", "/memories/x/y/1", "/memories/x/y/d/2"]
    moved = await memories.get(scout.id, "/memories/x/y/1")
    assert moved is not None
    assert (moved.title, moved.version, moved.updated_at) == ("1", 1, NOW)


async def test_renamed_memory_has_its_name_as_title(pool: Pool, memories: Memories, scout: Agent) -> None:
    await remember(pool, scout, "/memories/a")
    await remember(pool, scout, "/memories/b")
    files = await memories.list_files(scout.id, "/memories/a")

    with pytest.raises(NotUnique):
        await memories.rename(files, "/memories/a", "/memories/b", "b")
    await memories.rename(files, "/memories/a", "/memories/c", "c")

    moved = await memories.get(scout.id, "/memories/c")
    assert moved is not None
    assert moved.title == "c"


async def test_files_renamed_by_another_call_stay_there(pool: Pool, memories: Memories, scout: Agent) -> None:
    await remember(pool, scout, "/memories/directory/1")
    await remember(pool, scout, "/memories/directory/2")
    files = await memories.list_files(scout.id, "/memories/directory")

    assert await memories.rename(files, "/memories/directory", "/memories/a", "a")
    assert not await memories.rename(files, "/memories/directory", "/memories/b", "b")

    assert await paths(memories, scout) == ["/memories/a/1", "/memories/a/2"]
