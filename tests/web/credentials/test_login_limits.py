"""Who can still log in, and what is answered, while others guess passwords and codes."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from time import perf_counter
from typing import Any

import pytest

from tests.web.conftest import Answer, Api, Service, StartService
from tests.web.people import new_user
from web.app_keys import PASSWORDS
from web.credentials.formats import hash_secret

SIGNUP = "/api/organizations/auth/signup/"
LOGIN = "/api/organizations/auth/login/"
RESET = "/api/organizations/auth/reset/"
CHANGE = "/api/organizations/auth/password/"
INVITES = "/api/organizations/invites/"
PASSWORD = "correct horse"
HOME, ELSEWHERE = "203.0.113.1", "203.0.113.2"


@pytest.fixture
async def service(start_service: StartService) -> Service:
    """Return a service behind a proxy, on which Ann and Bob have signed up from one address."""
    return await start_service(trusted_proxies=(ip_network("127.0.0.0/8"),))


async def send(service: Service, path: str, address: str, **body: Any) -> Answer:
    return await service.nobody.post(path, body, headers={"X-Forwarded-For": address})


async def sign_up(service: Service, name: str) -> None:
    body = {"email": f"{name}@example.com", "password": PASSWORD, "organization_name": name}
    assert (await send(service, SIGNUP, HOME, **body)).status == 201


async def log_in(service: Service, name: str, address: str = HOME, password: str = PASSWORD) -> Answer:
    return await send(service, LOGIN, address, email=f"{name}@example.com", password=password)


async def spray(service: Service, address: str = HOME) -> Answer:
    """Try one password with many accounts; return the first refusal."""
    for number in range(40):
        answer = await log_in(service, f"nobody{number}", address, "guess")
        if answer.status == 429:
            return answer
    raise AssertionError("nothing limits an address")


async def guess_from_everywhere(service: Service, name: str) -> None:
    """Guess the password of one account from many addresses."""
    for number in range(40):
        assert (await log_in(service, name, f"198.51.100.{number}", "guess")).status == 401


async def test_colleague_who_mistypes_locks_out_nobody_else(service: Service) -> None:
    await sign_up(service, "ann")
    await sign_up(service, "bob")
    assert [(await log_in(service, "bob", HOME, "wrong")).status for _ in range(11)] == [401] * 10 + [429]
    assert (await log_in(service, "ann")).status == 200
    assert (await log_in(service, "bob", ELSEWHERE)).status == 200


async def test_neighbour_of_a_guesser_logs_in_where_it_did_before(service: Service) -> None:
    await sign_up(service, "ann")
    await sign_up(service, "bob")
    assert (await log_in(service, "bob", ELSEWHERE)).status == 200
    refused = await spray(service)
    assert "30 wrong attempts from one address" in refused.body["detail"]
    assert 0 < int(refused.headers["Retry-After"]) <= 10
    assert (await log_in(service, "ann")).status == 200
    await spray(service, "203.0.113.3")
    assert (await log_in(service, "ann", "203.0.113.3")).status == 429
    assert (await log_in(service, "ann", ELSEWHERE)).status == 200


async def test_owner_logs_in_while_many_addresses_guess(service: Service) -> None:
    await sign_up(service, "ann")
    await guess_from_everywhere(service, "ann")
    assert (await log_in(service, "ann", ELSEWHERE)).status == 200
    assert (await log_in(service, "ann", HOME)).status == 200


async def test_restarted_service_knows_the_addresses_of_an_owner(
    service: Service, start_service: StartService
) -> None:
    await sign_up(service, "ann")
    assert (await log_in(service, "ann", ELSEWHERE)).status == 200
    restarted = await start_service(trusted_proxies=(ip_network("127.0.0.0/8"),))
    await spray(restarted, ELSEWHERE)
    assert (await log_in(restarted, "ann", ELSEWHERE)).status == 200


async def test_unknown_accounts_are_refused_like_known_ones(service: Service) -> None:
    await sign_up(service, "ann")
    await spray(service)
    answers = [[await log_in(service, name, HOME, "guess") for _ in range(11)] for name in ("ann", "eve")]
    for of_known, of_unknown in zip(*answers, strict=True):
        assert of_known.status == of_unknown.status == 429
    assert [
        "at one account from one address" in of_one[-1].body["detail"]
        and "at one account from one address" not in of_one[-2].body["detail"]
        for of_one in answers
    ] == [True, True]


@pytest.mark.one_node
@pytest.mark.real_time
async def test_unchecked_attempt_takes_as_long_as_a_check(service: Service) -> None:
    await spray(service)
    began = perf_counter()
    assert (await log_in(service, "eve", HOME, "guess")).status == 429
    assert perf_counter() - began >= service.app[PASSWORDS].usual_seconds


async def test_right_reset_code_gets_in_while_others_guess(service: Service) -> None:
    await sign_up(service, "ann")
    until = datetime.now(UTC) + timedelta(hours=1)
    await service.storage.accounts.set_reset_code("ann@example.com", hash_secret("the code"), until)
    await guess_from_everywhere(service, "ann")
    await spray(service, ELSEWHERE)
    body = {"email": "ann@example.com", "new_password": "battery staple"}
    assert (await send(service, RESET, ELSEWHERE, **body, code="guess")).status == 429
    assert (await send(service, RESET, ELSEWHERE, **body, code="the code")).status == 200
    assert (await log_in(service, "ann", ELSEWHERE, "battery staple")).status == 200


async def test_guessed_codes_of_one_address_are_limited(service: Service) -> None:
    for number in range(30):
        email = f"nobody{number}@example.com"
        answer = await send(service, RESET, HOME, email=email, code="guess", new_password="battery staple")
        assert answer.status == 400
    answer = await send(service, RESET, HOME, email="a@b.io", code="guess", new_password="battery staple")
    assert answer.status == 429


async def test_taken_addresses_are_not_found_out_quickly(service: Service) -> None:
    await sign_up(service, "ann")
    body = {"email": "ann@example.com", "password": PASSWORD, "organization_name": "Acme"}
    statuses = [(await send(service, SIGNUP, HOME, **body)).status for _ in range(11)]
    assert statuses == [400] * 10 + [429]
    assert (await log_in(service, "ann")).status == 200


async def test_own_invites_do_not_find_out_taken_addresses_quickly(service: Service, api: Api) -> None:
    invites = []
    for name in [*(f"taken{number}" for number in range(11)), "free"]:
        if name != "free":
            await new_user(service, f"{name}@example.com")
        invites.append(await api.create(INVITES, email=f"{name}@example.com"))

    async def accept(invite: Any, address: str) -> int:
        body = {"code": invite["code"], "password": "a wrong guess"}
        return (await send(service, f"{INVITES}{invite['id']}/accept/", address, **body)).status

    assert [await accept(invite, HOME) for invite in invites] == [401] * 10 + [429, 429]
    assert await accept(invites[-1], ELSEWHERE) == 200


async def test_changed_password_makes_an_address_known(service: Service) -> None:
    await sign_up(service, "ann")
    token = (await log_in(service, "ann")).body["token"]
    ann = service.nobody.with_authorization(f"Token {token}")
    body = {"current_password": PASSWORD, "new_password": PASSWORD}
    assert (await ann.post(CHANGE, body, headers={"X-Forwarded-For": ELSEWHERE})).status == 200
    await spray(service, ELSEWHERE)
    assert (await log_in(service, "ann", ELSEWHERE)).status == 200
