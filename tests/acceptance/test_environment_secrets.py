"""Secrets of a template in a running service: its code gets them, and nobody else sees them."""

import asyncio
import base64
import json
import os
import secrets
import stat
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.client import Client, Json, sign_up
from tests.acceptance.harnesses import COMMON
from tests.acceptance.services import Services
from tests.git_repository import GitRepository
from tests.leaks import contents
from tests.processes import content, marked

ENCRYPTION_KEY = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
VALUE = f"sk-live-{secrets.token_urlsafe(24)}"
WAITS = """
from common import *
report("seen", [os.environ["MODEL_KEY"], os.environ["CRM_KEY"], "UNNAMED" in os.environ])
wait_for("go")
sys.exit("refused: " + os.environ["MODEL_KEY"])
"""


def command_lines() -> str:
    """Return the arguments of all processes."""
    lines = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines.append(Path(f"/proc/{entry}/cmdline").read_text(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


async def start_agent(client: Client) -> str:
    """Store secrets, and start an agent whose template names two of them."""
    template = (
        await client.post("/api/templates/", name="Desk", environment_secrets=["MODEL_KEY", "CRM_KEY"])
    )["id"]
    of_all, of_template = "/api/organizations/secrets/", f"/api/templates/{template}/secrets/"
    await client.post(of_all, name="MODEL_KEY", value="of the organization")
    await client.post(of_all, name="CRM_KEY", value="of the organization")
    await client.post(of_all, name="UNNAMED", value="of the organization")
    await client.post(of_template, name="MODEL_KEY", value=VALUE)
    agent = await client.create_agent(template=template)
    assert (await client.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"
    return agent


async def everything_shown(client: Client, run: Json) -> str:
    """Return what the API shows of the agent and its run, as one text."""
    agent = f"/api/cloud/agents/{run['agent']}/"
    trace = await client.trace(run)
    spans = [await client.get(f"/api/tracing/spans/{span['id']}/") for span in trace["spans"]]
    paths = ("/api/templates/", "/api/organizations/secrets/", agent, f"{agent}runs/", f"{agent}supervisor/")
    return json.dumps([trace, spans, *[await client.get(path) for path in paths]])


@pytest.mark.everyday
async def test_code_gets_its_secrets_and_nobody_else_sees_them(
    services: Services, session: aiohttp.ClientSession, directory: Path, database_url: str
) -> None:
    (directory / "reports").mkdir()
    repository = GitRepository.make(directory / "agents")
    repository.commit(common=COMMON, run=WAITS)
    harness = {
        "kind": "process",
        "repository": str(repository.path),
        "command": [sys.executable, "-S", "-B", "run.py"],
        "cache_dir": str(directory / "cache"),
    }
    accounts = {"encryption_keys": [ENCRYPTION_KEY]}
    service = await services.start(harness=harness, accounts=accounts, log={"level": "debug", "access": True})
    client = await sign_up(session, service.url)
    agent = await start_agent(client)

    seen = json.loads(await content(directory / "reports/seen"))
    assert seen == [VALUE, "of the organization", False]
    [run] = await client.runs(agent)
    processes = marked(VALUE)
    assert processes == marked(f"HOSTSVC_RUN_ID={run['id']}"), "the service has it not"
    assert [stat.S_IMODE(os.stat(f"/proc/{each}/environ").st_mode) for each in processes] == [0o400]
    assert VALUE not in await asyncio.to_thread(command_lines)

    (directory / "reports/go").touch()
    ended = await client.ended_run(agent)
    assert (ended["outcome"], ended["error"]) == ("failed", "exit code 1: refused: [secret]")
    shown = await everything_shown(client, ended)
    await service.close()
    rows = contents(database_url)
    assert "refused: [secret]" in rows
    for text in (shown, rows, service.log()):
        assert VALUE not in text
        assert "of the organization" not in text
