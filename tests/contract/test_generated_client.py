"""A client that openapi-python-client makes from the served document does the main job."""

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.client import eventually
from tests.acceptance.process import Sections, serving

PACKAGE = "client_of_hostsvc"


async def generate(url: str, directory: Path) -> str:
    """Make the client's package there; what the generator complains about is returned."""
    document, config = directory / "openapi.json", directory / "config.yml"
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/schema/") as response:
        document.write_bytes(await response.read())
    config.write_text("post_hooks: []\n")
    generator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"),
        *("--path", str(document), "--config", str(config), "--output-path", str(directory / PACKAGE)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await generator.communicate()
    return output.decode() if generator.returncode else ""


class Generated:
    """The parts of the generated package, by name."""

    def call(self, tag: str, operation: str) -> Callable[..., Any]:
        call: Callable[..., Any] = import_module(f"{PACKAGE}.api.{tag}.{operation}").asyncio
        return call

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f"{PACKAGE}.models"), name)

    def client(self, url: str) -> Any:
        return import_module(PACKAGE).Client(base_url=url, raise_on_unexpected_status=True)

    def authenticated(self, url: str, credential: str, scheme: str) -> Any:
        return import_module(PACKAGE).AuthenticatedClient(
            base_url=url, token=credential, prefix=scheme, raise_on_unexpected_status=True
        )


async def test_generated_client_does_the_main_job(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(tmp_path, "service", sections) as process:
        assert await generate(process.url, tmp_path) == ""
        monkeypatch.syspath_prepend(str(tmp_path))
        await do_the_main_job(Generated(), process.url)


async def do_the_main_job(made: Generated, url: str) -> None:
    """Sign up, make a key, a template and an agent, send it something, see its run, see it asleep."""
    async with made.client(url) as anyone:
        signed_up = await made.call("auth", "sign_up")(
            client=anyone,
            body=made.SignupBody(
                email="ada@example.org", password="correct horse", organization_name="Example"
            ),
        )
    async with made.authenticated(url, signed_up.token, "Token") as user:
        key = await made.call("api_keys", "create_key")(client=user, body=made.NewApiKeyBody(name="server"))
    async with made.authenticated(url, key.key, "Bearer") as server:
        await have_an_agent_work(made, server)


async def have_an_agent_work(made: Generated, server: Any) -> None:
    template = await made.call("templates", "create_template")(
        client=server, body=made.TemplateBody(name="Support", default_model="builtin/inbox")
    )
    agent = await made.call("agents", "create_agent")(
        client=server, body=made.AgentBody(name="Grace", template=template.id, max_sleep_hours=8)
    )
    assert (agent.model, agent.status) == ("builtin/inbox", made.AgentStatus.SLEEPING)
    notification = await made.call("notifications", "create_notification")(
        client=server,
        body=made.NewNotificationBody(agent=agent.id, title="Hello", priority=made.Priority.HIGH),
    )

    async def ended_run() -> Any:
        runs = await made.call("agents", "list_runs")(agent.id, client=server)
        return next((run for run in runs if run.ended_at), None)

    run = await eventually(ended_run, "the run to be over")
    assert (run.outcome, run.notifications) == (made.Outcome.SLEPT, [notification.id])
    await made.call("agents", "get_run")(agent.id, run.id, client=server, wait=10)  # until it has wound up
    trace = await made.call("traces", "get_trace")(run.trace, client=server)
    assert trace.total_spans == len(trace.spans) > 0
    cleared = await made.call("notifications", "get_notification")(notification.id, client=server)
    assert cleared.cleared
    asleep = await made.call("agents", "get_agent")(agent.id, client=server)
    assert (asleep.status, asleep.last_wake_reason) == (made.AgentStatus.SLEEPING, "notification:api")
    assert asleep.sleep_until is not None
