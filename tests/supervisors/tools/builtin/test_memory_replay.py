"""The memory tool answers as the official helper for the memory tool of Anthropic's models does.

`memory_helper_answers.json` was recorded from `BetaLocalFilesystemMemoryTool` in version 2.12.0 of the
package anthropic: the examples of its tests, and more. Only the sizes of directories differ, which are the
sums of the files in them.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from supervisors.tools.arguments import ToolError
from tests.supervisors.world import Puppet, World

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("memory_helper_answers.json").read_text()
)
SIZE_OF_DIRECTORY = re.compile(
    r"^[0-9.]+[BKMG](?=\t(.*/|/memories|/memories/dir|/memories/dir/sub(/y)?)$)", re.M
)


async def answer(run: Puppet, call: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": await run.call("memory", **call)}
    except ToolError as error:
        return {"error": error.message}


def without_sizes(recorded: dict[str, Any]) -> dict[str, Any]:
    return {key: SIZE_OF_DIRECTORY.sub("", text) for key, text in recorded.items() if key != "call"}


@pytest.mark.parametrize("scenario", RECORDED)
async def test_memory_tool_answers_like_the_official_helper(world: World, scenario: str) -> None:
    run = await world.start(await world.agent())
    for recorded in RECORDED[scenario]:
        answered = await answer(run, recorded["call"])
        assert without_sizes(answered) == without_sizes(recorded), recorded["call"]
