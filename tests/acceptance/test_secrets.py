"""Secrets appear once, in the response that issues them, and in no log line, other response or table."""

import asyncio
import base64
import secrets
import sys
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import aiohttp
import aiopg
import pytest

from tests.acceptance.client import Client
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.leaks import contents

AUTH = "/api/organizations/auth/"
API_KEYS = "/api/organizations/api-keys/"
INVITES = "/api/organizations/invites/"
TEMPLATES = "/api/templates/"
AGENTS = "/api/cloud/agents/"

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

RENAME_TABLE = "ALTER TABLE membership RENAME TO elsewhere"
REFUSE_TEMPLATES = "ALTER TABLE template ADD CHECK (tool_call_secret = '') NOT VALID"
RESTORE_TABLE = "ALTER TABLE elsewhere RENAME TO membership"


def random_secret(kind: str) -> str:
    """Return a new secret."""
    return f"{kind}-{secrets.token_urlsafe(24)}"


@dataclass
class Witness:
    """A client that records every response with status, headers and body."""

    session: aiohttp.ClientSession
    url: str
    responses: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, status: int, authorization: str = "", **options: Any) -> Any:
        headers = {"Authorization": authorization, **options.pop("headers", {})}
        async with self.session.request(method, self.url + path, headers=headers, **options) as response:
            text = await response.text()
            self.responses.append(f"{response.status} {response.headers}\n{text}")
            assert response.status == status, f"{method} {path}: {response.status} {text}"
            return await response.json() if text else None

    async def send_raw(self, *lines: str) -> None:
        """Send lines that are not valid HTTP."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write("\r\n".join(lines).encode())
        writer.write_eof()
        self.responses.append((await reader.read()).decode())
        writer.close()

    def count_responses(self, secret: str) -> int:
        return sum(secret in response for response in self.responses)


@dataclass
class Secrets:
    """Secrets to look for: `planted` ones came from clients, `issued` ones were in one response."""

    planted: list[str] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)

    def plant(self, kind: str) -> str:
        self.planted.append(random_secret(kind))
        return self.planted[-1]

    def note(self, secret: str) -> str:
        self.issued.append(secret)
        return secret


async def sign_up_and_log_in(witness: Witness, known: Secrets, email: str) -> str:
    """Sign up and log in, with valid and invalid requests. Return the authorization of a user."""
    password = known.plant("password")
    new = {"email": email, "password": password, "organization_name": "Example"}
    token = known.note((await witness.ask("POST", f"{AUTH}signup/", 201, json=new))["token"])
    await witness.ask("POST", f"{AUTH}signup/", 400, json=new)
    await witness.ask("POST", f"{AUTH}signup/", 400, json={**new, "email": known.plant("in a wrong field")})
    await witness.ask("POST", f"{AUTH}signup/", 400, json={**new, "password": [known.plant("list")]})
    await witness.ask("POST", f"{AUTH}signup/", 400, json={**new, "password": known.plant("long") * 9})
    await witness.ask(
        "POST", f"{AUTH}signup/", 400, data=f'password="{known.plant("broken JSON")}', headers=JSON
    )
    await witness.ask("POST", f"{AUTH}signup/", 400, data=f"password={known.plant('form')}%", headers=FORM)
    await witness.ask(
        "POST", f"{AUTH}signup/", 415, data=known.plant("text"), headers={"Content-Type": "x/y"}
    )
    wrong = {"email": email, "password": known.plant("wrong")}
    await witness.ask("POST", f"{AUTH}login/", 401, json=wrong)
    login = {"email": email, "password": password}
    known.note((await witness.ask("POST", f"{AUTH}login/", 200, data=login))["token"])
    change = {"current_password": password, "new_password": known.plant("password")}
    user = f"Token {token}"
    token = known.note((await witness.ask("POST", f"{AUTH}password/", 200, user, json=change))["token"])
    await witness.ask("GET", API_KEYS, 401, user)
    return f"Token {token}"


async def use_keys(witness: Witness, known: Secrets, user: str) -> str:
    """Create a key and use it in every way. Return the authorization with it."""
    key = await witness.ask("POST", API_KEYS, 201, user, json={"name": "k"}, headers={"Idempotency-Key": "1"})
    text = known.note(key["key"])
    authorization = f"Bearer {text}"
    await witness.ask("GET", API_KEYS, 200, authorization)
    await witness.ask("GET", f"{API_KEYS}{key['id']}/", 200, authorization)
    await witness.ask("PATCH", f"{API_KEYS}{key['id']}/", 200, user, json={"name": text[:4]})
    await witness.ask("GET", AGENTS, 401, f"Token {text}")
    await witness.ask("GET", AGENTS, 401, f"Bearer {known.plant('hsk')}")
    await witness.ask("GET", "/status/", 401, authorization)
    await witness.send_raw("GET / HTTP/1.1", "Host: x", f"Authorization {known.plant('no header')}", "", "")
    await witness.send_raw("GET / HTTP/1.1", "Host: x", f"Authorization: {known.plant('NUL')}\0", "", "")
    await witness.send_raw(known.plant("no request"), "", "")
    return authorization


async def invite(witness: Witness, known: Secrets, user: str) -> None:
    body = {"email": f"{uuid4().hex}@example.org"}
    invited = await witness.ask("POST", INVITES, 201, user, json=body)
    path = f"{INVITES}{invited['id']}/accept/"
    code, password = known.note(invited["code"]), known.plant("password")
    await witness.ask("GET", INVITES, 200, user)
    await witness.ask("POST", path, 400, json={"code": known.plant("code"), "password": password})
    taken = await witness.ask("POST", path, 200, json={"code": code, "password": password})
    known.note(taken["token"])
    await witness.ask("POST", path, 400, json={"code": code, "password": password})


async def run_an_agent(witness: Witness, known: Secrets, key: str) -> None:
    """Run an agent, and get every resource that shows it."""
    once = {"Idempotency-Key": "2"}
    for _ in range(2):
        body = {"name": "Desk", "default_model": "builtin/inbox"}
        template = await witness.ask("POST", TEMPLATES, 201, key, json=body, headers=once)
    agent = await witness.ask("POST", AGENTS, 201, key, json={"name": "Ann", "template": template["id"]})
    high = {"agent": agent["id"], "title": "Hello", "priority": "high"}
    await witness.ask("POST", "/api/defaults/notifications/", 201, key, json=high, headers=once)
    await Client(witness.session, witness.url, key).ended_run(agent["id"])
    operator = f"Bearer {OPERATOR_TOKEN}"
    for path, authorization in (
        (f"{AGENTS}{agent['id']}/supervisor/", key),
        (f"{AGENTS}{agent['id']}/runs/", key),
        ("/api/tracing/traces/", key),
        ("/api/organizations/organizations/", key),
        ("/api/organizations/memberships/", key),
        ("/api/schema/", ""),
        ("/status/", operator),
        ("/status/supervisors/", operator),
        (f"/status/supervisors/{agent['id']}/", operator),
    ):
        await witness.ask("GET", path, 200, authorization)


async def reset_password(witness: Witness, known: Secrets, services: Services, email: str) -> None:
    """Reset a password with a code from the command line, which no response contains."""
    command = ("-m", "hostsvc", "accounts", "reset-password", email, "--config", "service-1.toml")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=services.directory, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    code = max(printed.decode().split(), key=len)
    known.planted.append(code)
    body = {"email": email, "code": known.plant("code"), "new_password": known.plant("password")}
    await witness.ask("POST", f"{AUTH}reset/", 400, json=body)
    account = await witness.ask("POST", f"{AUTH}reset/", 200, json={**body, "code": code})
    known.note(account["token"])
    await witness.ask("POST", f"{AUTH}logout/", 204, f"Token {account['token']}")


async def cause_an_internal_error(witness: Witness, known: Secrets, database_url: str, key: str) -> None:
    """Cause errors while secrets are handled; the log must not contain them."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(RENAME_TABLE)
        login = {"email": f"{uuid4().hex}@example.org", "password": known.plant("password")}
        await witness.ask("POST", f"{AUTH}signup/", 500, json={**login, "organization_name": "Example"})
        await witness.ask("GET", "/api/organizations/memberships/", 500, key)
        await cursor.execute(RESTORE_TABLE)
        await cursor.execute(REFUSE_TEMPLATES)  # the error quotes the row
        template = {"name": "Desk", "tool_call_secret": known.plant("whsec")}
        await witness.ask("POST", TEMPLATES, 500, key, json=template)


@pytest.mark.everyday
async def test_secrets_appear_only_in_the_issuing_response(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    known = Secrets(planted=[OPERATOR_TOKEN])
    service = await services.start(
        log={"level": "debug"}, accounts={"token_secret": known.plant("token secret of the configuration")}
    )
    witness = Witness(session, service.url)
    email = f"{uuid4().hex}@example.org"
    user = await sign_up_and_log_in(witness, known, email)
    key = await use_keys(witness, known, user)
    await invite(witness, known, user)
    await run_an_agent(witness, known, key)
    await cause_an_internal_error(witness, known, database_url, key)
    await reset_password(witness, known, services, email)
    await service.close()

    log, rows = service.log(), contents(database_url)
    assert email in rows, "the rows can be read"
    assert "request failed" in log, "the log belongs to the service"
    for secret in known.planted:
        assert witness.count_responses(secret) == 0, secret
    for secret in known.issued:
        # Two tokens of a user issued in the same second are equal.
        assert witness.count_responses(secret) == known.issued.count(secret), secret
    for secret in (*known.planted, *known.issued):
        assert secret not in log, secret
        assert secret not in rows, secret


KEY, NEXT_KEY = (base64.urlsafe_b64encode(secrets.token_bytes(32)).decode() for _ in range(2))


async def configure_tools(witness: Witness, known: Secrets, key: str) -> tuple[str, dict[str, Any]]:
    """Create a template and an adapter config with secrets. Return the path and body of each answer."""
    body = {"name": "Desk", "tool_call_secret": known.plant("whsec")}
    once = {"Idempotency-Key": "desk"}
    desk = await witness.ask("POST", TEMPLATES, 201, key, json=body, headers=once)
    again = await witness.ask("POST", TEMPLATES, 201, key, json=body, headers=once)
    assert again == {**desk, "tool_call_secret": None}
    change = {"tool_call_secret": known.plant("whsec")}
    path = f"{TEMPLATES}{desk['id']}/"
    desk = await witness.ask("PATCH", path, 200, key, json=change)
    adapter = await witness.ask("POST", "/api/toolbox/adapters/", 201, key, json={"name": "CRM"})
    config = {"password": known.plant("config"), "users": [1, None]}
    configured = {"template": desk["id"], "adapter": adapter["id"], "config": config}
    await witness.ask("POST", "/api/toolbox/adapter-configs/", 201, key, json=configured)
    return path, desk


async def rotate_keys(services: Services, config: str) -> str:
    command = ("-m", "hostsvc", "rotate-keys", "--config", config)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=services.directory, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed
    return printed.decode()


async def test_encrypted_secrets_survive_rotation_and_are_in_no_table(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    known = Secrets()
    first = await services.start(accounts={"encryption_keys": [KEY]})
    witness = Witness(session, first.url)
    user = await sign_up_and_log_in(witness, known, f"{uuid4().hex}@example.org")
    path, desk = await configure_tools(witness, known, user)
    await first.close()

    second = await services.start(accounts={"encryption_keys": [NEXT_KEY, KEY]})
    assert "run `hostsvc rotate-keys`" in second.log()
    printed = await rotate_keys(services, "service-2.toml")  # while the service runs
    assert "secrets of templates: 1, encrypted now: 1\nadapter configs: 1, encrypted now: 1\n" in printed
    assert await Witness(session, second.url).ask("GET", path, 200, user) == desk
    await second.close()

    third = await services.start(accounts={"encryption_keys": [NEXT_KEY]})
    assert await Witness(session, third.url).ask("GET", path, 200, user) == desk  # by the same token secret
    without = await services.spawn()
    assert await without.exit_code() == 2, "it must not stand by, to refuse only when it takes over"
    assert "which is not in accounts.encryption_keys" in without.log()
    await third.close()

    rows = contents(database_url)
    texts = [rows, printed, *(service.log() for service in (first, second, third, without))]
    assert desk["id"] in rows, "the rows can be read"
    assert "rotate-keys" not in third.log()
    for secret in (*known.planted, *known.issued, KEY, NEXT_KEY):
        assert all(secret not in text for text in texts), secret
