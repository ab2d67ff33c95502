"""Memory of agents over HTTP: what a run writes, later runs read, people correct, and a kill -9 leaves."""

from typing import Any

import aiohttp
import pytest

from tests.acceptance.client import sign_up
from tests.acceptance.services import Services
from tests.acceptance.test_reach_of_runs import DOCUMENTS, MODEL, results, says
from tests.openai_endpoint import open_endpoint

GRACE = "/memories/people/grace.md"
SHOWN = f"Here's the content of {GRACE} with line numbers:\n     1\t"


@pytest.mark.everyday
async def test_memory_outlives_a_killed_service_and_is_corrected(
    services: Services, session: aiohttp.ClientSession
) -> None:
    def told() -> list[Any]:
        return [answer["result"] for answer in results(endpoint) if "result" in answer]

    async with open_endpoint() as endpoint:
        models = {"models.openai": {"base_url": endpoint.url}}
        service = await services.start(**models)
        client = await sign_up(session, service.url)
        agent = await client.create_agent(model=MODEL, language="english")
        endpoint.acts = [
            says("memory", command="create", path=GRACE, file_text="Grace is vegan."),
            says("memory", command="str_replace", path=GRACE, old_str="vegan", new_str="a butcher"),
            says("sleep"),
        ]
        await client.post(f"/api/cloud/agents/{agent}/run/")
        first = await client.ended_run(agent)
        assert told()[0] == f"File created successfully at: {GRACE}"
        await service.kill()

        client = client.at((await services.start(**models)).url)
        [note] = await client.get(f"{DOCUMENTS}?path={GRACE}")
        assert (note["content"], note["version"], note["run"]) == ("Grace is a butcher.", 2, first["id"])
        reverted = await client.post(f"{DOCUMENTS}{note['id']}/versions/1/revert/")
        assert (reverted["content"], reverted["version"]) == ("Grace is vegan.", 3)
        endpoint.acts = [
            says("search_documents", query="vegans"),
            says("memory", command="view", path=GRACE),
            says("memory", command="delete", path="/memories/people"),
            says("sleep"),
        ]
        await client.post(f"/api/cloud/agents/{agent}/run/")
        assert (await client.ended_run(agent, 2))["outcome"] == "slept"

        hits, shown, deleted = told()[-3:]
        assert [hit["path"] for hit in hits] == [GRACE]
        assert (shown, deleted) == (f"{SHOWN}Grace is vegan.", "Successfully deleted /memories/people")
        assert await client.get(DOCUMENTS) == []
        [gone] = await client.get(DOCUMENTS, deleted="true")
        restored = await client.post(f"{DOCUMENTS}{gone['id']}/versions/3/revert/")
        assert (restored["content"], restored["deleted_at"]) == ("Grace is vegan.", None)
