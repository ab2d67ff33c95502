"""The memory tool beyond what the official helper does: bounds, versions, owners and concurrent edits."""

import asyncio
import time
from typing import Any

import pytest

from storage.channels.documents import Document
from storage.model import Agent
from storage.versions import VersionSummary
from supervisors.tools.builtin.documents import MAX_CONTENT_BYTES
from supervisors.tools.builtin.memory import MAX_ENTRIES, MAX_SHOWN_BYTES
from supervisors.tools.tool import PartialResult
from tests.supervisors.tools.builtin.resources import refusal
from tests.supervisors.world import Puppet, World

BAD_PATHS = {
    "/memories/../x": "Path /memories/../x would escape /memories directory",
    "/memories/%2e%2e/x": "percent-encoded",
    "/memories/..\\x": "backslashes",
    "/memories/a\nb": "control characters",
    "/x": "Path must start with /memories, got: /x",
    "/memories/" + "x" * 600: "at most 512 characters",
}
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({}, "command"),
    ({"command": "look"}, "command"),
    ({"command": "view"}, "path"),
    ({"command": "view", "path": 7.5}, "path"),
    ({"command": "view", "path": "/memories/a\0"}, "path"),
    ({"command": "create", "path": "/memories/x"}, "file_text"),
    ({"command": "create", "path": "/memories/x", "file_text": "\0"}, "file_text"),
    ({"command": "create", "path": "/memories/x", "file_text": ["x"]}, "file_text"),
    ({"command": "str_replace", "path": "/memories/f", "old_str": "x"}, "new_str"),
    ({"command": "insert", "path": "/memories/f", "insert_text": "x"}, "insert_line"),
    ({"command": "insert", "path": "/memories/f", "insert_text": "x", "insert_line": 1.5}, "insert_line"),
    ({"command": "insert", "path": "/memories/f", "insert_text": "x", "insert_line": 10**30}, "insert_line"),
    ({"command": "view", "path": "/memories/f", "view_range": [1]}, "view_range"),
    ({"command": "view", "path": "/memories/f", "view_range": ["a", 2]}, "view_range"),
    ({"command": "view", "path": "/memories/f", "view_range": "1-2"}, "view_range"),
    ({"command": "rename", "old_path": "/memories/f"}, "new_path"),
    ({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/d/e/x"}, "new_path"),
]


async def create(run: Puppet, path: str, text: str = "") -> Any:
    return await run.call("memory", command="create", path=path, file_text=text)


async def view(run: Puppet, path: str, **arguments: Any) -> Any:
    return await run.call("memory", command="view", path=path, **arguments)


async def replace(run: Puppet, path: str, old: str, new: str) -> Any:
    return await run.call("memory", command="str_replace", path=path, old_str=old, new_str=new)


async def memory_of(world: World, agent: Agent, path: str) -> Document:
    memory = await world.storage.memories.get(agent.id, path)
    assert memory is not None
    return memory


async def versions_of(world: World, memory: Document) -> list[VersionSummary]:
    return await world.storage.versions.list_all(memory.id)


@pytest.mark.parametrize("path", BAD_PATHS)
async def test_bad_path_is_refused_by_each_command(world: World, path: str) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/f")
    for arguments in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": ""},
        {"command": "str_replace", "path": path, "old_str": "", "new_str": ""},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": ""},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/g"},
        {"command": "rename", "old_path": "/memories/f", "new_path": path},
    ):
        error = await refusal(run, "memory", **arguments)
        assert error["code"] == "invalid", arguments
        assert BAD_PATHS[path] in error["message"], arguments


async def test_unfit_arguments_are_refused_by_name(world: World) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/f")
    await create(run, "/memories/d/e/f")
    for arguments, parameter in UNFIT:
        error = await refusal(run, "memory", **arguments)
        assert (error["code"], error["parameter"]) == ("invalid", parameter), arguments


async def test_file_is_no_directory(world: World) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/a")
    await create(run, "/memories/b")
    arguments: dict[str, Any]
    for arguments in (
        {"command": "create", "path": "/memories/a/x/y", "file_text": ""},
        {"command": "rename", "old_path": "/memories/b", "new_path": "/memories/a/x"},
    ):
        error = await refusal(run, "memory", **arguments)
        assert error["message"] == "The path /memories/a is a file, not a directory."


async def test_memory_is_bounded_in_bytes(world: World) -> None:
    run = await world.start(await world.agent())
    error = await refusal(
        run, "memory", command="create", path="/memories/x", file_text="x" * (MAX_CONTENT_BYTES + 1)
    )
    assert "at most 1048576 bytes" in error["message"]
    await create(run, "/memories/x", "x" * (MAX_CONTENT_BYTES - 1) + "y")
    error = await refusal(run, "memory", command="str_replace", path="/memories/x", old_str="y", new_str="yy")
    assert error["code"] == "too_long"


async def test_each_edit_keeps_the_version_before_it(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await create(run, "/memories/ada.md", "Ada is a vegetarian.\n")
    await replace(run, "/memories/ada.md", "a vegetarian", "vegan")
    await run.call("memory", command="insert", path="/memories/ada.md", insert_line=1, insert_text="Or not.")

    memory = await memory_of(world, agent, "/memories/ada.md")
    versions = await versions_of(world, memory)

    assert (memory.title, memory.content_type) == ("ada.md", "text/markdown")
    assert memory.content == "Ada is vegan.\nOr not.\n"
    assert [(version.number, version.author, version.run_id) for version in versions] == [
        (number, f"agent:{agent.id}", run.run.id) for number in (3, 2, 1)
    ]
    second = await world.storage.versions.get(memory.id, 2)
    assert second is not None
    assert second.content == "Ada is vegan.\n"


async def test_refused_edit_changes_nothing(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await create(run, "/memories/f", "x\nx\n")
    before = await memory_of(world, agent, "/memories/f")
    await refusal(run, "memory", command="str_replace", path="/memories/f", old_str="x", new_str="y")
    await refusal(run, "memory", command="create", path="/memories/f", file_text="y")
    assert await memory_of(world, agent, "/memories/f") == before


async def test_concurrent_edits_lose_nothing(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    names = [f"name{number}" for number in range(8)]
    await create(run, "/memories/f", "\n".join(f"{name}: ?" for name in names))

    await asyncio.gather(*(replace(run, "/memories/f", f"{name}: ?", f"{name}: !") for name in names))

    memory = await memory_of(world, agent, "/memories/f")
    assert memory.content == "\n".join(f"{name}: !" for name in names)
    assert memory.version == 9


async def test_one_of_concurrent_renames_succeeds(world: World) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/f", "text")
    renames = [{"old_path": "/memories/f", "new_path": f"/memories/g{number}"} for number in range(8)]
    answers = await asyncio.gather(
        *(run.call("memory", command="rename", **one) for one in renames), return_exceptions=True
    )
    assert sum("Successfully" in str(answer) for answer in answers) == 1


async def test_few_matches_of_a_very_long_text_are_shown(world: World) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/f", "a" * MAX_CONTENT_BYTES)
    error = await refusal(
        run,
        "memory",
        command="str_replace",
        path="/memories/f",
        old_str="a" * (MAX_CONTENT_BYTES // 3),
        new_str="b",
    )
    assert error["message"].endswith("in lines: 1, 1, …. Please ensure it is unique")


async def test_concurrent_creations_make_one_file(world: World) -> None:
    run = await world.start(await world.agent())
    answers = await asyncio.gather(
        *(create(run, "/memories/f", str(number)) for number in range(5)), return_exceptions=True
    )
    assert [str(answer) for answer in answers].count("File created successfully at: /memories/f") == 1
    assert [str(answer) for answer in answers].count("File /memories/f already exists") == 4


async def test_agents_have_memories_of_their_own(world: World) -> None:
    ann, bob = await world.start(await world.agent()), await world.start(await world.agent())
    await create(ann, "/memories/f", "Ann's")
    await create(bob, "/memories/f", "Bob's")
    await ann.call("memory", command="delete", path="/memories/f")
    assert "Bob's" in await view(bob, "/memories/f")
    assert (await refusal(ann, "memory", command="view", path="/memories/f"))["code"] == "not_found"


async def test_long_file_is_shown_up_to_a_line(world: World) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/f", "\n".join(f"line {number}" for number in range(1, 10_001)))

    shown = await view(run, "/memories/f")

    assert isinstance(shown, PartialResult)
    last = int(shown.value.rpartition("\n")[2].split("\t")[0])
    assert shown.left_out == f"Line {last} is the last one shown of 10000: view the others by view_range."
    assert len(shown.value) <= MAX_SHOWN_BYTES + 100
    rest = await view(run, "/memories/f", view_range=[last + 1, -1])
    assert rest.partition("\n")[2].startswith(f"{last + 1:6}\tline {last + 1}\n")


async def test_large_directory_is_listed_in_part(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await create(run, "/memories/0", "x")
    await world.pool.execute(
        "INSERT INTO document (id, organization_id, agent_id, title, path, created_at, updated_at) "
        "SELECT gen_random_uuid(), $1, $2, 'x', '/memories/' || n, now(), now() "
        "FROM generate_series(1, 1500) AS n",
        agent.organization_id,
        agent.id,
    )
    shown = await view(run, "/memories")
    assert isinstance(shown, PartialResult)
    assert len(shown.value.splitlines()) == MAX_ENTRIES + 2
    assert "1000 entries" in shown.left_out
    assert (await refusal(run, "memory", command="delete", path="/memories/d"))["code"] == "not_found"
    await world.pool.execute("UPDATE document SET path = '/memories/d' || substr(path, 10)")
    error = await refusal(run, "memory", command="delete", path="/memories/d")
    assert (error["code"], "more than 1000 files" in error["message"]) == ("too_many", True)


async def test_directory_moves_only_where_its_paths_fit(world: World) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/a/" + "/".join(["x" * 200] * 2))
    moved = {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/" + "y" * 200}
    error = await refusal(run, "memory", **moved)
    assert (error["code"], error["parameter"]) == ("invalid", "new_path")


async def test_ambiguous_text_is_refused_in_time(world: World) -> None:
    run = await world.start(await world.agent())
    await create(run, "/memories/f", "a" * 500_000)
    started = time.thread_time()
    error = await refusal(run, "memory", command="str_replace", path="/memories/f", old_str="a", new_str="b")
    assert time.thread_time() - started < 0.5
    assert error["message"].endswith(", 1, …. Please ensure it is unique")


async def test_key_writes_as_the_agent_without_a_run(world: World) -> None:
    agent = await world.agent()
    tool = await world.toolset.find(agent, "memory")
    arguments = {"command": "create", "path": "/memories/f", "file_text": "x"}
    await world.toolset.use(tool, agent, None, world.registry.ask, arguments)
    memory = await memory_of(world, agent, "/memories/f")
    assert (memory.author, memory.run_id) == (f"agent:{agent.id}", None)
