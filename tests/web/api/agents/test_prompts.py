"""Versions of system prompts over HTTP: who changed them, restoring them, and which one a run was told."""

import pytest

from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api


@pytest.mark.parametrize("collection", ["/api/cloud/agents/", "/api/templates/"])
async def test_prompt_versions_are_listed_read_and_reverted_to(api: Api, collection: str) -> None:
    create = api.create_agent if "agents" in collection else api.create_template
    created = await create(system_prompt="Be kind.")
    path = f"{collection}{created['id']}/"
    await api.patch(path, {"system_prompt": "Be brief.", "name": "Bee"})
    await api.patch(path, {"system_prompt": "Be brief.", "max_turns": 3})

    second, first = (await api.get(f"{path}prompts/")).body
    assert (first["number"], first["size_bytes"], first["created_at"]) == (1, 8, created["created_at"])
    assert (second["number"], second["size_bytes"]) == (2, 9)
    assert first["author"] == second["author"]
    assert first["author"].startswith("key:")
    assert (first["title"], first["content_type"], first["run"]) == ("", "text/plain", None)
    assert (await api.get(f"{path}prompts/1/")).body == {**first, "content": "Be kind."}

    reverted = await api.post(f"{path}prompts/1/revert/")
    assert (reverted.status, reverted.body["name"]) == (200, "Bee")
    assert (await api.get(path)).body["system_prompt"] == reverted.body["system_prompt"] == "Be kind."
    assert [version["number"] for version in (await api.get(f"{path}prompts/")).body] == [3, 2, 1]
    for number in ("4", "0", "x", UNKNOWN_ID):
        assert (await api.get(f"{path}prompts/{number}/")).status == 404
        assert (await api.post(f"{path}prompts/{number}/revert/")).status == 404


async def test_run_says_which_prompt_it_was_told(api: Api) -> None:
    template = await api.create_template(system_prompt="Be kind.")
    agent = await api.create_agent(template=template["id"])
    path = f"/api/cloud/agents/{agent['id']}/"
    told = []
    for patched, changes in (
        (path, {"name": "Bee"}),
        (f"/api/templates/{template['id']}/", {"system_prompt": "Be brief."}),
        (path, {"system_prompt": "Be quick."}),
        (path, {"system_prompt": "", "template": None}),
    ):
        await api.patch(patched, changes)
        await api.post(f"{path}run/")
        told.append((await api.get(f"{path}runs/")).body[0]["prompt"])
        await api.post(f"{path}stop/", {"force": True})

    of_template = {"of": "template", "id": template["id"]}
    of_agent = {"of": "agent", "id": agent["id"], "version": 2}
    assert told == [{**of_template, "version": 1}, {**of_template, "version": 2}, of_agent, None]
