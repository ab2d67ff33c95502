"""Secrets are told once, to whom they are for; no log line, other answer or row of a table has them."""

import asyncio
import secrets
import sys
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import aiohttp
import aiopg

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

BREAK = "ALTER TABLE membership RENAME TO elsewhere"
MEND = "ALTER TABLE elsewhere RENAME TO membership"


def invented(kind: str) -> str:
    """A secret that nobody else has."""
    return f"{kind}-{secrets.token_urlsafe(24)}"


@dataclass
class Witness:
    """Sends requests, and keeps every answer as it came: its status, headers and body."""

    session: aiohttp.ClientSession
    url: str
    answers: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, status: int, authorization: str = "", **options: Any) -> Any:
        headers = {"Authorization": authorization, **options.pop("headers", {})}
        async with self.session.request(method, self.url + path, headers=headers, **options) as response:
            text = await response.text()
            self.answers.append(f"{response.status} {response.headers}\n{text}")
            assert response.status == status, f"{method} {path}: {response.status} {text}"
            return await response.json() if text else None

    async def say(self, *lines: str) -> None:
        """Something that is hardly HTTP."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write("\r\n".join(lines).encode())
        writer.write_eof()
        self.answers.append((await reader.read()).decode())
        writer.close()

    def times_told(self, secret: str) -> int:
        return sum(secret in answer for answer in self.answers)


@dataclass
class Secrets:
    """What must not be found: `planted` ones came from outside, `issued` ones were told in one answer."""

    planted: list[str] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)

    def plant(self, kind: str) -> str:
        self.planted.append(invented(kind))
        return self.planted[-1]

    def note(self, secret: str) -> str:
        self.issued.append(secret)
        return secret


async def find_ways_in(witness: Witness, known: Secrets, email: str) -> str:
    """Sign up and log in, in right ways and wrong ones; the authorization of a user."""
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
    """Make a key and look at it in all ways; the authorization by it."""
    key = await witness.ask("POST", API_KEYS, 201, user, json={"name": "k"}, headers={"Idempotency-Key": "1"})
    text = known.note(key["key"])
    authorization = f"Bearer {text}"
    await witness.ask("GET", API_KEYS, 200, authorization)
    await witness.ask("GET", f"{API_KEYS}{key['id']}/", 200, authorization)
    await witness.ask("PATCH", f"{API_KEYS}{key['id']}/", 200, user, json={"name": text[:4]})
    await witness.ask("GET", AGENTS, 401, f"Token {text}")
    await witness.ask("GET", AGENTS, 401, f"Bearer {known.plant('hsk')}")
    await witness.ask("GET", "/status/", 401, authorization)
    await witness.say("GET / HTTP/1.1", "Host: x", f"Authorization {known.plant('no header')}", "", "")
    await witness.say("GET / HTTP/1.1", "Host: x", f"Authorization: {known.plant('NUL')}\0", "", "")
    await witness.say(known.plant("no request"), "", "")
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


async def work(witness: Witness, known: Secrets, key: str) -> None:
    """A run, and all that tells of it."""
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


async def lose_password(witness: Witness, known: Secrets, services: Services, email: str) -> None:
    """The code is told by the command line, which an operator holds; no answer has it."""
    command = ("-m", "hostsvc", "accounts", "reset-password", email, "--config", "service-1.toml")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=services.directory, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    code = max(printed.decode().split(), key=len)
    known.planted.append(code)
    body = {"email": email, "code": known.plant("code"), "new_password": known.plant("password")}
    await witness.ask("POST", f"{AUTH}reset/", 400, json=body)
    answer = await witness.ask("POST", f"{AUTH}reset/", 200, json={**body, "code": code})
    known.note(answer["token"])
    await witness.ask("POST", f"{AUTH}logout/", 204, f"Token {answer['token']}")


async def meet_a_defect(witness: Witness, known: Secrets, database_url: str, key: str) -> None:
    """What goes wrong in the middle of handling a secret is logged without it."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(BREAK)
        login = {"email": f"{uuid4().hex}@example.org", "password": known.plant("password")}
        await witness.ask("POST", f"{AUTH}signup/", 500, json={**login, "organization_name": "Example"})
        await witness.ask("GET", "/api/organizations/memberships/", 500, key)
        await cursor.execute(MEND)


async def test_secrets_are_told_once_and_kept_nowhere(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    known = Secrets(planted=[OPERATOR_TOKEN])
    service = await services.start(
        log={"level": "debug"}, accounts={"token_secret": known.plant("token secret of the configuration")}
    )
    witness = Witness(session, service.url)
    email = f"{uuid4().hex}@example.org"
    user = await find_ways_in(witness, known, email)
    key = await use_keys(witness, known, user)
    await invite(witness, known, user)
    await work(witness, known, key)
    await meet_a_defect(witness, known, database_url, key)
    await lose_password(witness, known, services, email)
    await service.close()

    log, rows = service.log(), await contents(database_url)
    assert email in rows, "the rows can be read"
    assert "request failed" in log, "the log is that of the service"
    for secret in known.planted:
        assert witness.times_told(secret) == 0, secret
    for secret in known.issued:
        # Two tokens that a user is issued in the same second are one.
        assert witness.times_told(secret) == known.issued.count(secret), secret
    for secret in (*known.planted, *known.issued):
        assert secret not in log, secret
        assert secret not in rows, secret
