"""Sign-up and login over HTTP."""

from ipaddress import ip_network
from typing import Any

from tests.web.conftest import Answer, Api, Service, StartService
from tests.web.people import as_user, new_user

SIGNUP = "/api/organizations/auth/signup/"
LOGIN = "/api/organizations/auth/login/"
ME = "/api/organizations/auth/me/"
KEYS = "/api/organizations/api-keys/"
ANN = {"email": "Ann@Example.com", "password": "correct horse", "organization_name": " Acme ", "name": "Ann"}
REFUSE_WRITES = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON login_network EXECUTE FUNCTION refuse();
"""
WRONG = {"detail": "Unable to log in with provided credentials."}


async def sign_up(service: Service, **changes: Any) -> Answer:
    return await service.nobody.post(SIGNUP, {**ANN, **changes})


async def log_in(service: Service, email: str, password: str, **headers: str) -> Answer:
    return await service.nobody.post(LOGIN, {"email": email, "password": password}, headers=headers)


async def test_signup_returns_a_working_token(service: Service) -> None:
    answer = await sign_up(service)
    assert answer.status == 201
    assert set(answer.body) == {"token", "user", "organization"}
    assert answer.body["user"] == {"id": answer.body["user"]["id"], "email": "Ann@Example.com", "name": "Ann"}
    assert answer.body["organization"]["name"] == "Acme"
    ann = service.nobody.with_authorization(f"Token {answer.body['token']}")
    assert (await ann.get("/api/cloud/agents/")).body == []


async def test_login_ignores_the_case_of_the_address(service: Service) -> None:
    signed_up = (await sign_up(service)).body
    answer = await log_in(service, "ann@EXAMPLE.com", ANN["password"])
    assert answer.status == 200
    assert answer.body["user"] == signed_up["user"]
    assert answer.body["organizations"] == [{**signed_up["organization"], "role": "owner"}]
    ann = service.nobody.with_authorization(f"token {answer.body['token']}")
    assert (await ann.get(KEYS)).status == 200


async def test_wrong_password_is_refused_like_an_unknown_address(service: Service) -> None:
    await sign_up(service)
    for email in ("ann@example.com", "nobody@example.com"):
        answer = await log_in(service, email, "wrong password")
        assert (answer.status, answer.body) == (401, WRONG)


async def test_password_keeps_its_spaces(service: Service) -> None:
    await sign_up(service, password=" correct horse ")
    assert (await log_in(service, "ann@example.com", "correct horse")).status == 401
    assert (await log_in(service, "ann@example.com", " correct horse ")).status == 200


async def test_address_signs_up_once(service: Service) -> None:
    await sign_up(service)
    answer = await sign_up(service, email="ANN@example.com")
    assert (answer.status, answer.body) == (400, {"email": ["user with this email already exists."]})


async def test_signup_is_refused_when_closed(start_service: StartService) -> None:
    answer = await sign_up(await start_service(signup_open=False))
    assert (answer.status, answer.body) == (403, {"detail": "Sign-up is closed."})


async def test_account_is_locked_out_after_ten_refused_logins(
    start_service: StartService,
) -> None:
    service = await start_service(trusted_proxies=(ip_network("127.0.0.0/8"),))
    await sign_up(service)
    for _ in range(10):
        assert (await log_in(service, "ann@example.com", "wrong")).status == 401
    answer = await log_in(service, "ann@example.com", ANN["password"])
    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert "10 wrong attempts at one account from one address" in answer.body["detail"]
    elsewhere = {"X-Forwarded-For": "203.0.113.9"}
    assert (await log_in(service, "ann@example.com", ANN["password"], **elsewhere)).status == 200


async def test_validation_errors_do_not_count_as_refused_logins(service: Service) -> None:
    await sign_up(service)
    for _ in range(11):
        assert (await service.nobody.post(LOGIN, {})).status == 400
    assert (await log_in(service, "ann@example.com", ANN["password"])).status == 200


async def test_user_reads_who_it_is_and_its_roles(service: Service) -> None:
    user, organization = await new_user(service, "ann@example.com")
    answer = await as_user(service, user).get(ME)
    assert answer.body == {
        "kind": "user",
        "user": {"id": str(user.id), "email": "ann@example.com", "name": "Ann"},
        "api_key": None,
        "organizations": [{"id": str(organization.id), "name": "Acme", "role": "owner"}],
    }


async def test_key_reads_which_key_it_is(api: Api) -> None:
    [key] = (await api.get(KEYS)).body
    answer = await api.get(ME)
    assert answer.body == {
        "kind": "api_key",
        "user": None,
        "api_key": {"id": key["id"], "name": "tests"},
        "organizations": [{**answer.body["organizations"][0], "name": "Acme", "role": "admin"}],
    }


async def test_login_works_while_disk_of_database_is_full(service: Service) -> None:
    await sign_up(service)
    await service.storage.pool.execute(REFUSE_WRITES)
    assert (await log_in(service, "ann@example.com", ANN["password"])).status == 200
