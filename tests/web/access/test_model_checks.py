"""The model of an agent is checked when the agent is created, and when it or a cap changes."""

from typing import Any
from uuid import UUID

import pytest

from tests.storage.factories import NOW
from tests.web.conftest import Api

AGENTS = "/api/cloud/agents/"
ORGANIZATIONS = "/api/organizations/organizations/"
UNKNOWN = 'There is no model provider "nobody"; the service knows: builtin, openai.'


def unpriced(owner: str) -> dict[str, list[str]]:
    message = (
        f"The price of openai/llama is not known, and the spending cap of the {owner} refuses such models. "
        f'Set `unpriced` of the {owner} to "allow", or have the operator set a price in '
        "[models.openai.prices]."
    )
    return {"model": [message]}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nobody/llama", UNKNOWN),
        ("builtin/outbox", "There is no model builtin/outbox; builtin/inbox is the only one."),
    ],
)
async def test_agent_with_an_unknown_model_is_refused(api: Api, model: str, message: str) -> None:
    answer = await api.post(AGENTS, {"name": "Ann", "model": model})
    assert (answer.status, answer.body) == (400, {"model": [message]})

    agent = await api.create_agent()
    answer = await api.patch(f"{AGENTS}{agent['id']}/", {"model": model})
    assert (answer.status, answer.body) == (400, {"model": [message]})


async def test_unknown_default_model_is_refused_with_its_template(api: Api) -> None:
    refused = (400, {"default_model": [UNKNOWN]})
    answer = await api.post("/api/templates/", {"name": "Clerk", "default_model": "nobody/llama"})
    assert (answer.status, answer.body) == refused
    template = await api.create_template()
    answer = await api.patch(f"/api/templates/{template['id']}/", {"default_model": "nobody/llama"})
    assert (answer.status, answer.body) == refused


async def test_default_model_of_removed_provider_is_refused(service: Any, api: Api) -> None:
    template = await api.create_template()
    await service.storage.templates.update(UUID(template["id"]), {"default_model": "nobody/llama"}, NOW)
    path = f"/api/templates/{template['id']}/"
    unchanged = await api.patch(path, {"default_model": "nobody/llama", "unpriced": "allow"})
    assert unchanged.status == 200
    answer = await api.post(AGENTS, {"name": "Ann", "template": template["id"]})
    assert (answer.status, answer.body) == (400, {"model": [UNKNOWN]})


async def test_unchanged_model_may_be_unknown(service: Any, api: Api) -> None:
    agent = await api.create_agent()
    await service.storage.agents.update(agent["id"], {"model": "nobody/llama"}, NOW)
    answer = await api.patch(f"{AGENTS}{agent['id']}/", {"model": "nobody/llama", "name": "Bob"})
    assert (answer.status, answer.body["name"]) == (200, "Bob")


@pytest.mark.parametrize("owner", ["agent", "template", "organization"])
async def test_agent_without_a_price_is_refused_under_a_cap(api: Api, owner: str) -> None:
    [organization] = (await api.get(ORGANIZATIONS)).body
    caps = {name: 5 if name == owner else None for name in ("agent", "template", "organization")}
    template = await api.create_template(max_cost_usd_per_day=caps["template"])
    await api.patch(f"{ORGANIZATIONS}{organization['id']}/", {"max_cost_usd_per_day": caps["organization"]})
    body = {
        "name": "Ann",
        "model": "openai/llama",
        "template": template["id"],
        "max_cost_usd_per_day": caps["agent"],
    }

    answer = await api.post(AGENTS, body)
    assert (answer.status, answer.body) == (400, unpriced(owner))
    assert (await api.post(AGENTS, {**body, "model": "openai/gpt-4o"})).status == 201
    own_rule = await api.post(AGENTS, {**body, "unpriced": "allow"})
    assert own_rule.status == (400 if owner == "organization" else 201)


async def test_cap_that_refuses_the_agents_model_is_not_set(api: Api) -> None:
    agent = await api.create_agent(model="openai/llama")
    path = f"{AGENTS}{agent['id']}/"

    answer = await api.patch(path, {"max_cost_usd_per_day": 5})
    assert (answer.status, answer.body) == (400, unpriced("agent"))
    assert (await api.patch(path, {"max_cost_usd_per_day": 5, "unpriced": "allow"})).status == 200
    assert (await api.patch(path, {"unpriced": "refuse"})).body == unpriced("agent")
    assert (await api.patch(path, {"name": "Bob"})).status == 200
    why = (await api.get(f"{path}supervisor/")).body["why"]
    assert why.endswith("The price of its model openai/llama is not known, so its calls count as 0 USD.")


async def test_cap_that_refuses_the_default_model_is_not_set(api: Api) -> None:
    answer = await api.post(
        "/api/templates/", {"name": "Desk", "default_model": "openai/llama", "max_cost_usd_per_day": 5}
    )
    refusal = {"default_model": unpriced("template")["model"]}
    assert (answer.status, answer.body) == (400, refusal)

    template = await api.create_template(default_model="openai/llama")
    path = f"/api/templates/{template['id']}/"
    assert (await api.patch(path, {"max_cost_usd_per_day": 5})).body == refusal
    assert (await api.patch(path, {"max_cost_usd_per_day": 5, "unpriced": "allow"})).status == 200
    assert (await api.patch(path, {"description": "Texts"})).status == 200


async def test_cap_of_many_names_the_models_that_it_refuses(api: Api) -> None:
    [organization] = (await api.get(ORGANIZATIONS)).body
    template = await api.create_template()
    for model in ("openai/llama", "mine", "openai/gpt-4o", "openai/ll\u00e4ma"):
        await api.create_agent(model=model, template=template["id"])
    await api.create_agent(model="openai/other", template=template["id"], unpriced="allow")

    path = f"/api/templates/{template['id']}/"
    assert "X-Unpriced-Models" not in (await api.patch(path, {"unpriced": "refuse"})).headers
    answer = await api.patch(path, {"max_cost_usd_per_day": 5})
    assert answer.headers["X-Unpriced-Models"] == "openai/llama, openai/ll%C3%A4ma"
    assert "X-Unpriced-Models" not in (await api.patch(path, {"unpriced": "allow"})).headers

    answer = await api.patch(f"{ORGANIZATIONS}{organization['id']}/", {"max_cost_usd_per_day": 5})
    named = answer.headers["X-Unpriced-Models"].split(", ")
    assert sorted(named) == ["openai/ll%C3%A4ma", "openai/llama", "openai/other"]
