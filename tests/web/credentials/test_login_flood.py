"""Log-ins while others send many anonymous log-ins and sign-ups at once."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector

from tests.web import conftest
from tests.web.conftest import Answer, Api, Service, StartService, cheap_start_and_passwords
from web.credentials import passwords

SIGNUP = "/api/organizations/auth/signup/"
LOGIN = "/api/organizations/auth/login/"
ANN = {"email": "ann@example.com", "password": "correct horse", "organization_name": "Acme"}
PROXIES = (ip_network("127.0.0.0/8"),)


def without_connection_limit(service: Service) -> ClientSession:
    return ClientSession(f"http://127.0.0.1:{service.address[1]}", connector=TCPConnector(limit=0))


async def send(client: ClientSession, address: str, path: str, body: dict[str, Any]) -> Answer:
    return await Api(client).post(path, body, headers={"X-Forwarded-For": address})


@contextmanager
def passwords_of_some_cost() -> Iterator[None]:
    """Let a hash take ten times as long as a request; the other tests have the cheapest hashes."""
    with cheap_start_and_passwords(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "MEMORY_KIB", 16_384)
        patch.setattr(passwords, "NOBODYS_HASH", passwords.NOBODYS_HASH.replace("m=8,", "m=16384,"))
        yield


async def test_known_account_is_not_behind_anonymous_attempts(
    start_service: StartService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "cheap_start_and_passwords", passwords_of_some_cost)
    service = await start_service(trusted_proxies=PROXIES)
    await service.nobody.post(SIGNUP, ANN)
    answered: list[tuple[str, int]] = []  # without those that were refused at once

    async def attempt(name: str, address: str, path: str, body: dict[str, Any]) -> None:
        answer = await send(client, address, path, body)
        if answer.status not in {429, 503}:
            answered.append((name, answer.status))

    async with without_connection_limit(service) as client, asyncio.TaskGroup() as group:
        for number in range(64):
            address, email = f"198.51.100.{number % 16}", f"{number}@example.com"
            if number % 4:
                flood = attempt("flood", address, LOGIN, {"email": email, "password": "guess"})
            else:
                flood = attempt("flood", address, SIGNUP, {**ANN, "email": email})
            group.create_task(flood)
        group.create_task(attempt("ann", "203.0.113.1", LOGIN, ANN))
    assert ("ann", 200) in answered
    assert answered.index(("ann", 200)) < 48  # of 65, in which she came last


async def test_attempts_of_one_address_at_once_are_limited(start_service: StartService) -> None:
    service = await start_service(trusted_proxies=PROXIES)
    async with without_connection_limit(service) as client, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                send(client, "198.51.100.1", LOGIN, {"email": "a@example.com", "password": "x"})
            )
            for _ in range(60)
        ]
    answers = [task.result() for task in tasks]
    assert Counter(answer.status for answer in answers)[401] <= 10
    for answer in answers:
        assert answer.status == 401 or int(answer.headers["Retry-After"]) >= 1


@pytest.mark.one_node  # each node grants its share of the quota
async def test_signups_of_one_address_are_limited(start_service: StartService) -> None:
    service = await start_service(signups_per_hour=2, trusted_proxies=PROXIES)
    statuses = []
    for number in range(3):
        body = {**ANN, "email": f"{number}@example.com"}
        answer = await send(service.client, "2001:db8::1", SIGNUP, body)
        statuses.append(answer.status)
    assert statuses == [201, 201, 429]
    assert "limits.signups_per_hour" in answer.body["detail"]
    elsewhere = await send(service.client, "2001:db8:0:1::1", SIGNUP, {**ANN, "email": "3@example.com"})
    assert elsewhere.status == 201
