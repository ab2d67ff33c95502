"""An organization to take pictures of: a parcel company, whose agents are each in another situation."""

from datetime import UTC, datetime, timedelta

from tests.acceptance.client import Client
from tests.console.visits import Person

DEAD_MODEL = "example/silent"  # of a server that does not answer
MODELS = (("openai/gpt-5", 0.9), ("anthropic/claude-sonnet", 0.6), ("builtin/inbox", 0.0))
DAYS = 14
NAMES = ("Grace", "Barnaby", "Noor", "Ines", "Tomoko", "Yusuf", "Lena", "Ravi", "Mila", "Otis")


async def fill(person: Person) -> dict[str, str]:
    """Create templates, agents, texts and usage, and return the ids that addresses need."""
    client = person.client
    template = await client.post(
        "/api/templates/",
        name="Customer desk",
        description="Answers texts about parcels.",
        system_prompt="You answer customers of a parcel company. Be brief, and never promise a time.",
        default_model="builtin/inbox",
        debounce_window_seconds=2,
        max_cost_usd_per_day=5,
        unpriced="allow",
    )
    prompt = "You answer customers of a parcel company.\nBe brief. Never promise a time: ask the depot first."
    await client.patch(f"/api/templates/{template['id']}/", system_prompt=prompt)
    agents = {name: await add_agent(client, template["id"], name) for name in NAMES}
    ids = {"template": template["id"], "agent": agents["Grace"], **await add_toolbox(client, template["id"])}
    await add_talk(client, agents["Grace"])
    await add_situations(client, agents)
    await add_usage(client, agents)
    run = await client.ended_run(agents["Grace"])
    webhook = await client.post(
        "/api/organizations/webhooks/", url="https://parcels.example/events", types=["run.*"], is_active=False
    )
    settings = {"name": "Depot", "verify": "hmac", "title": "Parcel {{ parcel.number }} has {{ state }}"}
    hook = await client.post("/api/organizations/hooks/", **settings, agent=agents["Grace"])
    await client.post("/api/organizations/api-keys/", name="gateway of the phone company")
    return {**ids, "run": run["id"], "trace": run["trace"], "webhook": webhook["id"], "hook": hook["id"]}


async def add_agent(client: Client, template: str, name: str) -> str:
    model = DEAD_MODEL if name == "Barnaby" else "builtin/inbox"
    return await client.create_agent(
        name=name, model=model, template=template, timezone="Europe/Vienna", tags=["desk", name[0].lower()]
    )


async def add_talk(client: Client, agent: str) -> None:
    """Have a customer text the agent, which wakes once, and answers."""
    contact = await client.post("/api/defaults/contacts/", name="Ada Marsh", phone="+4312345678", agent=agent)
    talk = {"agent": agent, "contact": contact["id"], "channel": "sms"}
    for text in ("Where is my parcel?", "It is Ada Marsh", "Number 4711"):
        await client.post("/api/defaults/messages/", **talk, direction="inbound", body=text)
    await client.ended_run(agent)
    answer = "At the depot; I will ask them in the morning."
    await client.post("/api/defaults/messages/", **talk, direction="outbound", body=answer)
    call = "We will call you at nine."
    await client.post("/api/defaults/messages/", **talk, direction="outbound", body=call, status="failed")
    await client.post(
        "/api/defaults/documents/", agent=agent, title="Notes", content="Ada Marsh: parcel 4711."
    )


async def add_situations(client: Client, agents: dict[str, str]) -> None:
    """Bring agents into the phases that want a person, and give others something to wake for."""
    await client.notify(agents["Barnaby"], "Where is my parcel?", source="sms")
    await client.patch(f"/api/cloud/agents/{agents['Noor']}/", paused=True)
    await client.patch(f"/api/cloud/agents/{agents['Ines']}/", max_cost_usd_per_day=1)
    now = datetime.now(UTC)
    for hours, name in enumerate(("Grace", "Tomoko", "Yusuf", "Lena", "Ravi"), start=1):
        due_at = now + timedelta(hours=3 * hours)
        await client.notify(agents[name], "Call the depot", source="system", scheduled_for=due_at.isoformat())
    await client.notify(agents["Mila"], "Newsletter of the union", source="email", priority="low")


async def add_usage(client: Client, agents: dict[str, str]) -> None:
    """Report model calls of two weeks."""
    now = datetime.now(UTC)
    for day in range(DAYS):
        for number, (model, cost) in enumerate(MODELS):
            await client.post(
                f"/api/cloud/agents/{agents['Ines']}/usage/",
                model=model,
                input_tokens=1200 * (day % 5 + 1),
                output_tokens=300 * (number + 1),
                cost_usd=round(cost * (1 + (day * 3 + number) % 4), 2),
                occurred_at=(now - timedelta(days=day)).isoformat(),
            )
    await client.notify(agents["Ines"], "One more customer", source="sms")


async def add_toolbox(client: Client, template: str) -> dict[str, str]:
    """Create an adapter with a tool and its configuration."""
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "enum": ["north", "south"], "description": "Which depots to ask."},
            "days": {"type": "integer", "minimum": 1, "description": "How far to look back."},
        },
        "required": ["region"],
    }
    adapter = await client.post(
        "/api/toolbox/adapters/", name="Parcels", description="The parcel database.", config_schema=schema
    )
    await client.post(
        "/api/toolbox/tools/",
        adapter=adapter["id"],
        name="look_up_parcel",
        description="Find a parcel by its number.",
        parameters={"type": "object", "properties": {"number": {"type": "string"}}},
        url="https://parcels.example/look-up",
    )
    config = {"template": template, "adapter": adapter["id"], "config": {"region": "north", "days": 7}}
    await client.post("/api/toolbox/adapter-configs/", **config)
    return {"adapter": adapter["id"]}
