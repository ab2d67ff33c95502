"""Logging out, changing a password, and resetting one that was lost."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.web.conftest import Answer, Api, Service
from web.credentials.formats import hash_secret

SIGNUP = "/api/organizations/auth/signup/"
LOGIN = "/api/organizations/auth/login/"
LOGOUT = "/api/organizations/auth/logout/"
PASSWORD = "/api/organizations/auth/password/"
RESET = "/api/organizations/auth/reset/"
AGENTS = "/api/cloud/agents/"
ANN = {"email": "ann@example.com", "password": "correct horse", "organization_name": "Acme"}
CODE = "the code that an operator gave"
WRONG_CODE = {"code": ["The code is wrong, used or expired."]}


async def sign_up(service: Service) -> Api:
    return with_token(service, await service.nobody.post(SIGNUP, ANN))


async def log_in(service: Service, password: str = ANN["password"]) -> Answer:
    return await service.nobody.post(LOGIN, {"email": ANN["email"], "password": password})


def with_token(service: Service, answer: Answer) -> Api:
    return service.nobody.with_authorization(f"Token {answer.body['token']}")


async def keep_code(service: Service, expires_in: timedelta = timedelta(hours=1)) -> None:
    """Store a reset code, like the operator's command."""
    until = datetime.now(UTC) + expires_in
    assert await service.storage.accounts.set_reset_code(ANN["email"], hash_secret(CODE), until)


async def reset(service: Service, **changes: Any) -> Answer:
    body = {"email": "Ann@EXAMPLE.com", "code": CODE, "new_password": "battery staple", **changes}
    return await service.nobody.post(RESET, body)


async def test_logout_invalidates_all_tokens_of_user(service: Service) -> None:
    here = await sign_up(service)
    there = with_token(service, await log_in(service))

    answer = await here.post(LOGOUT)

    assert (answer.status, answer.body) == (204, "")
    assert [(await each.get(AGENTS)).status for each in (here, there)] == [401, 401]
    assert (await with_token(service, await log_in(service)).get(AGENTS)).status == 200


async def test_changed_password_invalidates_older_tokens(service: Service) -> None:
    ann = await sign_up(service)

    answer = await ann.post(PASSWORD, {"current_password": ANN["password"], "new_password": "battery staple"})

    assert (answer.status, set(answer.body)) == (200, {"token"})
    assert (await ann.get(AGENTS)).status == 401
    assert (await with_token(service, answer).get(AGENTS)).status == 200
    assert (await log_in(service)).status == 401
    assert (await log_in(service, "battery staple")).status == 200


async def test_wrong_password_changes_nothing(service: Service) -> None:
    ann = await sign_up(service)

    answer = await ann.post(PASSWORD, {"current_password": "wrong", "new_password": "battery staple"})

    assert (answer.status, answer.body) == (400, {"current_password": ["Wrong password."]})
    assert (await ann.get(AGENTS)).status == 200
    assert (await log_in(service)).status == 200


async def test_reset_code_works_once_among_concurrent_attempts(service: Service) -> None:
    ann = await sign_up(service)
    await keep_code(service)

    answers = await asyncio.gather(*(reset(service) for _ in range(3)))

    assert sorted(answer.status for answer in answers) == [200, 400, 400], answers
    [done] = [answer for answer in answers if answer.status == 200]
    assert (await with_token(service, done).get(AGENTS)).status == 200
    assert (await ann.get(AGENTS)).status == 401
    assert (await log_in(service, "battery staple")).status == 200


async def test_all_unusable_reset_codes_are_refused_alike(
    service: Service,
) -> None:
    await sign_up(service)
    refused = [await reset(service)]
    await keep_code(service)
    refused += [await reset(service, code="guessed"), await reset(service, email="nobody@example.com")]
    await keep_code(service, timedelta(seconds=-1))
    refused.append(await reset(service))

    assert [(answer.status, answer.body) for answer in refused] == [(400, WRONG_CODE)] * 4
    assert (await log_in(service)).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (RESET, {"email": "nobody@example.com", "code": "x", "new_password": "battery staple"}),
        (PASSWORD, {"current_password": "wrong", "new_password": "battery staple"}),
    ],
)
async def test_ten_refused_guesses_lock_out_address(
    service: Service, path: str, body: dict[str, str]
) -> None:
    ann = await sign_up(service)
    for _ in range(10):
        assert (await ann.post(path, body)).status == 400

    answer = await ann.post(path, body)

    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 300


async def test_too_short_password_is_refused(service: Service) -> None:
    ann = await sign_up(service)
    message = ["Ensure this field has at least 8 characters."]

    change = await ann.post(PASSWORD, {"current_password": ANN["password"], "new_password": "short"})
    by_code = await reset(service, new_password="short")

    assert (change.status, change.body) == (400, {"new_password": message})
    assert (by_code.status, by_code.body) == (400, {"new_password": message})
